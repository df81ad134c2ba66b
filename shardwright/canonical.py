"""One way to write JSON, so that equal values are equal bytes. docs/FORMAT.md section 4."""

import hashlib
import json
from pathlib import Path
from typing import Any


def dumps(value: Any) -> str:
    """Canonical JSON: sorted keys, no spaces, UTF-8 as it is, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any) -> str:
    """sha256, in hex, of `value` as canonical JSON."""
    return hashlib.sha256(dumps(value).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """sha256, in hex, of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def loads(data: bytes) -> Any:
    """The value of JSON bytes; raises ValueError when they are none."""
    return json.loads(data)
