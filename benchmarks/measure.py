"""Run one command and measure its whole process tree: wall, CPU, peak memory, peak disk.

CPU is what the kernel charged, not an estimate: this process makes itself a "child subreaper", so that whatever the
command leaves behind is handed to us and not to init, and every process of the tree is reaped either by its own parent
(whose usage then holds its own) or by us. Only a parent that ignores SIGCHLD would lose its children's time; the sum of
the samples, a lower bound that sees such children too, is taken where it is larger (and everywhere but on Linux).

Memory is sampled every 50 ms: the sum of the resident sets, so a page that two processes share counts twice, for
everyone alike. Disk is the size of all files in the command's folder, sampled ten times less often.
"""

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

SAMPLE_SECONDS = 0.05
DISK_EVERY = 10
GRACE_SECONDS = 5.0
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Usage:
    """What a command took. `load` is the machine's load average before it began, `strays` what had to be killed."""

    status: int
    wall: float
    cpu: float
    peak_rss: int
    peak_disk: int
    load: float
    strays: int


def measure(command: list[str], *, folder: Path, log: Path, cwd: Path, env: Mapping[str, str]) -> Usage:
    """Run `command` to its end, its words going to `log` and its files into `folder`.

    The caller must have no other child processes meanwhile: they would be taken for the command's.
    """
    _adopt_orphans()
    os.sync()  # what an earlier command left for the disk is not this one's work
    load = os.getloadavg()[0]
    sampler = _Sampler(folder)
    try:
        with log.open("wb") as words, sampler:
            began = time.monotonic()
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=words, stderr=words, cwd=cwd, env={**os.environ, **env}
            )
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.monotonic() - began
            process.returncode = os.waitstatus_to_exitcode(status)
        orphans, strays = _reap_orphans()
    finally:
        _kill_children()
    cpu = max(usage.ru_utime + usage.ru_stime + orphans, sampler.cpu)
    return Usage(process.returncode, wall, cpu, sampler.peak_rss, sampler.peak_disk, load, strays)


def _adopt_orphans() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _reap_orphans() -> tuple[float, int]:
    """CPU seconds of what the command left to us, and how many of them had not ended by themselves."""
    cpu, strays, deadline = 0.0, 0, time.monotonic() + GRACE_SECONDS
    while True:
        try:
            pid, _, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return cpu, strays
        if pid:
            cpu += usage.ru_utime + usage.ru_stime
        elif time.monotonic() > deadline and not strays:
            strays = _kill_children()
        else:
            time.sleep(0.01)


def _kill_children() -> int:
    children = psutil.Process().children(recursive=True)
    for child in children:
        with suppress(psutil.NoSuchProcess):
            child.kill()
    return len(children)


class _Sampler:
    """A thread that looks at everything below this process while the block runs."""

    def __init__(self, folder: Path) -> None:
        self.peak_rss = self.peak_disk = 0
        self._folder = folder
        self._cpu: dict[psutil.Process, float] = {}  # processes are equal by pid and start time
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def cpu(self) -> float:
        """CPU seconds of all processes seen, each as last seen: a lower bound."""
        return sum(self._cpu.values())

    def __enter__(self) -> "_Sampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.peak_disk = max(self.peak_disk, folder_bytes(self._folder))

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(SAMPLE_SECONDS):
            self.peak_rss = max(self.peak_rss, self._look())
            number += 1
            if number % DISK_EVERY == 0:
                self.peak_disk = max(self.peak_disk, folder_bytes(self._folder))

    def _look(self) -> int:
        total = 0
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                total += process.memory_info().rss
                times = process.cpu_times()
                self._cpu[process] = times.user + times.system
        return total


def folder_bytes(folder: Path) -> int:
    """Size of all files below `folder`; what vanishes meanwhile counts nothing."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.stat(os.path.join(parent, name)).st_size
    return total
