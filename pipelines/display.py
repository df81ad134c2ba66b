"""What a person sees while a build runs: bars on a terminal, a line now and then elsewhere."""

import json
import time
from collections import Counter
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from pipelines.plan import Plan
from transforms.stages.progress import FOLDER
from transforms.stages.work import work_path

_LINE_SECONDS = 5.0
_STARTING = "starting the engine"
_STAGES = ("spill", "select_held_out", "resolve", "cut_shards", "gather", "seal")


def read_counts(root: str) -> Counter[str]:
    """The sum of what all workers report; a file that is being replaced is read the next time."""
    counts: Counter[str] = Counter()
    for path in work_path(root, FOLDER).glob("*.json"):
        try:
            counts.update(json.loads(path.read_bytes())["counts"])
        except (OSError, ValueError):
            continue
    return counts


def stage_of(counts: Counter[str]) -> str:
    """What the build is at: the last stage that began, or the start of the engine, which takes some seconds."""
    begun = [name for name in _STAGES if counts[f"{name}.begun"]]
    return begun[-1] if begun else _STARTING


def _written(counts: Counter[str]) -> int:
    """Never more than planned: an engine that runs a bundle twice writes twice."""
    return min(counts["bytes_written"], counts["bytes_planned"])


class Display:
    """Follows one build between `__enter__` and `__exit__`; `update` may be called as often as one likes."""

    def __init__(self, plan: Plan, console: Console) -> None:
        self._plan = plan
        self._console = console
        self._started = self._last_line = time.monotonic()
        self._last_stage = ""
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description:<8}"),
            BarColumn(),
            DownloadColumn(binary_units=True),
            TransferSpeedColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
            console=console,
        )
        self._read = self._bars.add_task("read", total=plan.bytes, note="")
        self._write: TaskID | None = None

    def __enter__(self) -> "Display":
        if self._console.is_terminal:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._bars.stop()

    def update(self) -> None:
        """Show what the workers say now."""
        counts = read_counts(self._plan.spec.root)
        if self._console.is_terminal:
            self._update_bars(counts)
        else:
            self._print_line(counts)

    def _units(self, counts: Counter[str]) -> str:
        units = len(self._plan.units)
        return f"{min(counts['spill.done'], units)}/{units}"

    def _update_bars(self, counts: Counter[str]) -> None:
        done = min(counts["bytes_read"], self._plan.bytes)
        note = f"{self._units(counts)} units, {counts['documents']:,} documents" if counts else _STARTING
        self._bars.update(self._read, completed=done, note=note)
        if self._write is None and counts["bytes_planned"]:
            self._write = self._bars.add_task("write", total=counts["bytes_planned"], note="")
        if self._write is not None:
            note = f"{counts['gather.done']} files, {counts['samples_written']:,} samples"
            self._bars.update(self._write, completed=_written(counts), total=counts["bytes_planned"], note=note)

    def _print_line(self, counts: Counter[str]) -> None:
        now, stage = time.monotonic(), stage_of(counts)
        if stage == self._last_stage and now - self._last_line < _LINE_SECONDS:
            return
        self._last_line, self._last_stage = now, stage
        self._console.print(self._line(counts, stage, now - self._started), highlight=False, soft_wrap=True)

    def _line(self, counts: Counter[str], stage: str, seconds: float) -> str:
        read, planned = min(counts["bytes_read"], self._plan.bytes), counts["bytes_planned"]
        if not counts:
            return f"{seconds:6.1f} s  {stage}"
        words = [
            f"{seconds:6.1f} s  {stage}:",
            f"{self._units(counts)} units,",
            f"{read / 1e6:.1f} of {self._plan.bytes / 1e6:.1f} MB read ({read / 1e6 / max(seconds, 0.1):.1f} MB/s),",
            f"{counts['documents']:,} documents",
        ]
        if planned:
            words.append(f"- {_written(counts) / 1e6:.1f} of {planned / 1e6:.1f} MB written")
        elif read:
            words.append(f"- about {seconds * (self._plan.bytes / read - 1):.0f} s of reading to go")
        return " ".join(words)
