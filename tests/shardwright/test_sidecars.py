"""The sidecars' bytes, written out, and what is refused as none of them."""

from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwright import sidecars
from shardwright.errors import Damaged


def test_idx_is_little_endian_offsets_and_the_end() -> None:
    assert sidecars.pack_idx([1024, 2048]).hex() == "0000000000000000" + "0004000000000000" + "000c000000000000"


def test_row_layouts() -> None:
    key, other = bytes(range(16)), bytes(range(16, 32))
    assert sidecars.SIG_ROW.pack(key, b"digest!!") == key + b"digest!!"
    assert sidecars.SRC_ROW.pack(1, 2).hex() == "01000000" + "0200000000000000"
    assert sidecars.STRUCK_ROW.pack(key, other) == key + other


@given(st.lists(st.integers(1, 2**50), max_size=20))
def test_unpack_gives_the_offsets_that_pack_wrote(lengths: list[int]) -> None:
    assert list(sidecars.unpack_idx(sidecars.pack_idx(lengths), "x.idx")) == list(accumulate(lengths, initial=0))


@pytest.mark.parametrize(
    "data",
    [b"", bytes(7), bytes(9), b"\x01" + bytes(7), bytes(16), bytes(8) + b"\x02" + bytes(7) + b"\x01" + bytes(7)],
    ids=["empty", "short", "ragged", "not from 0", "an empty sample", "descending"],
)
def test_what_is_no_list_of_ascending_offsets_is_damaged(data: bytes) -> None:
    with pytest.raises(Damaged, match=r"^x\.idx: "):
        sidecars.unpack_idx(data, "x.idx")


def test_rows_are_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.src"
    path.write_bytes(sidecars.SRC_ROW.pack(0, 1) + sidecars.SRC_ROW.pack(3, 2**40))
    assert sidecars.read_rows(path, sidecars.SRC_ROW) == [(0, 1), (3, 2**40)]


def test_a_torn_row_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "x.sig"
    path.write_bytes(bytes(sidecars.SIG_ROW.size + 1))
    with pytest.raises(Damaged, match=r"x\.sig: 25 bytes"):
        sidecars.read_rows(path, sidecars.SIG_ROW)


def test_a_missing_sidecar_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(Damaged, match=r"x\.sig: missing"):
        sidecars.read_rows(tmp_path / "x.sig", sidecars.SIG_ROW)
