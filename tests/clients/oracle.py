"""What a build must hold, found again from its input files by docs/FORMAT.md, without a line of the product.

Only for inputs whose every row can be read: rejected rows are the business of other tests.
"""

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import xxhash

TYPES = (
    "timestamp",
    "website_desc",
    "title",
    "entity",
    "entity_paragraph",
    "paragraph",
    "html",
    "generation_datasource",
    "generation_length_text",
    "generation_length_sentence",
    "url",
)
"""The sets of bsmetadata's evaluation (evaluation.py: VLD_DS_IDS), in its order."""

SALT = "held-out/1"


@dataclass(frozen=True)
class Row:
    """One input row: its `data` as a build must emit it, and what FORMAT.md section 1 derives from it."""

    data: bytes
    url: str
    text: str
    types: frozenset[str]
    id16: bytes

    @cached_property
    def content(self) -> bytes:
        """The content digest."""
        return xxhash.xxh3_128_digest(self.data)

    def value(self) -> dict[str, Any]:
        """The row, parsed."""
        return json.loads(self.data)

    def key(self, seed: int) -> str:
        """The sample key."""
        return xxhash.xxh3_128_hexdigest(seed.to_bytes(8, "little") + self.id16)

    def salted(self) -> bytes:
        """The salted hash."""
        return xxhash.xxh3_128_digest(frame(SALT) + self.id16)


@dataclass
class Recount:
    """The funnel, and the rows of the two sides: `train` by sample key in global order, `held` in theirs."""

    counts: dict[str, Any]
    train: dict[str, Row] = field(default_factory=dict)
    held: list[Row] = field(default_factory=list)

    def held_set(self, kind: str) -> list[dict[str, Any]]:
        """The rows of the validation set of one metadata type."""
        emptied = {f"metadata_{other}": [] for other in TYPES if other != kind}
        return [row.value() | emptied for row in self.held if kind in row.types]


def frame(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(4, "little") + data


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a .jsonl or .jsonl.gz file."""
    data = path.read_bytes()
    for line in (gzip.decompress(data) if path.suffix == ".gz" else data).split(b"\n"):
        line = line.removesuffix(b"\r")
        if line.strip():
            yield as_row(line)


def as_row(line: bytes) -> Row:
    value = json.loads(line)
    lacking = [name for name in ("metadata_entity", "metadata_entity_paragraph") if name not in value]
    if lacking:
        end = line.rindex(b"}")
        line = line[:end] + b"".join(b',"%s":[]' % name.encode() for name in lacking) + b"}"
    types = frozenset(kind for kind in TYPES if value.get(f"metadata_{kind}"))
    id16 = xxhash.xxh3_128_digest(frame("url") + frame(value["url"]))
    return Row(line, value["url"], value["text"], types, id16)


def recount(
    files: Iterable[Path],
    *,
    held_files: Iterable[str] = (),
    fraction: float = 0.0,
    why_dropped: Callable[[Row], str | None] = lambda row: None,
    seed: int = 42,
) -> Recount:
    """The fate table of FORMAT.md section 2 over all rows of `files`."""
    counts: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    threshold = int(fraction * (1 << 128))
    struck_ids: set[bytes] = set()
    struck_texts: set[str] = set()
    kept: list[Row] = []
    candidates: dict[bytes, list[tuple[bool, bytes, Row]]] = {}
    for file in files:
        whole = file.name in set(held_files)
        for row in read_rows(file):
            counts["read"] += 1
            if whole:
                struck_ids.add(row.id16)
                struck_texts.add(row.text)
            if reason := why_dropped(row):
                dropped[reason] += 1
                continue
            kept.append(row)
            if whole or int.from_bytes(row.salted(), "big") < threshold:
                candidates.setdefault(row.id16, []).append((not whole, row.content, row))
    held = [min(rows, key=lambda item: item[:2])[2] for rows in candidates.values()]
    struck_ids |= {row.id16 for row in held}
    struck_texts |= {row.text for row in held}
    chosen = {id(row) for row in held}
    stay: dict[bytes, Row] = {}
    for row in sorted(kept, key=lambda row: row.content):
        if id(row) in chosen:
            fate = "held_out"
        elif row.id16 in struck_ids or (row.text and row.text in struck_texts):
            fate = "held_out_twin"
        else:
            fate = "train" if stay.setdefault(row.id16, row) is row else "duplicate"
        counts[fate] += 1
    fates = {fate: counts[fate] for fate in ("read", "held_out", "held_out_twin", "duplicate", "train")}
    return Recount(
        counts=fates | {"dropped": dict(dropped)},
        train=dict(sorted((row.key(seed), row) for row in stay.values())),
        held=sorted(held, key=Row.salted),
    )
