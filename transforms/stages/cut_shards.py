"""Stage 4, CutShards: the global order is known; cut it into shards of exact bounds and hand out the writing."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam

from shardwright import layout
from shardwright.order import KEY_BYTES, shard_bounds
from transforms.records.rules import types_of
from transforms.stages import progress
from transforms.stages.exchange import Element, exchange
from transforms.stages.funnel import build_counts, show_counts
from transforms.stages.runs import ORDER_ROW
from transforms.stages.select_held_out import read_chosen
from transforms.stages.spec import BuildSpec
from transforms.stages.work import BuildRefused, publish_by_digest, publish_json, read_by_digest, read_json, work_path


@dataclass(kw_only=True, eq=False)
class CutShards(beam.PTransform):
    """All resolved ranges, as key 0, to one task a shard and one a held-out set."""

    spec: BuildSpec

    def expand(self, ranges: beam.PCollection[Element]) -> beam.PCollection[Element]:
        """See the class."""
        return exchange(ranges, cut_shards, self.spec, self.spec.root)


def cut_shards(spec: BuildSpec, _: int, ranges: list[Any]) -> Iterator[tuple[int, Any]]:
    """Write the order of each shard, by its digest, and send a task for each shard and held-out set."""
    folder = work_path(spec.root)
    ranges = sorted(ranges, key=lambda item: item["range"])
    selection = read_json(folder, ranges[0]["selection"])
    _check_ranges(ranges, selection)
    counts = build_counts(selection["inputs"], ranges)
    if not counts["train"]:
        raise BuildRefused(
            f"no document is left to train on:\n{show_counts(counts)}\nLoosen filter.require or held_out, or look at "
            "input.files"
        )
    shards = min(spec.shards, counts["train"])
    progress.advance(bytes_planned=sum(item["bytes"] for item in ranges))
    identity = Identity()
    bounds = shard_bounds(counts["train"], shards)
    rows = _order_rows(spec.root, ranges, identity)
    orders = [
        publish_by_digest(folder / "orders", f"{number:05d}", ".order", part)
        for number, part in enumerate(_cut(rows, bounds))
    ]
    sets = _set_sizes(folder, selection)
    cut = {
        "selection": ranges[0]["selection"],
        "counts": counts,
        "types": dict(sum((Counter(item["types"]) for item in ranges), Counter())),
        "content_id": identity.content.hexdigest(),
        "align": identity.keys.hexdigest(),
        "shards": shards,
        "sets": sets,
    }
    name = publish_json(folder, "cut", cut)
    for number, order_file in enumerate(orders):
        yield number, {"cut": name, "order": order_file}
    for number, kind in enumerate(sets, shards):
        yield number, {"cut": name, "set": kind}


def _check_ranges(ranges: list[Any], selection: Any) -> None:
    whole = [item["range"] for item in ranges] == list(range(selection["ranges"]))
    if not whole or len({item["selection"] for item in ranges}) != 1:
        raise BuildRefused("the engine lost or repeated key ranges; start the build again, finished work is kept")


class Identity:
    """What the samples are, whatever their encoding: sha256 over (order key, content digest), and over the order
    keys, in order.
    """

    def __init__(self) -> None:
        self.content = hashlib.sha256()
        self.keys = hashlib.sha256()

    def update(self, row: bytes) -> None:
        """The next sample's packed order row."""
        self.content.update(row[: 2 * KEY_BYTES])
        self.keys.update(row[:KEY_BYTES])


def _order_rows(root: str, ranges: list[Any], identity: Identity) -> Iterator[bytes]:
    """Every survivor's packed row in global order; feeds the identity on the way."""
    for item in ranges:
        data = read_by_digest(work_path(root, "ranges"), item["order"])
        for at in range(0, len(data), ORDER_ROW.size):
            row = data[at : at + ORDER_ROW.size]
            identity.update(row)
            yield row


def _cut(rows: Iterable[bytes], bounds: list[tuple[int, int]]) -> Iterator[bytes]:
    source = iter(rows)
    for start, stop in bounds:
        yield b"".join(next(source) for _ in range(stop - start))


def _set_sizes(folder: Any, selection: Any) -> dict[str, int]:
    """How many held-out documents each set will hold; a type that none of them has is no set."""
    sizes: Counter[str] = Counter()
    for item in read_chosen(folder, selection["held"]):
        sizes[layout.ALL] += 1
        sizes.update(types_of(item.candidate.row.types))
    return dict(sorted(sizes.items()))
