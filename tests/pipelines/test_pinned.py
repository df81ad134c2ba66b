"""What an output folder holds already decides whether a build may go on in it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from pipelines import plan as plan_module
from pipelines.pinned import PLAN, pin, read_pinned, refuse_taken
from pipelines.plan import Plan, PlanRefused, make_plan
from shardwright import layout
from tests.support import make_config, row, write_input


@pytest.fixture
def inputs(tmp_path) -> Path:
    for name in ("a", "b", "c"):
        write_input(tmp_path / "in" / f"{name}.jsonl", [row(f"http://{name}/", name)])
    return tmp_path / "in"


def plan_of(inputs: Path, **sections: Any) -> Plan:
    return make_plan(make_config(inputs.parent / "out", [inputs / "*.jsonl"], **sections))


def refusal(inputs: Path, **sections: Any) -> str:
    """The words that refuse a plan in the output; the pinned plan stays as it was."""
    pinned = inputs.parent / "out" / "_work" / PLAN
    before = pinned.read_bytes() if pinned.exists() else None
    with pytest.raises(PlanRefused) as caught:
        pin(plan_of(inputs, **sections), [])
    assert (pinned.read_bytes() if pinned.exists() else None) == before
    return str(caught.value)


def test_what_is_pinned_is_read_back(inputs):
    plan = plan_of(inputs, held_out={"files": ["b.jsonl"], "fraction": 0.1}, limits={"rejected_rows": "0.5%"})
    pin(plan, ["--job_name=x", "--flag"])
    assert read_pinned(plan.spec.root) == (plan, ["--job_name=x", "--flag"])


def test_the_same_plan_again_is_accepted(inputs):
    pin(plan_of(inputs), [])
    pin(plan_of(inputs), [])


def test_another_runner_and_other_words_are_accepted_and_the_newest_hold(inputs):
    pin(plan_of(inputs, runner={"workers": 1}), ["--job_name=old"])
    pin(plan_of(inputs, runner={"workers": 2, "keep_work": True}), ["--job_name=new"])
    plan, words = read_pinned(str(inputs.parent / "out"))
    assert (plan.config.runner.workers, plan.config.runner.keep_work, words) == (2, True, ["--job_name=new"])


@pytest.mark.parametrize(
    ("sections", "line"),
    [
        ({"shuffle": {"seed": 7}}, "shuffle.seed: 42 -> 7"),
        ({"shards": {"count": 5}}, "shards.count: 2 -> 5"),
        ({"id": ["text"]}, 'id: ["url"] -> ["text"]'),
        ({"held_out": {"fraction": 0.5}}, "held_out.fraction: 0.0 -> 0.5"),
        ({"filter": {"require": {"any_of": ["html"]}}}, 'filter.require.any_of: [] -> ["html"]'),
    ],
)
def test_another_config_is_refused_by_key(inputs, sections, line):
    pin(plan_of(inputs), [])
    lines = refusal(inputs, **sections).splitlines()
    assert lines[0].endswith("an unfinished build with another configuration is here:")
    assert lines[1:-1] == [f"  {line}"]
    assert lines[-1].startswith("Choose another output")


def test_every_key_that_differs_is_named(inputs):
    pin(plan_of(inputs), [])
    words = refusal(inputs, shuffle={"seed": 1}, shards={"count": 3})
    assert "  shards.count: 2 -> 3\n  shuffle.seed: 42 -> 1\n" in words


def test_other_encoders_are_refused(inputs, monkeypatch):
    pin(plan_of(inputs), [])
    monkeypatch.setattr(plan_module, "encoder_versions", lambda _: {"zlib": "other"})
    assert "versions: the encoders on this machine are others" in refusal(inputs)


def change(inputs: Path, how: str) -> None:
    if how == "is gone":
        (inputs / "b.jsonl").unlink()
    elif how == "size":
        facts = (inputs / "b.jsonl").stat()
        (inputs / "b.jsonl").write_bytes(b"{}\n")
        os.utime(inputs / "b.jsonl", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    elif how == "time":
        os.utime(inputs / "b.jsonl", ns=(0, 1))


def test_an_input_that_is_gone_is_named(inputs):
    pin(plan_of(inputs), [])
    (inputs / "a.jsonl").unlink()
    words = refusal(inputs)
    assert f"started with other inputs: {inputs}/a.jsonl is gone." in words
    assert "b.jsonl" not in words  # its number is another; it is the same file all the same


def test_an_input_that_is_new_is_named(inputs):
    pin(plan_of(inputs), [])
    write_input(inputs / "aa.jsonl", [])
    assert f"started with other inputs: {inputs}/aa.jsonl is new." in refusal(inputs)


@pytest.mark.parametrize("how", ["size", "time"])
def test_an_input_that_changed_is_named(inputs, how):
    pin(plan_of(inputs), [])
    change(inputs, how)
    assert f"started with other inputs: {inputs}/b.jsonl changed (size, time or held_out)." in refusal(inputs)


def test_of_many_differences_ten_are_named_and_the_rest_counted(inputs):
    pin(plan_of(inputs), [])
    for number in range(13):
        write_input(inputs / f"z{number:02}.jsonl", [])
    words = refusal(inputs)
    assert words.count(" is new") == 10
    assert "; and 3 more." in words


@pytest.mark.parametrize("how", ["is gone", "size", "time"])
def test_the_engine_refuses_inputs_that_changed_after_the_pin(inputs, how):
    plan = plan_of(inputs)
    pin(plan, [])
    change(inputs, how)
    with pytest.raises(
        PlanRefused, match=r"the inputs changed since the build was started: .*/b\.jsonl (is gone|chan)"
    ):
        read_pinned(plan.spec.root)


def test_a_pinned_build_that_was_moved_is_read_where_it_is(inputs):
    pin(plan_of(inputs), [])
    moved = inputs.parent / "moved"
    (inputs.parent / "out").rename(moved)
    assert read_pinned(str(moved))[0].spec.root == str(moved)


# What else lies in the folder


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("with_work", [True, False])
def test_a_sealed_output_is_refused_and_untouched(inputs, with_work):
    root = inputs.parent / "out"
    if with_work:
        pin(plan_of(inputs), [])
    (root / "train").mkdir(parents=True)
    (root / layout.COMMIT).write_text("sealed")
    before = tree(root)
    assert "a sealed build is here already" in refusal(inputs)
    assert tree(root) == before


@pytest.mark.parametrize("with_work", [True, False])
def test_foreign_files_are_refused_by_name_and_untouched(inputs, with_work):
    root = inputs.parent / "out"
    if with_work:
        pin(plan_of(inputs), [])
    root.mkdir(exist_ok=True)
    (root / "thesis.txt").write_text("precious")
    (root / "notes").mkdir()
    before = tree(root)
    assert "holds what no build left there: notes, thesis.txt." in refusal(inputs)
    assert tree(root) == before


@pytest.mark.parametrize("name", ["README.md", "train"])
def test_names_of_ours_without_a_work_folder_are_not_ours(inputs, name):
    root = inputs.parent / "out"
    root.mkdir()
    (root / name).mkdir()
    assert f"holds what no build left there: {name}." in refusal(inputs)


def test_an_absent_and_an_empty_output_are_free(tmp_path):
    refuse_taken(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    refuse_taken(tmp_path / "empty")
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_a_seal_that_died_half_way_is_taken_back(inputs):
    root = inputs.parent / "out"
    plan = plan_of(inputs)
    pin(plan, [])
    (root / "train").mkdir()
    (root / "train" / "x.tar").write_text("moved")
    (root / "_work" / "held_out").mkdir()
    (root / "_work" / "held_out" / "struck.bin").write_text("not yet moved")
    (root / layout.MANIFEST).write_text("{}")
    (root / layout.SHARDS).write_text("")
    pin(plan, [])
    assert [path.name for path in root.iterdir()] == ["_work"]
    assert (root / "_work" / "train" / "x.tar").read_text() == "moved"
    assert (root / "_work" / "held_out" / "struck.bin").read_text() == "not yet moved"


def test_a_refused_plan_takes_nothing_back(inputs):
    root = inputs.parent / "out"
    pin(plan_of(inputs), [])
    (root / "train").mkdir()
    refusal(inputs, shuffle={"seed": 1})
    assert (root / "train").is_dir()


def test_the_pinned_plan_is_plain_json_with_every_input(inputs):
    pin(plan_of(inputs), ["--x"])
    value = json.loads((inputs.parent / "out" / "_work" / PLAN).read_bytes())
    assert sorted(value) == ["arguments", "config", "fingerprint", "inputs"]
    assert [Path(item["uri"]).name for item in value["inputs"]] == ["a.jsonl", "b.jsonl", "c.jsonl"]
