"""`shardwright verify`: prove a sealed build again from its bytes. Believes nothing but COMMIT, reads every sample."""

import argparse
import hashlib
import json
import os
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from shardwright import canonical, fingerprint, funnel, indexes, layout, order
from shardwright.build import Build, Shard, open_build
from shardwright.errors import Damaged, ShardwrightError
from shardwright.verify_held_out import check_held_out
from shardwright.verify_shard import Rules, ShardProof, check_shard

_WRONG_SHAPE = (
    *(OSError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError),
    struct.error,
)
"""What a manifest or an index of another shape than ours runs into."""


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
    """What is wrong with `build`; empty when docs/FORMAT.md holds. `say` gets a line for each proof that held."""
    checks: list[tuple[str, Callable[[], list[str]]]] = [
        ("files: every file of the manifest is here, whole, and nothing else is", lambda: _check_files(build)),
        ("counts: every row that was read has one fate", lambda: _check_counts(build.manifest)),
        ("settings: fingerprint, seed, id and held-out rule follow from the config", lambda: _check_settings(build)),
        ("shards.jsonl: names, bounds and counts", lambda: _check_lines(build)),
        ("samples: digests, ids, global order, none of them held out", lambda: _check_samples(build, workers)),
        ("held-out sets: complete, in order, typed, all struck from training", lambda: check_held_out(build)),
        ("indexes: shardindex.json and disallow.json agree with the shards", lambda: _check_indexes(build)),
    ]
    problems: list[str] = []
    for name, check in checks:
        try:
            found = check()
        except ShardwrightError as error:
            found = [str(error)]
        except _WRONG_SHAPE as error:
            found = [f"{name.partition(':')[0]}: cannot be checked: {error!r}"]
        problems += [problem for problem in found if problem not in problems]
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
    """What a build owns: its files at the root, and whatever is in its folders, since clients glob there.

    Lists that a person keeps beside them are not ours to judge.
    """
    inside = (path for name in layout.FOLDERS for path in (root / name).rglob("*"))
    loose = (root / name for name in layout.FILES if name not in (layout.MANIFEST, layout.COMMIT))
    found = [*(path for path in inside if path.is_symlink() or not path.is_dir()), *filter(Path.exists, loose)]
    return {str(path.relative_to(root)) for path in found}


def _check_counts(manifest: dict[str, Any]) -> list[str]:
    counts, inputs = manifest["counts"], manifest["inputs"]
    facts = {
        "rows of the inputs": (sum(item["rows"] for item in inputs), counts["read"]),
        "inputs": (len(inputs), counts["inputs"]),
        "rejected inputs": (sum(1 for item in inputs if item["rejected"]), counts["inputs_rejected"]),
        "held-out documents": (manifest["held_out"]["sets"].get(layout.ALL, 0), counts["held_out"]),
    }
    problems = [
        f"manifest.json: {one} {what}, the counts say {other}" for what, (one, other) in facts.items() if one != other
    ]
    law = funnel.broken_law(counts)
    return [*problems, f"manifest.json: {law}"] if law else problems


def _check_settings(build: Build) -> list[str]:
    manifest, config = build.manifest, build.manifest["config"]
    rule = {key: manifest["held_out"][key] for key in ("salt", "fraction")}
    return [
        *_differ("fingerprint", manifest["fingerprint"], fingerprint.fingerprint(config, manifest["versions"])),
        *_differ("job", manifest["job"], config["job"]),
        *_differ("seed", manifest["seed"], config["shuffle"]["seed"]),
        *_differ("id", manifest["id"], config["id"]),
        *_differ("held_out", rule, {key: config["held_out"][key] for key in rule}),
    ]


def _check_lines(build: Build) -> list[str]:
    split, count = build.manifest["splits"]["train"], len(build.shards)
    if not count:
        return ["shards.jsonl: no shards"]
    bounds = order.shard_bounds(split["samples"], count)
    lines = (build.root / layout.SHARDS).read_bytes().splitlines(keepends=True)
    problems: list[str] = []
    for number, (shard, (start, stop), line) in enumerate(zip(build.shards, bounds, lines, strict=True)):
        name = str(shard.path.relative_to(build.root))
        expected = {
            "bytes": shard.size,
            "file": name,
            "first": shard.first,
            "last": shard.last,
            "num_sequences": stop - start,
            "sha256": shard.sha256,
            "shard": layout.shard_stem(layout.TRAIN, number, count),
        }
        if line != canonical.dumps(expected).encode() + b"\n":
            problems.append(f"shards.jsonl line {number + 1}: {line.decode()!r}, expected {canonical.dumps(expected)}")
        if build.manifest["files"].get(name) != {"bytes": shard.size, "sha256": shard.sha256}:
            problems.append(f"shards.jsonl line {number + 1}: bytes or sha256 are not the manifest's")
    totals = {
        "samples": sum(s.samples for s in build.shards),
        "shards": count,
        "bytes": sum(s.size for s in build.shards),
    }
    problems += _differ("splits.train", split, totals)
    return problems + _differ("counts.train", build.manifest["counts"]["train"], totals["samples"])


def _check_samples(build: Build, workers: int) -> list[str]:
    """Every sample of every shard, in parallel; content and keys are folded in order as the shards come back."""
    content, keys, types = hashlib.sha256(), hashlib.sha256(), Counter[str]()
    problems: list[str] = []
    last = b""
    for shard, proof in zip(build.shards, _proofs(build, workers), strict=True):
        problems += proof.problems
        for at in range(0, len(proof.identity), 32):
            key = proof.identity[at : at + 16]
            if key <= last:
                problems.append(f"{shard.path}: key {key.hex()} stands after {last.hex()}: the order is broken")
            last = key
            keys.update(key)
        content.update(proof.identity)
        types.update(proof.types)
    if not problems:
        problems += _differ("content_id", build.manifest["content_id"], content.hexdigest())
        problems += _differ("types.train", build.manifest["types"]["train"], dict(types))
        problems += _differ("disallow.json align", _load(build.root / layout.DISALLOW)["align"], keys.hexdigest())
    return problems


def _proofs(build: Build, workers: int) -> Iterator[ShardProof]:
    rules = Rules.of(build)
    if workers <= 1 or len(build.shards) <= 1:
        yield from (check_shard(shard, rules) for shard in build.shards)
        return
    with ProcessPoolExecutor(min(workers, len(build.shards)), initializer=_take_rules, initargs=(rules,)) as pool:
        yield from pool.map(_check_by_rules, build.shards)


_rules: Rules
"""In a worker process: what its shards are checked by, sent once, because the struck list may be long."""


def _take_rules(rules: Rules) -> None:
    global _rules
    _rules = rules


def _check_by_rules(shard: Shard) -> ShardProof:
    return check_shard(shard, _rules)


def _check_indexes(build: Build) -> list[str]:
    index, disallow = _load(build.root / layout.SHARD_INDEX), _load(build.root / layout.DISALLOW)
    sizes = [(str(shard.path.relative_to(build.root)), shard.samples, shard.size) for shard in build.shards]
    struck = canonical.file_digest(build.root / layout.STRUCK)
    expected = indexes.disallow_list(build.id, build.manifest["counts"], len(sizes), disallow["align"], struck)
    return [
        *_differ("shardindex.json", index, indexes.shard_index(sizes)),
        *_differ("disallow.json", disallow, expected),
    ]


def _differ(what: str, found: object, expected: object) -> list[str]:
    """What differs, if anything; of two dicts, the keys that do."""
    if found == expected:
        return []
    if isinstance(found, dict) and isinstance(expected, dict):
        keys = sorted(key for key in {*found, *expected} if found.get(key) != expected.get(key))
        return [line for key in keys for line in _differ(f"{what} {key}", found.get(key), expected.get(key))]
    return [f"{what}: found {str(found)[:200]}, expected {str(expected)[:200]}"]


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise Damaged(f"{path}: missing") from None
