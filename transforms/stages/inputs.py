"""An input's stored bytes on their way in, and the log of what could not be read."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import zstandard
from xxhash import xxh3_128

from shardwright import canonical
from transforms.records.compression import InputDamaged
from transforms.stages.work import publishing


class HashedStream:
    """An input's bytes as stored, counted and hashed on their way; a read that fails is damage, not a crash."""

    def __init__(self, uri: str) -> None:
        self._hash = xxh3_128()
        self.bytes = 0
        self._taken = 0
        try:
            self._file = Path(uri).open("rb", buffering=0)  # noqa: SIM115  # closed by __exit__
        except OSError as error:
            raise InputDamaged(0, "unreadable", str(error)) from None

    def __enter__(self) -> "HashedStream":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes; empty at the end."""
        try:
            data = self._file.read(size)
        except OSError as error:
            raise InputDamaged(self.bytes, "unreadable", str(error)) from None
        self._hash.update(data)
        self.bytes += len(data)
        return data

    def take(self) -> int:
        """Bytes read since the last call."""
        taken, self._taken = self.bytes - self._taken, self.bytes
        return taken

    def digest(self) -> str:
        """xxh3_128 of what was read, in hex."""
        return self._hash.hexdigest()


class RejectedLog:
    """`rejected/<run>.jsonl.zst`, made at the first entry and published when the block ends cleanly."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stack = ExitStack()
        self._writer: Any = None

    @property
    def used(self) -> bool:
        """Whether anything was rejected."""
        return self._writer is not None

    def add(self, **entry: Any) -> None:
        """One rejected row or input."""
        if self._writer is None:
            file = self._stack.enter_context(publishing(self._path))
            self._writer = self._stack.enter_context(zstandard.ZstdCompressor().stream_writer(file, closefd=False))
        self._writer.write(canonical.dumps(entry).encode() + b"\n")

    def __enter__(self) -> "RejectedLog":
        return self

    def __exit__(self, *exception: Any) -> None:
        self._stack.__exit__(*exception)
