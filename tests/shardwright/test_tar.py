"""A sample as tar bytes: against a header written by hand, Python's tarfile, GNU tar, and every damaged bit."""

import hashlib
import io
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwright import tar
from shardwright.errors import Damaged

KEY = "00112233445566778899aabbccddeeff"
PARTS = [("json", b'{"text":"a"}'), ("txt", b"a")]
SAMPLE = tar.encode(KEY, PARTS)

SUFFIXES = st.text("abcdefghijklmnopqrstuvwxyz0123456789_.-", min_size=1, max_size=20)
SOME_PARTS = st.lists(
    st.tuples(SUFFIXES, st.binary(max_size=1100)), min_size=1, max_size=4, unique_by=lambda part: part[0]
)


def test_golden_bytes() -> None:
    """The digest is of headers that were put together field by field, without tarfile."""
    assert hashlib.sha256(SAMPLE).hexdigest() == "f57b58869991ae4cec4c3fa74487b5cf14f809d346296041a6fc300bb611e83b"


@pytest.mark.parametrize(
    ("field", "start", "golden"),
    [
        ("name", 0, f"{KEY}.json".encode() + bytes(63)),
        ("mode", 100, b"0000444\0"),
        ("uid, gid", 108, b"0000000\0" * 2),
        ("size", 124, b"00000000014\0"),
        ("mtime", 136, b"00000000000\0"),
        ("checksum", 148, b"013214\0 "),
        ("type", 156, b"0"),
        ("link", 157, bytes(100)),
        ("magic", 257, b"ustar\x0000"),
        ("user, group, device, prefix", 265, bytes(247)),
        ("data", 512, b'{"text":"a"}' + bytes(500)),
        ("second name", 1024, f"{KEY}.txt".encode()),
    ],
)
def test_fields_of_the_golden_sample(field: str, start: int, golden: bytes) -> None:
    assert SAMPLE[start : start + len(golden)] == golden, field


def test_the_end_of_an_archive_is_two_empty_blocks() -> None:
    assert bytes(1024) == tar.END


@given(SOME_PARTS)
def test_decode_undoes_encode(parts: list[tuple[str, bytes]]) -> None:
    key, found = tar.decode(tar.encode(KEY, parts), "here")
    assert (key, list(found.items())) == (KEY, parts)


@given(SOME_PARTS)
def test_pythons_tarfile_reads_what_encode_writes(parts: list[tuple[str, bytes]]) -> None:
    with tarfile.open(fileobj=io.BytesIO(tar.encode(KEY, parts) + tar.END), mode="r:") as archive:
        found = [(member.name, archive.extractfile(member).read()) for member in archive]  # type: ignore[union-attr]
    assert found == [(f"{KEY}.{suffix}", data) for suffix, data in parts]


@given(SUFFIXES, st.binary(max_size=1100))
def test_a_header_is_the_one_that_tarfile_writes(suffix: str, data: bytes) -> None:
    info = tarfile.TarInfo(f"{KEY}.{suffix}")
    info.size, info.mode = len(data), 0o444
    assert tar.encode(KEY, [(suffix, data)])[:512] == info.tobuf(tarfile.USTAR_FORMAT)


def test_gnu_tar_lists_it_without_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(SAMPLE + tar.END)
    done = subprocess.run(["tar", "--list", "--file", path], capture_output=True, text=True, check=True)
    assert (done.stdout.split(), done.stderr) == ([f"{KEY}.json", f"{KEY}.txt"], "")


def _outcome(blob: bytes) -> object:
    """What decode makes of `blob`: the key and the parts, or None when it says that it is damaged."""
    try:
        key, parts = tar.decode(blob, "shard#7")
    except Damaged as error:
        assert "shard#7" in str(error)
        return None
    return key, list(parts.items())


def _flips() -> Iterator[tuple[int, bytes]]:
    for at in range(len(SAMPLE)):
        for bit in range(8):
            yield at, SAMPLE[:at] + bytes([SAMPLE[at] ^ 1 << bit]) + SAMPLE[at + 1 :]


def test_no_flipped_bit_decodes_to_the_same_sample() -> None:
    assert [at for at, blob in _flips() if _outcome(blob) == (KEY, PARTS)] == []


def test_a_cut_sample_is_damaged_or_lacks_a_part() -> None:
    outcomes = {length: _outcome(SAMPLE[:length]) for length in range(len(SAMPLE))}
    assert {length: outcome for length, outcome in outcomes.items() if outcome} == {1024: (KEY, PARTS[:1])}


@pytest.mark.parametrize(
    ("blob", "word"),
    [
        (SAMPLE + tar.encode("f" * 32, PARTS), "unexpected tar member"),
        (SAMPLE + tar.encode(KEY, PARTS), "unexpected tar member"),
        (tar.encode(KEY, [("", b"")]).replace(b".", b"_"), "bad tar header"),
        (SAMPLE + tar.END, "bad tar header"),
        (SAMPLE[:512] + SAMPLE[512:1023] + b"x" + SAMPLE[1024:], "not a whole regular file"),
        (b"", "without members"),
    ],
    ids=["another key", "a part twice", "checksum", "end marker", "padding", "empty"],
)
def test_what_is_no_sample_is_damaged(blob: bytes, word: str) -> None:
    with pytest.raises(Damaged, match=f"^here: .*{word}"):
        tar.decode(blob, "here")


@pytest.mark.parametrize("kind", [tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_a_member_that_is_no_regular_file_is_damaged(kind: bytes) -> None:
    info = tarfile.TarInfo(f"{KEY}.json")
    info.type, info.linkname = kind, "/etc/passwd"
    with pytest.raises(Damaged, match="regular"):
        tar.decode(info.tobuf(tarfile.USTAR_FORMAT), "here")


def test_names_fill_100_bytes_and_no_more() -> None:
    longest = "s" * (100 - len(KEY) - 1)
    assert tar.decode(tar.encode(KEY, [(longest, b"a")]), "here") == (KEY, {longest: b"a"})
    with pytest.raises(ValueError, match="100 bytes"):
        tar.encode(KEY, [(longest + "s", b"a")])


def test_a_name_that_is_not_ascii_is_refused() -> None:
    with pytest.raises(ValueError, match="ascii"):
        tar.encode(KEY, [("é", b"a")])
