"""Stage 6, Seal: prove the counts, write the manifest, move everything into place, and COMMIT last."""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import apache_beam as beam

from shardwright import canonical, indexes, layout
from shardwright.funnel import broken_law
from shardwright.order import KEY_BYTES
from transforms.stages.exchange import Element, exchange
from transforms.stages.held_out_sets import Cards
from transforms.stages.spec import BuildSpec, Input
from transforms.stages.work import BuildRefused, bytes_facts, publish, read_by_digest, read_json, take_back, work_path


@dataclass(frozen=True)
class SealSettings:
    """The build, its inputs as the manifest lists them, and its cards."""

    spec: BuildSpec
    inputs: tuple[Input, ...]
    cards: Cards


@dataclass(kw_only=True, eq=False)
class Seal(beam.PTransform):
    """The facts of all shards and held-out sets, as key 0, to one element: (0, {build_id})."""

    spec: BuildSpec
    inputs: tuple[Input, ...]
    cards: Cards

    def expand(self, written: beam.PCollection[Element]) -> beam.PCollection[Element]:
        """See the class."""
        return exchange(written, seal, SealSettings(self.spec, self.inputs, self.cards), self.spec.root)


def seal(settings: SealSettings, _: int, references: list[Any]) -> Iterator[tuple[int, Any]]:
    """Check every law, then publish. Raises BuildRefused, with the numbers that differ."""
    root, folder = Path(settings.spec.root), work_path(settings.spec.root)
    if (root / layout.COMMIT).exists():  # an engine may run a bundle twice
        yield 0, {"build_id": canonical.loads((root / layout.MANIFEST).read_bytes())["build_id"]}
        return
    take_back(root)
    references = sorted(references, key=lambda item: item["task"])
    cut = read_json(folder, references[0]["cut"])
    selection = read_json(folder, cut["selection"])
    shards = [item for item in references if "stem" in item]
    sets = {item["set"]: item["samples"] for item in references if "set" in item}
    check_laws(cut, shards, sets)
    lines = "".join(canonical.dumps(shard_line(item)) + "\n" for item in shards).encode()
    struck = read_by_digest(folder, selection["struck"])
    publish(folder / layout.STRUCK, struck, durable=True)
    files = {path: facts for item in references for path, facts in item["files"].items()}
    files |= {layout.STRUCK: bytes_facts(struck), **_rejected_files(folder, selection)}
    manifest = _manifest(settings, cut, selection, shards, sets, lines, files, struck)
    loose = _loose_files(settings.cards, manifest, shards, lines, cut, struck)
    manifest["files"].update({path: bytes_facts(data) for path, data in loose.items()})
    loose[layout.MANIFEST] = canonical.dumps(manifest).encode() + b"\n"
    _drop_leftovers(folder, set(files))
    move_into_place(root, loose)
    yield 0, {"build_id": manifest["build_id"]}


def check_laws(cut: Any, shards: list[Any], sets: dict[str, int]) -> None:
    """Raise BuildRefused unless every task came back once, every row has one fate and the shards hold it all."""
    counts, problems = cut["counts"], []
    tasks = [item["task"] for item in shards]
    if len(shards) != cut["shards"] or sets != cut["sets"]:
        what = f"{len(shards)} shards and held-out sets {sets} were written"
        problems.append(f"{what}, {cut['shards']} and {cut['sets']} were cut")
    elif tasks != list(range(cut["shards"])):
        problems.append(f"not every shard was written once: the tasks were {tasks}")
    if law := broken_law(counts):
        problems.append(law)
    written = sum(item["samples"] for item in shards)
    if written != counts["train"]:
        problems.append(f"the shards hold {written} samples, the funnel counts {counts['train']} for training")
    held_out = sets.get(layout.ALL, 0)
    if held_out != counts["held_out"]:
        problems.append(f"the held-out set holds {held_out} documents, the funnel counts {counts['held_out']}")
    ends = [(item["first"], item["last"]) for item in shards]
    if any(first > last for first, last in ends) or any(a[1] >= b[0] for a, b in pairwise(ends)):
        problems.append("the shards are not in the global order")
    if problems:
        raise BuildRefused("the build does not add up and was not sealed:\n  " + "\n  ".join(problems))


def shard_line(item: Any) -> dict[str, Any]:
    """One line of shards.jsonl."""
    facts = item["files"][item["file"]]
    return {
        "bytes": facts["bytes"],
        "file": item["file"],
        "first": item["first"],
        "last": item["last"],
        "num_sequences": item["samples"],
        "sha256": facts["sha256"],
        "shard": item["stem"],
    }


def _drop_leftovers(folder: Path, files: set[str]) -> None:
    """Delete what a killed attempt left in the folders that are about to be published whole."""
    for name in layout.FOLDERS:
        for path in (folder / name).rglob("*"):
            if not path.is_dir() and str(path.relative_to(folder)) not in files:
                path.unlink()


def move_into_place(root: Path, loose: dict[str, bytes]) -> None:
    """One rename a folder, then the loose files, then COMMIT: clients glob `train/*.tar` and know nothing of COMMIT."""
    for name in layout.FOLDERS:
        if work_path(str(root), name).exists():
            work_path(str(root), name).replace(root / name)
    for path, data in loose.items():
        publish(root / path, data, durable=True)
    sync_folder(root)
    publish(root / layout.COMMIT, hashlib.sha256(loose[layout.MANIFEST]).hexdigest().encode() + b"\n", durable=True)
    sync_folder(root)


def sync_folder(path: Path) -> None:
    """Make the renames in `path` durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _rejected_files(folder: Path, selection: Any) -> dict[str, Any]:
    names = [f"{layout.REJECTED}/{run['name']}.jsonl.zst" for run in selection["runs"] if run["rejected"]]
    return {name: bytes_facts((folder / name).read_bytes()) for name in names}


def _manifest(
    settings: SealSettings,
    cut: Any,
    selection: Any,
    shards: list[Any],
    sets: dict[str, int],
    lines: bytes,
    files: dict[str, Any],
    struck: bytes,
) -> dict[str, Any]:
    spec = settings.spec
    held_out_files = {path: facts["sha256"] for path, facts in files.items() if path.startswith(f"{layout.HELD_OUT}/")}
    return {
        "format": layout.FORMAT,
        "build_id": hashlib.sha256(lines).hexdigest(),
        "content_id": cut["content_id"],
        "held_out_id": canonical.digest(held_out_files),
        "job": spec.job,
        "config": json.loads(spec.config),
        "fingerprint": spec.fingerprint,
        "versions": json.loads(spec.versions),
        "seed": spec.seed,
        "id": list(spec.id_fields),
        "inputs": [_input_entry(item, fact) for item, fact in zip(settings.inputs, selection["inputs"], strict=True)],
        "counts": cut["counts"],
        "types": {layout.TRAIN: cut["types"]},
        "held_out": {
            "salt": spec.held_out.salt,
            "fraction": spec.held_out.fraction,
            "struck": len(struck) // (2 * KEY_BYTES),
            "sets": sets,
        },
        "splits": {
            layout.TRAIN: {
                "samples": cut["counts"]["train"],
                "shards": len(shards),
                "bytes": sum(shard_line(item)["bytes"] for item in shards),
            }
        },
        "files": files,
    }


def _input_entry(item: Input, fact: Any) -> dict[str, Any]:
    return {
        "uri": item.uri,
        "bytes": item.bytes,
        "digest": fact["digest"],
        "rows": fact["rows"],
        "held_out": item.held_out,
        "rejected": fact["damage"],
    }


def _loose_files(
    cards: Cards, manifest: dict[str, Any], shards: list[Any], lines: bytes, cut: Any, struck: bytes
) -> dict[str, bytes]:
    sizes = [(line["file"], line["num_sequences"], line["bytes"]) for line in map(shard_line, shards)]
    struck_digest = hashlib.sha256(struck).hexdigest()
    disallow = indexes.disallow_list(manifest["build_id"], cut["counts"], len(sizes), cut["align"], struck_digest)
    return {
        layout.SHARDS: lines,
        layout.SHARD_INDEX: canonical.dumps(indexes.shard_index(sizes)).encode() + b"\n",
        layout.DISALLOW: canonical.dumps(disallow).encode() + b"\n",
        layout.CARD: cards.build(manifest).encode(),
    }
