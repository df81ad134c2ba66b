"""The measurements as one Markdown page."""

import os
import platform
import shutil
import subprocess
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from statistics import median

import psutil

from benchmarks.contestants import CONTESTANTS, FRACTION, OURS, SHARDS
from benchmarks.corpus import ROOT, Corpus
from benchmarks.measure import SAMPLE_SECONDS, Usage

Results = dict[str, list[Usage]]
"""Contestant -> one usage a round; empty when it did not run or did not do the job."""

PACKAGES = ("shardwright", "apache-beam", "datasets", "pyarrow", "webdataset", "isal", "msgspec", "xxhash")
HEADINGS = ("", "wall s", "CPU s", "peak RSS GB", "peak disk GB", "wall / ours", "CPU / ours", "RSS / ours", "load")


def render(corpus: Corpus, results: Results, troubles: dict[str, str], workers: int, command: str) -> str:
    """The table, and all that is needed to judge it."""
    rounds = max(map(len, results.values()), default=0)
    rows = [_row(name, usages, results.get(OURS, [])) for name, usages in results.items() if usages]
    lines = [
        f"`{command}`",
        "",
        f"{corpus.rows:,} rows, {corpus.raw_bytes / 1e9:.2f} GB of text in {corpus.stored_bytes / 1e9:.3f} GB of gzip: "
        f"{corpus.origin}. {corpus.train.total() + corpus.held_out.total():,} pass the filter (metadata html), "
        f"{len(corpus.held_out):,} of them are held out (fraction {FRACTION:g}), the rest is shuffled globally into "
        f"{SHARDS} tar shards. {workers} worker processes where a contestant has such. Rounds: {rounds}; in each "
        "every contestant runs once, one after the other. Figures are medians; ratios (other / ours) are taken within "
        "a round and have their range.",
        "",
        *_table(rows),
        "",
        *(f"- **{name}**: {CONTESTANTS[name].what}." for name in results),
        *(f"- **{name} has no figures**: {why}" for name, why in troubles.items()),
        "",
        "Each contestant is a process tree of its own. CPU: user and system time of the whole tree, as the kernel "
        "charged it to the processes that were reaped, orphans included. Peak RSS: the sum over the tree, sampled "
        f"every {SAMPLE_SECONDS * 1000:.0f} ms; a page that two processes share counts twice. Peak disk: all files of "
        "the run, with caches and temporary ones, without the input. Inputs are in the page cache, dirty pages are "
        "written out before each run, and only ours waits for its files to be on disk. Load: the machine's 1-minute "
        "average before each run, what ran before it included.",
        "",
        *(f"- {fact}" for fact in machine_facts()),
    ]
    return "\n".join(lines) + "\n"


def _row(name: str, usages: list[Usage], ours: list[Usage]) -> list[str]:
    loads = [usage.load for usage in usages]
    return [
        name,
        f"{median(usage.wall for usage in usages):.1f}",
        f"{median(usage.cpu for usage in usages):.1f}",
        f"{median(usage.peak_rss for usage in usages) / 1e9:.2f}",
        f"{median(usage.peak_disk for usage in usages) / 1e9:.2f}",
        *(_ratio(usages, ours, field) if name != OURS else "1" for field in ("wall", "cpu", "peak_rss")),
        f"{min(loads):.1f}..{max(loads):.1f}",
    ]


def _ratio(usages: list[Usage], ours: list[Usage], field: str) -> str:
    if not ours:
        return ""
    ratios = [getattr(other, field) / getattr(own, field) for other, own in zip(usages, ours, strict=True)]
    return f"{median(ratios):.1f} ({min(ratios):.1f}..{max(ratios):.1f})"


def _table(rows: Iterable[list[str]]) -> list[str]:
    rule = ["---", *["---:"] * (len(HEADINGS) - 1)]
    return [f"| {' | '.join(cells)} |" for cells in (HEADINGS, rule, *rows)]


def machine_facts() -> list[str]:
    """What ran where."""
    memory = psutil.virtual_memory()
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return [
        f"{len(os.sched_getaffinity(0))} cores ({_processor()}), {memory.total / 1e9:.0f} GB of memory, "
        f"{platform.system()} {platform.release()}",
        f"Python {platform.python_version()}, {packages}",
        f"commit {_commit()}",
    ]


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _commit() -> str:
    git = shutil.which("git")
    if git is None:
        return "unknown"
    words = subprocess.run([git, "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return words.stdout.strip() or "unknown"
