"""Ranged reads of samples out of the runs, in the global order, each checked against its digest."""

from collections.abc import Iterable, Iterator
from typing import Any

from shardwright import order
from transforms.stages.runs import Ordered, RunReader
from transforms.stages.spec import BuildSpec
from transforms.stages.spill import run_path
from transforms.stages.work import BuildRefused

_GAP_BYTES = 256 << 10
"""Two wanted pieces of a run this near are read at once, with what lies between them."""


def read_samples(spec: BuildSpec, selection: Any, rows: list[Ordered]) -> Iterator[tuple[Ordered, bytes]]:
    """Each row with its payload, in order; memory is one batch, whatever the shard's size."""
    for batch in _batches(rows, spec.batch_bytes):
        blobs: dict[int, bytes] = {}
        order_by_place = sorted(range(len(batch)), key=lambda index: batch[index][3:5])
        for span in _spans(order_by_place, batch, min(_GAP_BYTES, spec.batch_bytes // 8)):
            blobs.update(_read_span(spec.root, selection, span, batch))
        for index, row in enumerate(batch):
            yield row, blobs.pop(index)


def read_sample(spec: BuildSpec, selection: Any, row: Ordered) -> bytes:
    """The payload of one row."""
    return next(blob for _, blob in read_samples(spec, selection, [row]))


def _batches(rows: list[Ordered], limit: int) -> Iterator[list[Ordered]]:
    batch, size = [], 0
    for row in rows:
        batch.append(row)
        size += row.length
        if size >= limit:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _spans(places: Iterable[int], batch: list[Ordered], largest_gap: int) -> Iterator[list[int]]:
    """Groups of indices that lie near each other in one run, so that each group is one read.

    What a read takes along without need is at most as much as it wants, and one gap: memory stays near a batch.
    """
    span: list[int] = []
    wanted = wasted = 0
    for index in places:
        row = batch[index]
        if span:
            before = batch[span[-1]]
            gap = row.offset - (before.offset + before.length)
            if row.run != before.run or gap > largest_gap or wasted + gap > wanted + largest_gap:
                yield span
                span, wanted, wasted = [], 0, 0
            else:
                wasted += gap
        span.append(index)
        wanted += row.length
    if span:
        yield span


def _read_span(root: str, selection: Any, span: list[int], batch: list[Ordered]) -> Iterator[tuple[int, bytes]]:
    first, last = batch[span[0]], batch[span[-1]]
    run = selection["runs"][first.run]
    path = run_path(root, run["name"])
    with RunReader(path, run["bytes"]) as reader:
        data = memoryview(reader.read(first.offset, last.offset + last.length - first.offset))
    for index in span:
        row = batch[index]
        blob = bytes(data[row.offset - first.offset :][: row.length])
        if order.sample_digest(blob) != row.digest:
            raise BuildRefused(
                f"{path}: sample at byte {row.offset} is damaged on disk; delete the file and start the build again, "
                "it is made anew"
            )
        yield index, blob
