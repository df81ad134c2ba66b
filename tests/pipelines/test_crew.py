"""Worker processes forked ahead of time, and modules that are hidden while Beam is imported."""

import os
import subprocess
import sys
import threading
import time

import pytest

from pipelines import crew
from pipelines.crew import fork_workers
from pipelines.process import hidden

CHILDREN = """\
import os, sys
from pipelines import crew
crew.fork_workers(3)
print(*(pid for pid, _ in crew._waiting), flush=True)
sys.stdin.read()
os.kill(os.getpid(), 9)
"""


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_processes_that_get_no_job_end_with_a_killed_parent():
    engine = subprocess.Popen(
        [sys.executable, "-c", CHILDREN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    pids = [int(word) for word in engine.stdout.readline().split()]
    assert len(set(pids)) == 3
    assert all(map(alive, pids))
    engine.communicate("", timeout=30)  # they hold its standard output: this ends when they have all ended
    deadline = time.monotonic() + 5
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(alive, pids))


JOBS = """\
import os, sys
from pipelines import crew
crew.sdk_worker_main.main = lambda _: exec(os.environ["TASK"])
crew.fork_workers(len(sys.argv) - 1)
for task in sys.argv[1:]:
    try:
        crew._run({"TASK": task})
        print("clean")
    except RuntimeError as error:
        print(str(error).partition("ended with ")[2])
"""


def test_each_process_takes_one_job_and_a_bad_end_is_reported_with_its_status():
    tasks = {
        "pass": "clean",
        "raise ValueError": "status 1",
        "raise SystemExit(0)": "status 1",
        "os._exit(7)": "status 7",
        "os.kill(os.getpid(), 9)": "status -9",
    }
    done = subprocess.run([sys.executable, "-c", JOBS, *tasks], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == list(tasks.values())


def test_forking_beside_a_thread_is_refused(monkeypatch):
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("forked"))
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        with pytest.raises(RuntimeError, match="before the first thread"):
            fork_workers(1)
    finally:
        stop.set()
        thread.join()
    assert crew._waiting == []


# Hidden modules


@pytest.fixture
def module(tmp_path, monkeypatch) -> str:
    """A module that can be imported and is not."""
    (tmp_path / "shy_module.py").write_text("VALUE = 5\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "shy_module"
    sys.modules.pop("shy_module", None)


def test_a_hidden_module_cannot_be_imported_and_later_can(module):
    with hidden(module):
        with pytest.raises(ImportError):
            __import__(module)
        assert sys.modules[module] is None
    assert module not in sys.modules
    assert __import__(module).VALUE == 5


def test_a_hidden_module_is_restored_after_a_failure(module):
    with pytest.raises(ZeroDivisionError), hidden(module):
        raise ZeroDivisionError
    assert module not in sys.modules


def test_a_module_that_is_loaded_already_stays(module):
    loaded = __import__(module)
    with hidden(module, "json"):
        assert __import__(module) is loaded
    assert sys.modules[module] is loaded
    assert "json" in sys.modules


def test_the_engine_starts_without_pandas_and_users_may_import_it_later():
    script = (
        "import sys, importlib.util\n"
        "from pipelines.process import hidden, _UNUSED_BY_US\n"
        "with hidden(*_UNUSED_BY_US):\n"
        "    import apache_beam.runners.worker.sdk_worker_main\n"
        "assert not [name for name in _UNUSED_BY_US if name in sys.modules], sys.modules.keys()\n"
        "print(importlib.util.find_spec('pandas') is not None)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
