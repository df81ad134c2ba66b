"""Stage 5, Gather: one worker takes one shard, or one held-out set, reads its pieces by range and writes it once."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam

from shardwright import canonical, layout, order, sidecars
from shardwright.errors import Damaged
from transforms.records.samples import Encoder
from transforms.stages import progress
from transforms.stages.exchange import Element, exchange
from transforms.stages.held_out_sets import Cards, write_set
from transforms.stages.payload import read_samples
from transforms.stages.runs import ORDER_ROW, Ordered
from transforms.stages.select_held_out import Struck, read_struck
from transforms.stages.spec import BuildSpec
from transforms.stages.spill import check_versions
from transforms.stages.work import (
    BuildRefused,
    HashingWriter,
    bytes_facts,
    publish,
    publishing,
    read_by_digest,
    read_json,
    work_path,
)


@dataclass(frozen=True)
class GatherSettings:
    """The build, and how its samples are taken apart again."""

    spec: BuildSpec
    encode: Encoder
    cards: Cards


@dataclass(kw_only=True, eq=False)
class Gather(beam.PTransform):
    """One element a task, to the facts of the files it wrote under `_work/train` or `_work/held_out`, as key 0."""

    spec: BuildSpec
    encode: Encoder
    cards: Cards

    def expand(self, tasks: beam.PCollection[Element]) -> beam.PCollection[Element]:
        """See the class."""
        return exchange(tasks, gather, GatherSettings(self.spec, self.encode, self.cards), self.spec.root)


def gather(settings: GatherSettings, task: int, values: list[Any]) -> Iterator[tuple[int, Any]]:
    """The reference of one shard or held-out set, made now or found finished and intact."""
    check_versions(settings.spec, settings.encode)
    [value] = values
    done = work_path(settings.spec.root, "done", f"{task:05d}-{canonical.digest(value)}.json")
    reference = _finished(settings.spec.root, done)
    if reference is None:
        made = (
            _gather_shard(settings, task, value)
            if "order" in value
            else write_set(settings.spec, settings.encode, settings.cards, value)
        )
        reference = {"task": task, "cut": value["cut"], **made}
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
