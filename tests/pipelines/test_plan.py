"""From patterns to inputs, units and the spec: what a plan says, and what it refuses."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from pipelines import plan as plan_module
from pipelines.config import Limit
from pipelines.plan import PlanRefused, list_inputs, make_plan, pack_units, worker_count
from tests.support import make_config, row, write_input
from transforms.stages.spec import Input

MIB = 1 << 20


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Four small inputs and one below a folder; the current folder is the one they are named from."""
    for name in ("000.gz", "001.gz", "002.gz", "003.gz", "deep/er/004.gz"):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * int(path.stem))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(*patterns: str) -> list[str]:
    return [item.uri for item in list_inputs(patterns, ())]


def held(*patterns: str, files: tuple[str, ...] = ("in/**/*.gz",)) -> list[str]:
    return [item.uri for item in list_inputs(files, patterns) if item.held_out]


# Inputs


@pytest.mark.parametrize(
    ("pattern", "stems"),
    [
        ("in/*.gz", ["000", "001", "002", "003"]),
        ("in/00[12].gz", ["001", "002"]),
        ("in/00?.gz", ["000", "001", "002", "003"]),
        ("in/{000,003}.gz", ["000", "003"]),
        ("in/{000..003}.gz", ["000", "001", "002", "003"]),
        ("in/{001..009}.gz", ["001", "002", "003"]),
        ("in/{000,00[12]}.gz", ["000", "001", "002"]),
        ("in/**/*.gz", ["000", "001", "002", "003", "deep/er/004"]),
        ("in/**", ["000", "001", "002", "003", "deep/er/004"]),
        ("in/*/*/*.gz", ["deep/er/004"]),
        ("in/000.gz", ["000"]),
    ],
)
def test_what_a_pattern_matches(folder, pattern, stems):
    assert names(pattern) == [f"in/{stem}.gz" for stem in stems]


def test_a_file_named_by_two_patterns_counts_once(folder):
    assert names("in/000.gz", "in/{000,001}.gz", "./in//000.gz", "in/deep/../001.gz") == ["in/000.gz", "in/001.gz"]


def test_numbers_follow_the_sorted_path_whatever_the_order_of_patterns(folder):
    one = list_inputs(("in/003.gz", "in/**/004.gz", "in/{001,000}.gz"), ())
    other = list_inputs(("in/{000,001}.gz", "in/003.gz", "in/**/004.gz"), ())
    assert one == other
    assert [(item.number, item.uri) for item in one] == list(
        enumerate(["in/000.gz", "in/001.gz", "in/003.gz", "in/deep/er/004.gz"])
    )


def test_an_input_has_its_size_and_time(folder):
    os.utime("in/003.gz", ns=(1, 123_456_789))
    [item] = list_inputs(("in/003.gz",), ())
    assert item == Input(0, "in/003.gz", 3, 123_456_789, False)


@pytest.mark.parametrize("pattern", ["in/nothing-*.gz", "in/deep", "in/d*", "in/*/", "in/{8,9}.gz"])
def test_a_pattern_that_names_no_file_is_refused_with_its_words(folder, pattern):
    with pytest.raises(PlanRefused) as caught:
        names("in/*.gz", pattern)
    assert f"input.files: {pattern!r} matches no file (relative to {folder})" in str(caught.value)


def test_folders_beside_files_are_passed_over(folder):
    (folder / "in" / "folder.gz").mkdir()
    assert "in/folder.gz" not in names("in/*.gz")


def test_more_than_a_million_spellings_are_refused_at_once(folder):
    with pytest.raises(PlanRefused, match=r"input.files: 'in/\{0..2000000\}.gz' stands for more than 1,000,000 names"):
        names("in/{0..2000000}.gz")


def test_thousands_of_spellings_are_no_trouble(folder):
    assert names("in/{000..999}{,x,y,z}.gz", "in/*.gz") == names("in/*.gz")


def test_a_file_named_absolutely_and_relatively_counts_once(folder):
    assert len(names("in/000.gz", str(folder / "in" / "000.gz"))) == 1


# Held out by file


@pytest.mark.parametrize(
    ("pattern", "stems"),
    [
        ("001.gz", ["001"]),
        ("004.gz", ["deep/er/004"]),
        ("in/001.gz", ["001"]),
        ("./in/001.gz", ["001"]),
        ("in/deep/er/004.gz", ["deep/er/004"]),
        ("{000,002}.gz", ["000", "002"]),
        ("{001..002}.gz", ["001", "002"]),
        ("00[01].gz", ["000", "001"]),
        ("in/deep/*", ["deep/er/004"]),
    ],
)
def test_held_out_by_base_name_path_brace_and_glob(folder, pattern, stems):
    assert held(pattern) == [f"in/{stem}.gz" for stem in stems]


def test_held_out_patterns_add_up(folder):
    assert held("000.gz", "in/{000,003}.gz") == ["in/000.gz", "in/003.gz"]


@pytest.mark.parametrize("pattern", ["5.gz", "00", "001", "elsewhere/001.gz", "er/004.gz", "001.GZ"])
def test_a_held_out_pattern_that_matches_nothing_is_refused_with_its_words(folder, pattern):
    with pytest.raises(PlanRefused, match="by base name or by path") as caught:
        held("000.gz", pattern)
    assert f"held_out.files: {pattern!r} matches none of the 5 inputs" in str(caught.value)


def test_thousands_of_held_out_spellings_are_no_trouble(folder):
    assert held("{000..999}{,x,y,z}.gz") == names("in/**/*.gz")


# Work units


def inputs_of(*sizes: int) -> tuple[Input, ...]:
    return tuple(Input(number, f"{number:04}.gz", size, 0, False) for number, size in enumerate(sizes))


def sizes_of(units: tuple[tuple[Input, ...], ...]) -> list[list[int]]:
    return [[item.bytes for item in unit] for unit in units]


@pytest.mark.parametrize(
    "sizes", [[0], [0, 0, 0], [5], list(range(200)), [7] * 999, [1, 10**10, 0, 3], [80 * MIB] * 3 + [MIB] * 300]
)
def test_units_are_a_partition_of_the_inputs_largest_first(sizes):
    inputs = inputs_of(*sizes)
    units = pack_units(inputs)
    assert sorted(item.number for unit in units for item in unit) == list(range(len(sizes)))
    totals = [sum(unit) for unit in sizes_of(units)]
    assert totals == sorted(totals, reverse=True)
    for unit in units:
        numbers = [item.number for item in unit]
        assert numbers == list(range(numbers[0], numbers[-1] + 1))  # neighbours


def test_small_neighbours_are_packed_and_a_big_file_is_alone():
    units = sizes_of(pack_units(inputs_of(*[MIB] * 100, 5000 * MIB, *[MIB] * 100)))
    assert units[0] == [5000 * MIB]
    assert units[1:] == [[MIB] * 64, [MIB] * 64, [MIB] * 36, [MIB] * 36]


def test_few_bytes_are_still_dealt_to_many_units():
    assert len(pack_units(inputs_of(*[100] * 640))) == 64


def test_no_unit_of_several_files_is_larger_than_the_target():
    units = sizes_of(pack_units(inputs_of(*[40 * MIB] * 500)))
    assert all(len(unit) == 1 or sum(unit) <= 64 * MIB for unit in units)


def test_units_of_one_size_stand_in_the_order_of_their_files():
    assert [unit[0].number for unit in pack_units(inputs_of(*[100 * MIB] * 9))] == list(range(9))


def test_units_do_not_depend_on_the_workers_or_the_machine(folder, monkeypatch):
    def elements(workers: Any) -> list[tuple[int, str]]:
        return make_plan(make_config(folder / "out", ["in/*.gz"], runner={"workers": workers})).elements()

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    one = elements("all")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    assert one == elements("all") == elements(3)


def test_elements_decode_to_the_inputs(folder):
    plan = make_plan(make_config(folder / "out", ["in/**/*.gz"], held_out={"files": ["001.gz"]}))
    elements = plan.elements()
    assert [number for number, _ in elements] == list(range(len(plan.units)))
    decoded = [Input(**value) for _, text in elements for value in json.loads(text)]
    assert sorted(decoded, key=lambda item: item.number) == list(plan.inputs)
    assert [item.held_out for item in plan.inputs] == [False, True, False, False, False]
    assert plan.bytes == 0 + 1 + 2 + 3 + 4


# The spec


def spec_of(folder: Path, **sections: Any) -> dict[str, Any]:
    plan = make_plan(make_config(folder / sections.pop("to", "out"), ["in/*.gz"], **sections))
    assert plan.spec.fingerprint == plan.fingerprint
    return {field.name: getattr(plan.spec, field.name) for field in dataclasses.fields(plan.spec)}


@pytest.mark.parametrize(
    ("sections", "field", "value"),
    [
        ({"shuffle": {"seed": 7}}, "seed", 7),
        ({"id": ["text", "url"]}, "id_fields", ("text", "url")),
        ({"duplicates": "error"}, "duplicates_are_errors", True),
        ({"shards": {"count": 9}}, "shards", 9),
        ({"limits": {"rejected_inputs": 3}}, "rejected_inputs", Limit(count=3)),
        ({"limits": {"rejected_rows": 4}}, "rejected_rows", Limit(count=4)),
    ],
)
def test_each_option_reaches_its_own_field_of_the_spec(folder, sections, field, value):
    before, after = spec_of(folder), spec_of(folder, **sections)
    assert after[field] == value
    always = {"config", "fingerprint"}
    assert {name for name in before if before[name] != after[name]} - always == {field}
    assert before["config"] != after["config"]


@pytest.mark.parametrize(
    ("held_out", "salt", "fraction"), [({"salt": "s"}, "s", 0.0), ({"fraction": 0.25}, "held-out/1", 0.25)]
)
def test_held_out_reaches_the_spec(folder, held_out, salt, fraction):
    found = spec_of(folder, held_out=held_out)["held_out"]
    assert (found.salt, found.fraction) == (salt, fraction)


def test_the_spec_keeps_the_config_without_runner_and_output(folder):
    spec = spec_of(folder, filter={"require": {"all_of": ["html"]}}, runner={"workers": 3})
    config = json.loads(spec["config"])
    assert config["filter"]["require"]["all_of"] == ["html"]
    assert not {"runner", "output"} & config.keys()
    assert spec["job"] == "c4_html"
    assert json.loads(spec["versions"])


def test_runner_and_output_change_nothing_but_the_root(folder):
    one = spec_of(folder)
    other = spec_of(folder, to="elsewhere", runner={"workers": 5, "keep_work": True, "options": {"job_name": "x"}})
    assert {name for name in one if one[name] != other[name]} == {"root"}
    assert other["root"] == str(folder / "elsewhere")


def test_other_encoders_are_another_fingerprint(folder, monkeypatch):
    before = spec_of(folder)
    monkeypatch.setattr(plan_module, "encoder_versions", lambda _: {"zlib": "other"})
    after = spec_of(folder)
    assert before["fingerprint"] != after["fingerprint"]
    assert json.loads(after["versions"]) == {"zlib": "other"}


def test_planning_touches_nothing(folder):
    before = sorted(folder.rglob("*"))
    make_plan(make_config(folder / "out", ["in/*.gz"]))
    assert sorted(folder.rglob("*")) == before


def test_worker_count(folder, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5})
    assert worker_count(make_config(folder, ["x"]).runner) == 3
    assert worker_count(make_config(folder, ["x"], runner={"workers": 8}).runner) == 8


def test_real_files_by_absolute_path(tmp_path):
    path = write_input(tmp_path / "a.jsonl.gz", [row("http://x/", "x")])
    [item] = make_plan(make_config(tmp_path / "out", [path])).inputs
    assert (item.uri, item.bytes) == (str(path), path.stat().st_size)
