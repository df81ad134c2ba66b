"""Measure `shardwright build` against the plain ways of doing the same job: `make bench`.

    python benchmarks/build.py                          about 1.17 GB, 3 rounds: a few minutes and about 8 GB of memory
    python benchmarks/build.py --gb 0.02 --runs 1       does it work at all?
    python benchmarks/build.py --gb 4.2 --write         the page docs/BENCHMARKS.md

Filter by metadata, hold out a fraction, shuffle globally, write 16 tar shards. A contestant that does not put out the
documents that it should gets no figure. Nothing here says how fast anything must be.
"""

import argparse
import os
import shlex
import shutil
import sys
from pathlib import Path

import psutil

from benchmarks.contestants import CONTESTANTS, DEFAULT, ENVIRONMENT, FRACTION, Contestant, Task, objections
from benchmarks.corpus import ROOT, Corpus, look_at, make_corpus
from benchmarks.measure import Usage, measure
from benchmarks.report import Results, render

BENCH = ROOT / "build" / "bench"
PAGE = ROOT / "docs" / "BENCHMARKS.md"


class NotTheJob(Exception):
    """A contestant failed, or did something else than it was asked for."""


def main() -> int:
    args = _arguments()
    folder, origin = args.corpus, "given by --corpus"
    if folder is None:
        folder, origin = make_corpus(args.gb, BENCH, args.workers)
    corpus = look_at(folder.resolve(), origin, FRACTION)
    print(f"{corpus.folder}: {corpus.rows:,} rows, {corpus.raw_bytes / 1e9:.2f} GB of text, {origin}", flush=True)
    results, troubles = run_rounds(corpus, args.only, args.runs, args.workers)
    page = render(corpus, results, troubles, args.workers, shlex.join(["python", *sys.argv]))
    print(f"\n{page}")
    if args.write:
        PAGE.write_text(f"# Benchmarks\n\n{page}")
        print(f"written: {PAGE}")
    return 1 if troubles else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--gb", type=float, default=1.17, help="about how much text to make (default: %(default)s)")
    source.add_argument("--corpus", type=Path, help="a folder of *.jsonl.gz to use instead")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--workers", type=int, default=cores, help="worker processes (default: all cores)")
    parser.add_argument("--runs", type=int, default=3, help="rounds (default: %(default)s)")
    parser.add_argument("--only", nargs="+", choices=CONTESTANTS, default=DEFAULT, help="default: the first 3")
    parser.add_argument("--write", action="store_true", help=f"write the table to {PAGE.relative_to(ROOT)}")
    return parser.parse_args()


def run_rounds(corpus: Corpus, names: list[str], rounds: int, workers: int) -> tuple[Results, dict[str, str]]:
    """Round by round: a machine that is slow for a while is slow for everyone. Also why someone has no figure."""
    results: Results = {name: [] for name in names}
    troubles: dict[str, str] = {}
    for number in range(rounds):
        for name in [name for name in names if name not in troubles]:
            try:
                usage = run_once(name, CONTESTANTS[name], corpus, workers)
            except NotTheJob as trouble:
                troubles[name], results[name] = str(trouble), []
                print(f"round {number + 1} {name}: {trouble}", flush=True)
                continue
            results[name].append(usage)
            print(f"round {number + 1} {name}: {_words(usage)}", flush=True)
    return results, troubles


def run_once(name: str, contestant: Contestant, corpus: Corpus, workers: int) -> Usage:
    """One run in a fresh folder, measured and checked; the folder is removed when all is well. Raises NotTheJob."""
    needed, there = contestant.memory * corpus.raw_bytes, psutil.virtual_memory().available
    if needed > there:
        raise NotTheJob(f"not run: it would need about {needed / 1e9:.0f} GB of memory, {there / 1e9:.0f} GB are free")
    task = Task(corpus.folder, BENCH / "runs" / name, workers)
    log = task.folder.with_suffix(".log")
    shutil.rmtree(task.folder, ignore_errors=True)
    task.folder.mkdir(parents=True)
    usage = measure(contestant.command(task), folder=task.folder, log=log, cwd=ROOT, env=ENVIRONMENT)
    if usage.status or usage.strays:
        raise NotTheJob(f"ended with status {usage.status}, {usage.strays} processes left behind; its words: {log}")
    if found := objections(contestant.output(task), corpus):
        raise NotTheJob(f"did not do the job: {'; '.join(found)}; its output: {task.folder}")
    shutil.rmtree(task.folder)
    return usage


def _words(usage: Usage) -> str:
    return (
        f"{usage.wall:.1f} s wall, {usage.cpu:.1f} s CPU, {usage.peak_rss / 1e9:.2f} GB memory, "
        f"{usage.peak_disk / 1e9:.2f} GB disk; load before {usage.load:.2f}"
    )


if __name__ == "__main__":
    sys.exit(main())
