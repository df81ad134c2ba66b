"""Files under `_work/`: written under a temporary name, published whole by a rename."""

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from xxhash import xxh3_128_hexdigest

from shardwright import canonical, layout
from shardwright.errors import ShardwrightError

FAILURE = "failure.txt"
"""Where a worker leaves the words of a ShardwrightError: engines pass on only tracebacks."""


class BuildRefused(ShardwrightError):
    """The build must not go on, for a reason that a person can act on."""


def work_path(root: str, *parts: str) -> Path:
    """A path under the build's `_work/`."""
    return Path(root, layout.WORK, *parts)


@contextmanager
def publishing(path: Path, *, durable: bool = False) -> Iterator[BinaryIO]:
    """A binary file that appears as `path`, whole, when the block ends cleanly, and not at all otherwise.

    The temporary name is unique, so that two attempts at one unit cannot mix. `durable` waits for the disk first.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    attempt = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with attempt.open("xb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        attempt.replace(path)
    finally:
        attempt.unlink(missing_ok=True)


def publish(path: Path, data: bytes, *, durable: bool = False) -> None:
    """`data` as the file `path`, whole or not at all."""
    with publishing(path, durable=durable) as file:
        file.write(data)


def publish_by_digest(folder: Path, stem: str, suffix: str, data: bytes) -> str:
    """`data` as `folder/stem-<digest>suffix`; returns the name, by which `read_by_digest` proves it."""
    name = f"{stem}-{xxh3_128_hexdigest(data)}{suffix}"
    publish(folder / name, data)
    return name


def read_by_digest(folder: Path, name: str) -> bytes:
    """The file that `publish_by_digest` named; raises BuildRefused when it is gone or changed."""
    try:
        data = (folder / name).read_bytes()
    except FileNotFoundError:
        raise BuildRefused(
            f"{folder / name}: gone while the build ran; start the build again, it makes what is missing"
        ) from None
    if xxh3_128_hexdigest(data) != name.rpartition("-")[2].partition(".")[0]:
        raise BuildRefused(
            f"{folder / name}: damaged on disk (its digest is not the one in its name); delete it and start the "
            "build again"
        )
    return data


def publish_json(folder: Path, stem: str, value: Any) -> str:
    """`value` as canonical JSON, named by its digest."""
    return publish_by_digest(folder, stem, ".json", canonical.dumps(value).encode())


def read_json(folder: Path, name: str) -> Any:
    """The value that `publish_json` wrote under `name`."""
    return json.loads(read_by_digest(folder, name))


def take_back(root: Path) -> None:
    """Undo a seal that died half way: what it had moved goes back, and nothing unsealed has a final name."""
    for name in layout.FOLDERS:
        if (root / name).exists():
            shutil.rmtree(work_path(str(root), name), ignore_errors=True)
            (root / name).replace(work_path(str(root), name))
    for name in layout.FILES:
        (root / name).unlink(missing_ok=True)


class HashingWriter:
    """Writes through to a file and keeps length and sha256 of what it wrote."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._bytes = 0

    def write(self, data: bytes) -> None:
        """Append `data`."""
        self._file.write(data)
        self._digest.update(data)
        self._bytes += len(data)

    def facts(self) -> dict[str, Any]:
        """`{bytes, sha256}` of what was written."""
        return {"bytes": self._bytes, "sha256": self._digest.hexdigest()}


def bytes_facts(data: bytes) -> dict[str, Any]:
    """`{bytes, sha256}` of a small file's bytes."""
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
