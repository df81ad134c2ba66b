"""A sealed build, as a training job sees it: open it, walk a split, fetch one sample."""

import gzip
import hashlib
import json
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from shardwright import layout, sidecars, tar
from shardwright.errors import Damaged, NotSealed, ShardwrightError
from shardwright.order import sample_digest


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample: its `key` (32 hex digits), where it stands, its `parts` {suffix: bytes} as they lie there."""

    key: str
    shard: int
    index: int
    parts: dict[str, bytes]

    def json(self) -> Any:
        """The document's row, parsed."""
        return json.loads(self.parts["json"])


@dataclass(frozen=True, slots=True)
class Shard:
    """One line of shards.jsonl: `samples` samples in `size` bytes, keys from `first` to `last`."""

    path: Path
    samples: int
    size: int
    sha256: str
    first: str
    last: str

    def sidecar(self, suffix: str) -> Path:
        """Path of the `.idx`, `.sig` or `.src` beside it."""
        return self.path.with_name(self.path.name + suffix) if suffix == sidecars.IDX else self.path.with_suffix(suffix)

    def open(self) -> BinaryIO:
        """The shard's bytes; raises Damaged when it is missing."""
        return _open(self.path)

    def offsets(self) -> Sequence[int]:
        """Byte offset of every sample, then of the end of the last."""
        path = self.sidecar(sidecars.IDX)
        offsets = sidecars.unpack_idx(_read(path), str(path))
        if len(offsets) != self.samples + 1:
            raise Damaged(f"{path}: {len(offsets) - 1} samples, shards.jsonl says {self.samples}")
        if offsets[-1] + len(tar.END) != self.size:
            raise Damaged(f"{path}: the samples end at byte {offsets[-1]} of a shard of {self.size} bytes")
        return offsets

    def signatures(self) -> list[tuple[bytes, bytes]]:
        """(order key, sample digest) of every sample."""
        rows = sidecars.read_rows(self.sidecar(sidecars.SIG), sidecars.SIG_ROW)
        if len(rows) != self.samples:
            raise Damaged(f"{self.sidecar(sidecars.SIG)}: {len(rows)} samples, shards.jsonl says {self.samples}")
        return rows


class Split:
    """The training samples of a build, in their global order. Iterating or indexing checks every sample's digest."""

    def __init__(self, shards: list[Shard]) -> None:
        self.shards = shards
        self._starts = [0]
        for shard in shards:
            self._starts.append(self._starts[-1] + shard.samples)

    def __len__(self) -> int:
        return self._starts[-1]

    def __iter__(self) -> Iterator[Sample]:
        for number in range(len(self.shards)):
            yield from self.shard(number)

    def __getitem__(self, rank: int) -> Sample:
        """The sample at global position `rank`, by one ranged read. Raises IndexError outside 0..len-1."""
        if not 0 <= rank < len(self):
            raise IndexError(f"sample {rank} of {len(self)}")
        number = bisect_right(self._starts, rank) - 1
        return self.fetch(number, rank - self._starts[number])

    def shard(self, number: int, start: int = 0) -> Iterator[Sample]:
        """Samples `start`, `start + 1`, ... of shard `number`. Raises Damaged at one that is not as it was written."""
        self._check_place(number, start, or_end=True)
        return self._read(self.shards[number], number, start)

    def _check_place(self, number: int, index: int, *, or_end: bool) -> None:
        if not 0 <= number < len(self.shards):
            raise ShardwrightError(f"no sample {number}#{index}: the build has shards 0 to {len(self.shards) - 1}")
        samples = self.shards[number].samples
        if not 0 <= index < samples + or_end:
            raise ShardwrightError(f"no sample {number}#{index}: shard {number} has samples 0 to {samples - 1}")

    def _read(self, shard: Shard, number: int, start: int) -> Iterator[Sample]:
        offsets, signatures = shard.offsets(), shard.signatures()
        with shard.open() as file:
            file.seek(offsets[start])
            for index in range(start, shard.samples):
                blob = file.read(offsets[index + 1] - offsets[index])
                key, parts = decode_sample(blob, signatures[index], f"{shard.path}#{index}")
                yield Sample(key, number, index, parts)

    def fetch(self, number: int, index: int) -> Sample:
        """Sample `index` of shard `number`. Raises ShardwrightError when there is none."""
        self._check_place(number, index, or_end=False)
        return next(self.shard(number, index))

    def find(self, key: str) -> tuple[int, int]:
        """(shard, index) of the sample `key`; raises KeyError when the split has none."""
        number = bisect_right([shard.first for shard in self.shards], key) - 1
        if number >= 0:
            keys = [row[0].hex() for row in self.shards[number].signatures()]
            index = bisect_right(keys, key) - 1
            if index >= 0 and keys[index] == key:
                return number, index
        raise KeyError(key)


class Build:
    """A sealed build under `root`; `manifest` is docs/FORMAT.md section 4 as a dict."""

    def __init__(self, root: Path, manifest: dict[str, Any]) -> None:
        self.root = root
        self.manifest = manifest

    @property
    def id(self) -> str:
        """The build id: sha256 of shards.jsonl."""
        return str(self.manifest["build_id"])

    @cached_property
    def shards(self) -> list[Shard]:
        """Training shards in order. Raises Damaged when shards.jsonl is not the one that was sealed."""
        data = _read(self.root / layout.SHARDS)
        if hashlib.sha256(data).hexdigest() != self.id:
            raise Damaged(
                f"{self.root / layout.SHARDS}: its sha256 is not the build id {self.id}; restore it from the original"
            )
        lines = data.splitlines()
        return [self._shard(number, len(lines), json.loads(line)) for number, line in enumerate(lines)]

    def _shard(self, number: int, count: int, line: dict[str, Any]) -> Shard:
        """One line as a Shard; its path is made from its number, never from what the line says."""
        name = f"{layout.shard_stem(layout.TRAIN, number, count)}{tar.SUFFIX}"
        if line["file"] != name:
            found = f"line {number + 1} names {line['file']!r}, expected {name!r}"
            raise Damaged(f"{self.root / layout.SHARDS}: {found}")
        path = self.root / name
        return Shard(path, line["num_sequences"], line["bytes"], line["sha256"], line["first"], line["last"])

    def split(self, name: str) -> Split:
        """The split `name`; there is one, `train`. Held-out rows: `held_out`."""
        if name != layout.TRAIN:
            raise ShardwrightError(
                f"no split {name!r}: this build has {layout.TRAIN!r}; held-out rows are read by Build.held_out()"
            )
        return Split(self.shards)

    def held_out(self, kind: str = layout.ALL) -> Iterator[dict[str, Any]]:
        """The held-out rows that carry metadata type `kind`, as dicts, in their order; nothing if no row does."""
        return map(json.loads, self.held_out_lines(kind))

    def held_out_lines(self, kind: str) -> Iterator[bytes]:
        """The lines of one held-out set as they lie in its file. Raises Damaged when it is torn or gone."""
        if kind not in (layout.ALL, *layout.METADATA_TYPES):
            raise ShardwrightError(f"no held-out set {kind!r}: one of all, {', '.join(layout.METADATA_TYPES)}")
        if not self.manifest["held_out"]["sets"].get(kind):
            return iter(())
        return _gzip_lines(self.root / layout.validation_dir(kind) / layout.VALIDATION)


def _gzip_lines(path: Path) -> Iterator[bytes]:
    try:
        with _open(path) as stored, gzip.open(stored) as file:
            yield from file
    except (OSError, EOFError, zlib.error) as error:
        raise Damaged(f"{path}: {error}; restore it from the original") from None


def open_build(path: str | Path) -> Build:
    """The sealed build at `path`. Raises NotSealed when it is unfinished or its manifest was changed after the seal."""
    root = Path(path)
    try:
        manifest = (root / layout.MANIFEST).read_bytes()
        commit = (root / layout.COMMIT).read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        missing = Path(error.filename).name
        raise NotSealed(f"{root}: no sealed build here (no {missing}): {_hint(root)}") from None
    if hashlib.sha256(manifest).hexdigest().encode() != commit.strip():
        raise NotSealed(
            f"{root}: {layout.MANIFEST} is not the one that {layout.COMMIT} seals; restore it from the original"
        )
    try:
        value = json.loads(manifest)
    except (ValueError, RecursionError) as error:
        raise NotSealed(f"{root}: {layout.MANIFEST} is no JSON: {error}; restore it from the original") from None
    found = value.get("format") if isinstance(value, dict) else None
    if found != layout.FORMAT:
        raise NotSealed(f"{root}: format {found!r}, this version reads {layout.FORMAT!r}")
    return Build(root, value)


def _hint(root: Path) -> str:
    if (root / layout.WORK).exists():
        return "it is being built or its build was stopped; run the same build command again"
    return "is the path right?"


def decode_sample(blob: bytes, signature: tuple[bytes, bytes], where: str) -> tuple[str, dict[str, bytes]]:
    """Key and parts of a sample's bytes. Raises Damaged unless its `.sig` row (order key, sample digest) matches."""
    if sample_digest(blob) != signature[1]:
        raise Damaged(
            f"{where}: the sample's bytes do not match its digest in {sidecars.SIG}; restore the shard from the "
            "original"
        )
    key, parts = tar.decode(blob, where)
    if key != signature[0].hex():
        raise Damaged(f"{where}: key {key}, {sidecars.SIG} says {signature[0].hex()}")
    return key, parts


def _read(path: Path) -> bytes:
    with _open(path) as file:
        return file.read()


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise Damaged(f"{path}: missing; restore it from the original") from None
