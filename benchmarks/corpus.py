"""The documents of a benchmark: where they come from, and what a right answer holds."""

import gzip
import itertools
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers import job
from pipelines.demo.corpus import corpus_lines
from pipelines.demo.rows import Row, encode_row

ROOT = Path(__file__).resolve().parents[1]
MAKER = ROOT.parent / "shared" / "data" / "tools" / "make_corpus.py"
"""Makes C4-HTML rows from real pages; not part of this project."""

DOCUMENTS_PER_GB = 3077
FILES, SEED = 8, 3


Document = tuple[str, int]
"""What a document is recognized by: its sample key and the length of its text in bytes."""


@dataclass(frozen=True)
class Corpus:
    """Some input files: how large, which documents pass the filter, and which of those are to be held out."""

    folder: Path
    origin: str
    rows: int
    raw_bytes: int
    stored_bytes: int
    train: Counter[Document]
    held_out: Counter[Document]


def make_corpus(gigabytes: float, bench: Path, workers: int) -> tuple[Path, str]:
    """A folder with about that much text, made now or found finished, and a word on what it is."""
    documents = max(1, round(gigabytes * DOCUMENTS_PER_GB))
    if MAKER.exists():
        folder = bench / f"corpus-{documents}"
        command = [sys.executable, str(MAKER), "--docs", str(documents), "--files", str(FILES), "--seed", str(SEED)]
        if not (folder / "MANIFEST.json").exists():  # which the maker writes last
            subprocess.run([*command, "--jobs", str(workers), "--out", str(folder)], check=True)
        return folder, f"real pages resampled by make_corpus.py --docs {documents} --files {FILES} --seed {SEED}"
    folder = bench / f"demo-corpus-{gigabytes:g}"
    if not folder.exists():
        _repeat_demo(folder, int(gigabytes * 1e9))
    return folder, f"the embedded demo corpus, repeated with other urls and texts ({MAKER.name} is not here)"


def _repeat_demo(folder: Path, size: int) -> None:
    """The demo's readable documents, again and again, until `size` bytes of text are written."""
    part = folder.with_suffix(".part")
    part.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        names = [f"demo-{number:03d}.jsonl.gz" for number in range(FILES)]
        files = [stack.enter_context(gzip.open(part / name, "wb", compresslevel=6)) for name in names]
        for file, row in zip(itertools.cycle(files), _copies(), strict=False):
            size -= file.write(encode_row(row) + b"\n")
            if size <= 0:
                break
    part.rename(folder)


def _copies() -> Iterator[Row]:
    rows = [json.loads(line.data) for line in corpus_lines() if line.kind == "document"]
    for copy in itertools.count():
        for row in rows:
            yield {**row, "url": f"{row['url']}?copy={copy}", "text": f"{row['text']}\nCopy {copy}."}


def document(row: Row) -> Document:
    """The document in a row."""
    return job.sample_key(row["url"]), len(row["text"].encode())


def look_at(folder: Path, origin: str, fraction: float) -> Corpus:
    """Read the corpus once, plainly: this is what the contestants' outputs are compared with. Warms the page cache."""
    paths = job.inputs(folder)
    if not paths:
        raise SystemExit(f"{folder}: no *.jsonl.gz here")
    rows = raw_bytes = 0
    split: dict[bool, Counter[Document]] = {False: Counter(), True: Counter()}
    for path in paths:
        with gzip.open(path, "rb") as file:
            for line in file:
                rows, raw_bytes, row = rows + 1, raw_bytes + len(line), json.loads(line)
                if job.is_kept(row):
                    split[job.is_held_out(row["url"], fraction)][document(row)] += 1
    stored = sum(Path(path).stat().st_size for path in paths)
    return Corpus(folder, origin, rows, raw_bytes, stored, split[False], split[True])
