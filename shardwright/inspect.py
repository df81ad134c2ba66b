"""`shardwright inspect`: look at a build, or at one of its samples."""

import argparse
import re
from typing import Any

from shardwright import layout, sidecars
from shardwright.build import Build, Sample, open_build
from shardwright.errors import Damaged, ShardwrightError

_TEXT_CHARACTERS = 600


def add_command(commands: Any) -> None:
    """Add `inspect` to the command line."""
    parser = commands.add_parser("inspect", help="look at a build or at one sample")
    parser.add_argument("build", help="folder of a sealed build")
    parser.add_argument("sample", nargs="?", help="a key (32 hex digits) or SHARD#I, such as 3#0")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print what was asked for."""
    build = open_build(options.build)
    print("\n".join(_describe_build(build) if options.sample is None else _describe_sample(build, options.sample)))
    return 0


def _describe_build(build: Build) -> list[str]:
    manifest, counts = build.manifest, build.manifest["counts"]
    lines = [
        f"{key:>12}  {manifest[key]}" for key in ("job", "build_id", "content_id", "held_out_id", "fingerprint", "seed")
    ]
    lines.append(f"{'id':>12}  {', '.join(manifest['id'])}")
    lines.append(
        f"{'read':>12}  {counts['read']:,} rows of {counts['inputs']:,} inputs ({counts['inputs_rejected']:,} rejected)"
    )
    lines.append(
        f"{'held out':>12}  "
        + (", ".join(f"{kind} {count:,}" for kind, count in manifest["held_out"]["sets"].items()) or "nothing")
    )
    lines.append(f"{'train':>12}  {counts['train']:,} samples in {len(build.shards):,} shards")
    lines += [
        f"{number:>12}  {shard.path.name}  {shard.samples:,} samples  {shard.size:,} bytes  {shard.first}..{shard.last}"
        for number, shard in enumerate(build.shards)
    ]
    return lines


def _describe_sample(build: Build, words: str) -> list[str]:
    sample = _find(build, words)
    shard, value = build.shards[sample.shard], sample.json()
    uri, row = _source(build, sample)
    kinds = [kind for kind in layout.METADATA_TYPES if value.get(f"metadata_{kind}")]
    lines = [
        _field("key", sample.key),
        _field("at", f"{shard.path.name}#{sample.index}"),
        _field("from", f"{uri} line {row}"),
        *(_field(suffix, f"{len(data):,} bytes") for suffix, data in sample.parts.items()),
        *(_field(name, value[name]) for name in build.manifest["id"] if name != "text"),
        _field("types", ", ".join(kinds)),
    ]
    text = sample.parts["txt"].decode()
    more = f" ... ({len(text):,} characters)" if len(text) > _TEXT_CHARACTERS else ""
    return [*lines, "", printable(text[:_TEXT_CHARACTERS]) + more]


def _field(name: str, value: str) -> str:
    return f"{name:>8}  {printable(value, keep='')}"


def printable(text: str, keep: str = "\n\t") -> str:
    """`text` without what could act on a terminal: control characters, but those of `keep`, are shown as escapes."""
    return "".join(c if c in keep or c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _find(build: Build, words: str) -> Sample:
    split = build.split(layout.TRAIN)
    shard, mark, index = words.partition("#")
    if mark and re.fullmatch(r"[0-9]{1,9}#[0-9]{1,9}", words):
        return split.fetch(int(shard), int(index))
    try:
        return split.fetch(*split.find(words.lower()))
    except KeyError:
        raise ShardwrightError(
            f"no sample {words!r} in {build.root}: expected a key of 32 hex digits that is in train, or SHARD#I such "
            "as 3#0"
        ) from None


def _source(build: Build, sample: Sample) -> tuple[str, int]:
    path, inputs = build.shards[sample.shard].sidecar(sidecars.SRC), build.manifest["inputs"]
    rows = sidecars.read_rows(path, sidecars.SRC_ROW)
    number, row = rows[sample.index] if sample.index < len(rows) else (len(inputs), 0)
    if number >= len(inputs):
        raise Damaged(f"{path}: says nothing, or names no input, for sample {sample.index}; restore it")
    return inputs[number]["uri"], row
