"""Stage 2, SelectHeldOut: choose the held-out documents of the whole build, and what must not be trained on."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam

from shardwright.order import KEY_BYTES, NO_TEXT, salted_hash
from transforms.stages.exchange import Element, exchange
from transforms.stages.limits import refuse_losses
from transforms.stages.runs import (
    CANDIDATE,
    FROM_HELD_OUT_INPUT,
    KEY_ROW,
    NO_PAYLOAD,
    Candidate,
    KeyRow,
    Ordered,
    RunReader,
)
from transforms.stages.spec import BuildSpec, Input
from transforms.stages.spill import run_path
from transforms.stages.work import BuildRefused, publish_by_digest, publish_json, read_by_digest, work_path

ROWS_A_RANGE = 200_000
FEWEST_RANGES, MOST_RANGES = 8, 256


@dataclass(frozen=True)
class SelectSettings:
    """The build and its pinned input listing."""

    spec: BuildSpec
    inputs: tuple[Input, ...]


@dataclass(kw_only=True, eq=False)
class SelectHeldOut(beam.PTransform):
    """All run references, as key 0, to one element a key range. Refuses a build that lost more than it may."""

    spec: BuildSpec
    inputs: tuple[Input, ...]

    def expand(self, runs: beam.PCollection[Element]) -> beam.PCollection[Element]:
        """See the class."""
        return exchange(runs, select_held_out, SelectSettings(self.spec, self.inputs), self.spec.root)


class Chosen(NamedTuple):
    """A held-out document: its candidate, and the number of the run it lies in."""

    candidate: Candidate
    run: int

    def place(self) -> Ordered:
        """Where its payload lies."""
        row = self.candidate.row
        return Ordered(
            row.key, row.content, row.digest, self.run, self.candidate.offset, row.length, row.input, row.row
        )


class Struck(NamedTuple):
    """Order keys and text digests that may not be in training."""

    keys: frozenset[bytes]
    texts: frozenset[bytes]


def select_held_out(settings: SelectSettings, _: int, runs: list[Any]) -> Iterator[tuple[int, Any]]:
    """Write the selection, by its digest, and send each key range on its way with that name."""
    spec, folder = settings.spec, work_path(settings.spec.root)
    runs = sorted(runs, key=lambda run: run["inputs"][0]["number"])
    facts = sorted((item for run in runs for item in run["inputs"]), key=lambda item: item["number"])
    _check_inputs(settings, facts)
    chosen, struck = choose(_candidates(spec.root, runs), spec.held_out.salt)
    rows = sum(item["rows"] for item in facts)
    ranges = range_count(rows)
    selection = {
        "runs": [{key: run[key] for key in ("name", "bytes", "rejected", "worker")} for run in runs],
        "inputs": facts,
        "ranges": ranges,
        "held": publish_by_digest(folder, "selection", ".held", pack_chosen(chosen)),
        "struck": publish_by_digest(folder, "selection", ".struck", pack_struck(struck)),
    }
    name = publish_json(folder, "selection", selection)
    for number in range(ranges):
        yield number, {"selection": name, "range": number}


def choose(candidates: Iterable[Chosen], salt: str) -> tuple[list[Chosen], set[bytes]]:
    """The held-out documents in the order of their salted hash, and the (order key, text digest) pairs they strike.

    One document stays for an id: a held-out input's row first, then the smallest content digest, then the first by
    source.
    Every readable row of a held-out input strikes, whatever became of it; of the others only chosen documents do.
    """
    best: dict[bytes, Chosen] = {}
    struck: set[bytes] = set()
    for item in candidates:
        row = item.candidate.row
        if row.flags & FROM_HELD_OUT_INPUT:
            struck.add(row.key + row.text)
        if not row.flags & NO_PAYLOAD and (row.key not in best or _rank(item) < _rank(best[row.key])):
            best[row.key] = item
    struck.update(item.candidate.row.key + item.candidate.row.text for item in best.values())
    return sorted(best.values(), key=lambda item: salted_hash(salt, item.candidate.id16)), struck


def _rank(item: Chosen) -> tuple[bool, bytes, int, int]:
    row = item.candidate.row
    return not row.flags & FROM_HELD_OUT_INPUT, row.content, row.input, row.row


def range_count(rows: int) -> int:
    """How many key ranges: a power of two that keeps a range small in memory and every worker busy."""
    count = FEWEST_RANGES
    while count < MOST_RANGES and count * ROWS_A_RANGE < rows:
        count *= 2
    return count


def pack_chosen(chosen: list[Chosen]) -> bytes:
    """Rows of (run u32, candidate)."""
    return b"".join(
        item.run.to_bytes(4, "big")
        + CANDIDATE.pack(item.candidate.row.pack(), item.candidate.offset, item.candidate.id16)
        for item in chosen
    )


def read_chosen(folder: Path, name: str) -> list[Chosen]:
    """What `pack_chosen` wrote."""
    data, size, chosen = read_by_digest(folder, name), 4 + CANDIDATE.size, []
    for at in range(0, len(data), size):
        row, offset, id16 = CANDIDATE.unpack(data[at + 4 : at + size])
        candidate = Candidate(KeyRow._make(KEY_ROW.unpack(row)), offset, id16)
        chosen.append(Chosen(candidate, int.from_bytes(data[at : at + 4], "big")))
    return chosen


def pack_struck(struck: set[bytes]) -> bytes:
    """`held_out/struck.bin`: sorted (order key, text digest)."""
    return b"".join(sorted(struck))


def read_struck(folder: Path, name: str) -> Struck:
    """The keys and the non-empty texts of a struck list."""
    data, size = read_by_digest(folder, name), 2 * KEY_BYTES
    keys = frozenset(data[at : at + KEY_BYTES] for at in range(0, len(data), size))
    texts = frozenset(data[at + KEY_BYTES : at + size] for at in range(0, len(data), size))
    return Struck(keys, texts - {NO_TEXT})


def _candidates(root: str, runs: list[Any]) -> Iterator[Chosen]:
    for number, run in enumerate(runs):
        with RunReader(run_path(root, run["name"]), run["bytes"]) as reader:
            for candidate in reader.candidates():
                yield Chosen(candidate, number)


def _check_inputs(settings: SelectSettings, facts: list[Any]) -> None:
    if [item["number"] for item in facts] != [item.number for item in settings.inputs]:
        raise BuildRefused(
            "the engine lost or repeated work units: the runs do not cover the inputs exactly; start the build again"
        )
    for item, fact in zip(settings.inputs, facts, strict=True):
        readable = fact["rows"] - Counter(fact["rejected"]).total()
        if item.held_out and (fact["damage"] or not readable):
            why = (
                f"{fact['damage']['reason']} at byte {fact['damage']['offset']}"
                if fact["damage"]
                else "it has no readable row"
            )
            raise BuildRefused(
                f"{item.uri}: this held-out input cannot be used: {why}. Repair it or take it out of held_out.files; "
                "no limit covers it"
            )
    refuse_losses(settings.spec, settings.inputs, facts)
