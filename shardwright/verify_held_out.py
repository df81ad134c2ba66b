"""The proof of the held-out sets: each is exactly what its type makes of `all`, and all is struck from training."""

import hashlib
from collections import Counter
from itertools import pairwise
from typing import Any

from shardwright import canonical, layout, order
from shardwright.build import Build
from shardwright.errors import Damaged
from shardwright.verify_shard import Rules, parse_row


def check_held_out(build: Build) -> list[str]:
    """What is wrong with the held-out sets of `build`."""
    rules, told = Rules.of(build), build.manifest["held_out"]
    everyone = _Everyone(build, rules)
    problems = [*_check_struck(rules, told["struck"]), *everyone.problems]
    sizes = dict(sorted(everyone.sizes.items()))
    if sizes != told["sets"]:
        problems.append(f"manifest.json: the held-out sets are {told['sets']}, the rows of `all` make {sizes}")
    for kind in (kind for kind in sizes if kind != layout.ALL and kind in told["sets"]):
        digest = hashlib.sha256()
        for line in build.held_out_lines(kind):
            digest.update(line)
        if digest.digest() != everyone.digests[kind].digest():
            problems.append(f"held-out set {kind}: not the rows of `all` that have the type, with it alone, in order")
    return problems + _check_id(build)


class _Everyone:
    """The set `all`, read once: what is wrong with its rows, and what every type's set must therefore be."""

    def __init__(self, build: Build, rules: Rules) -> None:
        self.problems: list[str] = []
        self.sizes: Counter[str] = Counter()
        self.digests = {kind: hashlib.sha256() for kind in layout.METADATA_TYPES}
        self._rules, self._struck = rules, set(rules.struck)
        hashes = []
        for number, line in enumerate(build.held_out_lines(layout.ALL), 1):
            try:
                hashes.append(order.salted_hash(rules.salt, self._check(line, f"held-out set all, row {number}")))
            except Damaged as error:
                self.problems.append(str(error))
        if any(a >= b for a, b in pairwise(hashes)):
            self.problems.append("held-out set all: not in the order of the salted hash, or an id twice")

    def _check(self, line: bytes, where: str) -> bytes:
        """The id digest of one row, after it is added to the sets that it belongs to."""
        row = parse_row(line, self._rules.id_fields, where)
        if canonical_line(row) != line:
            raise Damaged(f"{where} is not canonical JSON")
        id16 = order.id_digest(self._rules.id_fields, [row[name] for name in self._rules.id_fields])
        pair = order.order_key(self._rules.seed, id16), order.text_digest(row["text"].encode())
        if pair not in self._struck:
            raise Damaged(f"{where} is not on the struck list: its twins may be in training")
        self.sizes[layout.ALL] += 1
        for kind in layout.METADATA_TYPES:
            if row.get(f"metadata_{kind}"):
                self.sizes[kind] += 1
                self.digests[kind].update(canonical_line(only(row, kind)))
        return id16


def only(row: dict[str, Any], kind: str) -> dict[str, Any]:
    """`row` with every metadata column but that of `kind` emptied."""
    return row | {f"metadata_{other}": [] for other in layout.METADATA_TYPES if other != kind}


def canonical_line(row: dict[str, Any]) -> bytes:
    """`row` as one line of canonical JSON."""
    return canonical.dumps(row).encode() + b"\n"


def _check_struck(rules: Rules, expected: int) -> list[str]:
    if list(rules.struck) == sorted(set(rules.struck)) and len(rules.struck) == expected:
        return []
    return [f"{layout.STRUCK}: {len(rules.struck)} rows, expected {expected}, sorted and each once"]


def _check_id(build: Build) -> list[str]:
    prefix = f"{layout.HELD_OUT}/"
    files = {path: facts["sha256"] for path, facts in build.manifest["files"].items() if path.startswith(prefix)}
    if canonical.digest(files) == build.manifest["held_out_id"]:
        return []
    return ["manifest.json: held_out_id is not the digest of the held-out files"]
