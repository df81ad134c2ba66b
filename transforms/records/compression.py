"""The text inside an input file: gzip, zstd or plain, strict and in bounded memory.

Beam's decompressors and the stream readers of the libraries end a cut file without an error. Here every stored byte
must belong to a whole member or frame whose checksum holds (zstd frames may have none), or InputDamaged is raised.
"""

from collections.abc import Iterator
from typing import Literal, Protocol, cast

import zstandard
from isal import igzip_lib

Reason = Literal[
    "truncated", "not-gzip", "not-zstd", "bad-data", "bad-checksum", "trailing-data", "window-too-large", "unreadable"
]

READ_BYTES = 1 << 20
FEED_BYTES = 1 << 17
CHUNK_BYTES = 1 << 18  # of text from one call: a bomb grows no further, and the buffer stays in the L2 cache
MAX_WINDOW_BYTES = 1 << 27  # what `zstd -d` accepts unasked

_IsalError = cast("type[Exception]", igzip_lib.IsalError)  # its stub declares an instance
_ZSTD_MAGIC = zstandard.FRAME_HEADER
_SKIPPABLE_MAGICS = tuple(bytes((0x50 + i, 0x2A, 0x4D, 0x18)) for i in range(16))


class Readable(Protocol):
    """What this module needs of a file."""

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes, fewer than that anywhere, none only at the end."""


class InputDamaged(Exception):
    """An input that cannot be read to its end.

    `reason` is one of `Reason`, `detail` says it in words, `offset` is a place in the file as stored (compressed):
    where the file ends for `truncated`; the first byte that does not belong for `not-*` and `trailing-data`; the start
    of the member or frame for `bad-checksum` and `window-too-large`; for `bad-data` the start of the zstd block, or of
    the at most 128 KiB of gzip data in which the decoder stopped: what lies before it was decoded; for `unreadable`,
    which whoever opens the file raises, how far it could be read.
    It depends on the bytes of the file alone, not on the pieces in which the stream hands them out.
    """

    def __init__(self, offset: int, reason: Reason, detail: str) -> None:
        super().__init__(offset, reason, detail)  # all of them, so that it can be pickled
        self.offset, self.reason, self.detail = offset, reason, detail

    def __str__(self) -> str:
        return f"{self.reason} at byte {self.offset}: {self.detail}"


def text_chunks(stream: Readable, name: str) -> Iterator[bytes]:
    """The decompressed text of `stream`; the suffix of `name` says how it is stored: .gz, .zst, .zstd, else plain.

    A chunk holds at most 1 MiB, and may hold nothing. Raises InputDamaged after the text that could be decoded; an
    OSError of the stream passes through.
    """
    if name.lower().endswith(".gz"):
        return _gunzip(_Source(stream))
    if name.lower().endswith((".zst", ".zstd")):
        return _unzstd(_Source(stream))
    return iter(lambda: stream.read(READ_BYTES), b"")


class _Source:
    """The stored bytes in order; `offset` counts those taken."""

    def __init__(self, stream: Readable) -> None:
        self.offset = 0
        self._stream = stream
        self._rest = memoryview(b"")

    def peek(self, size: int) -> memoryview:
        """The next `size` bytes, which stay where they are; fewer only before the end of the file."""
        while len(self._rest) < size and (piece := self._stream.read(READ_BYTES)):
            self._rest = memoryview(b"".join((self._rest, piece)) if self._rest else piece)
        return self._rest[:size]

    def advance(self, size: int) -> None:
        """Take `size` of the bytes that were peeked at."""
        self._rest = self._rest[size:]
        self.offset += size

    def take(self, size: int) -> bytes:
        """The next `size` bytes. Raises InputDamaged when the file ends before."""
        data = bytes(self.peek(size))
        self.advance(len(data))
        if len(data) < size:
            raise self.cut()
        return data

    def skip(self, size: int) -> None:
        """Leave out `size` bytes, however many. Raises InputDamaged when the file ends before."""
        while size:
            size -= len(self.take(min(size, READ_BYTES)))

    def expect(self, magics: tuple[bytes, ...], otherwise: Reason) -> bytes:
        """Which of `magics`, all of one length, comes next. Raises InputDamaged when none does."""
        head = bytes(self.peek(len(magics[0])))
        if head in magics:
            return head
        if any(magic.startswith(head) for magic in magics):
            self.advance(len(head))
            raise self.cut()
        found = f"found {head!r} where {magics[0]!r} should be"
        raise InputDamaged(self.offset, "trailing-data" if self.offset else otherwise, found)

    def cut(self) -> InputDamaged:  # to be raised when all bytes are taken
        return InputDamaged(self.offset, "truncated", "the file ends before its data do")


def _gunzip(source: _Source) -> Iterator[bytes]:
    """All members; zero bytes may follow the last one, as for GNU gzip: block devices and tapes pad with them."""
    yield from _gunzip_member(source)
    while head := source.peek(1):
        if head[0] == 0:
            return _skip_padding(source)
        yield from _gunzip_member(source)


def _gunzip_member(source: _Source) -> Iterator[bytes]:
    start = source.offset
    source.expect((b"\x1f\x8b",), "not-gzip")
    member = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
    data = memoryview(b"")
    while not member.eof:
        hungry = member.needs_input
        if hungry:
            source.advance(len(data))
            # All of FEED_BYTES, however short the reads: isal 1.9 rejects a header that comes in two parts when it has
            # a checksum or two optional fields. No header is longer than this, unless it has a name of 60 KiB.
            data = source.peek(FEED_BYTES)
        text = _gunzip_piece(member, data if hungry else b"", start, source.offset)
        if hungry and not (data or text or member.eof):  # after text, the decoder may have more of it
            raise source.cut()
        yield text
    source.advance(len(data) - len(member.unused_data))


def _gunzip_piece(member: igzip_lib.IgzipDecompressor, piece: memoryview | bytes, start: int, offset: int) -> bytes:
    try:
        return member.decompress(piece, CHUNK_BYTES)
    except _IsalError as error:
        if "checksum" in str(error):
            raise InputDamaged(start, "bad-checksum", "a gzip member is not what its checksum says") from error
        raise InputDamaged(offset, "bad-data", f"gzip: {error}") from error


def _skip_padding(source: _Source) -> None:
    while data := source.peek(FEED_BYTES):
        rest = len(bytes(data).lstrip(b"\0"))
        source.advance(len(data) - rest)
        if rest:
            raise InputDamaged(source.offset, "trailing-data", "more than zero bytes after the last gzip member")


def _unzstd(source: _Source) -> Iterator[bytes]:
    """All frames; skippable ones hold no text."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
    while not source.offset or source.peek(1):
        if source.expect((_ZSTD_MAGIC, *_SKIPPABLE_MAGICS), "not-zstd") == _ZSTD_MAGIC:
            yield from _unzstd_frame(source, decompressor.decompressobj())
        else:
            source.skip(int.from_bytes(source.take(8)[4:], "little"))


def _unzstd_frame(source: _Source, frame: "zstandard.ZstdDecompressionObj") -> Iterator[bytes]:
    """Block by block: one call then makes at most 128 KiB of text, whatever the ratio, and a frame's end is known."""
    start = source.offset
    header, last = _take_zstd_header(source), False
    yield _unzstd_piece(frame, header, start)
    while not last:
        block_start = source.offset
        last, block = _take_zstd_block(source)
        yield _unzstd_piece(frame, block, block_start)
    if header[4] & 0b100:
        yield _unzstd_piece(frame, source.take(4), start)
    if not frame.eof:
        raise InputDamaged(start, "bad-data", "a zstd frame goes on after its last block")


def _take_zstd_header(source: _Source) -> bytes:
    """Magic, descriptor and what the descriptor announces (RFC 8878, 3.1.1.1)."""
    start = source.take(5)
    single_segment = start[4] >> 5 & 1
    content_size = (single_segment, 2, 4, 8)[start[4] >> 6]
    dictionary_id = (0, 1, 2, 4)[start[4] & 3]
    window = 1 - single_segment
    return start + source.take(window + content_size + dictionary_id)


def _take_zstd_block(source: _Source) -> tuple[bool, bytes]:
    """Whether it is the last one of its frame, and the block with its header (RFC 8878, 3.1.1.2)."""
    header = source.take(3)
    fields = int.from_bytes(header, "little")
    repeats_one_byte = fields >> 1 & 3 == 1
    return bool(fields & 1), header + source.take(1 if repeats_one_byte else fields >> 3)


def _unzstd_piece(frame: "zstandard.ZstdDecompressionObj", piece: bytes, offset: int) -> bytes:
    try:
        return frame.decompress(piece)
    except zstandard.ZstdError as error:
        raise InputDamaged(offset, _zstd_reason(str(error)), str(error)) from error


def _zstd_reason(words: str) -> Reason:
    return "bad-checksum" if "checksum" in words else "window-too-large" if "too much memory" in words else "bad-data"
