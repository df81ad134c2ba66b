"""The side channel: what each worker process has in hand and has done, in a small file that the command line reads.

The local runner shows nothing while it runs and cannot be asked; a file a process works everywhere that `_work/` is
shared.
"""

import json
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transforms.stages.work import work_path

FOLDER = "progress"
_EVERY_SECONDS = 0.5


class _Reporter:
    """This process's counters; written at most twice a second, and at the start and end of each task."""

    def __init__(self) -> None:
        self.root = ""
        self.in_hand: list[object] | None = None
        self.counts: Counter[str] = Counter()
        self._due = 0.0

    def write(self, *, now: bool = False) -> None:
        if not self.root or (not now and time.monotonic() < self._due):
            return
        self._due = time.monotonic() + _EVERY_SECONDS
        path = work_path(self.root, FOLDER, f"{os.getpid()}.json")
        value = {"pid": os.getpid(), "in_hand": self.in_hand, "counts": self.counts, "peak_bytes": _peak_bytes()}
        _replace(path, json.dumps(value))


_reporter = _Reporter()


@contextmanager
def task(root: str, stage: str, key: int) -> Iterator[None]:
    """Say that this process works on `stage`, `key`; when the block ends well, that it is done."""
    if _reporter.root != root:
        _reporter.__init__()  # type: ignore[misc]  # another build in this process: its counts are its own
        _reporter.root = root
    _reporter.in_hand = [stage, key]
    _reporter.counts[f"{stage}.begun"] += 1
    _reporter.write(now=True)
    yield
    _reporter.counts[f"{stage}.done"] += 1
    _reporter.in_hand = None
    _reporter.write(now=True)


def advance(**counts: int) -> None:
    """Add to this process's counters, e.g. `advance(bytes=4096, documents=1)`."""
    _reporter.counts.update(counts)
    _reporter.write()


def _peak_bytes() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text)
    temporary.replace(path)
