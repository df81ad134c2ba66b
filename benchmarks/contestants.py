"""Who runs: the command of each contestant, and what it left behind."""

import gzip
import json
import sys
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.corpus import ROOT, Corpus, Document, document
from benchmarks.peers import job

SHARDS = 16
FRACTION = 0.005

ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}


@dataclass(frozen=True)
class Task:
    """One run: the input, the folder for everything that it makes, how many processes it may use."""

    corpus: Path
    folder: Path
    workers: int


@dataclass(frozen=True)
class Output:
    """The documents that came out, and in how many shards; `left_out` were kept out of both sets on purpose."""

    train: Counter[Document]
    held_out: Counter[Document]
    shards: int
    left_out: int = 0


@dataclass(frozen=True)
class Contestant:
    """A way to do the job. `memory` is about how many times the text it holds, 0 when that is bounded."""

    what: str
    command: Callable[[Task], list[str]]
    output: Callable[[Task], Output]
    memory: float = 0


def _ours(task: Task) -> list[str]:
    settings = {
        "input.files": f"{task.corpus}/*.jsonl.gz",
        "held_out.files": "[]",
        "held_out.fraction": FRACTION,
        "held_out.salt": job.SALT,
        "filter.require.all_of": job.METADATA,
        "shuffle.seed": job.SEED,
        "shards.count": SHARDS,
        "runner.workers": task.workers,
        "output": task.folder / "out",
    }
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return [str(Path(sys.executable).with_name("shardwright")), "build", str(ROOT / "configs/c4_html.yaml"), *words]


def _peer(module: str, *flags: str) -> Callable[[Task], list[str]]:
    def command(task: Task) -> list[str]:
        words = {"corpus": task.corpus, "out": task.folder / "out", "workers": task.workers, "shards": SHARDS}
        arguments = [word for key, value in words.items() for word in (f"--{key}", str(value))]
        return [sys.executable, "-m", f"benchmarks.peers.{module}", *arguments, "--fraction", str(FRACTION), *flags]

    return command


def _our_output(task: Task) -> Output:
    out = task.folder / "out"
    counts = json.loads((out / "manifest.json").read_bytes())["counts"]
    held_out = out.glob("held_out/*/*_all/validation.jsonl.gz")
    return _read_output(out / "train", held_out, left_out=counts["held_out_twin"] + counts["duplicate"])


def _peer_output(task: Task) -> Output:
    out = task.folder / "out"
    return _read_output(out, out.glob("held_out.jsonl.gz"))


def _read_output(train: Path, held_out: Iterable[Path], left_out: int = 0) -> Output:
    shards = sorted(train.glob("train-*.tar"))
    return Output(
        Counter(found for path in shards for found in _in_tar(path)),
        Counter(found for path in held_out for found in _in_rows(path)),
        len(shards),
        left_out,
    )


def _in_tar(path: Path) -> list[Document]:
    """A sample of a tar shard has both a row and a text."""
    with tarfile.open(path) as tar:
        sizes = {member.name: member.size for member in tar}
    keys = [name.removesuffix(".json") for name in sizes if name.endswith(".json")]
    return [(key, sizes[f"{key}.txt"]) for key in keys if f"{key}.txt" in sizes]


def _in_rows(path: Path) -> list[Document]:
    with gzip.open(path, "rb") as file:
        return [document(json.loads(line)) for line in file]


OURS = "shardwright"
CONTESTANTS = {
    OURS: Contestant(
        "`shardwright build`, which also makes digests, sidecars, a manifest and a held-out set a metadata type, "
        "takes out the twins of held-out documents, and waits until its files are on disk",
        _ours,
        _our_output,
    ),
    "beam-groupby": Contestant(
        "plain Beam: documents through GroupByKey, FnApiRunner in memory, one process",
        _peer("beam_groupby"),
        _peer_output,
        memory=7,
    ),
    "hf-datasets": Contestant(
        "HF datasets: load_dataset, filter, shuffle, webdataset writer", _peer("hf_datasets"), _peer_output
    ),
    "beam-processes": Contestant(
        "plain Beam, in worker processes", _peer("beam_groupby", "--processes"), _peer_output, memory=9
    ),
    "hf-tuned": Contestant(
        "HF datasets, filtering in Arrow and writing in parallel", _peer("hf_datasets", "--tuned"), _peer_output
    ),
}
DEFAULT = (OURS, "beam-groupby", "hf-datasets")


def objections(output: Output, corpus: Corpus) -> list[str]:
    """Why this is not the job that was asked for; nothing when it is."""
    found = []
    fewest = SHARDS if len(corpus.train) > 100 * SHARDS else 1  # of few documents, none may fall into some bucket
    if not fewest <= output.shards <= SHARDS:
        found.append(f"{output.shards} shards instead of {SHARDS}")
    if {key for key, _ in output.held_out} != {key for key, _ in corpus.held_out}:
        found.append(f"{len(output.held_out)} documents held out, {len(corpus.held_out)} should be")
    if strangers := output.train - corpus.train:
        found.append(f"{strangers.total()} samples in training that should not be there, or are there too often")
    total = output.train.total() + output.held_out.total() + output.left_out
    wanted = corpus.train.total() + corpus.held_out.total()
    if total != wanted:
        found.append(f"{total} documents came out (or were left out and counted), {wanted} passed the filter")
    return found
