"""An adversary who can seal: takes a build apart, lets a test change one thing, makes everything else agree with it.

So that a forgery can only be found by the proof it is meant for: file digests, ids, indexes and COMMIT are all honest
about the forged content.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardwright import canonical, layout, open, order, sidecars, tar
from transforms.records.held_out import GzipWriter


@dataclass
class Forged:
    """A sample as it will be written."""

    key: bytes
    parts: dict[str, bytes]
    source: tuple[int, int]
    blob: bytes = b""
    """Its bytes in the shard, if they are not those that `tar.encode` makes."""

    def encode(self) -> bytes:
        return self.blob or tar.encode(self.key.hex(), self.parts.items())


class Forger:
    """The build at `root`, apart: `samples` by shard, `held_out` rows by set, `struck` pairs, the `manifest`."""

    def __init__(self, root: Path) -> None:
        build = open(root)
        self.root, self.manifest = root, build.manifest
        self.samples: list[list[Forged]] = []
        for number, shard in enumerate(build.shards):
            sources = sidecars.read_rows(shard.sidecar(sidecars.SRC), sidecars.SRC_ROW)
            found = build.split("train").shard(number)
            self.samples.append(
                [Forged(bytes.fromhex(s.key), s.parts, source) for s, source in zip(found, sources, strict=True)]
            )
        self.held_out = {kind: list(build.held_out(kind)) for kind in self.manifest["held_out"]["sets"]}
        self.struck: list[tuple[bytes, bytes]] = sidecars.read_rows(root / layout.STRUCK, sidecars.STRUCK_ROW)

    def key_of(self, row: dict[str, Any]) -> bytes:
        """The order key that `row` must have."""
        fields = self.manifest["id"]
        return order.order_key(self.manifest["seed"], order.id_digest(fields, [row[name] for name in fields]))

    def change(self, **columns: Any) -> None:
        """Put `columns` into the row of one sample, give it the key it then has, and lay all out in their order."""
        sample = self.samples[1][2]
        row = json.loads(sample.parts["json"]) | columns
        sample.parts = {"json": json.dumps(row).encode(), "txt": row["text"].encode()}
        sample.key = self.key_of(row)
        self.deal(sorted(self.all(), key=lambda sample: sample.key))

    def all(self) -> list[Forged]:
        """All samples in order."""
        return [sample for shard in self.samples for sample in shard]

    def deal(self, samples: list[Forged]) -> None:
        """Lay `samples` into as many shards as there are, by the right bounds, and write them."""
        bounds = order.shard_bounds(len(samples), len(self.samples))
        self.samples = [samples[start:stop] for start, stop in bounds]
        self.write_train()

    def write_train(self) -> None:
        """Shards, sidecars, shards.jsonl, the indexes, the ids and the counts, as `samples` has it."""
        for path in (self.root / layout.TRAIN).iterdir():
            path.unlink()
        lines = [self._write_shard(number) for number in range(len(self.samples))]
        self._count(lines)
        self.write_lines(lines)
        index = json.loads((self.root / layout.SHARD_INDEX).read_bytes())
        index["shardlist"] = [
            {"url": line["file"], "nsamples": line["num_sequences"], "filesize": line["bytes"]} for line in lines
        ]
        self.write_json(layout.SHARD_INDEX, index)

    def lines(self) -> list[dict[str, Any]]:
        """shards.jsonl."""
        return [json.loads(line) for line in (self.root / layout.SHARDS).read_bytes().splitlines()]

    def write_lines(self, lines: list[dict[str, Any]]) -> None:
        """shards.jsonl, with the build id wherever it stands."""
        text = "".join(canonical.dumps(line) + "\n" for line in lines).encode()
        (self.root / layout.SHARDS).write_bytes(text)
        self.manifest["build_id"] = hashlib.sha256(text).hexdigest()
        self.write_disallow()

    def write_disallow(self, **changes: Any) -> None:
        """disallow.json, with its digest; `changes` are put in before that."""
        value = json.loads((self.root / layout.DISALLOW).read_bytes())
        value |= {"build": self.manifest["build_id"], "align": _sha256(sample.key for sample in self.all())}
        counts = self.manifest["counts"]
        value |= {"samples": len(self.all()), "shards": len(self.samples)}
        value["counts"] = {fate: counts[fate] for fate in ("held_out", "held_out_twin", "duplicate")}
        value |= {"lists": [f"sha256:{canonical.file_digest(self.root / layout.STRUCK)}"], **changes}
        del value["digest"]
        self.write_json(layout.DISALLOW, value | {"digest": canonical.digest(value)})

    def write_held_out(self) -> None:
        """The sets, the struck list and their counts, as `held_out` and `struck` have it."""
        for kind, rows in self.held_out.items():
            with (self.root / layout.validation_dir(kind) / "validation.jsonl.gz").open("wb") as file:
                member = GzipWriter(file)
                member.write("".join(canonical.dumps(row) + "\n" for row in rows).encode())
                member.close()
        (self.root / layout.STRUCK).write_bytes(b"".join(sidecars.STRUCK_ROW.pack(*pair) for pair in self.struck))
        facts = self.manifest["held_out"]
        facts |= {"sets": {kind: len(rows) for kind, rows in self.held_out.items()}, "struck": len(self.struck)}
        self.balance("held_out", len(self.held_out["all"]))
        self.write_disallow()

    def write_json(self, path: str, value: Any) -> None:
        """A file of canonical JSON."""
        (self.root / path).write_bytes(canonical.dumps(value).encode() + b"\n")

    def seal(self) -> None:
        """Digests of all files that the manifest names, the held-out id, the manifest and COMMIT."""
        self.take_stock()
        self.commit()

    def take_stock(self) -> None:
        """The manifest's `files` and `held_out_id`, from what is there."""
        paths = [path for path in self.root.rglob("*") if path.is_file()]
        facts = {
            str(path.relative_to(self.root)): {"bytes": path.stat().st_size, "sha256": canonical.file_digest(path)}
            for path in paths
            if path.name not in (layout.MANIFEST, layout.COMMIT)
        }
        self.manifest["files"] = facts
        held_out = {path: fact["sha256"] for path, fact in facts.items() if path.startswith("held_out/")}
        self.manifest["held_out_id"] = canonical.digest(held_out)

    def commit(self) -> None:
        """The manifest as it is, and its COMMIT."""
        self.write_json(layout.MANIFEST, self.manifest)
        (self.root / layout.COMMIT).write_text(canonical.file_digest(self.root / layout.MANIFEST) + "\n")

    def _write_shard(self, number: int) -> dict[str, Any]:
        stem, samples = layout.shard_stem(layout.TRAIN, number, len(self.samples)), self.samples[number]
        blobs = [sample.encode() for sample in samples]
        data = b"".join(blobs) + tar.END
        signatures = ((sample.key, order.sample_digest(blob)) for sample, blob in zip(samples, blobs, strict=True))
        (self.root / f"{stem}.tar").write_bytes(data)
        (self.root / f"{stem}.tar.idx").write_bytes(sidecars.pack_idx(map(len, blobs)))
        (self.root / f"{stem}.sig").write_bytes(b"".join(sidecars.SIG_ROW.pack(*row) for row in signatures))
        (self.root / f"{stem}.src").write_bytes(b"".join(sidecars.SRC_ROW.pack(*s.source) for s in samples))
        return {
            "bytes": len(data),
            "file": f"{stem}.tar",
            "first": samples[0].key.hex() if samples else "",
            "last": samples[-1].key.hex() if samples else "",
            "num_sequences": len(samples),
            "sha256": hashlib.sha256(data).hexdigest(),
            "shard": stem,
        }

    def _count(self, lines: list[dict[str, Any]]) -> None:
        samples = self.all()
        totals = {"samples": len(samples), "shards": len(lines), "bytes": sum(line["bytes"] for line in lines)}
        self.manifest["splits"]["train"] = totals
        self.manifest["content_id"] = _sha256(s.key + order.content_digest(s.parts["json"]) for s in samples)
        self.balance("train", len(samples))

    def balance(self, fate: str, count: int) -> None:
        """`count` rows met `fate`; the difference is called duplicates, so that the counts add up."""
        counts = self.manifest["counts"]
        counts["duplicate"] += counts[fate] - count
        counts[fate] = count


def _sha256(pieces: Any) -> str:
    return hashlib.sha256(b"".join(pieces)).hexdigest()
