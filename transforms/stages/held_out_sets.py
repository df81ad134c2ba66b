"""Gather's other task: one held-out set, written in bsmetadata's naming with a card that fixes its features."""

from collections.abc import Iterator
from typing import Any, Protocol

from shardwright import layout, order
from transforms.records import held_out
from transforms.records.samples import Encoder
from transforms.stages.payload import read_sample
from transforms.stages.runs import Ordered
from transforms.stages.select_held_out import read_chosen, read_struck
from transforms.stages.spec import BuildSpec
from transforms.stages.work import BuildRefused, HashingWriter, bytes_facts, publish, publishing, read_json, work_path


class Cards(Protocol):
    """Writes the dataset cards."""

    def build(self, manifest: dict[str, Any]) -> str:
        """The README.md of the whole build."""

    def held_out(self, kind: str, samples: int) -> str:
        """The README.md of one held-out set."""


def write_set(spec: BuildSpec, encode: Encoder, cards: Cards, task: Any) -> dict[str, Any]:
    """Write the set `task` names under `_work/`, and its card; returns its files and how many documents it holds."""
    folder, kind = work_path(spec.root), task["set"]
    selection = read_json(folder, read_json(folder, task["cut"])["selection"])
    base = layout.validation_dir(kind)
    path, samples = f"{base}/{layout.VALIDATION}", 0
    with publishing(folder / path, durable=True) as file:
        digest = HashingWriter(file)
        member = held_out.GzipWriter(digest)
        for place, row in _held_rows(spec, encode, selection, kind):
            member.write(_canonical_row(row, kind, place))
            samples += 1
        member.close()
    card = cards.held_out(kind, samples).encode()
    publish(folder / base / layout.CARD, card, durable=True)
    return {
        "set": kind,
        "samples": samples,
        "files": {path: digest.facts(), f"{base}/{layout.CARD}": bytes_facts(card)},
    }


def _canonical_row(row: bytes, kind: str, place: Ordered) -> bytes:
    try:
        return held_out.canonical_row(row, kind)
    except ValueError as error:
        where = f"held-out document {place.key.hex()} (input {place.input}, line {place.row})"
        raise BuildRefused(f"{where} cannot be written as JSON: {error}. Repair the row or take it out") from None


def _held_rows(spec: BuildSpec, encode: Encoder, selection: Any, kind: str) -> Iterator[tuple[Ordered, bytes]]:
    """The rows of the set, in the order of their salted hash, each proved to be on the struck list."""
    folder, bit = work_path(spec.root), held_out.kind_bit(kind)
    struck = read_struck(folder, selection["struck"])
    for item in read_chosen(folder, selection["held"]):
        if bit and not item.candidate.row.types & bit:
            continue
        place = item.place()
        key, row, text = encode.decode(read_sample(spec, selection, place), place.key.hex())
        if key not in struck.keys or (text and order.text_digest(text) not in struck.texts):
            raise BuildRefused(f"held-out document {key.hex()} is not on the struck list: a bug, nothing was sealed")
        yield place, row
