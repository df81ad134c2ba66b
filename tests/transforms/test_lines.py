"""read_lines: every line with its place, damage never silent, memory that no file can enlarge."""

import contextlib
import gzip
import io
import os
import pickle
import random
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, get_args

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.records import compression, lines
from transforms.records.lines import InputDamaged, Line, LongLine, read_lines

ROOT = Path(__file__).resolve().parents[2]
BAD = ROOT.parent / "shared/data/bad"
needs_bad_files = pytest.mark.skipif(not BAD.is_dir(), reason=f"the damaged files of {BAD} are not here")
NO_LIMIT = 1 << 30
ZSTD_MAGIC = zstandard.FRAME_HEADER


class ShortReads(io.RawIOBase):
    """A stream that hands out less than it is asked for, as a network may."""

    def __init__(self, data: bytes, seed: int, most: int = 40) -> None:
        self._stream = io.BytesIO(data)
        self._random = random.Random(seed)
        self._most = most

    def read(self, size: int = -1) -> bytes:
        return self._stream.read(min(size, self._random.randint(1, self._most)))


def read(stored: bytes | BinaryIO | ShortReads, name: str, max_bytes: int = NO_LIMIT) -> list[Line | LongLine]:
    stream: Any = io.BytesIO(stored) if isinstance(stored, bytes) else stored
    return list(read_lines(stream, name=name, max_bytes=max_bytes))


def outcome(stored: bytes | BinaryIO | ShortReads, name: str) -> tuple[int, str | None, int | None]:
    """How many rows came, and the damage after them."""
    stream: Any = io.BytesIO(stored) if isinstance(stored, bytes) else stored
    rows = 0
    try:
        for _ in read_lines(stream, name=name, max_bytes=NO_LIMIT):
            rows += 1
    except InputDamaged as damage:
        return rows, damage.reason, damage.offset
    return rows, None, None


# Files of other projects


EXPECTED = {
    "constructed/bad_crc.jsonl.gz": (5, "bad-checksum", 0),
    "constructed/bitflip_mid.jsonl.gz": (5, "bad-checksum", 0),
    "constructed/bom.jsonl.gz": (6, None, None),
    "constructed/crlf_and_blank_lines.jsonl.gz": (4, None, None),
    "constructed/deep_nesting.jsonl.gz": (1, None, None),
    "constructed/empty.jsonl.gz": (0, "truncated", 0),
    "constructed/empty_member.jsonl.gz": (0, None, None),
    "constructed/member_cut_inside_row.jsonl.gz": (6, None, None),
    "constructed/multi_member.jsonl.gz": (6, None, None),
    "constructed/no_final_newline.jsonl.gz": (6, None, None),
    "constructed/plain_named_gz.jsonl.gz": (0, "not-gzip", 0),
    "constructed/trailing_garbage.jsonl.gz": (6, "trailing-data", 146286),
    "constructed/trailing_zeros.jsonl.gz": (6, None, None),
    "constructed/truncated_mid.jsonl.gz": (3, "truncated", 87771),
    "constructed/truncated_trailer.jsonl.gz": (6, "truncated", 146281),
    "gzip/chatnoir-resiliparse__clipped.warc.gz": (1310, "truncated", 18184),
    "gzip/compress__issue6550.gz": (0, "bad-data", 0),
    "gzip/curator__dev.tar.gz": (0, "not-gzip", 0),
    "gzip/libarchive__test_expand.gz": (1, None, None),
    "gzip/libarchive__test_read_filter_gzip_recursive.gz": (0, "bad-checksum", 0),
    "gzip/warcio__example-wrong-chunks.warc.gz": (86, None, None),
    "gzip/webarchive-commons__abcd.gz": (1, None, None),
    "gzip/webarchive-commons__empty.gz": (0, None, None),
    "gzip/zune-inflate__c0186e69dce1971f8ae1de9ff317bc56a04e88cd": (0, "not-gzip", 0),
    "zstd/klauspost-bad__12f5371d1198b22bc01fe10f9df96587d5f68db2.zst": (0, "bad-data", 32),
    "zstd/klauspost-bad__404a3a58fcbb8baf3912a6f3bff75bcec6e91b1f.zst": (0, "bad-data", 10),
    "zstd/klauspost-bad__block_nolast.zst": (1, "truncated", 13),
    "zstd/klauspost-bad__block_raw_nodata.zst": (0, "truncated", 9),
    "zstd/klauspost-bad__frame_badmagic.zst": (0, "not-zstd", 0),
    "zstd/klauspost-bad__frame_badsum.zst": (1, "bad-checksum", 0),
    "zstd/klauspost-bad__frame_bigcontsize.zst": (0, "window-too-large", 0),
    "zstd/klauspost-bad__frame_nocontsize.zst": (0, "truncated", 5),
    "zstd/klauspost-bad__frame_noheader.zst": (0, "truncated", 4),
    "zstd/klauspost-bad__frame_nosum.zst": (1, "truncated", 13),
    "zstd/klauspost-bad__frame_resvbit.zst": (0, "bad-data", 0),
    "zstd/klauspost-bad__frame_skip_nodata.zst": (0, "truncated", 8),
    "zstd/klauspost-bad__frame_skip_nosize.zst": (0, "truncated", 6),
    "zstd/zstd__off0.bin.zst": (0, "bad-data", 6),
}


def bad_files() -> Iterator[str]:
    for pattern in ("constructed/*.gz", "gzip/*", "zstd/*"):
        yield from (path.relative_to(BAD).as_posix() for path in sorted(BAD.glob(pattern)))


@needs_bad_files
@pytest.mark.parametrize("file", EXPECTED)
def test_known_damage(file: str) -> None:
    name = "input.zst" if file.startswith("zstd/") else "input.gz"
    with open(BAD / file, "rb") as stream:
        assert outcome(stream, name) == EXPECTED[file]


@needs_bad_files
def test_every_constructed_file_has_an_expected_outcome() -> None:
    assert {file for file in bad_files() if file.startswith("constructed/")} <= EXPECTED.keys()


@needs_bad_files
@pytest.mark.parametrize("suffix", [".gz", ".zst", ""])
def test_any_bytes_are_read_or_named_damaged(suffix: str) -> None:
    for file in bad_files():
        _, reason, offset = outcome((BAD / file).read_bytes(), f"input{suffix}")
        assert reason in ((None, *get_args(compression.Reason)) if suffix else (None,))
        assert offset is None or 0 <= offset <= (BAD / file).stat().st_size


# The lines of a text, however it is stored and cut


def expected_lines(text: bytes, max_bytes: int) -> list[Line | LongLine]:
    """What section 5 of docs/FORMAT.md says, without regard for memory."""
    offset = 3 if text.startswith(b"\xef\xbb\xbf") else 0
    parts = text[offset:].split(b"\n")
    found: list[Line | LongLine] = []
    for number, part in enumerate(parts, 1):
        data = part[:-1] if part.endswith(b"\r") and number < len(parts) else part
        if data.strip(b" \t\r"):
            long = LongLine(number, offset, len(data), data[: lines.HEAD_BYTES])
            found.append(Line(number, offset, data) if len(data) <= max_bytes else long)
        offset += len(part) + 1
    return found


def gzip_member(text: bytes, draw: random.Random) -> bytes:
    """A member with random optional fields, as any writer may leave it."""
    flags = draw.randrange(32)
    extra = struct.pack("<H", 5) + b"extra" if flags & 4 else b""
    texts = b"".join(b"a text\0" for bit in (8, 16) if flags & bit)
    header = b"\x1f\x8b\x08" + bytes((flags,)) + draw.randbytes(6) + extra + texts
    header += struct.pack("<H", zlib.crc32(header) & 0xFFFF) if flags & 2 else b""
    deflate = zlib.compressobj(draw.randrange(10), wbits=-15)
    return header + deflate.compress(text) + deflate.flush() + struct.pack("<II", zlib.crc32(text), len(text))


def zstd_frame(text: bytes, draw: random.Random) -> bytes:
    """A frame of random options and block ends, perhaps behind a skippable one."""
    options = {"level": draw.choice([1, 3, 19]), "write_checksum": draw.random() < 0.5}
    compressor = zstandard.ZstdCompressor(write_content_size=draw.random() < 0.5, **options)
    encoder = compressor.compressobj(size=len(text) if draw.random() < 0.5 else -1)
    cut = draw.randint(0, len(text))
    frame = encoder.compress(text[:cut]) + encoder.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    frame += encoder.compress(text[cut:]) + encoder.flush()
    skippable = bytes((0x50 + draw.randrange(16),)) + b"\x2a\x4d\x18" + struct.pack("<I", 3) + b"any"
    return frame if draw.random() < 0.7 else skippable + frame


def pieces(text: bytes, draw: random.Random) -> list[bytes]:
    cuts = sorted(draw.randint(0, len(text)) for _ in range(draw.randrange(4)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def stored_as(suffix: str, text: bytes, draw: random.Random) -> bytes:
    if suffix == ".gz":
        padding = bytes(draw.choice([0, 0, 1, 700]))
        return b"".join(gzip_member(piece, draw) for piece in pieces(text, draw)) + padding
    return b"".join(zstd_frame(piece, draw) for piece in pieces(text, draw)) if suffix == ".zst" else text


WORDS = [b"\n", b"\n", b"\r\n", b"\r", b" ", b"\t", b"\v", b"\0", b"{}", b"\xef\xbb\xbf", b"a" * 30, b" " * 30, b"\xff"]
texts = st.lists(st.sampled_from(WORDS), max_size=40).map(b"".join)


@settings(max_examples=400)
@given(texts, st.sampled_from(["", ".gz", ".zst"]), st.integers(1, 40), st.sampled_from([3, 8, 1 << 16]), st.integers())
def test_lines_are_those_of_the_text(text: bytes, suffix: str, max_bytes: int, size: int, seed: int) -> None:
    draw = random.Random(seed)
    stored = stored_as(suffix, text, draw)
    with pytest.MonkeyPatch.context() as patch:  # small buffers, so that a small text crosses their ends
        patch.setattr(lines, "HEAD_BYTES", 9)
        patch.setattr(lines, "_SMALL_BYTES", size)
        patch.setattr(compression, "CHUNK_BYTES", size)
        found = read(ShortReads(stored, seed), f"input{suffix}", max_bytes)
        assert found == expected_lines(text, max_bytes)


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_lines_across_real_buffers(suffix: str) -> None:
    draw = random.Random(7)
    rows = [draw.randbytes(draw.choice([0, 1, 5000, 300_000, 3_000_000])).replace(b"\n", b"") for _ in range(30)]
    text = b"".join(row + draw.choice([b"\n", b"\r\n", b"\n\n"]) for row in rows)
    assert read(stored_as(suffix, text, draw), f"input{suffix}", 400_000) == expected_lines(text, 400_000)


@pytest.mark.parametrize("name", ["a.jsonl.GZ", "gs://bucket/a.gz"])
def test_the_suffix_of_the_name_decides(name: str) -> None:
    assert read(gzip.compress(b"row\n"), name) == [Line(1, 0, b"row")]
    assert read(zstandard.compress(b"row\n"), "a.zstd") == [Line(1, 0, b"row")]
    assert read(b"row\n", "a.gz.jsonl") == [Line(1, 0, b"row")]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_the_line_end_does_not_count_for_the_limit(end: bytes) -> None:
    assert read(b"a" * 2000 + end, "", 2000) == [Line(1, 0, b"a" * 2000)]
    assert read(b"a" * 2000 + end, "", 1999) == [LongLine(1, 0, 2000, b"a" * 1024)]


def named_member(size: int, text: bytes) -> bytes:
    """A member of `size` bytes: its name fills what the text leaves."""
    start, end = b"\x1f\x8b\x08\x08" + bytes(6), zlib.compress(text, wbits=-15)
    end = b"\0" + end + struct.pack("<II", zlib.crc32(text), len(text))
    return start + b"n" * (size - len(start) - len(end)) + end


def test_a_member_header_across_two_reads() -> None:
    """isal rejects a header with several optional fields when it gets it in two parts; here it never does."""
    header = b"\x1f\x8b\x08\x1e" + bytes(6) + b"\x02\0xy" + b"name\0" + b"comment\0"
    header += struct.pack("<H", zlib.crc32(header) & 0xFFFF)
    last = header + zlib.compress(b"last\n", wbits=-15) + struct.pack("<II", zlib.crc32(b"last\n"), 5)
    member = named_member(1 << 15, b"row\n")
    for before in range(1, len(header)):
        filler = member * 31 + named_member((1 << 15) - before, b"row\n")
        assert len(filler) == compression.READ_BYTES - before
        assert [row.number for row in read(filler + last, "a.gz")] == list(range(1, 34))


# Damage


SMALL_TEXT = b'{"a": 1}\n' * 9 + b"\r\n" + b'{"b": "\xc3\xa4"}\r\n'
SMALL_GZ = gzip.compress(SMALL_TEXT, mtime=1)


def small_zst() -> bytes:
    encoder = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    first = encoder.compress(SMALL_TEXT[:50]) + encoder.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    return first + encoder.compress(SMALL_TEXT[50:]) + encoder.flush()


SMALL = {"a.gz": SMALL_GZ, "a.zst": small_zst()}


@pytest.mark.parametrize("name", SMALL)
def test_a_cut_at_any_byte_is_damage(name: str) -> None:
    for size in range(len(SMALL[name])):
        assert outcome(SMALL[name][:size], name)[1:] == ("truncated", size)


@pytest.mark.parametrize("name", SMALL)
def test_a_cut_anywhere_but_between_two_members_is_damage(name: str) -> None:
    """Where a member ends, the file might have ended: nothing in it says that more should follow."""
    member = SMALL[name]
    for size in range(2 * len(member)):
        expected = (None, None) if size == len(member) else ("truncated", size)
        assert outcome((member * 2)[:size], name)[1:] == expected


@pytest.mark.parametrize("name", SMALL)
def test_a_flipped_byte_is_damage_or_changes_nothing(name: str) -> None:
    whole = read(SMALL[name], name)
    for at in range(len(SMALL[name])):
        for mask in (0xFF, *(1 << bit for bit in range(8))):
            flipped = bytearray(SMALL[name])
            flipped[at] ^= mask
            with contextlib.suppress(InputDamaged):
                assert read(bytes(flipped), name) == whole  # the time, the writer's system, bits that say nothing


@settings(deadline=None)
@given(st.sampled_from([".gz", ".zst"]), st.floats(0, 1), st.sampled_from(["cut", "flip"]), st.integers())
def test_where_the_damage_is_does_not_depend_on_the_reads(suffix: str, where: float, how: str, seed: int) -> None:
    draw = random.Random(seed)
    stored = bytearray(stored_as(suffix, SMALL_TEXT * 20, draw))
    at = int(where * (len(stored) - 1))
    stored[at:] = b"" if how == "cut" else bytes((stored[at] ^ 0x55,)) + stored[at + 1 :]
    results = [outcome(ShortReads(bytes(stored), seed + i), f"a{suffix}") for i in range(3)]
    assert results == [outcome(bytes(stored), f"a{suffix}")] * 3


def test_damage_behind_the_first_member() -> None:
    start = len(SMALL_GZ)
    bad_checksum = SMALL_GZ[:-8] + b"\0\0\0\0" + SMALL_GZ[-4:]
    assert outcome(SMALL_GZ + bad_checksum, "a.gz")[1:] == ("bad-checksum", start)
    assert outcome(SMALL_GZ + bytes(9) + b"x", "a.gz")[1:] == ("trailing-data", start + 9)
    assert outcome(SMALL_GZ + bytes(9) + SMALL_GZ, "a.gz")[1:] == ("trailing-data", start + 9)
    assert outcome(SMALL["a.zst"] + b"\0", "a.zst")[1:] == ("trailing-data", len(SMALL["a.zst"]))
    assert outcome(SMALL["a.zst"] * 2 + SMALL_GZ, "a.zst")[1:] == ("trailing-data", 2 * len(SMALL["a.zst"]))


def test_bad_data_in_gzip_is_placed_within_128_kib() -> None:
    deflate = zlib.compressobj(wbits=31)
    good = deflate.compress(random.Random(1).randbytes(700_000)) + deflate.flush(zlib.Z_FULL_FLUSH)
    no_such_block = b"\x07"
    _, reason, offset = outcome(good + no_such_block + bytes(300_000), "a.gz")
    assert reason == "bad-data" and offset is not None and len(good) - (1 << 17) < offset <= len(good)


def test_bad_data_in_zstd_is_placed_at_its_block() -> None:
    encoder = zstandard.ZstdCompressor().compressobj()
    good = encoder.compress(SMALL_TEXT * 9999) + encoder.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    no_such_block = b"\x07\0\0"
    assert outcome(good + no_such_block, "a.zst") == (9999 * 10, "bad-data", len(good))


def test_an_empty_file_is_a_failed_download() -> None:
    assert outcome(b"", "a.gz") == outcome(b"", "a.zst") == (0, "truncated", 0)
    assert outcome(b"", "a.jsonl") == (0, None, None)


def test_inputs_without_rows() -> None:
    skippable = b"\x50\x2a\x4d\x18" + struct.pack("<I", 2) + b"xx"
    empty = {"a.gz": gzip.compress(b""), "a.zst": zstandard.compress(b""), "b.zst": skippable, "a": b"\xef\xbb\xbf"}
    assert all(outcome(stored, name) == (0, None, None) for name, stored in empty.items())


def test_a_window_that_would_take_the_memory_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=28)
    encoder = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    assert outcome(encoder.compress(b"row\n") + encoder.flush(), "a.zst") == (0, "window-too-large", 0)


@pytest.mark.parametrize("id_bytes", [1, 2, 4])
def test_a_frame_that_needs_a_dictionary_is_refused(id_bytes: int) -> None:
    header = bytes(({1: 1, 2: 2, 4: 3}[id_bytes], 0x50)) + b"\x07" * id_bytes
    assert outcome(ZSTD_MAGIC + header + b"\x11\0\0a\n", "a.zst") == (0, "bad-data", 0)


def test_the_error_of_a_stream_is_not_damage() -> None:
    class Broken(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            raise OSError("the connection is gone")

    for name in ("a", "a.gz", "a.zst"):
        with pytest.raises(OSError, match="connection"):
            read(Broken(), name)  # type: ignore[arg-type]


def test_damage_crosses_processes() -> None:
    damage = pickle.loads(pickle.dumps(InputDamaged(12, "truncated", "the file ends")))
    assert (damage.offset, damage.reason, damage.detail) == (12, "truncated", "the file ends")
    assert str(damage) == "truncated at byte 12: the file ends"


# Memory


GIB = 1 << 30
MIB_OF_A = b"a" * (1 << 20)


def long_line_gz(path: Path) -> None:
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(1024):
            file.write(MIB_OF_A)
        file.write(b"\nrow\n")


def bomb_gz(path: Path) -> None:
    with gzip.open(path, "wb", compresslevel=9) as file:
        for _ in range(1024):
            file.write(bytes(1 << 20))


def bomb_zst(path: Path) -> None:
    """Blocks of 4 bytes that each stand for 128 KiB, the highest ratio of the format."""
    block = (1 << 17) << 3 | 1 << 1
    blocks = struct.pack("<I", block)[:3] + b"a"
    last = struct.pack("<I", block | 1)[:3] + b"a"
    path.write_bytes(ZSTD_MAGIC + b"\0\x50" + blocks * 8191 + last)


def crumbs_zst(path: Path) -> None:
    """One line in a million blocks of one byte each."""
    block = struct.pack("<I", 1 << 3)[:3] + b"a"
    path.write_bytes(ZSTD_MAGIC + b"\0\x50" + block * (1 << 20) + struct.pack("<I", 1)[:3])


MEASURE = """
import sys
from transforms.records.lines import read_lines
with open(sys.argv[1], "rb") as stream:
    for row in read_lines(stream, name=sys.argv[1], max_bytes=1 << 22):
        print(type(row).__name__, row.number, getattr(row, "length", None) or len(row.data))
# Not ru_maxrss: that one begins with the memory of the process that started this one.
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux' /proc")
@pytest.mark.parametrize(
    ("make", "name", "rows"),
    [
        (long_line_gz, "line.gz", [f"LongLine 1 {GIB}", "Line 2 3"]),
        (bomb_gz, "bomb.gz", [f"LongLine 1 {GIB}"]),
        (bomb_zst, "bomb.zst", [f"LongLine 1 {GIB}"]),
        (crumbs_zst, "crumbs.zst", [f"Line 1 {1 << 20}"]),
    ],
)
def test_no_file_takes_the_memory(tmp_path: Path, make: Callable[[Path], None], name: str, rows: list[str]) -> None:
    make(tmp_path / name)
    command = [sys.executable, "-c", MEASURE, str(tmp_path / name)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    *found, peak_kib = result.stdout.splitlines()
    assert found == rows
    assert int(peak_kib) < 100 * 1024
