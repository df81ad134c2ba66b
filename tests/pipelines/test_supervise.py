"""The parts of the supervisor: its words for a bad end, its lock, what it clears away before and after."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from rich.console import Console

from pipelines import supervise
from pipelines.display import Display
from pipelines.plan import PlanRefused, make_plan
from pipelines.supervise import (
    Interrupted,
    Usage,
    _end_group,
    _explain,
    _forget_last_attempt,
    _locked,
    _signals_interrupt,
    _tree_bytes,
    run_build,
)
from tests.support import make_config, row, write_input
from transforms.stages.work import BuildRefused


@pytest.fixture
def root(tmp_path):
    (tmp_path / "out" / "_work").mkdir(parents=True)
    return tmp_path / "out"


# The end of the engine


def explained(root, status: int, log: str = "") -> str:
    (root / "_work" / supervise.LOG).write_text(log)
    with pytest.raises(BuildRefused) as caught:
        _explain(str(root), status)
    return str(caught.value)


def test_a_sealed_build_needs_no_explanation(root):
    (root / "COMMIT").write_text("")
    _explain(str(root), 0)


@pytest.mark.parametrize("status", [0, 1, 70, -9])
def test_the_engine_s_own_words_are_passed_on(root, status):
    (root / "_work" / "failure.txt").write_text("two lines\nof reason")
    assert explained(root, status) == "two lines\nof reason"


def test_a_killed_engine_is_told_with_its_signal(root):
    words = explained(root, -9)
    assert "the engine was killed by signal 9 and left no explanation" in words
    assert "Its last words: ''" in words


def test_an_engine_that_crashed_is_told_with_its_last_words_and_log(root):
    words = explained(root, 1, "Traceback\n  File x\nValueError: this\n\n")
    assert "the engine ended with status 1 and left no explanation" in words
    assert "Its last words: 'ValueError: this'" in words
    assert str(root / "_work" / supervise.LOG) in words


def test_last_words_are_short_and_any_bytes(root):
    assert len(explained(root, 1, "x" * 10_000)) < 1000
    (root / "_work" / supervise.LOG).write_bytes(b"\xff\xfe")
    with pytest.raises(BuildRefused, match="last words"):
        _explain(str(root), 1)


def test_a_good_end_without_a_seal_is_refused(root):
    assert "ended with status 0" in explained(root, 0)


# What the last attempt left


def test_the_last_attempt_is_forgotten_and_its_finished_work_kept(root):
    work = root / "_work"
    for name in ("progress/1.json", "failure.txt", "a.tmp", "runs/b.123.tmp", "runs/c.run", "plan.json", "engine.log"):
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text("x")
    _forget_last_attempt(str(root))
    left = sorted(str(path.relative_to(work)) for path in work.rglob("*") if path.is_file())
    assert left == ["engine.log", "plan.json", "runs/c.run"]
    assert not (work / "progress").exists()


def test_where_nothing_is_nothing_is_forgotten(root):
    _forget_last_attempt(str(root))
    assert list((root / "_work").iterdir()) == []


def test_a_folder_that_an_engine_left_in_its_scratch_is_no_trouble(root):
    (root / "_work" / "tmp" / "x.tmp").mkdir(parents=True)
    _forget_last_attempt(str(root))


# The lock

LOCK = """\
import sys
from pipelines.supervise import _locked
with _locked(sys.argv[1]):
    print("locked", flush=True)
    sys.stdin.read()
"""


def hold(root) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", LOCK, str(root)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_one_build_at_a_time_and_the_lock_dies_with_its_process(root):
    other = hold(root)
    assert other.stdout.readline() == "locked\n"
    with pytest.raises(PlanRefused, match="another build works in this folder at this moment"), _locked(str(root)):
        raise AssertionError("two builds in one folder")
    other.kill()
    other.communicate()
    with _locked(str(root)):
        pass
    with _locked(str(root)):
        pass


def test_locks_of_two_outputs_are_two(tmp_path):
    with _locked(str(tmp_path / "a")), _locked(str(tmp_path / "b")):
        assert (tmp_path / "a" / "_work" / "lock").exists()


def test_an_output_that_cannot_be_a_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(PlanRefused, match=r"output .*/file: cannot be written .*; choose a folder"),
        _locked(str(tmp_path / "file")),
    ):
        pass
    assert (tmp_path / "file").read_text() == ""


# Signals, processes, memory


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_interrupts_and_its_handler_is_restored(number):
    before = signal.getsignal(number)
    with pytest.raises(Interrupted, match=rf"stopped by {number.name}\. Nothing was published"), _signals_interrupt():
        signal.raise_signal(number)
        raise AssertionError("the signal was not taken")
    assert signal.getsignal(number) is before


def test_the_group_of_an_engine_ends_with_all_its_processes():
    words = "import subprocess, sys; print(subprocess.Popen(['sleep', '60']).pid, flush=True); sys.stdin.read()"
    engine = subprocess.Popen(
        [sys.executable, "-c", words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    child = psutil.Process(int(engine.stdout.readline()))
    _end_group(engine, signal.SIGKILL)
    assert engine.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 5
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    _end_group(engine, signal.SIGKILL)  # a group that is gone is no trouble


def test_memory_counts_the_processes_below():
    child = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    child.stdout.readline()
    own, below = psutil.Process().memory_info().rss, psutil.Process(child.pid).memory_info().rss
    assert _tree_bytes(os.getpid()) >= (own + below) * 0.9
    child.communicate(b"\n")
    assert _tree_bytes(child.pid) == 0


# Whole builds


def built(tmp_path, keep_work: bool) -> Usage:
    files = [write_input(tmp_path / "in" / "a.jsonl", [row(f"http://x/{i}", f"t{i}") for i in range(20)])]
    config = make_config(tmp_path / "out", files, runner={"workers": 1, "keep_work": keep_work})
    plan = make_plan(config)
    return run_build(plan, [], Display(plan, Console(file=open(os.devnull, "w"))))


@pytest.mark.smoke
@pytest.mark.parametrize("keep_work", [True, False])
def test_work_files_are_kept_on_request_only_and_usage_is_measured(tmp_path, keep_work):
    usage = built(tmp_path, keep_work)
    assert (tmp_path / "out" / "COMMIT").exists()
    assert (tmp_path / "out" / "_work").is_dir() is keep_work
    assert usage.seconds > 0.1
    assert usage.peak_bytes > 10_000_000
    with pytest.raises(PlanRefused, match="a sealed build is here already"):
        built(tmp_path, keep_work)
