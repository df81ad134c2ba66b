"""The configuration of a job: its schema, how a file becomes one, and what of it changes the bytes of a build."""

from pipelines.config.load import ConfigError, load_config
from pipelines.config.schema import (
    Config,
    Expected,
    Filter,
    HeldOut,
    Input,
    Limits,
    Require,
    Runner,
    Shards,
    Shuffle,
    as_manifest,
    byte_sections,
    differences,
    fingerprint_of,
)
from transforms.stages.spec import Limit

__all__ = [
    "Config",
    "ConfigError",
    "Expected",
    "Filter",
    "HeldOut",
    "Input",
    "Limit",
    "Limits",
    "Require",
    "Runner",
    "Shards",
    "Shuffle",
    "as_manifest",
    "byte_sections",
    "differences",
    "fingerprint_of",
    "load_config",
]
