"""The proof of the held-out sets: each is what its type says, and every document of them is on the struck list."""

import zlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from shardwright import canonical, layout, order, sidecars
from shardwright.build import Build

_ALL = "all"


def check_held_out(build: Build) -> list[str]:
    """What is wrong with the held-out sets of `build`."""
    sets, problems = build.manifest["held_out"]["sets"], []
    rows = sidecars.read_rows(build.root / layout.STRUCK, sidecars.STRUCK_ROW)
    if rows != sorted(set(rows)) or len(rows) != build.manifest["held_out"]["struck"]:
        problems.append(
            f"{layout.STRUCK}: {len(rows)} rows, expected {build.manifest['held_out']['struck']}, sorted and each once"
        )
    struck, everyone = set(rows), _Set(build, _ALL)
    for kind in sets:
        found = everyone if kind == _ALL else _Set(build, kind)
        problems += found.check(struck)
        if found.ids != [item for item in everyone.ids if item in set(found.ids)]:
            problems.append(f"held-out set {kind}: not a subset of `all` in its order")
    files = {
        path: facts["sha256"]
        for path, facts in build.manifest["files"].items()
        if path.startswith(f"{layout.HELD_OUT}/")
    }
    if canonical.digest(files) != build.manifest["held_out_id"]:
        problems.append("manifest.json: held_out_id is not the digest of the held-out files")
    return problems


class _Set:
    """One set, read once: the id digests in order, and what is wrong with each row."""

    def __init__(self, build: Build, kind: str) -> None:
        self._build, self._kind = build, kind
        self.ids: list[bytes] = []
        self._pairs: list[tuple[bytes, bytes]] = []
        self._untyped = 0
        for row in self._rows():
            id16 = order.id_digest(build.manifest["id"], [row[name] for name in build.manifest["id"]])
            self.ids.append(id16)
            self._pairs.append((order.order_key(build.manifest["seed"], id16), order.text_digest(row["text"].encode())))
            self._untyped += not _is_typed(row, kind)

    def check(self, struck: set[tuple[bytes, bytes]]) -> list[str]:
        """Problems of this set against the struck list and the manifest."""
        expected, salt, problems = (
            self._build.manifest["held_out"]["sets"][self._kind],
            self._build.manifest["held_out"]["salt"],
            [],
        )
        if len(self.ids) != expected:
            problems.append(f"held-out set {self._kind}: {len(self.ids)} rows, the manifest says {expected}")
        hashes = [order.salted_hash(salt, id16) for id16 in self.ids]
        if any(a >= b for a, b in pairwise(hashes)):
            problems.append(f"held-out set {self._kind}: not in the order of the salted hash, or an id twice")
        if missing := sum(pair not in struck for pair in self._pairs):
            problems.append(f"held-out set {self._kind}: {missing} documents are not on the struck list")
        if self._untyped:
            problems.append(f"held-out set {self._kind}: {self._untyped} rows lack the type or carry another")
        return problems

    def _rows(self) -> Iterator[dict[str, Any]]:
        try:
            yield from self._build.held_out(self._kind)
        except (EOFError, zlib.error) as error:
            raise OSError(f"held-out set {self._kind}: damaged gzip: {error}") from None


def _is_typed(row: dict[str, Any], kind: str) -> bool:
    if kind == _ALL:
        return True
    filled = {name for name, value in row.items() if name.startswith("metadata_") and value}
    return filled == {f"metadata_{kind}"}
