"""The table of a plan and the closing summary of a build."""

import io

import pytest
from rich.console import Console

from pipelines.plan import make_plan
from pipelines.summary import print_plan, print_summary
from pipelines.supervise import Usage
from shardwright.build import Build
from tests.support import build_rows, make_config, row


def console() -> Console:
    return Console(file=io.StringIO(), width=200)


def text_of(printed: Console) -> list[str]:
    """Lines with runs of blanks as one."""
    return [" ".join(line.split()) for line in printed.file.getvalue().splitlines()]


@pytest.fixture(scope="module")
def build(tmp_path_factory) -> Build:
    """10 rows: 1 broken, 2 dropped, 1 held out, its twin, 1 duplicate, 4 to train on; 8 shards wanted."""
    held = [row("http://held/", "held")]
    rows = [
        b"{broken\n",
        row("http://d/1", "d1", ["url"]),
        row("http://d/2", "d2", ["url"]),
        row("http://twin/", "held"),
        *(row(f"http://t/{number}", f"t{number}") for number in range(4)),
        row("http://t/0", "t0"),
    ]
    return build_rows(
        tmp_path_factory.mktemp("summary"),
        {"held.jsonl": held, "a.jsonl.gz": rows},
        held_out={"files": ["held.jsonl"]},
        filter={"require": {"any_of": ["html"]}},
        limits={"rejected_rows": 1},
        shards={"count": 8},
    )


@pytest.fixture(scope="module")
def summary(build) -> list[str]:
    printed = console()
    print_summary(build, Usage(12.34, 345_600_000), printed)
    return text_of(printed)


@pytest.mark.parametrize(
    "line",
    [
        "10 read",
        "1 rejected 10.00%",
        "1 not-json",
        "2 dropped 20.00%",
        "2 missing-any:html",
        "1 held out 10.00%",
        "1 held out twin 10.00%",
        "1 duplicate 10.00%",
        "4 train 40.00%",
    ],
)
def test_the_funnel_has_every_fate_with_its_count_and_share(summary, line):
    assert line in summary


def test_the_funnel_is_in_the_order_of_the_fates(summary):
    fates = ["read", "rejected", "excluded", "dropped", "held out", "held out twin", "duplicate", "train"]
    places = [next(i for i, line in enumerate(summary) if f" {fate}" in line.split(" %")[0]) for fate in fates]
    assert places == sorted(places)


def test_what_was_made_is_told(summary, build):
    size = build.manifest["splits"]["train"]["bytes"] / 1e6
    assert "inputs 2 files" in summary
    assert f"train 4 samples in 4 shards of 1, {size:,.1f} MB" in summary
    assert "took 12.3 s, peak memory 346 MB over all processes" in summary
    assert f"build id {build.id}" in summary
    assert f"sealed {build.root}" in summary


def test_the_held_out_sets_are_counted(summary):
    assert "held out all 1, html 1" in summary


def test_fewer_shards_than_asked_is_a_warning(summary):
    assert "warning 8 shards were asked for, but there are only 4 samples: no shard is empty" in summary


@pytest.fixture(scope="module")
def even(tmp_path_factory) -> list[str]:
    """A build without troubles: 5 samples in 2 shards."""
    rows = [row(f"http://t/{number}", f"t{number}") for number in range(5)]
    printed = console()
    print_summary(build_rows(tmp_path_factory.mktemp("even"), {"a.jsonl": rows}), Usage(1, 1), printed)
    return text_of(printed)


def test_a_build_as_asked_has_no_warning_and_no_rejected_inputs(even):
    assert not [line for line in even if "warning" in line]
    assert "inputs 1 files" in even
    assert "held out nothing" in even


def test_two_sizes_of_shard_are_both_told(even):
    assert any(line.startswith("train 5 samples in 2 shards of 2 or 3,") for line in even)


# The plan


def plan_text(tmp_path, files: int, **sections) -> list[str]:
    (tmp_path / "in").mkdir()
    for number in range(files):
        (tmp_path / "in" / f"{number:02}.gz").write_bytes(b"x" * 1_000_000)
    printed = console()
    print_plan(make_plan(make_config(tmp_path / "out", [tmp_path / "in" / "*.gz"], **sections)), printed)
    return text_of(printed)


def test_a_plan_tells_inputs_units_shards_and_fingerprint(tmp_path):
    lines = plan_text(
        tmp_path, 3, held_out={"files": ["01.gz"], "fraction": 0.05}, shards={"count": 1234}, runner={"workers": 5}
    )
    assert f"{tmp_path}/in/00.gz 1.00" in lines
    assert f"{tmp_path}/in/01.gz 1.00 yes" in lines
    assert "inputs 3 files, 3.0 MB as stored" in lines
    assert "work 3 units on 5 workers, the largest 1.0 MB" in lines
    assert "held out 1 files, fraction 0.05 of the ids" in lines
    assert "shards 1,234 x tar" in lines
    assert f"output {tmp_path}/out" in lines
    fingerprint = make_plan(
        make_config(
            tmp_path / "other",
            [tmp_path / "in" / "*.gz"],
            held_out={"files": ["01.gz"], "fraction": 0.05},
            shards={"count": 1234},
        )
    ).fingerprint
    assert f"fingerprint {fingerprint}" in lines


def test_a_path_is_shown_as_it_is(tmp_path):
    (tmp_path / "x[bold].gz").write_bytes(b"x")
    printed = console()
    print_plan(make_plan(make_config(tmp_path / "out", [tmp_path / "x*"])), printed)
    assert f"{tmp_path}/x[bold].gz 0.00" in text_of(printed)


@pytest.mark.parametrize(("files", "more"), [(20, None), (21, "... and 1 more")])
def test_of_many_inputs_twenty_are_listed(tmp_path, files, more):
    lines = plan_text(tmp_path, files)
    assert sum("/in/" in line for line in lines) == 20
    assert [line for line in lines if line.startswith("...")] == ([more] if more else [])
