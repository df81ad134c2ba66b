"""Which part of a configuration decides the bytes of a build, and its fingerprint."""

from collections.abc import Mapping
from typing import Any

from shardwright import canonical
from shardwright.layout import FORMAT

_NOT_BYTES = ("input", "output", "runner")
_BYTE_LIMITS = ("row_bytes",)
"""The other limits only decide whether a build may be sealed."""


def byte_sections(config: Mapping[str, Any]) -> dict[str, Any]:
    """What of a configuration, as plain JSON values, changes the bytes of a build. The inputs are pinned apart."""
    sections = {name: value for name, value in config.items() if name not in _NOT_BYTES}
    return {**sections, "limits": {name: config["limits"][name] for name in _BYTE_LIMITS}}


def fingerprint(config: Mapping[str, Any], versions: Mapping[str, str]) -> str:
    """sha256, in hex, of what decides the bytes besides the inputs: `byte_sections`, encoder versions, our format."""
    return canonical.digest({**byte_sections(config), "versions": dict(versions), "format": FORMAT})
