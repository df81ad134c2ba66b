"""What every contestant does, as rules on one row, and the arguments that say where.

The rules are ours (benchmarks/build.py compares which documents came out where); reading, shuffling and writing are the
peer's own.
"""

import argparse
from pathlib import Path
from typing import Any

from shardwright import order

SEED = 42
SALT = "held-out/1"
METADATA = "html"
"""A document is kept when it has this metadata type."""


def arguments(description: str) -> argparse.ArgumentParser:
    """The arguments that all peers have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--corpus", type=Path, required=True, help="folder of *.jsonl.gz")
    parser.add_argument("--out", type=Path, required=True, help="new folder: train-*.tar, held_out.jsonl.gz, caches")
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--shards", type=int, required=True)
    parser.add_argument("--fraction", type=float, required=True, help="share of the documents that is held out")
    return parser


def inputs(corpus: Path) -> list[str]:
    """The input files."""
    return sorted(map(str, corpus.glob("*.jsonl.gz")))


def is_kept(row: dict[str, Any]) -> bool:
    """The filter."""
    return bool(row[f"metadata_{METADATA}"])


def sample_key(url: str) -> str:
    """Where a document stands in the shuffle, as 32 hex digits."""
    return order.order_key(SEED, order.id_digest(("url",), (url,))).hex()


def is_held_out(url: str, fraction: float) -> bool:
    """Whether a document belongs to the share that is held out."""
    return order.salted_hash(SALT, order.id_digest(("url",), (url,))) < order.fraction_bound(fraction)


def is_training(url: str, fraction: float) -> bool:
    """The rest."""
    return not is_held_out(url, fraction)
