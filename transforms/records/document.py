"""What a reader makes of one row: a document, or the reason why it is none."""

from dataclasses import dataclass


@dataclass(slots=True)
class Document:
    """One readable row: its 1-based `number` in its input, its bytes as they are emitted, its id `values`, its text
    and its type mask.
    """

    number: int
    row: bytes
    values: tuple[str, ...]
    text: bytes
    types: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """One row that is no document. `offset` counts bytes of the uncompressed input; `payload` is its head."""

    number: int
    offset: int
    reason: str
    detail: str
    payload: bytes
