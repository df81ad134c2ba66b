"""The supervisor: what a person started. It pins the build, watches the engine and leaves no process behind."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import psutil

from pipelines.display import Display
from pipelines.pinned import pin, refuse_taken
from pipelines.plan import Plan, PlanRefused
from shardwright import layout
from shardwright.errors import ShardwrightError
from transforms.stages.progress import FOLDER
from transforms.stages.work import FAILURE, BuildRefused, work_path

_POLL_SECONDS = 0.2
_GRACE_SECONDS = 5.0
LOG = "engine.log"
SCRATCH = "tmp"


class Interrupted(ShardwrightError):
    """The person (or the scheduler) asked the build to stop."""


@dataclass(frozen=True)
class Usage:
    """What a build took: wall seconds, and the peak resident memory of the engine's process tree, sampled."""

    seconds: float
    peak_bytes: int


def run_build(plan: Plan, arguments: list[str], display: Display) -> Usage:
    """Run `plan` to its seal; `arguments` are Beam options. Raises ShardwrightError with words for the person."""
    started = time.monotonic()
    refuse_taken(Path(plan.spec.root))
    with _locked(plan.spec.root):
        pin(plan, arguments)
        _forget_last_attempt(plan.spec.root)
        peak = _run_engine(plan, display)
        if not plan.config.runner.keep_work:
            shutil.rmtree(work_path(plan.spec.root))
    return Usage(time.monotonic() - started, peak)


@contextmanager
def _locked(root: str) -> Iterator[None]:
    """Hold `_work/lock`, so that two builds never share a folder. The system lets go of it when this process dies."""
    path = work_path(root, "lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.open("w")
    except OSError as error:
        raise PlanRefused(f"output {root}: cannot be written ({error.strerror}); choose a folder that can") from None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PlanRefused(
                f"{root}: another build works in this folder at this moment; wait for it, or choose another output"
            ) from None
        yield


def _forget_last_attempt(root: str) -> None:
    for name in (FOLDER, SCRATCH):
        shutil.rmtree(work_path(root, name), ignore_errors=True)
    work_path(root, FAILURE).unlink(missing_ok=True)
    for leftover in work_path(root).rglob("*.tmp"):
        leftover.unlink(missing_ok=True)


def _run_engine(plan: Plan, display: Display) -> int:
    """Start the engine in a process group of its own and follow it to its end. Returns the peak memory in bytes."""
    root, peak = plan.spec.root, 0
    scratch = work_path(root, SCRATCH)
    scratch.mkdir(exist_ok=True)
    environment = os.environ | {"TMPDIR": str(scratch)}  # Beam leaves folders behind in it
    with work_path(root, LOG).open("ab") as log, _signals_interrupt(), display:
        command = [sys.executable, "-m", "pipelines.process", root]
        engine = subprocess.Popen(  # noqa: S603  # our own module, an argument list
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True, env=environment
        )
        try:
            while engine.poll() is None:
                peak = max(peak, _tree_bytes(engine.pid))
                display.update()
                time.sleep(_POLL_SECONDS)
        except Interrupted:
            _end_group(engine, signal.SIGTERM)
            raise
        finally:
            _end_group(engine, signal.SIGKILL)
        display.update()
    _explain(root, engine.returncode)
    return peak


def _explain(root: str, status: int) -> None:
    """Raise the engine's own words, if it ended badly, or where its log is, if it had none."""
    if status == 0 and Path(root, layout.COMMIT).exists():
        return
    log, words = work_path(root, LOG), work_path(root, FAILURE)
    if words.exists():
        raise BuildRefused(words.read_text())
    tail = log.read_text(errors="replace").rstrip().splitlines()[-1:]
    how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
    raise BuildRefused(
        f"the engine {how} and left no explanation. Its last words: {''.join(tail)[:500]!r}; its log: {log}. The "
        "same command goes on from here"
    )


def _end_group(engine: subprocess.Popen[bytes], how: signal.Signals) -> None:
    """Signal the engine and all its workers; after SIGTERM, wait a little for them."""
    try:
        os.killpg(engine.pid, how)
    except ProcessLookupError:
        return
    with suppress(subprocess.TimeoutExpired):  # SIGKILL follows
        engine.wait(_GRACE_SECONDS)


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into Interrupted while the engine runs."""

    def stop(number: int, _: FrameType | None) -> None:
        raise Interrupted(
            f"stopped by {signal.Signals(number).name}. Nothing was published; finished work is kept, and the same "
            "command goes on from there"
        )

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tree_bytes(pid: int) -> int:
    """Resident memory of a process and all below it; what vanishes meanwhile counts nothing."""
    try:
        root = psutil.Process(pid)
        processes = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    total = 0
    for process in processes:
        try:
            total += process.memory_info().rss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total
