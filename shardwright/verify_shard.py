"""The proof of one shard: every byte of it, every sample against its sidecars, its id and the list of what was held
out.
"""

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardwright import order, sidecars, tar
from shardwright.build import Shard, decode_sample
from shardwright.errors import Damaged

_MOST = 20
"""Problems told of one shard; a shard that was overwritten has as many as it has samples."""


@dataclass(frozen=True)
class Struck:
    """Order keys, and digests of non-empty texts, that may not be in training."""

    keys: frozenset[bytes]
    texts: frozenset[bytes]

    @classmethod
    def read(cls, path: Path) -> "Struck":
        """From `held_out/struck.bin`."""
        rows = sidecars.read_rows(path, sidecars.STRUCK_ROW)
        return cls(frozenset(key for key, _ in rows), frozenset(text for _, text in rows) - {order.NO_TEXT})


@dataclass
class ShardProof:
    """What was found: `identity` is (order key, content digest) of each sample in order, 32 bytes each."""

    problems: list[str] = field(default_factory=list)
    identity: bytes = b""
    types: Counter[str] = field(default_factory=Counter)


def check_shard(shard: Shard, rule: tuple[tuple[str, ...], int], struck: Struck, inputs: int) -> ShardProof:
    """Prove `shard`. `rule` is (id fields, seed), `inputs` how many inputs the manifest lists."""
    proof = ShardProof()
    try:
        _check_bytes(shard, rule, struck, proof)
        _check_sources(shard, inputs, proof)
    except Damaged as error:
        proof.problems.append(str(error))
    del proof.problems[_MOST:]
    return proof


def _check_bytes(shard: Shard, rule: tuple[tuple[str, ...], int], struck: Struck, proof: ShardProof) -> None:
    offsets, signatures, digest = shard.offsets(), shard.signatures(), hashlib.sha256()
    identity = []
    with shard.open() as file:
        for index, signature in enumerate(signatures):
            blob = file.read(offsets[index + 1] - offsets[index])
            digest.update(blob)
            try:
                identity.append(_check_sample(blob, signature, f"{shard.path}#{index}", rule, struck, proof.types))
            except Damaged as error:
                proof.problems.append(str(error))
        rest = file.read(len(tar.END) + 1)
    digest.update(rest)
    if rest != tar.END:
        proof.problems.append(f"{shard.path}: no end-of-archive marker, or bytes behind it")
    elif digest.hexdigest() != shard.sha256:
        proof.problems.append(f"{shard.path}: its sha256 is not the one in shards.jsonl")
    ends = (signatures[0][0].hex(), signatures[-1][0].hex())
    if ends != (shard.first, shard.last):
        proof.problems.append(
            f"{shard.path}: first and last key are {ends}, shards.jsonl says {(shard.first, shard.last)}"
        )
    proof.identity = b"".join(identity)


def _check_sample(
    blob: bytes,
    signature: tuple[bytes, bytes],
    where: str,
    rule: tuple[tuple[str, ...], int],
    struck: Struck,
    types: Counter[str],
) -> bytes:
    _, parts = decode_sample(blob, signature, where)
    if list(parts) != ["json", "txt"]:
        raise Damaged(f"{where}: its parts are {list(parts)}, expected json, txt")
    row = _parse(parts["json"], where)
    id16 = order.id_digest(rule[0], [row[name] for name in rule[0]])
    if order.order_key(rule[1], id16) != signature[0]:
        raise Damaged(f"{where}: its key does not follow from the seed and its id ({', '.join(rule[0])})")
    if row["text"].encode() != parts["txt"]:
        raise Damaged(f"{where}: KEY.txt is not the text of KEY.json")
    if signature[0] in struck.keys or order.text_digest(parts["txt"]) in struck.texts:
        raise Damaged(f"{where}: held out, or the twin of a held-out document: it may not be in training")
    types.update(
        name.removeprefix("metadata_") for name, column in row.items() if name.startswith("metadata_") and column
    )
    return signature[0] + order.content_digest(parts["json"])


def _parse(data: bytes, where: str) -> dict[str, Any]:
    try:
        row = json.loads(data)
        row["text"].encode()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Damaged(f"{where}: KEY.json is no row: {error!r}") from None
    return dict(row)


def _check_sources(shard: Shard, inputs: int, proof: ShardProof) -> None:
    path = shard.sidecar(sidecars.SRC)
    rows = sidecars.read_rows(path, sidecars.SRC_ROW)
    if len(rows) != shard.samples:
        proof.problems.append(f"{path}: {len(rows)} samples, shards.jsonl says {shard.samples}")
    if any(number >= inputs or not line for number, line in rows):
        proof.problems.append(f"{path}: names an input or a line that is not there")
