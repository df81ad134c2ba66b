"""The sidecars of a shard, `.tar.idx`, `.sig`, `.src`, and the struck list. docs/FORMAT.md section 4."""

import struct
from array import array
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from shardwright.errors import Damaged

IDX, SIG, SRC = ".idx", ".sig", ".src"
SIG_ROW = struct.Struct("<16s8s")
SRC_ROW = struct.Struct("<IQ")
STRUCK_ROW = struct.Struct("<16s16s")


def pack_idx(lengths: Iterable[int]) -> bytes:
    """Offsets of samples of these lengths laid end to end, then of their end: u64 LE, one more than samples."""
    offsets = [0]
    for length in lengths:
        offsets.append(offsets[-1] + length)
    return struct.pack(f"<{len(offsets)}Q", *offsets)


def unpack_idx(data: bytes, where: str) -> Sequence[int]:
    """The offsets of an `.idx`; raises Damaged unless they ascend from 0."""
    if len(data) < 8 or len(data) % 8:
        raise Damaged(f"{where}: {len(data)} bytes are no list of 8-byte offsets")
    offsets = struct.unpack(f"<{len(data) // 8}Q", data)
    if offsets[0] != 0 or any(a >= b for a, b in pairwise(offsets)):
        raise Damaged(f"{where}: offsets do not ascend from 0")
    return array("Q", offsets)


def read_rows(path: Path, row: struct.Struct) -> list[tuple]:  # type: ignore[type-arg]
    """All rows of a `.sig`, a `.src` or the struck list. Raises Damaged when it is missing or ends inside a row."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise Damaged(f"{path}: missing") from None
    if len(data) % row.size:
        raise Damaged(f"{path}: {len(data)} bytes are not rows of {row.size}")
    return list(row.iter_unpack(data))
