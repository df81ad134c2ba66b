"""The reader's commands: what they print, what they answer to a slip, and that nobody ever sees a traceback."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from shardwright import cli, layout
from shardwright.build import Build
from shardwright.cli import main
from tests.shardwright import corpus

ROOT = Path(__file__).parents[2]
Capture = pytest.CaptureFixture[str]


def _run(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command as a process of its own."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), **options.pop("env", {})}
    command = [sys.executable, "-m", "shardwright.cli", *words]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.run(command, env=env, text=True, **streams)


def _refusal(capsys: Capture, *words: str) -> str:
    """What the command says when it fails: one paragraph, after its own name."""
    assert main(list(words)) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("shardwright: ")
    assert printed.err.count("\n") == 1
    return printed.err


def test_help_lists_every_command() -> None:
    done = _run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.findall(r"^ {4}(\w+)", done.stdout, re.MULTILINE) == ["plan", "build", "verify", "inspect"]


@pytest.mark.parametrize("words", [[], ["verfy"], ["inspect"], ["verify", "x", "--workers", "many"]])
def test_words_that_are_not_understood_are_answered_with_the_usage(words: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as done:
        main(words)
    assert done.value.code == 2
    assert capsys.readouterr().err.startswith("usage: shardwright")


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets which building commands are installed."""

    def install(*points: EntryPoint) -> None:
        monkeypatch.setattr(cli, "entry_points", lambda group: points if group == "shardwright.commands" else ())

    return install


@pytest.mark.parametrize("name", ["plan", "build"])
def test_a_building_command_without_the_build_side_says_how_to_get_it(
    commands: Callable[..., None], capsys: Capture, name: str
) -> None:
    commands()
    assert main([name, "x.yaml"]) == 2
    assert "pip install 'shardwright[build]'" in capsys.readouterr().err


def test_help_says_what_is_not_installed(commands: Callable[..., None], capsys: Capture) -> None:
    commands(EntryPoint("plan", "builtins:len", "shardwright.commands"))
    with pytest.raises(SystemExit):
        main(["--help"])
    assert re.findall(r"(\w+) +[\w ]+\(needs\s+'shardwright\[build\]'\)", capsys.readouterr().out) == ["build"]


def test_a_building_command_gets_all_words_behind_its_name(commands: Callable[..., None]) -> None:
    commands(EntryPoint("build", "builtins:len", "shardwright.commands"))
    assert main(["build", "x.yaml", "--set", "a=b", "--", "--runner=x"]) == 5


def test_inspect_a_build(built: Build, capsys: Capture) -> None:
    assert main(["inspect", str(built.root)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert {
        f"build_id {built.id}",
        "id url",
        "read 34 rows of 4 inputs (1 rejected)",
        "held out all 5, html 4, title 3, url 1",
        "train 23 samples in 3 shards",
    } <= set(lines)
    assert [line.split(" samples ")[0] for line in lines[-3:]] == [
        f"{number} {shard.path.name} {shard.samples}" for number, shard in enumerate(built.shards)
    ]


def test_inspect_a_sample_by_its_place_or_its_key_in_either_case(built: Build, capsys: Capture) -> None:
    sample = built.split("train")[8]
    shown = []
    for words in (f"{sample.shard}#{sample.index}", sample.key, sample.key.upper()):
        assert main(["inspect", str(built.root), words]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] == shown[2]
    assert sample.key in shown[0]
    assert sample.json()["url"] in shown[0]
    types = [
        name.removeprefix("metadata_") for name, value in sample.json().items() if name.startswith("meta") and value
    ]
    assert f"types {', '.join(types)}" in " ".join(shown[0].split())


def test_inspect_says_which_line_a_sample_came_from(built: Build, capsys: Capture) -> None:
    for sample in built.split("train"):
        assert main(["inspect", str(built.root), sample.key]) == 0
        [source] = [line for line in capsys.readouterr().out.splitlines() if line.strip().startswith("from ")]
        uri, _, number = source.split(maxsplit=1)[1].rpartition(" line ")
        rows = corpus.FILES[Path(uri).name]
        assert rows[int(number) - 1] == sample.json()


def test_inspect_cuts_a_long_text_and_says_so(built: Build, capsys: Capture) -> None:
    sample = max(built.split("train"), key=lambda sample: len(sample.parts["txt"]))
    text = sample.parts["txt"].decode()
    assert main(["inspect", str(built.root), sample.key]) == 0
    shown = capsys.readouterr().out
    assert shown.endswith(f"{text[:600]} ... ({len(text):,} characters)\n")


@pytest.mark.parametrize("words", ["f" * 32, "zz", "3#0", "0#7", "0#-1", "#", "1#"])
def test_a_sample_that_is_not_there_is_one_paragraph(built: Build, capsys: Capture, words: str) -> None:
    assert words in _refusal(capsys, "inspect", str(built.root), words)


def _inspect_control(built: Build, capsys: Capture) -> str:
    [sample] = [sample for sample in built.split("train") if sample.json() == corpus.CONTROL]
    assert main(["inspect", str(built.root), sample.key]) == 0
    return capsys.readouterr().out


def test_control_characters_of_a_text_are_shown_and_do_not_act(built: Build, capsys: Capture) -> None:
    assert r"text \x1b[31m\x9b \u202e \r end" in _inspect_control(built, capsys)


def test_no_other_field_acts_on_the_terminal_either(built: Build, capsys: Capture) -> None:
    shown = _inspect_control(built, capsys)
    assert "\x1b" not in shown
    assert r"http://example.org/\x1b]0;url\x07" in shown


def test_a_damaged_sample_is_one_paragraph(out: Path, capsys: Capture) -> None:
    path = out / "train/train-00000-of-00003.tar"
    data = bytearray(path.read_bytes())
    data[700] ^= 1
    path.write_bytes(data)
    assert f"{path}#0: " in _refusal(capsys, "inspect", str(out), "0#0")


def test_a_cut_src_is_one_paragraph(out: Path, capsys: Capture) -> None:
    path = out / "train/train-00000-of-00003.src"
    path.write_bytes(path.read_bytes()[:24])
    assert str(path) in _refusal(capsys, "inspect", str(out), "0#2")


def test_a_src_that_names_no_input_is_one_paragraph(out: Path, capsys: Capture) -> None:
    path = out / "train/train-00000-of-00003.src"
    path.write_bytes(b"\xff" * len(path.read_bytes()))
    assert str(path) in _refusal(capsys, "inspect", str(out), "0#5")


@pytest.mark.parametrize("command", ["verify", "inspect"])
def test_a_folder_that_is_not_sealed_is_one_paragraph(out: Path, capsys: Capture, command: str) -> None:
    (out / layout.COMMIT).unlink()
    assert "no COMMIT" in _refusal(capsys, command, str(out))


def test_a_file_that_cannot_be_read_is_one_paragraph(out: Path, capsys: Capture) -> None:
    (out / layout.SHARDS).unlink()
    (out / layout.SHARDS).mkdir()
    assert layout.SHARDS in _refusal(capsys, "inspect", str(out))


def test_the_process_ends_with_the_status_of_the_command(out: Path) -> None:
    assert (_run("verify", str(out)).returncode, _run("inspect", str(out)).returncode) == (0, 0)
    (out / layout.COMMIT).unlink()
    done = _run("verify", str(out))
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr


def _into_a_closed_pipe(unbuffered: str, *words: str) -> subprocess.CompletedProcess[str]:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return _run(*words, stdout=writer, env={"PYTHONUNBUFFERED": unbuffered})
    finally:
        os.close(writer)


@pytest.mark.parametrize("command", ["verify", "inspect"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_pipe_is_met_with_silence(built: Build, command: str, unbuffered: str) -> None:
    assert _into_a_closed_pipe(unbuffered, command, str(built.root)).stderr == ""


def test_a_proof_that_nobody_reads_does_not_end_as_proved(out: Path) -> None:
    (out / "train/train-00000-of-00003.tar").unlink()
    assert _into_a_closed_pipe("1", "verify", str(out)).returncode != 0


def test_a_terminal_without_unicode_still_shows_a_sample(built: Build) -> None:
    [sample] = [sample for sample in built.split("train") if sample.json() == corpus.KEPT[1]]
    done = _run("inspect", str(built.root), sample.key, env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert r"\u65e5" in done.stdout
