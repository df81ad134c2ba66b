"""A document as the bytes of a sample: a function of key and document alone, and the row comes back out of it."""

import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwright.errors import Damaged
from transforms.records.document import Document
from transforms.records.samples import TarTextEncoder

KEY = bytes(range(16))
NAME = "000102030405060708090a0b0c0d0e0f"
ENCODE = TarTextEncoder()


def document(row: bytes = b'{"text":"t"}', text: bytes = b"t") -> Document:
    return Document(3, row, ("u",), text, 0)


def members(blob: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(blob + ENCODE.end), mode="r:") as archive:
        return [(info, archive.extractfile(info).read()) for info in archive]  # type: ignore[union-attr]


def test_a_sample_is_its_row_and_then_its_text() -> None:
    found = [(info.name, data) for info, data in members(ENCODE(KEY, document()))]
    assert found == [(f"{NAME}.json", b'{"text":"t"}'), (f"{NAME}.txt", b"t")]


def test_its_members_carry_no_owner_no_time_and_no_right_to_write() -> None:
    for info, _ in members(ENCODE(KEY, document())):
        assert (info.mode, info.uid, info.gid, info.mtime, info.uname, info.gname) == (0o444, 0, 0, 0, "", "")
        assert info.isreg()


def test_an_empty_text_is_an_empty_member() -> None:
    assert members(ENCODE(KEY, document(text=b"")))[1][1] == b""


def test_the_line_number_the_id_and_the_types_leave_no_trace() -> None:
    assert ENCODE(KEY, document()) == ENCODE(KEY, Document(9, b'{"text":"t"}', ("other",), b"t", 5))


def test_the_suffix_and_the_end_are_those_of_a_tar() -> None:
    assert (ENCODE.suffix, ENCODE.end, ENCODE.versions()) == (".tar", bytes(1024), {})


@given(st.binary(min_size=16, max_size=16), st.binary(max_size=1100), st.binary(max_size=1100))
def test_a_sample_decodes_to_what_was_encoded(key: bytes, row: bytes, text: bytes) -> None:
    blob = ENCODE(key, document(row, text))
    assert len(blob) % 512 == 0
    assert ENCODE.decode(blob, "here") == (key, row, text)


@pytest.mark.parametrize("keep", [0, 511, 512, 1023])
def test_a_cut_sample_is_damaged_and_says_where(keep: int) -> None:
    with pytest.raises(Damaged, match="shard 3"):
        ENCODE.decode(ENCODE(KEY, document())[:keep], "shard 3")
