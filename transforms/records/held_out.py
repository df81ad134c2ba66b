"""Held-out rows as bsmetadata's evaluation loads them: one canonical writer, whatever the shard format."""

import zlib
from typing import Protocol

from shardwright import canonical
from shardwright.layout import ALL, METADATA_TYPES
from transforms.records.c4_html import COLUMNS, decode_row
from transforms.records.rules import type_bit

_GZIP = 31
_LEVEL = 3  # 2.4 times as fast as 6 on such rows, for 16 % more bytes; part of the held-out id


def canonical_row(row: bytes, kind: str) -> bytes:
    """`row` as one canonical JSON line of the schema's columns; for a metadata type, every other type's is emptied.

    Raises ValueError at a number beyond the range of a double (1e400), which JSON can say and no reader can give back.
    """
    value = {name: item for name, item in decode_row(row).items() if name in COLUMNS}
    if kind != ALL:
        value.update({f"metadata_{other}": [] for other in METADATA_TYPES if other != kind})
    return canonical.dumps(value).encode() + b"\n"


class Sink(Protocol):
    """What can be written to."""

    def write(self, data: bytes, /) -> object:
        """Append `data`."""


class GzipWriter:
    """One gzip member with time 0 over a binary file. zlib, not isal: isal's bytes vary with the processor."""

    def __init__(self, file: Sink) -> None:
        self._file = file
        self._deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)

    def write(self, data: bytes) -> None:
        """Compress `data` onto the file."""
        self._file.write(self._deflate.compress(data))

    def close(self) -> None:
        """Finish the member; the file stays open."""
        self._file.write(self._deflate.flush())


def versions() -> dict[str, str]:
    """What decides the compressed bytes besides our own format."""
    return {"zlib": zlib.ZLIB_RUNTIME_VERSION}


def kind_bit(kind: str) -> int:
    """The type-mask bit that a row of the set `kind` must have; 0 for `all`."""
    return 0 if kind == ALL else type_bit(kind)
