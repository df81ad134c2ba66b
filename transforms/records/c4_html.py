"""C4-HTML rows (bigscience's c4-en-html-with-metadata): parse one line, or say why not. docs/FORMAT.md section 5."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from shardwright.layout import METADATA_TYPES
from transforms.records.compression import Readable
from transforms.records.document import Document, Rejected
from transforms.records.lines import Line, LongLine, read_lines

ENTITY_COLUMNS = ("metadata_entity", "metadata_entity_paragraph")
"""Columns that only the files with entities have."""

COLUMNS = frozenset(
    (
        "c4_shard",
        "c4_timestamp",
        "html",
        "html_footer",
        "html_head",
        "html_title",
        "HtmlPreprocessor_error",
        "HtmlPreprocessor_error_comment",
        "text",
        "url",
        *(f"metadata_{kind}" for kind in METADATA_TYPES),
    )
)
"""The 21 columns of the schema; a row may bring others, which only training samples keep."""

_LONGEST_INTEGER = 4300
"""Digits: sys.int_info.default_max_str_digits, a fixed number here, because what is rejected must not depend on it."""

_DIGITS = b"0123456789"

PAYLOAD_BYTES = 1024
"""How much of a rejected row is kept in `rejected/`."""


class RowRejected(Exception):
    """A line that is no document: `reason` is a fixed word that is counted, `detail` is for a person."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class C4HtmlReader:
    """Reads one input file into documents. `id_fields` make the id; a row over `row_bytes` is rejected unread."""

    id_fields: tuple[str, ...]
    row_bytes: int

    def __call__(self, stream: Readable, name: str) -> Iterator[Document | Rejected]:
        """Each row of the file `name` (its suffix tells the compression) as a Document or a Rejected.

        Raises InputDamaged, after what could be read, when the file does not end cleanly: the caller discards the
        input.
        """
        parse = RowParser(self.id_fields)
        for line in read_lines(stream, name=name, max_bytes=self.row_bytes):
            yield self._read(line, parse)

    def _read(self, line: Line | LongLine, parse: "RowParser") -> Document | Rejected:
        if isinstance(line, LongLine):
            detail = f"{line.length} bytes, limits.row_bytes is {self.row_bytes}"
            return Rejected(line.number, line.offset, "too-long", detail, line.head)
        try:
            return parse(line.data, line.number)
        except RowRejected as rejected:
            return Rejected(line.number, line.offset, rejected.reason, rejected.detail, line.data[:PAYLOAD_BYTES])


class RowParser:
    """Decodes only what the rules need, and validates the whole line: UTF-8, and JSON as every client reads it."""

    def __init__(self, id_fields: tuple[str, ...]) -> None:
        self._id_fields = id_fields
        self._strings = tuple(dict.fromkeys((*id_fields, "text")))
        columns = [(f"metadata_{kind}", msgspec.Raw | msgspec.UnsetType, msgspec.UNSET) for kind in METADATA_TYPES]
        row = msgspec.defstruct("Row", [*((name, str) for name in self._strings), *columns], gc=False)
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(row).decode

    def __call__(self, line: bytes, number: int) -> Document:
        """The document in `line`. Raises RowRejected."""
        _check_utf8(line)
        _check_integers(line)
        try:
            row = self._decode(line)
        except (msgspec.DecodeError, RecursionError):
            row = self._decode(self._last_keys(line))
        values = tuple(getattr(row, name) for name in self._id_fields)
        if not all(values):
            raise RowRejected("empty-id", f"the id field {self._id_fields[values.index('')]!r} is empty")
        return Document(number, _splice(line, row), values, row.text.encode(), _type_mask(row))

    def _last_keys(self, line: bytes) -> bytes:
        """The slow path, for rows that failed: why, as RowRejected, found in the values and not in the decoder's words.

        If nothing is wrong, a key came twice, first with a wrong value: the same row, each key once, with the last one.
        """
        try:
            value = msgspec.json.decode(line)
        except RecursionError:
            raise RowRejected("not-json", "nested too deep") from None
        except msgspec.DecodeError as malformed:
            raise RowRejected("not-json", str(malformed)) from None
        if not isinstance(value, dict):
            raise RowRejected("not-an-object", f"a JSON {type(value).__name__}, expected an object")
        for name in self._strings:
            if name not in value:
                raise RowRejected("missing-field", f"no field {name!r}")
            if not isinstance(value[name], str):
                found = type(value[name]).__name__
                raise RowRejected("wrong-type", f"field {name!r} is a {found}, expected a string")
        return msgspec.json.encode(value)


def decode_row(row: bytes) -> dict[str, Any]:
    """The row as plain values, as `json.loads` gives them; faster where msgspec can."""
    try:
        value: dict[str, Any] = msgspec.json.decode(row)
    except msgspec.DecodeError:
        value = json.loads(row)
    return value


def _check_utf8(line: bytes) -> None:
    if line.isascii():
        return
    try:
        line.decode()
    except UnicodeDecodeError as error:
        raise RowRejected("not-utf8", f"{error.reason} at byte {error.start} of the line") from None


def _check_integers(line: bytes) -> None:
    """Refuse an integer that Python, and so a client, would not read. Such a one crosses a byte looked at."""
    for at in range(_LONGEST_INTEGER, len(line), _LONGEST_INTEGER):
        if line[at] in _DIGITS and _run_length(line, at) > _LONGEST_INTEGER:
            try:
                json.loads(line)  # they may stand in a string
            except (ValueError, RecursionError) as error:
                raise RowRejected("not-json", str(error)) from None


def _run_length(line: bytes, at: int) -> int:
    """How many digits stand in one run around byte `at`, as far as that matters."""
    before, after = line[at - _LONGEST_INTEGER : at], line[at : at + _LONGEST_INTEGER + 1]
    return len(before) - len(before.rstrip(_DIGITS)) + len(after) - len(after.lstrip(_DIGITS))


def _type_mask(row: Any) -> int:
    mask = 0
    for bit, kind in enumerate(METADATA_TYPES):
        if _is_present(getattr(row, f"metadata_{kind}"), kind):
            mask |= 1 << bit
    return mask


def _is_present(raw: Any, kind: str) -> bool:
    """Whether the column is a non-empty list; a missing or null column is an absent type, as in bsmetadata."""
    if raw is msgspec.UNSET:
        return False
    head = bytes(memoryview(raw)[:2])
    if head == b"[]" or head == b"nu":
        return False
    if not head.startswith(b"["):
        raise RowRejected("wrong-type", f"column 'metadata_{kind}' is no list")
    return not head[1:].isspace() or bytes(raw)[1:].lstrip() != b"]"


def _splice(line: bytes, row: Any) -> bytes:
    missing = [name for name in ENTITY_COLUMNS if getattr(row, name) is msgspec.UNSET]
    if not missing:
        return line
    return line.rstrip()[:-1] + b"".join(b',"%b":[]' % name.encode() for name in missing) + b"}"
