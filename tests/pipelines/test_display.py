"""What a person sees while a build runs, from progress files written by hand."""

import io
import json
import time

import pytest
from rich.console import Console

from pipelines.display import Display, read_counts, stage_of
from pipelines.plan import Plan, make_plan
from tests.support import make_config
from transforms.stages.work import work_path


class Clock:
    """Stands in for time.monotonic."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("pipelines.display.time.monotonic", clock)
    return clock


@pytest.fixture
def plan(tmp_path) -> Plan:
    """Two inputs, 2 MB each, in two units."""
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for file in files:
        file.write_bytes(b"\n" * 2_000_000)
    made = make_plan(make_config(tmp_path / "out", files))
    assert len(made.units) == 2
    return made


def report(plan: Plan, worker: int = 1, **counts: int) -> None:
    """Let a worker say what it has done; `spill_begun` stands for `spill.begun`."""
    path = work_path(plan.spec.root, "progress", f"{worker}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    dotted = {
        f"{stage}.{what}": counts.pop(f"{stage}_{what}")
        for stage in ("spill", "select_held_out", "resolve", "cut_shards", "gather", "seal")
        for what in ("begun", "done")
        if f"{stage}_{what}" in counts
    }
    path.write_text(json.dumps({"pid": worker, "in_hand": None, "counts": counts | dotted, "peak_bytes": 1}))


def plain() -> Console:
    return Console(file=io.StringIO(), width=40)  # a line is never folded, however narrow


def lines(console: Console) -> list[str]:
    return console.file.getvalue().splitlines()


# Counts and stages


def test_counts_are_summed_over_workers(plan):
    report(plan, 1, documents=3, spill_done=1)
    report(plan, 2, documents=4, spill_begun=1)
    assert read_counts(plan.spec.root) == {"documents": 7, "spill.done": 1, "spill.begun": 1}


def test_no_progress_folder_is_no_counts(plan):
    assert not read_counts(plan.spec.root)


@pytest.mark.parametrize("half", [b"", b'{"pid": 2, "counts": {"documents": 9', b"\xff\xfe\x00"])
def test_a_half_written_file_is_passed_over(plan, half):
    report(plan, 1, documents=3)
    work_path(plan.spec.root, "progress", "2.json").write_bytes(half)
    work_path(plan.spec.root, "progress", "3.tmp").write_bytes(b'{"counts": {"documents": 5}}')
    assert read_counts(plan.spec.root) == {"documents": 3}


@pytest.mark.parametrize(
    ("counts", "stage"),
    [
        ({}, "starting the engine"),
        ({"documents": 5}, "starting the engine"),
        ({"spill_begun": 1}, "spill"),
        ({"spill_begun": 9, "spill_done": 9}, "spill"),
        ({"spill_begun": 9, "select_held_out_begun": 1}, "select_held_out"),
        ({"gather_begun": 1, "resolve_begun": 3, "spill_begun": 9}, "gather"),
        ({"seal_begun": 1, "gather_begun": 1, "spill_begun": 9}, "seal"),
    ],
)
def test_the_stage_is_the_last_one_that_began(plan, counts, stage):
    report(plan, 1, **counts)
    assert stage_of(read_counts(plan.spec.root)) == stage


# Lines


def test_the_first_line_says_that_the_engine_starts(plan, clock):
    console = plain()
    display = Display(plan, console)
    clock.now += 1.5
    display.update()
    assert lines(console) == ["   1.5 s  starting the engine"]


def test_a_line_comes_on_a_new_stage_at_once_and_else_every_five_seconds(plan, clock):
    console = plain()
    display = Display(plan, console)
    with display:
        for stage, step, expected in [
            ("spill", 0.2, 1),
            ("spill", 0.2, 1),
            ("spill", 4.7, 1),
            ("spill", 0.2, 2),
            ("spill", 4.9, 2),
            ("gather", 0.0, 3),
            ("gather", 4.9, 3),
            ("gather", 0.2, 4),
        ]:
            clock.now += step
            report(plan, 1, **{f"{stage}_begun": 1, "documents": 1})
            display.update()
            assert len(lines(console)) == expected, (stage, step)


def test_a_line_while_reading(plan, clock):
    console = plain()
    display = Display(plan, console)
    clock.now += 2
    report(plan, 1, spill_begun=2, spill_done=1, bytes_read=1_000_000, documents=1234)
    display.update()
    assert lines(console) == [
        "   2.0 s  spill: 1/2 units, 1.0 of 4.0 MB read (0.5 MB/s), 1,234 documents - about 6 s of reading to go"
    ]


def test_a_line_while_writing(plan, clock):
    console = plain()
    display = Display(plan, console)
    clock.now += 2
    report(plan, 1, spill_begun=2, spill_done=2, gather_begun=1, bytes_read=4_000_000, documents=9)
    report(plan, 2, bytes_planned=3_000_000, bytes_written=1_500_000)
    display.update()
    assert lines(console) == [
        "   2.0 s  gather: 2/2 units, 4.0 of 4.0 MB read (2.0 MB/s), 9 documents - 1.5 of 3.0 MB written"
    ]


def test_bundles_that_ran_twice_do_not_exceed_the_plan(plan, clock):
    console = plain()
    display = Display(plan, console)
    clock.now += 1
    report(plan, 1, spill_begun=4, spill_done=4, bytes_read=8_000_000, documents=9)
    display.update()
    assert "2/2 units, 4.0 of 4.0 MB read" in lines(console)[0]
    assert "about 0 s of reading to go" in lines(console)[0]


def test_an_update_in_the_first_instant_divides_by_nothing(plan, clock):
    console = plain()
    display = Display(plan, console)
    report(plan, 1, spill_begun=1, bytes_read=0, documents=0)
    display.update()
    assert lines(console) == ["   0.0 s  spill: 0/2 units, 0.0 of 4.0 MB read (0.0 MB/s), 0 documents"]


def test_lines_have_no_colours_and_a_plain_console_no_bars(plan):
    console = plain()
    with Display(plan, console) as display:
        report(plan, 1, spill_begun=1, bytes_read=1)
        display.update()
        assert len(lines(console)) == 1
    assert "\x1b" not in console.file.getvalue()
    assert len(list(filter(None, lines(console)))) == 1


def test_the_lines_do_not_end_with_an_empty_one(plan):
    console = plain()
    with Display(plan, console):
        pass
    assert console.file.getvalue() == ""


# Bars


def terminal() -> Console:
    return Console(force_terminal=True, file=io.StringIO(), width=160, _environ={})


def shown(console: Console, plan: Plan, **counts: int) -> str:
    with Display(plan, console) as display:
        if counts:
            report(plan, 1, **counts)
        display.update()
    return console.file.getvalue()


def test_a_terminal_says_that_the_engine_starts(plan):
    assert "starting the engine" in shown(terminal(), plan)


def test_a_terminal_shows_bars(plan):
    text = shown(
        terminal(),
        plan,
        spill_begun=2,
        spill_done=1,
        bytes_read=2_000_000,
        documents=1234,
        bytes_planned=4_000_000,
        bytes_written=1_000_000,
        gather_done=3,
        samples_written=77,
    )
    assert "1/2 units, 1,234 documents" in text
    assert "3 files, 77 samples" in text
    assert "\x1b[" in text


def test_bars_stay_within_the_plan(plan):
    display = Display(plan, terminal())
    report(plan, 1, spill_done=4, bytes_read=8_000_000, bytes_planned=10, bytes_written=20)
    display.update()
    read, write = display._bars.tasks
    assert (read.completed, read.total) == (4_000_000, 4_000_000)
    assert (write.completed, write.total) == (10, 10)
    assert read.fields["note"].startswith("2/2 units")


def test_the_write_bar_follows_a_plan_that_grows(plan):
    display = Display(plan, terminal())
    for planned in (10, 20):
        report(plan, 1, bytes_planned=planned, bytes_written=planned)
        display.update()
    write = display._bars.tasks[1]
    assert (write.completed, write.total) == (20, 20)


def test_lines_stay_within_the_bytes_planned(plan):
    console = plain()
    report(plan, 1, gather_begun=1, bytes_planned=1_000_000, bytes_written=2_000_000)
    Display(plan, console).update()
    assert "1.0 of 1.0 MB written" in lines(console)[0]


def test_the_write_bar_comes_with_the_first_bytes_planned(plan):
    display = Display(plan, terminal())
    report(plan, 1, spill_begun=1)
    display.update()
    assert [task.description for task in display._bars.tasks] == ["read"]
    report(plan, 1, spill_begun=1, bytes_planned=5)
    display.update()
    display.update()
    assert [task.description for task in display._bars.tasks] == ["read", "write"]


def test_bars_end_when_the_build_fails(plan):
    display = Display(plan, terminal())
    with pytest.raises(ZeroDivisionError), display:
        raise ZeroDivisionError
    assert not display._bars.live.is_started


def test_the_clock_of_the_test_is_the_one_that_the_display_reads(clock):
    assert time.monotonic() == clock.now
