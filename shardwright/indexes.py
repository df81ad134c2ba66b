"""The two small indexes of a build, for the seal that writes them and for the verifier that computes them again."""

from collections.abc import Iterable
from typing import Any

from shardwright import canonical, layout


def shard_index(shards: Iterable[tuple[str, int, int]]) -> dict[str, Any]:
    """shardindex.json, as wids reads it, of (path from the root, samples, bytes); no md5: optional there, and slow."""
    entries = [{"url": path, "nsamples": samples, "filesize": size} for path, samples, size in shards]
    return {"__kind__": "wids-shard-index-v1", "wids_version": 1, "name": layout.TRAIN, "shardlist": entries}


def disallow_list(build_id: str, counts: dict[str, Any], shards: int, align: str, struck: str) -> dict[str, Any]:
    """disallow.json: what was left out at birth, as digests and counts; there is no position for what is not there.

    `align` is the sha256 of the order keys in order, `struck` that of the struck list.
    """
    value = {
        "format": "shard-disallow/1",
        "kind": "excluded",
        "build": build_id,
        "align": align,
        "samples": counts["train"],
        "shards": shards,
        "lists": [f"sha256:{struck}"],
        "counts": {fate: counts[fate] for fate in ("held_out", "held_out_twin", "duplicate")},
    }
    return value | {"digest": canonical.digest(value)}
