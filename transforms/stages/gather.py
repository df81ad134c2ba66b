"""Stage 5, Gather: one worker takes one shard (or one held-out set), reads its pieces by range, checks and writes it
once.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import apache_beam as beam

from shardwright import canonical, layout, order, sidecars
from shardwright.errors import Damaged
from transforms.records import held_out
from transforms.stages import progress
from transforms.stages.exchange import Element, exchange
from transforms.stages.resolve import ORDER_ROW, Ordered
from transforms.stages.runs import NO_PAYLOAD, RunReader
from transforms.stages.select_held_out import Struck, read_chosen, read_struck
from transforms.stages.spec import BuildSpec
from transforms.stages.spill import Encoder, run_path
from transforms.stages.work import BuildRefused, publish, publishing, read_by_digest, read_json, work_path

_GAP_BYTES = 256 << 10
"""Two wanted pieces of a run this near are read at once, with what lies between them."""


@dataclass(frozen=True)
class GatherSettings:
    """The build, and how its samples are taken apart again."""

    spec: BuildSpec
    encode: Encoder
    cards: Any


@dataclass(kw_only=True, eq=False)
class Gather(beam.PTransform):
    """One element a task, to the facts of the files it wrote under `_work/train` or `_work/held_out`, as key 0."""

    spec: BuildSpec
    encode: Encoder
    cards: Any

    def expand(self, tasks: beam.PCollection[Element]) -> beam.PCollection[Element]:
        """See the class."""
        return exchange(tasks, gather, GatherSettings(self.spec, self.encode, self.cards), self.spec.root)


def gather(settings: GatherSettings, task: int, values: list[Any]) -> Iterator[tuple[int, Any]]:
    """The reference of one shard or held-out set, made now or found finished and intact."""
    [value] = values
    done = work_path(settings.spec.root, "done", f"{task:05d}-{canonical.digest(value)}.json")
    reference = _finished(settings.spec.root, done)
    if reference is None:
        make = _gather_shard if "order" in value else _gather_set
        reference = {"task": task, "cut": value["cut"], **make(settings, task, value)}
        publish(done, canonical.dumps(reference).encode())
    yield 0, reference


def _finished(root: str, done: Path) -> Any:
    """The reference that an earlier attempt left, if the files it names are whole."""
    try:
        reference = canonical.loads(done.read_bytes())
        whole = all(
            canonical.file_digest(work_path(root, path)) == facts["sha256"]
            for path, facts in reference["files"].items()
        )
    except (FileNotFoundError, ValueError):
        return None
    return reference if whole else None


def _gather_shard(settings: GatherSettings, task: int, value: Any) -> dict[str, Any]:
    folder = work_path(settings.spec.root)
    cut = read_json(folder, value["cut"])
    selection = read_json(folder, cut["selection"])
    rows = [Ordered._make(row) for row in ORDER_ROW.iter_unpack(read_by_digest(folder / "orders", value["order"]))]
    struck = read_struck(folder, selection["struck"])
    stem = layout.shard_stem(layout.TRAIN, task, cut["shards"])
    name = f"{stem}{settings.encode.suffix}"
    with publishing(folder / name, durable=True) as file:
        shard = HashingWriter(file)
        for row, blob in read_samples(settings.spec, selection, rows):
            _check_sample(settings.encode, row, blob, struck)
            shard.write(blob)
            progress.advance(samples_written=1, bytes_written=len(blob))
        shard.write(settings.encode.end)
    return {
        "stem": stem,
        "file": name,
        "samples": len(rows),
        "first": rows[0].key.hex(),
        "last": rows[-1].key.hex(),
        "files": {name: shard.facts(), **_write_sidecars(folder, stem, settings.encode.suffix, rows)},
    }


def _write_sidecars(folder: Path, stem: str, suffix: str, rows: list[Ordered]) -> dict[str, Any]:
    contents = {
        f"{stem}{suffix}{sidecars.IDX}": sidecars.pack_idx(row.length for row in rows),
        f"{stem}{sidecars.SIG}": b"".join(sidecars.SIG_ROW.pack(row.key, row.digest) for row in rows),
        f"{stem}{sidecars.SRC}": b"".join(sidecars.SRC_ROW.pack(row.input, row.row) for row in rows),
    }
    for path, data in contents.items():
        publish(folder / path, data, durable=True)
    return {path: bytes_facts(data) for path, data in contents.items()}


def _check_sample(encode: Encoder, row: Ordered, blob: bytes, struck: Struck) -> None:
    """The held-out proof, from the very bytes that are being written, and that they are the sample they should be."""
    key, _, text = encode.decode(blob, row.key.hex())
    if key != row.key:
        raise Damaged(f"sample {row.key.hex()}: its bytes carry the key {key.hex()}")
    if key in struck.keys or order.text_digest(text) in struck.texts:
        raise BuildRefused(
            f"sample {key.hex()} (input {row.input}, line {row.row}) is held out or the twin of a held-out document, "
            "and was about to be trained on: this is a bug in shardwright, nothing was sealed"
        )


def read_samples(spec: BuildSpec, selection: Any, rows: list[Ordered]) -> Iterator[tuple[Ordered, bytes]]:
    """Each row with its payload, in order; memory is one batch, whatever the shard's size. Raises BuildRefused at
    damage.
    """
    for batch in _batches(rows, spec.batch_bytes):
        blobs: dict[int, bytes] = {}
        order_by_place = sorted(range(len(batch)), key=lambda index: batch[index][3:5])
        for span in _spans(order_by_place, batch):
            blobs.update(_read_span(spec.root, selection, span, batch))
        for index, row in enumerate(batch):
            yield row, blobs.pop(index)


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


def _spans(places: Iterable[int], batch: list[Ordered]) -> Iterator[list[int]]:
    """Groups of indices that lie near each other in one run, so that each group is one read."""
    span: list[int] = []
    for index in places:
        row = batch[index]
        if span:
            before = batch[span[-1]]
            if row.run != before.run or row.offset - (before.offset + before.length) > _GAP_BYTES:
                yield span
                span = []
        span.append(index)
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


def _gather_set(settings: GatherSettings, _: int, value: Any) -> dict[str, Any]:
    """One held-out set in bsmetadata's naming, with a card that fixes its features."""
    folder, kind = work_path(settings.spec.root), value["set"]
    selection = read_json(folder, read_json(folder, value["cut"])["selection"])
    struck = read_struck(folder, selection["struck"])
    base = layout.validation_dir(kind)
    path, samples = f"{base}/validation.jsonl.gz", 0
    with publishing(folder / path, durable=True) as file:
        digest = HashingWriter(file)
        member = held_out.GzipWriter(digest)
        for row in _held_rows(settings, selection, struck, kind):
            member.write(held_out.canonical_row(row, kind))
            samples += 1
        member.close()
    card = settings.cards.held_out(kind, samples).encode()
    publish(folder / base / layout.CARD, card, durable=True)
    return {
        "set": kind,
        "samples": samples,
        "files": {path: digest.facts(), f"{base}/{layout.CARD}": bytes_facts(card)},
    }


def _held_rows(settings: GatherSettings, selection: Any, struck: Struck, kind: str) -> Iterator[bytes]:
    bit = held_out.kind_bit(kind)
    for item in read_chosen(work_path(settings.spec.root), selection["held"]):
        row = item.candidate.row
        if row.flags & NO_PAYLOAD or (bit and not row.types & bit):
            continue
        place = Ordered(
            row.key, row.content, row.digest, item.run, item.candidate.offset, row.length, row.input, row.row
        )
        [(_, blob)] = _read_span(settings.spec.root, selection, [0], [place])
        key, document, text = settings.encode.decode(blob, row.key.hex())
        if key not in struck.keys or (text and order.text_digest(text) not in struck.texts):
            raise BuildRefused(
                f"held-out document {key.hex()} is missing in the struck list: this is a bug in shardwright, nothing "
                "was sealed"
            )
        yield document


class HashingWriter:
    """Writes through to a file and keeps length and sha256 of what it wrote."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._bytes = 0

    def write(self, data: bytes) -> None:
        """Append `data`."""
        self._file.write(data)
        self._digest.update(data)
        self._bytes += len(data)

    def facts(self) -> dict[str, Any]:
        """`{bytes, sha256}` of what was written."""
        return {"bytes": self._bytes, "sha256": self._digest.hexdigest()}


def bytes_facts(data: bytes) -> dict[str, Any]:
    """`{bytes, sha256}` of a small file's bytes."""
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
