"""The words of `shardwright plan` and `shardwright build`; the build itself is stood in for."""

from pathlib import Path
from typing import Any

import pytest

from pipelines import cli, summary, supervise
from pipelines.plan import Plan
from pipelines.supervise import Usage
from shardwright import build as build_module
from shardwright.cli import main
from shardwright.errors import ShardwrightError
from tests.support import row, write_input


@pytest.fixture
def job(tmp_path) -> str:
    write_input(tmp_path / "a.jsonl", [row("http://x/", "x")])
    path = tmp_path / "job.yaml"
    path.write_text(
        f"job: c4_html\ninput: {{files: ['{tmp_path}/a.jsonl']}}\nshards: {{count: 3}}\noutput: {tmp_path / 'out'}\n"
    )
    return str(path)


@pytest.fixture
def started(monkeypatch) -> list[tuple[Plan, list[str]]]:
    """Every build that was started, instead of the build."""
    calls: list[tuple[Plan, list[str]]] = []

    def run_build(plan: Plan, arguments: list[str], _: Any) -> Usage:
        calls.append((plan, arguments))
        return Usage(1.0, 1)

    monkeypatch.setattr(supervise, "run_build", run_build)
    monkeypatch.setattr(build_module, "open_build", lambda output: ("opened", str(output)))
    monkeypatch.setattr(summary, "print_summary", lambda build, usage, console: console.print("summary of", *build))
    return calls


def test_a_build_is_run_and_summed_up(job, started, tmp_path, capsys):
    assert main(["build", job]) == 0
    [(plan, arguments)] = started
    assert (plan.spec.root, plan.config.shards.count, arguments) == (str(tmp_path / "out"), 3, [])
    words = " ".join(capsys.readouterr().out.split())
    assert words.startswith("summary of opened")


def test_set_may_be_repeated_and_the_last_wins(job, started):
    words = ["--set", "shards.count=5", "--set", "shuffle.seed=7", "--set", "shards.count=6"]
    assert main(["build", *words[:2], job, *words[2:]]) == 0
    [(plan, _)] = started
    assert (plan.config.shards.count, plan.config.shuffle.seed) == (6, 7)


@pytest.mark.parametrize(
    "words",
    [[], ["--runner=X"], ["--runner", "X", "--flag"], ["--set", "shards.count=9"], ["--help"], ["--a", "--", "--b"]],
)
def test_words_after_the_dashes_reach_beam_untouched(job, started, words):
    assert main(["build", job, "--", *words]) == 0
    [(plan, arguments)] = started
    assert arguments == words
    assert plan.config.shards.count == 3


@pytest.mark.parametrize("name", ["plan", "build"])
def test_an_unknown_option_is_exit_2_and_starts_nothing(job, started, name, capsys):
    assert main([name, job, "--bogus"]) == 2
    assert "--bogus" in capsys.readouterr().err
    assert started == []


@pytest.mark.parametrize("words", [[], ["--set", "shards.count=4"], ["one.yaml", "two.yaml"], ["one.yaml", "--set"]])
@pytest.mark.parametrize("name", ["plan", "build"])
def test_words_that_do_not_fit_are_exit_2(started, name, words, capsys):
    assert main([name, *words]) == 2
    assert "Error: " in capsys.readouterr().err
    assert started == []


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("plan", ["Usage: shardwright plan ", "touches nothing", "--set", "KEY=VALUE"]),
        ("build", ["Usage: shardwright build ", "Words after -- are Beam options", "may be repeated"]),
    ],
)
def test_help(started, name, told, capsys):
    assert main([name, "--help"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert [text for text in told if text not in words] == []
    assert "--install-completion" not in words
    assert started == []


def test_the_command_lists_both_with_their_help(capsys):
    with pytest.raises(SystemExit) as done:
        main(["--help"])
    assert done.value.code == 0
    out = capsys.readouterr().out
    assert "what a build would do" in out
    assert "run a build" in out


def test_a_plan_is_printed_and_touches_nothing(job, tmp_path, capsys):
    before = sorted(Path(tmp_path).iterdir())
    assert main(["plan", job, "--set", "shards.count=44"]) == 0
    assert "44 x tar" in capsys.readouterr().out
    assert sorted(Path(tmp_path).iterdir()) == before


@pytest.mark.parametrize("name", ["plan", "build"])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "shards.cout=3"], 'did you mean "count"?'),
        (["--set", "input.files=nothing.gz"], "'nothing.gz' matches no file"),
    ],
)
def test_what_cannot_run_is_exit_1_with_our_words(job, started, name, words, message, capsys):
    assert main([name, job, *words]) == 1
    errors = capsys.readouterr().err
    assert errors.startswith("shardwright: ")
    assert message in errors
    assert started == []


def test_a_build_that_fails_is_exit_1_without_a_summary(job, started, monkeypatch, capsys):
    def refuse(*_: Any) -> None:
        raise ShardwrightError("the reason")

    monkeypatch.setattr(supervise, "run_build", refuse)
    assert main(["build", job]) == 1
    out, errors = capsys.readouterr()
    assert errors == "shardwright: the reason\n"
    assert out == ""


def test_errors_pass_through_to_the_caller(job, started):
    with pytest.raises(ShardwrightError):
        cli.plan([job, "--set", "shards.count=0"])


def test_the_build_side_starts_without_beam(job):
    import subprocess
    import sys

    script = (
        "import sys\n"
        "from shardwright.cli import main\n"
        f"assert main(['plan', {job!r}]) == 0\n"
        "assert 'apache_beam' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
