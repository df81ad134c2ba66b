"""Run files: what Spill leaves and Resolve and Gather read by range. docs/FORMAT.md section 3."""

import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from xxhash import xxh3_64_intdigest, xxh3_128

from transforms.stages.work import BuildRefused

KEY_ROW = struct.Struct(">16s16sIQ16s8sIHH")
CANDIDATE = struct.Struct(f">{KEY_ROW.size}sQ16s")
ORDER_ROW = struct.Struct(">16s16s8sIQIIQ")
TABLE_ROW = struct.Struct("<IQQ")
BUCKETS = 256
FROM_HELD_OUT_INPUT, UNDER_FRACTION, NO_PAYLOAD = 1, 2, 4
MAGIC = b"shrdrun1"
_TAIL = struct.Struct("<QQ8s")


class KeyRow(NamedTuple):
    """All that the shuffle knows of one sample; `pack` gives bytes that sort by (order key, content, input, row)."""

    key: bytes
    content: bytes
    input: int
    row: int
    text: bytes
    digest: bytes
    length: int
    types: int
    flags: int

    def pack(self) -> bytes:
        """The 76 bytes of the key column."""
        return KEY_ROW.pack(*self)


class Candidate(NamedTuple):
    """A row that held-out selection must see: its key row, where its payload starts in the run, its id digest."""

    row: KeyRow
    offset: int
    id16: bytes


class Ordered(NamedTuple):
    """One training sample: its order key, content digest and sample digest, where its bytes lie, where it came from."""

    key: bytes
    content: bytes
    digest: bytes
    run: int
    offset: int
    length: int
    input: int
    row: int


@dataclass(frozen=True)
class RunFacts:
    """Length and xxh3_128 of a finished run file."""

    bytes: int
    digest: str


class RunWriter:
    """Sorts samples into segments of at most `segment_bytes` and writes one run file front to back."""

    def __init__(self, file: BinaryIO, segment_bytes: int) -> None:
        self._file = file
        self._budget = segment_bytes
        self._held: list[tuple[bytes, bytes, bytes]] = []
        self._held_bytes = 0
        self._offset = 0
        self._hash = xxh3_128()
        self._segments: list[tuple[list[bytes], bytes]] = []
        self._candidates: list[bytes] = []

    def add(self, row: KeyRow, sample: bytes, id16: bytes) -> None:
        """One sample. A row with a flag is also noted as a candidate, a row with NO_PAYLOAD is only that."""
        if row.flags & NO_PAYLOAD:
            self._candidates.append(CANDIDATE.pack(row.pack(), 0, id16))
            return
        self._held.append((row.pack(), sample, id16 if row.flags else b""))
        self._held_bytes += len(sample)
        if self._held_bytes >= self._budget:
            self._flush()

    def finish(self) -> RunFacts:
        """Write what is left, the key columns, the candidates, the tables and the footer."""
        self._flush()
        footer: dict[str, Any] = {"segments": [], "candidates": {}}
        for rows, table in self._segments:
            column = b"".join(rows)
            entry = {"keys": self._write(column), "table": self._write(table), "digest": xxh3_64_intdigest(table)}
            footer["segments"].append(entry)
        block = b"".join(self._candidates)
        footer["candidates"] = {
            "count": len(self._candidates),
            "at": self._write(block),
            "digest": xxh3_64_intdigest(block),
        }
        data = json.dumps(footer).encode()
        self._write(data + _TAIL.pack(len(data), xxh3_64_intdigest(data), MAGIC))
        return RunFacts(self._offset, self._hash.hexdigest())

    def _flush(self) -> None:
        if not self._held:
            return
        self._held.sort()
        rows = [row for row, _, _ in self._held]
        starts = list(accumulate((len(sample) for _, sample, _ in self._held), initial=self._offset))
        self._candidates += (
            CANDIDATE.pack(row, start, id16) for (row, _, id16), start in zip(self._held, starts, strict=False) if id16
        )
        for _, sample, _ in self._held:
            self._write(sample)
        self._segments.append((rows, _table(rows, starts)))
        self._held, self._held_bytes = [], 0

    def _write(self, data: bytes) -> int:
        start = self._offset
        self._file.write(data)
        self._hash.update(data)
        self._offset += len(data)
        return start


def _table(rows: list[bytes], starts: list[int]) -> bytes:
    """256 entries: how many of the sorted `rows` fall into each bucket, where its payload starts, their digest."""
    table, first = [], 0
    for bucket in range(BUCKETS):
        last = first
        while last < len(rows) and rows[last][0] == bucket:
            last += 1
        table.append(TABLE_ROW.pack(last - first, starts[first], xxh3_64_intdigest(b"".join(rows[first:last]))))
        first = last
    return b"".join(table)


class RunReader:
    """Ranged reads of one run file. Raises BuildRefused when its bytes are not what it says of itself."""

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self._size = size
        try:
            self._fd = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            raise BuildRefused(
                f"{path}: gone while the build ran; start the build again, it makes what is missing"
            ) from None

    def __enter__(self) -> "RunReader":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def candidates(self) -> Iterator[Candidate]:
        """The rows that held-out selection must see."""
        entry = self._footer["candidates"]
        block = self.read(entry["at"], entry["count"] * CANDIDATE.size)
        self._check(xxh3_64_intdigest(block) == entry["digest"], "candidates")
        for row, offset, id16 in CANDIDATE.iter_unpack(block):
            yield Candidate(KeyRow._make(KEY_ROW.unpack(row)), offset, id16)

    def rows(self, first: int, last: int) -> Iterator[tuple[bytes, int]]:
        """(packed key row, payload offset) of every sample whose order key starts with a byte in `[first, last)`."""
        for segment in self._footer["segments"]:
            data = self.read(segment["table"], BUCKETS * TABLE_ROW.size)
            self._check(xxh3_64_intdigest(data) == segment["digest"], "table")
            table = list(TABLE_ROW.iter_unpack(data))
            before = sum(entry[0] for entry in table[:first])
            at = segment["keys"] + before * KEY_ROW.size
            for count, offset, digest in table[first:last]:
                block = self.read(at, count * KEY_ROW.size)
                self._check(xxh3_64_intdigest(block) == digest, "key column")
                yield from _with_offsets(block, offset)
                at += len(block)

    def read(self, offset: int, length: int) -> bytes:
        """`length` bytes at `offset`."""
        data = os.pread(self._fd, length, offset)
        while 0 < len(data) < length:  # a single read may stop at 2 GiB or at a signal
            more = os.pread(self._fd, length - len(data), offset + len(data))
            self._check(bool(more), "end")
            data += more
        self._check(len(data) == length, "end")
        return data

    @cached_property
    def _footer(self) -> Any:
        self._check(self._size >= _TAIL.size, "footer")
        length, digest, magic = _TAIL.unpack(self.read(self._size - _TAIL.size, _TAIL.size))
        self._check(magic == MAGIC and length <= self._size - _TAIL.size, "footer")
        data = self.read(self._size - _TAIL.size - length, length)
        self._check(xxh3_64_intdigest(data) == digest, "footer")
        return json.loads(data)

    def _check(self, holds: bool, what: str) -> None:
        if not holds:
            raise BuildRefused(
                f"{self._path}: damaged on disk ({what}); delete it and start the build again, it is made anew"
            )


def _with_offsets(block: bytes, offset: int) -> Iterator[tuple[bytes, int]]:
    for at in range(0, len(block), KEY_ROW.size):
        row = block[at : at + KEY_ROW.size]
        yield row, offset
        offset += KEY_ROW.unpack(row)[6]
