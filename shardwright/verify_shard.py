"""The proof of one shard: every byte of it, every sample against its sidecars, its id and what was held out."""

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

from shardwright import layout, order, sidecars, tar
from shardwright.build import Build, Shard, decode_sample
from shardwright.errors import Damaged

_MOST = 20
"""Problems told of one shard; a shard that was overwritten has as many as it has samples."""


@dataclass(frozen=True)
class Rules:
    """What every sample of a build must obey; small but for the struck list, and picklable."""

    id_fields: tuple[str, ...]
    seed: int
    salt: str
    fraction: float
    trains: tuple[bool, ...]
    """By input number, whether its rows may be in training: not those of held-out and of rejected inputs."""
    struck: tuple[tuple[bytes, bytes], ...]

    @classmethod
    def of(cls, build: Build) -> "Rules":
        """From the manifest and the struck list."""
        manifest, held_out = build.manifest, build.manifest["held_out"]
        trains = tuple(not item["held_out"] and not item["rejected"] for item in manifest["inputs"])
        struck = tuple(sidecars.read_rows(build.root / layout.STRUCK, sidecars.STRUCK_ROW))
        return cls(tuple(manifest["id"]), manifest["seed"], held_out["salt"], held_out["fraction"], trains, struck)

    @cached_property
    def keys(self) -> frozenset[bytes]:
        """Order keys that may not be in training."""
        return frozenset(key for key, _ in self.struck)

    @cached_property
    def texts(self) -> frozenset[bytes]:
        """Digests of non-empty texts that may not be in training."""
        return frozenset(text for _, text in self.struck) - {order.NO_TEXT}

    @cached_property
    def bound(self) -> bytes:
        """Ids with a salted hash below it are held out."""
        return order.fraction_bound(self.fraction)


@dataclass
class ShardProof:
    """What was found: `identity` is (order key, content digest) of each sample in order, 32 bytes each."""

    problems: list[str] = field(default_factory=list)
    identity: bytes = b""
    types: Counter[str] = field(default_factory=Counter)


def check_shard(shard: Shard, rules: Rules) -> ShardProof:
    """Prove `shard`; never raises for what its files hold."""
    proof = ShardProof()
    try:
        _check_bytes(shard, rules, proof)
        _check_sources(shard, rules, proof)
    except Damaged as error:
        proof.problems.append(str(error))
    untold = len(proof.problems) - _MOST
    if untold > 0:
        proof.problems[_MOST:] = [f"{shard.path}: {untold} more problems"]
    return proof


def _check_bytes(shard: Shard, rules: Rules, proof: ShardProof) -> None:
    offsets, signatures, digest = shard.offsets(), shard.signatures(), hashlib.sha256()
    if not signatures:
        raise Damaged(f"{shard.path}: a shard without samples")
    identity = []
    with shard.open() as file:
        for index, signature in enumerate(signatures):
            blob = file.read(offsets[index + 1] - offsets[index])
            digest.update(blob)
            try:
                identity.append(_check_sample(blob, signature, f"{shard.path}#{index}", rules, proof.types))
            except Damaged as error:
                proof.problems.append(str(error))
        rest = file.read(len(tar.END) + 1)
    digest.update(rest)
    if rest != tar.END:
        proof.problems.append(f"{shard.path}: no end-of-archive marker, or bytes behind it")
    elif digest.hexdigest() != shard.sha256:
        proof.problems.append(f"{shard.path}: its sha256 is not the one in shards.jsonl")
    ends, said = (signatures[0][0].hex(), signatures[-1][0].hex()), (shard.first, shard.last)
    if ends != said:
        proof.problems.append(f"{shard.path}: first and last key are {ends}, shards.jsonl says {said}")
    proof.identity = b"".join(identity)


def _check_sample(blob: bytes, signature: tuple[bytes, bytes], where: str, rules: Rules, types: Counter[str]) -> bytes:
    """The sample's 32 bytes of identity. Raises Damaged at the first law that it breaks."""
    _, parts = decode_sample(blob, signature, where)
    if list(parts) != ["json", "txt"]:
        raise Damaged(f"{where}: its parts are {list(parts)}, expected json, txt")
    row = parse_row(parts["json"], rules.id_fields, f"{where}: KEY.json")
    id16 = order.id_digest(rules.id_fields, [row[name] for name in rules.id_fields])
    if order.order_key(rules.seed, id16) != signature[0]:
        raise Damaged(f"{where}: its key does not follow from the seed and its id ({', '.join(rules.id_fields)})")
    if row["text"].encode() != parts["txt"]:
        raise Damaged(f"{where}: KEY.txt is not the text of KEY.json")
    if signature[0] in rules.keys or order.text_digest(parts["txt"]) in rules.texts:
        raise Damaged(f"{where}: held out, or the twin of a held-out document: it may not be in training")
    if order.salted_hash(rules.salt, id16) < rules.bound:
        raise Damaged(f"{where}: its id is in the held-out fraction: it may not be in training")
    types.update(kind for kind in layout.METADATA_TYPES if row.get(f"metadata_{kind}"))
    return signature[0] + order.content_digest(parts["json"])


def parse_row(data: bytes, id_fields: tuple[str, ...], where: str) -> dict[str, Any]:
    """The row in UTF-8 JSON `data`; raises Damaged unless its text and id fields are strings. No NaN, no Infinity."""
    try:
        row = json.loads(data.decode(), parse_constant=_refuse_constant)
        for name in (*id_fields, "text"):
            row[name].encode()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Damaged(f"{where} is no row: {error!r}") from None
    return dict(row)


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _check_sources(shard: Shard, rules: Rules, proof: ShardProof) -> None:
    path = shard.sidecar(sidecars.SRC)
    rows = sidecars.read_rows(path, sidecars.SRC_ROW)
    if len(rows) != shard.samples:
        proof.problems.append(f"{path}: {len(rows)} samples, shards.jsonl says {shard.samples}")
    if any(number >= len(rules.trains) or not line for number, line in rows):
        proof.problems.append(f"{path}: names an input or a line that is not there")
    elif not all(rules.trains[number] for number, _ in rows):
        proof.problems.append(f"{path}: names a held-out or a rejected input, whose rows may not be in training")
