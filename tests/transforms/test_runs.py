"""Run files: what was added comes back sorted, by range and whole, or the build is refused; never a wrong answer."""

import io
import itertools
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh3_64_digest, xxh3_64_intdigest, xxh3_128_hexdigest

from transforms.stages import runs
from transforms.stages.runs import (
    FROM_HELD_OUT_INPUT,
    KEY_ROW,
    NO_PAYLOAD,
    UNDER_FRACTION,
    Candidate,
    KeyRow,
    RunFacts,
    RunReader,
    RunWriter,
)
from transforms.stages.work import BuildRefused

Item = tuple[KeyRow, bytes, bytes]
"""What `RunWriter.add` takes: key row, sample, id digest."""


def item(number: int, first: int, sample: bytes, flags: int = 0, content: int = 0) -> Item:
    key = bytes([first]) + bytes(15)
    digest = xxh3_64_digest(sample)[::-1]
    row = KeyRow(
        key, bytes([content]) * 16, 3, number, bytes([number % 7]) * 16, digest, len(sample), number % 5, flags
    )
    return row, sample, bytes([number % 256]) * 16


def written(items: list[Item], segment_bytes: int) -> tuple[bytes, RunFacts]:
    file = io.BytesIO()
    writer = RunWriter(file, segment_bytes)
    for one in items:
        writer.add(*one)
    facts = writer.finish()
    return file.getvalue(), facts


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def footer_of(data: bytes) -> Any:
    length = int.from_bytes(data[-24:-16], "little")
    return json.loads(data[-24 - length : -24])


def opened(folder: Path, data: bytes, size: int | None = None) -> RunReader:
    path = folder / "a.run"
    path.write_bytes(data)
    return RunReader(path, len(data) if size is None else size)


def in_segments(items: list[Item], segment_bytes: int) -> list[Item]:
    """FORMAT.md section 3: a segment is what fitted into the budget, sorted by (order key, content, input, row)."""
    segments: list[list[Item]] = [[]]
    for one in items:
        if not one[0].flags & NO_PAYLOAD:
            segments[-1].append(one)
            if sum(len(sample) for _, sample, _ in segments[-1]) >= segment_bytes:
                segments.append([])
    return [one for segment in segments for one in sorted(segment, key=lambda one: one[0][:4])]


FIRSTS = st.sampled_from([0, 1, 127, 128, 255])
FLAGS = st.sampled_from([0, 0, 0, FROM_HELD_OUT_INPUT, UNDER_FRACTION, FROM_HELD_OUT_INPUT | NO_PAYLOAD])
ITEMS = st.lists(st.tuples(FIRSTS, st.binary(max_size=9), FLAGS, st.integers(0, 2)), max_size=40).map(
    lambda rows: [item(number, *row) for number, row in enumerate(rows, 1)]
)
SEGMENT_BYTES = st.sampled_from([1, 10, 40, 1000])


# There and back


@settings(deadline=None)
@given(ITEMS, SEGMENT_BYTES)
def test_what_was_added_comes_back_sorted_within_each_segment(
    folder: Path, items: list[Item], segment_bytes: int
) -> None:
    expected = in_segments(items, segment_bytes)
    offsets = itertools.accumulate((len(sample) for _, sample, _ in expected), initial=0)
    with opened(folder, written(items, segment_bytes)[0]) as run:
        found = list(run.rows(0, 256))
    assert found == [(row.pack(), offset) for (row, _, _), offset in zip(expected, offsets, strict=False)]


@settings(deadline=None)
@given(ITEMS, SEGMENT_BYTES)
def test_every_offset_leads_to_the_sample_of_its_digest(folder: Path, items: list[Item], segment_bytes: int) -> None:
    samples = {row.row: sample for row, sample, _ in items}
    with opened(folder, written(items, segment_bytes)[0]) as run:
        for packed, offset in run.rows(0, 256):
            row = KeyRow._make(KEY_ROW.unpack(packed))
            blob = run.read(offset, row.length)
            assert (blob, xxh3_64_digest(blob)[::-1]) == (samples[row.row], row.digest)


@settings(deadline=None)
@given(ITEMS, SEGMENT_BYTES, st.sets(st.sampled_from([1, 2, 127, 128, 129, 255])))
def test_ranges_partition_the_rows(folder: Path, items: list[Item], segment_bytes: int, cuts: set[int]) -> None:
    edges = [0, *sorted(cuts), 256]
    with opened(folder, written(items, segment_bytes)[0]) as run:
        parts = [(first, last, list(run.rows(first, last))) for first, last in itertools.pairwise(edges)]
        assert all(first <= row[0] < last for first, last, rows in parts for row, _ in rows)
        assert sorted(row for _, _, rows in parts for row in rows) == sorted(run.rows(0, 256))


@settings(deadline=None)
@given(ITEMS, SEGMENT_BYTES)
def test_candidates_are_the_rows_with_a_flag_and_their_offsets(
    folder: Path, items: list[Item], segment_bytes: int
) -> None:
    with opened(folder, written(items, segment_bytes)[0]) as run:
        offsets = {KEY_ROW.unpack(row)[3]: offset for row, offset in run.rows(0, 256)}
        found = sorted(run.candidates())
    expected = [Candidate(row, offsets.get(row.row, 0), id16) for row, _, id16 in items if row.flags]
    assert found == sorted(expected)


@settings(deadline=None)
@given(ITEMS, SEGMENT_BYTES)
def test_the_same_rows_are_the_same_bytes_and_the_facts_are_theirs(items: list[Item], segment_bytes: int) -> None:
    data, facts = written(items, segment_bytes)
    assert written(items, segment_bytes) == (data, facts)
    assert facts == RunFacts(len(data), xxh3_128_hexdigest(data))


def test_rows_without_payload_are_candidates_only(folder: Path) -> None:
    dropped = item(1, 5, b"", FROM_HELD_OUT_INPUT | NO_PAYLOAD)
    with opened(folder, written([dropped], 10)[0]) as run:
        assert list(run.rows(0, 256)) == []
        assert list(run.candidates()) == [Candidate(dropped[0], 0, dropped[2])]


def test_a_segment_is_closed_when_it_reaches_its_budget() -> None:
    def count(segment_bytes: int) -> int:
        data, _ = written([item(number, 200 - number, b"12345") for number in range(6)], segment_bytes)
        return len(footer_of(data)["segments"])

    assert [count(segment_bytes) for segment_bytes in (1, 5, 6, 10, 11, 30, 31)] == [6, 6, 3, 3, 2, 1, 1]


# On disk, as FORMAT.md section 3 says


def test_a_file_is_payload_key_column_candidates_table_and_footer() -> None:
    late, early = items = [item(1, 9, b"late", UNDER_FRACTION), item(2, 3, b"early!")]
    data, _ = written(items, 1000)
    footer = footer_of(data)
    [segment] = footer["segments"]
    assert data[:10] == b"early!late"
    assert data[segment["keys"] :][: 2 * 76] == early[0].pack() + late[0].pack()
    candidates = data[footer["candidates"]["at"] :][:100]
    assert candidates == late[0].pack() + (6).to_bytes(8, "big") + late[2]
    for first, offset, one in ((3, 0, early), (9, 6, late)):
        digest = xxh3_64_intdigest(one[0].pack())
        entry = (1).to_bytes(4, "little") + offset.to_bytes(8, "little") + digest.to_bytes(8, "little")
        assert data[segment["table"] + first * 20 :][:20] == entry
    length = int.from_bytes(data[-24:-16], "little")
    assert data[-16:-8] == xxh3_64_digest(data[-24 - length : -24])[::-1]
    assert data[-8:] == b"shrdrun1"
    assert len(data) == 10 + 2 * 76 + 100 + 256 * 20 + length + 24


def test_the_parts_of_a_file_stand_in_their_order() -> None:
    footer = footer_of(written([item(1, 9, b"a", UNDER_FRACTION), item(2, 3, b"b")], 1)[0])
    one, two = footer["segments"]
    assert one["keys"] < one["table"] < two["keys"] < two["table"] < footer["candidates"]["at"]


def test_a_key_row_sorts_as_bytes_by_key_content_input_and_row() -> None:
    texts = bytes(16), b"\xff" * 16
    rows = [
        KeyRow(bytes([key]) * 16, bytes([content]) * 16, number, row, text, bytes(8), 0, 0, 0)
        for key, content, number, row, text in itertools.product(
            (0, 255), (0, 255), (1, 256), (255, 256, 1 << 40), texts
        )
    ]
    assert sorted(row.pack() for row in rows) == [row.pack() for row in sorted(rows)]
    assert {len(row.pack()) for row in rows} == {76}


KEY_ROW_FIELDS = KeyRow(
    b"k" * 16, b"c" * 16, 0x01020304, 0x0102030405060708, b"t" * 16, b"d" * 8, 0x0A0B, 0x0102, 0x0304
)


def test_the_fields_of_a_key_row_stand_where_they_should_big_endian() -> None:
    data = KEY_ROW_FIELDS.pack()
    assert (data[:16], data[16:32], data[44:60], data[60:68]) == (b"k" * 16, b"c" * 16, b"t" * 16, b"d" * 8)
    assert (data[32:36], data[36:44]) == (bytes([1, 2, 3, 4]), bytes([1, 2, 3, 4, 5, 6, 7, 8]))
    assert data[68:] == bytes([0, 0, 0x0A, 0x0B, 0x01, 0x02, 0x03, 0x04])


# Reading


def test_short_reads_are_continued(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, _ = written([item(number, 200 - number, b"12345") for number in range(6)], 10)
    with opened(folder, data) as run:
        whole = list(run.rows(0, 256))
    pread = os.pread
    monkeypatch.setattr(runs.os, "pread", lambda handle, length, offset: pread(handle, min(length, 7), offset))
    with opened(folder, data) as run:
        assert list(run.rows(0, 256)) == whole


def test_a_run_that_is_gone_is_refused(folder: Path) -> None:
    with pytest.raises(BuildRefused, match=r"none\.run: gone while the build ran; start the build again"):
        RunReader(folder / "none.run", 100)


# Damage


TO_DAMAGE = [item(n, first, b"sample %d" % n, n % 3) for n, first in enumerate([7, 0, 255, 7, 128, 7, 0], 1)]
WHOLE, _ = written(TO_DAMAGE, 30)
"""Two segments, and candidates."""
FOOTER = footer_of(WHOLE)
FOOTER_AT = len(WHOLE) - 24 - int.from_bytes(WHOLE[-24:-16], "little")
TABLES = [one["table"] for one in FOOTER["segments"]]
TABLE_BYTES = [at for table in TABLES for at in range(table, table + 256 * 20)]
CANDIDATES = range(FOOTER["candidates"]["at"], FOOTER["candidates"]["at"] + FOOTER["candidates"]["count"] * 100)
KEYS_AT = sum(len(sample) for _, sample, _ in TO_DAMAGE)
KEY_COLUMNS = sorted(set(range(KEYS_AT, FOOTER_AT)) - {*CANDIDATES, *TABLE_BYTES})


def answers(folder: Path, data: bytes) -> Any:
    """All that a run says about its rows, and the samples that it points at."""
    with opened(folder, data, len(WHOLE)) as run:
        rows = list(run.rows(0, 256))
        samples = [run.read(offset, KEY_ROW.unpack(row)[6]) for row, offset in rows]
        return rows, list(run.candidates()), samples


def refused(folder: Path, data: bytes) -> bool:
    """Whether a damaged run is refused, or gives what the whole one gives. Anything else fails here."""
    try:
        found = answers(folder, data)
    except BuildRefused as error:
        assert "delete it and start the build again" in str(error)
        return True
    assert found == answers(folder, WHOLE)
    return False


def flipped(at: int, mask: int = 0xFF) -> bytes:
    return WHOLE[:at] + bytes([WHOLE[at] ^ mask]) + WHOLE[at + 1 :]


def test_the_parts_to_damage_are_what_they_should_be(folder: Path) -> None:
    assert (len(KEY_COLUMNS), len(CANDIDATES), len(TABLES)) == (7 * 76, 5 * 100, 2)
    assert not refused(folder, WHOLE)


@pytest.mark.parametrize("part", [KEY_COLUMNS, CANDIDATES], ids=["key columns", "candidates"])
def test_a_flip_in_the_key_columns_or_the_candidates_is_refused(folder: Path, part: list[int]) -> None:
    assert [at for at in part if not refused(folder, flipped(at, 1 << at % 8))] == []


def test_a_flip_in_a_table_is_refused(folder: Path) -> None:
    """Rows, offsets and digests of ranges with rows and without: every 13th byte, so that each field is met."""
    assert [at for at in TABLE_BYTES[::13] if not refused(folder, flipped(at, 1 << at % 8))] == []


@pytest.mark.parametrize("mask", [0x01, 0x02, 0x80])
def test_a_flip_in_the_footer_or_behind_it_is_refused(folder: Path, mask: int) -> None:
    assert [at for at in range(FOOTER_AT, len(WHOLE)) if not refused(folder, flipped(at, mask))] == []


@pytest.mark.parametrize("kept", [0, 1, KEYS_AT, CANDIDATES[0], TABLES[0], FOOTER_AT, len(WHOLE) - 24, len(WHOLE) - 1])
def test_a_cut_run_is_refused(folder: Path, kept: int) -> None:
    assert refused(folder, WHOLE[:kept])


@pytest.mark.parametrize("size", [0, 1, 23])
def test_a_run_that_is_too_short_to_be_one_is_refused(folder: Path, size: int) -> None:
    with opened(folder, WHOLE, size) as run, pytest.raises(BuildRefused, match="damaged on disk"):
        list(run.candidates())


def test_a_sample_beyond_the_end_is_refused(folder: Path) -> None:
    with opened(folder, WHOLE) as run, pytest.raises(BuildRefused, match=r"a\.run: damaged on disk \(end\)"):
        run.read(len(WHOLE) - 3, 4)
