"""A build that is stopped, killed or refused: it ends at once, says why, leaves no process and nothing under a final
name.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import shardwright
from shardwright.verify import verify
from tests.support import row, write_input

pytestmark = pytest.mark.smoke

CONFIG = """\
job: c4_html
input:
  files: ['{inputs}/*.gz']
shards: {{count: 3}}
output: {output}
runner: {{workers: 2}}
"""
SLOW = """\
import time
from transforms.records import rules
fast = rules.RequireTypes.__call__
def slow(self, document):
    time.sleep(0.05)
    return fast(self, document)
rules.RequireTypes.__call__ = slow
"""
"""A sitecustomize that gives a build time to be killed in; it changes no byte and only the tests' processes see it."""


@pytest.fixture
def job(tmp_path) -> Path:
    """A config for 400 documents in 4 files."""
    for number in range(4):
        write_input(
            tmp_path / "in" / f"{number}.jsonl.gz",
            [row(f"http://x/{number}/{i}", f"text {number} {i}") for i in range(100)],
        )
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG.format(inputs=tmp_path / "in", output=tmp_path / "out"))
    return path


@pytest.fixture
def slow(tmp_path) -> dict[str, str]:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SLOW)
    root = Path(__file__).resolve().parents[2]
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), str(root)])}


def command(job: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "shardwright.cli", "build", str(job), *words]


def run(job: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(job, *words), capture_output=True, text=True, timeout=120)


def workers_in_hand(output: Path) -> Iterator[int]:
    """Pids of workers that have a work unit in hand."""
    for path in (output / "_work" / "progress").glob("*.json"):
        report = json.loads(path.read_text())
        if report["in_hand"] and report["in_hand"][0] == "spill" and report["counts"].get("documents", 0) > 2:
            yield report["pid"]


def wait_for_worker(output: Path) -> int:
    """The pid of a worker in the middle of a unit."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for pid in workers_in_hand(output):
            return pid
        time.sleep(0.02)
    raise AssertionError("no worker began a unit")


def strays(job: Path) -> list[str]:
    """Command lines of processes that still know this build's folder or were started by its engine."""
    found = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        words = " ".join(process.info["cmdline"] or [])
        if str(job.parent) in words or str(job.parent / "site") in (process.info["environ"] or {}).get(
            "PYTHONPATH", ""
        ):
            found.append(words)
    return found


def assert_nothing_published(output: Path) -> None:
    assert [path.name for path in output.iterdir()] == ["_work"]


def assert_one_paragraph(text: str) -> None:
    assert "Traceback" not in text
    assert text.startswith("shardwright: ")
    assert "\n\n" not in text.strip()


def test_killed_worker_ends_the_build_with_a_message_and_the_same_command_goes_on(job, slow, tmp_path):
    output = tmp_path / "out"
    build = subprocess.Popen(command(job), env=slow, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    os.kill(wait_for_worker(output), signal.SIGKILL)
    killed = time.monotonic()
    _, errors = build.communicate(timeout=30)
    assert time.monotonic() - killed < 20  # it would hang for ever
    assert build.returncode == 1
    assert_one_paragraph(errors)
    assert "a worker process died while it had in hand: spill " in errors
    assert_nothing_published(output)
    assert strays(job) == []
    assert run(job).returncode == 0
    assert verify(shardwright.open(output)) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_cleanly(job, slow, tmp_path, number):
    build = subprocess.Popen(command(job), env=slow, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_worker(tmp_path / "out")
    build.send_signal(number)
    _, errors = build.communicate(timeout=30)
    assert build.returncode == 1
    assert_one_paragraph(errors)
    assert f"stopped by {number.name}" in errors
    assert_nothing_published(tmp_path / "out")
    assert strays(job) == []


def test_the_engine_does_not_outlive_a_killed_supervisor(job, slow, tmp_path):
    build = subprocess.Popen(command(job), env=slow, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for_worker(tmp_path / "out")
    build.kill()
    build.wait()
    deadline = time.monotonic() + 20
    while strays(job) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert strays(job) == []
    assert_nothing_published(tmp_path / "out")


def test_a_second_build_in_one_folder_is_refused_while_the_first_lives(job, slow, tmp_path):
    first = subprocess.Popen(command(job), env=slow, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for_worker(tmp_path / "out")
    second = run(job)
    first.terminate()
    first.wait()
    assert second.returncode == 1
    assert "another build works in this folder" in second.stderr


def test_sealed_output_is_never_overwritten(job, tmp_path):
    assert run(job).returncode == 0
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")}
    again = run(job)
    assert again.returncode == 1
    assert_one_paragraph(again.stderr)
    assert "a sealed build is here already" in again.stderr
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")} == before


def test_another_config_in_an_unfinished_output_is_refused_by_key(job, tmp_path):
    assert run(job, "--set", "filter.require.all_of=[entity]").returncode == 1  # n = 0: unfinished
    other = run(job, "--set", "shuffle.seed=7", "--set", "filter.require.all_of=[entity]")
    assert other.returncode == 1
    assert_one_paragraph(other.stderr)
    assert "shuffle.seed: 42 -> 7" in other.stderr


def test_other_inputs_in_an_unfinished_output_are_refused_by_name(job, tmp_path):
    assert run(job, "--set", "filter.require.all_of=[entity]").returncode == 1
    write_input(tmp_path / "in" / "more.jsonl.gz", [row("http://more/", "more")])
    other = run(job, "--set", "filter.require.all_of=[entity]")
    assert other.returncode == 1
    assert "more.jsonl.gz is new" in other.stderr


def test_foreign_files_in_the_output_are_refused(job, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("precious")
    refused = run(job)
    assert refused.returncode == 1
    assert "thesis.txt" in refused.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.txt"]


def test_nothing_left_to_train_on_shows_the_funnel(job):
    empty = run(job, "--set", "filter.require.all_of=[entity]")
    assert empty.returncode == 1
    assert "400 dropped" in empty.stderr
    assert "400 missing:entity" in empty.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--set", "input.files=[/nowhere/*.gz]"], "'/nowhere/*.gz' matches no file"),
        (["--set", "held_out.files=[nope.gz]"], "'nope.gz' matches none of the 4 inputs"),
        (["--set", "shards.cout=3"], 'did you mean "count"?'),
        (["--set", "output=/proc/out"], "cannot be written"),
        (["--", "--direct_num_worker=2"], "--direct_num_worker=2: no Beam option; did you mean --direct_num_workers?"),
    ],
)
def test_a_wrong_word_is_one_paragraph_and_no_traceback(job, words, expected):
    refused = run(job, *words)
    assert refused.returncode == 1
    assert_one_paragraph(refused.stderr)
    assert expected in refused.stderr


def test_missing_config_is_one_paragraph(tmp_path):
    refused = run(tmp_path / "absent.yaml")
    assert refused.returncode == 1
    assert_one_paragraph(refused.stderr)
    assert "absent.yaml" in refused.stderr


def test_rejected_rows_beyond_the_limit_refuse_the_seal_and_say_how_to_go_on(job, tmp_path):
    write_input(
        tmp_path / "in" / "9.jsonl.gz", [row("http://ok/", "ok"), b"{broken\n", b'{"url": "http://no-text/"}\n']
    )
    refused = run(job)
    assert refused.returncode == 1
    assert_one_paragraph(refused.stderr)
    assert "2 of 403 rows could not be read" in refused.stderr
    assert "9.jsonl.gz: 1 missing-field, 1 not-json" in refused.stderr
    assert "--set limits.rejected_rows=2" in refused.stderr
    assert_nothing_published(tmp_path / "out")
    assert run(job, "--set", "limits.rejected_rows=2").returncode == 0
    build = shardwright.open(tmp_path / "out")
    assert build.manifest["counts"]["rejected"] == {"missing-field": 1, "not-json": 1}
    assert [path.suffixes for path in (tmp_path / "out" / "rejected").iterdir()] == [[".jsonl", ".zst"]]


def test_plan_touches_nothing(job, tmp_path):
    words = [sys.executable, "-m", "shardwright.cli", "plan", str(job)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "4 files" in done.stdout
    assert "3 x tar" in done.stdout
    assert not (tmp_path / "out").exists()
