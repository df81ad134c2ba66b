"""Held-out rows: canonical JSON, other types emptied, one gzip member whose bytes no clock can change."""

import gzip
import io
import json
import zlib

import pytest

from shardwright.layout import ALL
from tests.support import row
from transforms.records.c4_html import METADATA_TYPES
from transforms.records.held_out import GzipWriter, canonical_row, kind_bit, versions
from transforms.records.rules import type_bit


def stored(value: object) -> bytes:
    return json.dumps(value).encode()


def test_a_row_is_written_canonically() -> None:
    data = (
        b' { "url" : [ 1.50, 1E2 ], "html" : "\\u00e9\\u2028\\ud83d\\ude00\\/" , "c4_shard":null, "text":"\\u0001" } '
    )
    assert canonical_row(data, ALL) == (
        '{"c4_shard":null,"html":"é\u2028😀/","text":"\\u0001","url":[1.5,100.0]}\n'.encode()
    )


def test_of_a_key_twice_the_last_one_is_written() -> None:
    assert canonical_row(b'{"text":1,"text":2}', ALL) == b'{"text":2}\n'


@pytest.mark.parametrize("kind", [ALL, "html"])
def test_a_column_outside_the_schema_is_left_out(kind: str) -> None:
    """The evaluation's `load_dataset` fails on it."""
    written = json.loads(canonical_row(stored(row("u", "t", more=1, metadata_new=[1])), kind))
    assert written == row("u", "t")


def test_the_full_set_holds_rows_as_they_are() -> None:
    value = row("u", "t", METADATA_TYPES)
    assert json.loads(canonical_row(stored(value), ALL)) == value


@pytest.mark.parametrize("kind", METADATA_TYPES)
def test_the_set_of_a_type_empties_the_other_types_and_nothing_else(kind: str) -> None:
    value = row("u", "t", METADATA_TYPES, html_head=["kept"])
    others = {f"metadata_{other}": [] for other in METADATA_TYPES if other != kind}
    assert json.loads(canonical_row(stored(value), kind)) == value | others


def test_a_column_that_a_row_lacks_is_empty_in_the_set_of_another_type() -> None:
    written = json.loads(canonical_row(b'{"metadata_html":[1]}', "html"))
    assert written == {"metadata_html": [1]} | {f"metadata_{kind}": [] for kind in METADATA_TYPES if kind != "html"}


@pytest.mark.parametrize("number", [b"1e999", b"-1e999", b"9" * 5000])
def test_a_number_that_nobody_can_read_back_is_refused(number: bytes) -> None:
    """The reader accepts it; how the build then ends is tested in test_cut_gather.py."""
    with pytest.raises(ValueError, match=r"JSON compliant|4300 digits"):
        canonical_row(b'{"c4_shard":%b}' % number, ALL)


def test_all_wants_no_type_and_a_set_its_own() -> None:
    assert kind_bit(ALL) == 0
    assert [kind_bit(kind) for kind in METADATA_TYPES] == [type_bit(kind) for kind in METADATA_TYPES]


# The gzip member


def member(*pieces: bytes) -> bytes:
    file = io.BytesIO()
    writer = GzipWriter(file)
    for piece in pieces:
        writer.write(piece)
    writer.close()
    assert not file.closed
    return file.getvalue()


def test_the_header_has_no_time_no_name_and_no_flags() -> None:
    magic, deflate, flags, time, best_or_fastest, unix = b"\x1f\x8b", b"\x08", b"\0", bytes(4), b"\0", b"\x03"
    assert member(b"a\n")[:10] == magic + deflate + flags + time + best_or_fastest + unix


def test_the_trailer_is_checksum_and_length() -> None:
    text = b"some text\n" * 50
    assert member(text)[-8:] == zlib.crc32(text).to_bytes(4, "little") + len(text).to_bytes(4, "little")


def test_between_them_is_what_zlib_deflates_at_level_3() -> None:
    """Another level is another held-out id: a change of the format."""
    text = json.dumps(row("u", "".join(f"{number:x} text " for number in range(500)))).encode()
    assert len({zlib.compress(text, level) for level in (2, 3, 4, 6)}) == 4
    raw = zlib.compressobj(3, zlib.DEFLATED, -15)
    assert member(text)[10:-8] == raw.compress(text) + raw.flush()


def test_several_rows_are_one_member() -> None:
    whole = member(b"a\n", b"", b"b\n" * 1000)
    inflate = zlib.decompressobj(31)
    assert inflate.decompress(whole) == b"a\n" + b"b\n" * 1000
    assert inflate.eof and not inflate.unused_data


def test_how_the_rows_come_does_not_change_the_bytes() -> None:
    assert member(b"a\n" * 500) == member(*[b"a\n"] * 500)


def test_python_reads_it() -> None:
    assert gzip.decompress(member(b"a\n", b"b\n")) == b"a\nb\n"
    assert gzip.decompress(member()) == b""


def test_the_encoder_that_made_the_bytes_is_named() -> None:
    assert versions() == {"zlib": zlib.ZLIB_RUNTIME_VERSION}
