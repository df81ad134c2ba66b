"""SelectHeldOut: which documents are held out, in which order, and what they and their inputs strike from training."""

from pathlib import Path
from typing import Any

import pytest
from xxhash import xxh3_128_digest

from shardwright.order import NO_TEXT
from tests.support import row
from tests.transforms.test_spill import DROPPED, Chain, by_content, flip, order_key, salted, urls
from transforms.stages.runs import FROM_HELD_OUT_INPUT, NO_PAYLOAD, UNDER_FRACTION, Candidate, KeyRow
from transforms.stages.select_held_out import (
    Chosen,
    SelectSettings,
    Struck,
    choose,
    pack_chosen,
    pack_struck,
    range_count,
    read_chosen,
    read_struck,
    select_held_out,
)
from transforms.stages.spec import HeldOut, Limit
from transforms.stages.spill import run_path
from transforms.stages.work import BuildRefused, publish_by_digest

HALF = HeldOut("salt", 0.5)
UNDER, UNDER_TOO = urls(2, under=True)
OVER, OVER_TOO = urls(2, under=False)


def chosen(chain: Chain) -> list[tuple[int, int]]:
    """(input, line) of every held-out document, in their order."""
    rows = [item.candidate.row for item in read_chosen(chain.work, chain.selection()["held"])]
    return [(one.input, one.row) for one in rows]


def struck(chain: Chain) -> set[bytes]:
    data = (chain.work / chain.selection()["struck"]).read_bytes()
    return {data[at : at + 32] for at in range(0, len(data), 32)}


def pair(url: str, text: str) -> bytes:
    return order_key(url) + (xxh3_128_digest(text.encode()) if text else bytes(16))


# Which documents


def test_of_a_held_out_input_every_row_is_held_out_but_the_dropped_and_the_rejected(tmp_path: Path) -> None:
    rows = [row("a", "1"), row("b", "2", **DROPPED), b"{\n", row("c", "3")]
    chain = Chain(
        tmp_path, {"held.jsonl": rows, "other.jsonl": [row("d", "4")]}, ["held.jsonl"], rejected_rows=Limit(count=1)
    )
    assert sorted(chosen(chain)) == [(0, 1), (0, 4)]


def test_of_another_input_the_rows_under_the_fraction_are_held_out_but_the_dropped(tmp_path: Path) -> None:
    rows = [row(UNDER, "1"), row(OVER, "2"), row(UNDER_TOO, "3", **DROPPED)]
    assert chosen(Chain(tmp_path, {"a.jsonl": rows}, held_out=HALF)) == [(0, 1)]


def test_without_held_out_inputs_and_fraction_nothing_is(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": [row(UNDER, "1")]})
    assert (chosen(chain), struck(chain)) == ([], set())


@pytest.mark.parametrize("smaller_first", [True, False])
def test_one_document_stays_for_an_id_inside_a_held_out_input_the_one_with_the_smallest_digest(
    tmp_path: Path, smaller_first: bool
) -> None:
    rows = by_content(row("a", "1"), row("a", "2"))
    chain = Chain(tmp_path, {"a.jsonl": rows if smaller_first else rows[::-1]}, ["a.jsonl"])
    assert chosen(chain) == [(0, 1 if smaller_first else 2)]


@pytest.mark.parametrize("smaller_first", [True, False])
def test_one_document_stays_for_an_id_under_the_fraction_whichever_file_it_is_in(
    tmp_path: Path, smaller_first: bool
) -> None:
    first, second = by_content(row(UNDER, "1"), row(UNDER, "2"))[:: 1 if smaller_first else -1]
    chain = Chain(tmp_path, {"a.jsonl": [first], "b.jsonl": [second]}, held_out=HALF)
    assert chosen(chain) == [(0 if smaller_first else 1, 1)]


def test_of_equal_rows_the_first_one_is_held_out(tmp_path: Path) -> None:
    same = row(UNDER, "1")
    chain = Chain(tmp_path, {"a.jsonl": [row(OVER, "0"), same, same], "b.jsonl": [same]}, held_out=HALF)
    assert chosen(chain) == [(0, 2)]


@pytest.mark.parametrize("held_file", ["a.jsonl", "b.jsonl"])
def test_a_held_out_inputs_row_goes_before_a_smaller_one_under_the_fraction(tmp_path: Path, held_file: str) -> None:
    smaller, larger = by_content(row(UNDER, "1"), row(UNDER, "2"))
    other = {"a.jsonl": "b.jsonl", "b.jsonl": "a.jsonl"}[held_file]
    chain = Chain(tmp_path, {held_file: [larger], other: [smaller]}, [held_file], held_out=HALF)
    assert chosen(chain) == [(int(held_file == "b.jsonl"), 1)]


def test_where_a_held_out_inputs_row_was_dropped_the_one_under_the_fraction_is_held_out(tmp_path: Path) -> None:
    files = {"a.jsonl": [row(UNDER, "1", **DROPPED)], "b.jsonl": [row(UNDER, "2")]}
    assert chosen(Chain(tmp_path, files, ["a.jsonl"], held_out=HALF)) == [(1, 1)]


# In which order


def in_order(chain: Chain, names: list[str]) -> list[str]:
    return [names[line - 1] for _, line in chosen(chain)]


def test_held_out_documents_stand_in_the_order_of_their_salted_hash(tmp_path: Path) -> None:
    names = [f"http://{number}" for number in range(30)]
    rows = [row(name, "t") for name in names]
    found = [
        in_order(Chain(tmp_path / "one", {"a.jsonl": rows}, ["a.jsonl"]), names),
        in_order(Chain(tmp_path / "two", {"a.jsonl": rows}, ["a.jsonl"], seed=7), names),
        in_order(Chain(tmp_path / "three", {"a.jsonl": rows}, ["a.jsonl"], held_out=HeldOut("pepper", 0.0)), names),
    ]
    assert found[0] == sorted(names, key=salted)
    assert found[1] == found[0], "the shuffle's seed moves no held-out document"
    assert found[2] == sorted(names, key=lambda name: salted(name, "pepper"))


# What is struck


def test_every_readable_row_of_a_held_out_input_is_struck_whatever_became_of_it(tmp_path: Path) -> None:
    rows = [row("a", "1"), row("b", "2", **DROPPED), row("a", "3"), row("c", "")]
    chain = Chain(tmp_path, {"a.jsonl": rows, "b.jsonl": [row("d", "4")]}, ["a.jsonl"])
    assert struck(chain) == {pair("a", "1"), pair("b", "2"), pair("a", "3"), pair("c", "")}


def test_under_the_fraction_only_what_is_held_out_is_struck(tmp_path: Path) -> None:
    stays, loses = by_content(row(UNDER, "1"), row(UNDER, "2"))
    rows = [loses, stays, row(OVER, "3"), row(UNDER_TOO, "4", **DROPPED)]
    assert struck(Chain(tmp_path, {"a.jsonl": rows}, held_out=HALF)) == {pair(UNDER, stays["text"])}


def test_the_struck_list_is_sorted_and_has_each_pair_once(tmp_path: Path) -> None:
    rows = [row(f"http://{number % 20}", f"{number % 20}") for number in range(40)]
    chain = Chain(tmp_path, {"a.jsonl": rows}, ["a.jsonl"])
    data = (chain.work / chain.selection()["struck"]).read_bytes()
    pairs = [data[at : at + 32] for at in range(0, len(data), 32)]
    assert pairs == sorted(pair(f"http://{number}", f"{number}") for number in range(20))


def test_an_empty_text_is_on_the_list_but_strikes_nothing(tmp_path: Path) -> None:
    key, other, text = bytes([1]) * 16, bytes([2]) * 16, bytes([3]) * 16
    name = publish_by_digest(tmp_path, "x", ".struck", pack_struck({key + text, other + NO_TEXT}))
    assert read_struck(tmp_path, name) == Struck(frozenset({key, other}), frozenset({text}))


# As pure functions of candidates


def candidate(number: int, flags: int, *, key: int = 1, content: int = 5, text: int = 9, run: int = 0) -> Chosen:
    values = bytes([key]) * 16, bytes([content]) * 16, number, 1, bytes([text]) * 16, bytes(8), 10, 0, flags
    return Chosen(Candidate(KeyRow(*values), 100 * number, bytes([key]) * 16), run)


def test_the_order_of_candidates_does_not_matter() -> None:
    items = [
        candidate(1, UNDER_FRACTION, content=1, text=1),
        candidate(2, FROM_HELD_OUT_INPUT, content=3, text=2),
        candidate(3, FROM_HELD_OUT_INPUT | UNDER_FRACTION, content=2, text=3),
        candidate(4, FROM_HELD_OUT_INPUT | NO_PAYLOAD, content=0, text=4),
        candidate(6, UNDER_FRACTION, key=2, text=5),
        candidate(5, UNDER_FRACTION, key=2, text=5),
    ]
    held, pairs = choose(items, "salt")
    assert sorted(item.candidate.row.input for item in held) == [3, 5]
    assert {pair[16] for pair in pairs} == {2, 3, 4, 5}
    for turn in range(1, 6):
        assert choose(items[turn:] + items[:turn], "salt") == (held, pairs)


def test_the_list_of_held_out_documents_reads_back_as_it_was_written(tmp_path: Path) -> None:
    held = [candidate(number, FROM_HELD_OUT_INPUT, key=number, run=256 * number) for number in range(5)]
    assert read_chosen(tmp_path, publish_by_digest(tmp_path, "x", ".held", pack_chosen(held))) == held


@pytest.mark.parametrize(
    ("rows", "ranges"),
    [(0, 8), (8 * 200_000, 8), (8 * 200_000 + 1, 16), (100 * 200_000, 128), (256 * 200_000, 256), (10**12, 256)],
)
def test_ranges_are_a_power_of_two_that_keeps_each_small(rows: int, ranges: int) -> None:
    assert range_count(rows) == ranges


# The stage


def selected(chain: Chain, runs: list[Any]) -> list[tuple[int, Any]]:
    return list(select_held_out(SelectSettings(chain.spec, chain.inputs), 0, runs))


def three(folder: Path) -> Chain:
    files = {f"{name}.jsonl": [row(f"{name}{number}", name) for number in range(9)] for name in "abc"}
    return Chain(folder, files, ["b.jsonl"])


def test_every_range_goes_on_its_way_with_one_selection(tmp_path: Path) -> None:
    elements = three(tmp_path).select()
    assert [number for number, _ in elements] == list(range(8)) == [value["range"] for _, value in elements]
    assert len({value["selection"] for _, value in elements}) == 1


def test_the_order_in_which_runs_arrive_does_not_matter(tmp_path: Path) -> None:
    chain = three(tmp_path)
    runs = chain.spill()
    assert selected(chain, runs[::-1]) == selected(chain, runs)


def test_how_inputs_are_packed_into_units_does_not_change_what_is_held_out(tmp_path: Path) -> None:
    chain = three(tmp_path)
    one_by_one = chosen(chain), struck(chain)
    chain.units = [chain.inputs[1:], chain.inputs[:1]]
    assert (chosen(chain), struck(chain)) == one_by_one
    assert len(one_by_one[0]) == 9


@pytest.mark.parametrize("numbers", [[0, 1], [0, 1, 2, 2], [0, 2, 2]])
def test_a_lost_or_repeated_unit_is_refused(tmp_path: Path, numbers: list[int]) -> None:
    chain = three(tmp_path)
    runs = chain.spill()
    with pytest.raises(BuildRefused, match="lost or repeated work units"):
        selected(chain, [runs[number] for number in numbers])


def test_a_run_that_is_gone_or_damaged_is_refused(tmp_path: Path) -> None:
    chain = three(tmp_path)
    runs = chain.spill()
    path = run_path(chain.spec.root, runs[1]["name"])
    flip(path, -1)
    with pytest.raises(BuildRefused, match="damaged on disk"):
        selected(chain, runs)
    path.unlink()
    with pytest.raises(BuildRefused, match="gone while the build ran"):
        selected(chain, runs)
