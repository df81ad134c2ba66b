"""`shardwright verify`: prove a sealed build again from its bytes. Believes nothing but COMMIT, and reads every
sample.
"""

import argparse
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from shardwright import canonical, layout, order
from shardwright.build import Build, open_build
from shardwright.errors import Damaged, ShardwrightError
from shardwright.verify_held_out import check_held_out
from shardwright.verify_shard import ShardProof, Struck, check_shard

_FATES = ("rejected", "excluded", "dropped", "held_out", "held_out_twin", "duplicate", "train")


def add_command(commands: Any) -> None:
    """Add `verify` to the command line."""
    parser = commands.add_parser("verify", help="prove a sealed build again from its bytes")
    parser.add_argument("build", help="folder of a sealed build")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes (default: all cores)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print what was proved, or what is wrong; 0 or 1."""
    build = open_build(options.build)
    problems = verify(build, options.workers, print)
    for problem in problems:
        print(f"WRONG  {problem}")
    print(f"{build.root}: {len(problems)} problem(s)" if problems else f"{build.root}: proved; build id {build.id}")
    return 1 if problems else 0


def verify(build: Build, workers: int = 1, say: Callable[[str], object] = lambda line: None) -> list[str]:
    """What is wrong with `build`; empty when everything in docs/FORMAT.md holds. `say` gets a line for each proof
    that held.
    """
    checks: list[tuple[str, Callable[[], list[str]]]] = [
        ("files: every file of the manifest is here, whole, and nothing else is", lambda: _check_files(build)),
        ("counts: every row that was read has one fate", lambda: _check_counts(build.manifest)),
        ("shards.jsonl: names, bounds and counts", lambda: _check_lines(build)),
        ("samples: digests, ids, global order, none of them held out", lambda: _check_samples(build, workers)),
        ("held-out sets: complete, in order, typed, all struck from training", lambda: check_held_out(build)),
        ("indexes: shardindex.json and disallow.json agree with the shards", lambda: _check_indexes(build)),
    ]
    problems: list[str] = []
    for name, check in checks:
        try:
            found = check()
        except (ShardwrightError, OSError, KeyError, TypeError, ValueError) as error:
            found = [f"{name.partition(':')[0]}: {error if isinstance(error, ShardwrightError) else repr(error)}"]
        problems += found
        if not found:
            say(f"ok     {name}")
    return problems


def _check_files(build: Build) -> list[str]:
    """Size and sha256 of all files but the shards, which are hashed while their samples are read."""
    listed = build.manifest["files"]
    shards = {str(shard.path.relative_to(build.root)) for shard in build.shards}
    problems = [f"{build.root / path}: not in the manifest" for path in sorted(_present(build.root) - set(listed))]
    for path, facts in listed.items():
        file = build.root / path
        if not file.is_file():
            problems.append(f"{file}: missing")
        elif file.stat().st_size != facts["bytes"]:
            problems.append(f"{file}: {file.stat().st_size} bytes, the manifest says {facts['bytes']}")
        elif path not in shards and canonical.file_digest(file) != facts["sha256"]:
            problems.append(f"{file}: its sha256 is not the manifest's")
    return problems


def _present(root: Path) -> set[str]:
    """Files in the folders that a build owns; lists that a person keeps beside them are not ours to judge."""
    return {
        str(path.relative_to(root)) for name in layout.FOLDERS for path in (root / name).rglob("*") if path.is_file()
    }


def _check_counts(manifest: dict[str, Any]) -> list[str]:
    counts, problems = manifest["counts"], []
    fates = {fate: sum(counts[fate].values()) if isinstance(counts[fate], dict) else counts[fate] for fate in _FATES}
    if counts["read"] != sum(fates.values()):
        problems.append(
            f"manifest.json: read {counts['read']} rows, but the fates {fates} sum to {sum(fates.values())}"
        )
    rows = sum(item["rows"] for item in manifest["inputs"])
    if rows != counts["read"]:
        problems.append(f"manifest.json: the inputs have {rows} rows, the counts say {counts['read']}")
    rejected = sum(1 for item in manifest["inputs"] if item["rejected"])
    if rejected != counts["inputs_rejected"] or len(manifest["inputs"]) != counts["inputs"]:
        problems.append(
            f"manifest.json: {rejected} of {len(manifest['inputs'])} inputs are rejected, the counts say otherwise"
        )
    if counts["held_out"] != manifest["held_out"]["sets"].get("all", 0):
        problems.append(
            f"manifest.json: {counts['held_out']} held out, the set `all` has "
            f"{manifest['held_out']['sets'].get('all', 0)}"
        )
    return problems


def _check_lines(build: Build) -> list[str]:
    split, problems, count = build.manifest["splits"]["train"], [], len(build.shards)
    bounds = order.shard_bounds(split["samples"], count)
    for number, (shard, (start, stop)) in enumerate(zip(build.shards, bounds, strict=True)):
        name = f"{layout.shard_stem(layout.TRAIN, number, count)}{shard.path.suffix}"
        if str(shard.path.relative_to(build.root)) != name:
            problems.append(f"shards.jsonl line {number + 1}: file {shard.path.name}, expected {name}")
        if shard.samples != stop - start:
            problems.append(
                f"shards.jsonl line {number + 1}: {shard.samples} samples, shard {number} of {count} holds "
                f"{stop - start}"
            )
        facts = build.manifest["files"].get(name, {})
        if facts != {"bytes": shard.size, "sha256": shard.sha256}:
            problems.append(f"shards.jsonl line {number + 1}: bytes or sha256 are not the manifest's")
    totals = (sum(s.samples for s in build.shards), count, sum(s.size for s in build.shards))
    if totals != (split["samples"], split["shards"], split["bytes"]) or totals[0] != build.manifest["counts"]["train"]:
        problems.append(
            f"shards.jsonl: samples, shards, bytes are {totals}, the manifest says {split}, train "
            f"{build.manifest['counts']['train']}"
        )
    return problems


def _check_samples(build: Build, workers: int) -> list[str]:
    """Every sample of every shard, in parallel; the ids of content and keys are folded in order as the shards come
    back.
    """
    content, keys, types = hashlib.sha256(), hashlib.sha256(), Counter[str]()
    problems: list[str] = []
    last = b""
    for number, proof in enumerate(_proofs(build, workers)):
        problems += proof.problems
        for at in range(0, len(proof.identity), 32):
            key = proof.identity[at : at + 16]
            if key <= last:
                problems.append(
                    f"{build.shards[number].path}: key {key.hex()} does not come after {last.hex()}: the global "
                    "order is broken"
                )
            last = key
            keys.update(key)
        content.update(proof.identity)
        types.update(proof.types)
    if not problems:
        problems += _differ("content_id", content.hexdigest(), build.manifest["content_id"])
        problems += _differ("types.train", dict(types), build.manifest["types"]["train"])
        problems += _differ("disallow.json align", keys.hexdigest(), _load(build.root / layout.DISALLOW)["align"])
    return problems


def _proofs(build: Build, workers: int) -> Iterator[ShardProof]:
    struck, rule = Struck.read(build.root / layout.STRUCK), (tuple(build.manifest["id"]), build.manifest["seed"])
    inputs = len(build.manifest["inputs"])
    if workers <= 1:
        yield from (check_shard(shard, rule, struck, inputs) for shard in build.shards)
        return
    with ProcessPoolExecutor(min(workers, len(build.shards))) as pool:
        yield from pool.map(check_shard, build.shards, *zip(*[(rule, struck, inputs)] * len(build.shards), strict=True))


def _check_indexes(build: Build) -> list[str]:
    index, disallow = _load(build.root / layout.SHARD_INDEX), _load(build.root / layout.DISALLOW)
    expected = [
        {"url": str(s.path.relative_to(build.root)), "nsamples": s.samples, "filesize": s.size} for s in build.shards
    ]
    problems = _differ("shardindex.json shardlist", index["shardlist"], expected)
    digest = disallow.pop("digest")
    problems += _differ("disallow.json digest", digest, canonical.digest(disallow))
    problems += _differ("disallow.json build", disallow["build"], build.id)
    struck = canonical.file_digest(build.root / layout.STRUCK)
    return problems + _differ("disallow.json lists", disallow["lists"], [f"sha256:{struck}"])


def _differ(what: str, found: object, expected: object) -> list[str]:
    return [] if found == expected else [f"{what}: found {str(found)[:200]}, expected {str(expected)[:200]}"]


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise Damaged(f"{path}: missing") from None
