"""Stage 3, Resolve: decide, for one key range, the fate of every document, and put the survivors in order."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import apache_beam as beam

from shardwright.order import KEY_BYTES
from transforms.records.rules import types_of
from transforms.stages.exchange import Element, exchange
from transforms.stages.runs import BUCKETS, KEY_ROW, ORDER_ROW, KeyRow, Ordered, RunReader
from transforms.stages.select_held_out import Struck, read_chosen, read_struck
from transforms.stages.spec import BuildSpec
from transforms.stages.spill import run_path
from transforms.stages.work import BuildRefused, publish_by_digest, read_json, work_path


class Placed(NamedTuple):
    """A packed key row and where its payload lies. Tuples of these sort by (order key, content digest, input, row)."""

    row: bytes
    run: int
    offset: int


@dataclass(kw_only=True, eq=False)
class Resolve(beam.PTransform):
    """One element a key range, to one reference of its survivors in order, as key 0."""

    spec: BuildSpec

    def expand(self, ranges: beam.PCollection[Element]) -> beam.PCollection[Element]:
        """See the class."""
        return exchange(ranges, resolve, self.spec, self.spec.root)


def resolve(spec: BuildSpec, number: int, values: list[Any]) -> Iterator[tuple[int, Any]]:
    """The fate table of docs/FORMAT.md, steps 5 to 8, over the key columns of one range."""
    [value] = values
    folder = work_path(spec.root)
    selection = read_json(folder, value["selection"])
    chosen = {item.candidate.row.key: item.candidate.row[2:4] for item in read_chosen(folder, selection["held"])}
    placed = sorted(_read_range(spec.root, selection, number))
    struck = read_struck(folder, selection["struck"])
    survivors, fates, types = decide(placed, chosen, struck)
    if spec.duplicates_are_errors and fates["duplicate"]:
        raise BuildRefused(_duplicates_message(placed, chosen, struck, spec))
    data = b"".join(ORDER_ROW.pack(*item) for item in survivors)
    yield (
        0,
        {
            "range": number,
            "selection": value["selection"],
            "order": publish_by_digest(work_path(spec.root, "ranges"), f"{number:03d}", ".order", data),
            "bytes": sum(item.length for item in survivors),
            "fates": fates,
            "types": types,
        },
    )


def decide(
    placed: Iterable[Placed], chosen: dict[bytes, tuple[int, int]], struck: Struck
) -> tuple[list[Ordered], Counter[str], Counter[str]]:
    """Survivors in order, counts by fate, and the training samples' metadata types.

    `placed` is sorted; `chosen` maps the order key of each held-out document to its (input, row).
    """
    survivors: list[Ordered] = []
    fates: Counter[str] = Counter(held_out=0, held_out_twin=0, duplicate=0, train=0)
    types: Counter[int] = Counter()
    for key, group in groupby(placed, lambda item: item.row[:KEY_BYTES]):
        taken = False
        for item in group:
            row = KeyRow._make(KEY_ROW.unpack(item.row))
            fate = _fate(row, chosen.get(key), struck, taken)
            fates[fate] += 1
            if fate == "train":
                taken = True
                types[row.types] += 1
                survivors.append(
                    Ordered(row.key, row.content, row.digest, item.run, item.offset, row.length, row.input, row.row)
                )
    return survivors, fates, _by_type(types)


def _fate(row: KeyRow, held: tuple[int, int] | None, struck: Struck, taken: bool) -> str:
    if held == (row.input, row.row):
        return "held_out"
    if row.key in struck.keys or row.text in struck.texts:
        return "held_out_twin"
    return "duplicate" if taken else "train"


def _by_type(masks: Counter[int]) -> Counter[str]:
    types: Counter[str] = Counter()
    for mask, count in masks.items():
        for kind in types_of(mask):
            types[kind] += count
    return types


def _read_range(root: str, selection: Any, number: int) -> Iterator[Placed]:
    width = BUCKETS // selection["ranges"]
    for index, run in enumerate(selection["runs"]):
        with RunReader(run_path(root, run["name"]), run["bytes"]) as reader:
            for row, offset in reader.rows(number * width, (number + 1) * width):
                yield Placed(row, index, offset)


def _duplicates_message(
    placed: list[Placed], chosen: dict[bytes, tuple[int, int]], struck: Struck, spec: BuildSpec
) -> str:
    for key, group in groupby(placed, lambda item: item.row[:KEY_BYTES]):
        rows = [KeyRow._make(KEY_ROW.unpack(item.row)) for item in group]
        stay = [row for row in rows if _fate(row, chosen.get(key), struck, taken=False) == "train"]
        if len(stay) > 1:
            places = ", ".join(f"input {row.input} line {row.row}" for row in stay[:5])
            return (
                f"several documents have one id ({', '.join(spec.id_fields)}) and duplicates is 'error': for instance "
                f"{places} (inputs are numbered from 0 as `shardwright plan` lists them). Use `duplicates: drop`, or "
                "put more into the id, for instance `id: [url, text]`"
            )
    raise AssertionError("no duplicate found")
