"""The lines of an input file, plain or compressed, in memory that no file can enlarge. docs/FORMAT.md section 5."""

from collections.abc import Iterator
from typing import NamedTuple

from transforms.records.compression import InputDamaged, Readable, text_chunks

__all__ = ["InputDamaged", "Line", "LongLine", "read_lines"]

HEAD_BYTES = 1024
"""How much of a line that is too long is kept."""

_BOM = b"\xef\xbb\xbf"
_BLANKS = b" \t\r"
_CR = 0x0D
_SMALL_BYTES = 1 << 16


class Line(NamedTuple):
    """A line: its 1-based `number`, its `offset` in the uncompressed text, its bytes without the line end."""

    number: int
    offset: int
    data: bytes


class LongLine(NamedTuple):
    """A line of `length` bytes that was too long to be held; `head` is its first KiB."""

    number: int
    offset: int
    length: int
    head: bytes


def read_lines(stream: Readable, *, name: str, max_bytes: int) -> Iterator[Line | LongLine]:
    r"""Yield the lines of `stream`, in order; the suffix of `name` (.gz, .zst, .zstd) says how they are compressed.

    A line ends with "\n" or "\r\n", the last one also with the text. A line of nothing but spaces, tabs and "\r" is
    counted but not yielded, however long. A UTF-8 BOM at the start is part of the offsets but of no line. A line of
    more than `max_bytes`, its end not counted, comes as LongLine. At most `max_bytes` and a few MiB are held.

    Raises InputDamaged when the stored bytes do not end cleanly, and only then: after the lines that could be read,
    which therefore prove nothing about the input; the caller discards them. An OSError of the stream passes through.
    """
    number = base = 0
    open_line: _OpenLine | None = None
    for chunk in _large(text_chunks(stream, name)):
        view = memoryview(chunk)
        begin = len(_BOM) if base == 0 and chunk.startswith(_BOM) else 0
        while (end := chunk.find(b"\n", begin)) >= 0:
            number += 1
            row: Line | LongLine | None
            if open_line is None and end - begin <= max_bytes:
                row = _line(number, base + begin, chunk[begin : end - chunk.endswith(b"\r", begin, end)])
            else:
                open_line = open_line or _OpenLine(base + begin, max_bytes)
                row = open_line.close(number, view[begin:end], newline=True)
                open_line = None
            if row:
                yield row
            begin = end + 1
        if begin < len(chunk):
            open_line = open_line or _OpenLine(base + begin, max_bytes)
            open_line.add(view[begin:])
        base += len(chunk)
    if open_line and (row := open_line.close(number + 1, memoryview(b""), newline=False)):
        yield row


def _line(number: int, offset: int, data: bytes) -> Line | None:
    return Line(number, offset, data) if data.strip(_BLANKS) else None


def _large(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same text in chunks of at least 64 KiB, except the last.

    A view costs some 200 bytes: without this, a file of gzip members or zstd blocks of one byte each could make a line
    of `max_bytes` take two hundred times as much.
    """
    small = bytearray()
    try:
        for chunk in chunks:
            if not small and len(chunk) >= _SMALL_BYTES:
                yield chunk
                continue
            small += chunk
            if len(small) >= _SMALL_BYTES:
                yield bytes(small)
                small.clear()
    except InputDamaged:
        yield bytes(small)
        raise
    yield bytes(small)


class _OpenLine:
    """The line whose end has yet to come: views of the chunks it lies in, or a summary once it is too long.

    Views, because then its bytes are copied once, when it is closed, whether it lies in one chunk or in a hundred.
    """

    def __init__(self, offset: int, max_bytes: int) -> None:
        self._offset = offset
        self._max_bytes = max_bytes
        self._length = 0
        self._last = 0
        self._views: list[memoryview] = []
        self._head = b""
        self._blank = True

    def add(self, view: memoryview) -> None:
        """Append what is not the end of the line."""
        if not view:
            return
        self._length += len(view)
        self._last = view[-1]
        self._views.append(view)
        if self._length > self._max_bytes + len("\r"):  # which may turn out to belong to the line end
            self._summarize()

    def _summarize(self) -> None:
        for view in self._views:
            self._head += view[: HEAD_BYTES - len(self._head)]
            self._blank = self._blank and not bytes(view).strip(_BLANKS)
        self._views.clear()

    def close(self, number: int, view: memoryview, *, newline: bool) -> Line | LongLine | None:
        """Append the last of the line and return it, None if it is blank. Called once."""
        self.add(view)
        carriage_return = newline and self._last == _CR
        length = self._length - carriage_return
        if length > self._max_bytes:
            self._summarize()
            return None if self._blank else LongLine(number, self._offset, length, self._head[:length])
        if carriage_return:
            self._views[-1] = self._views[-1][:-1]
        return _line(number, self._offset, b"".join(self._views))
