"""Limits: what a build may lose, and what it says when it lost more."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.support import row
from tests.transforms.test_spill import DROPPED, Chain, listed, make_spec
from transforms.stages.limits import refuse_losses
from transforms.stages.spec import Input, Limit
from transforms.stages.work import BuildRefused

ALL, NONE = Limit(share=Decimal(1)), Limit(count=0)


# A limit


@pytest.mark.parametrize(("count", "lost", "allowed"), [(0, 0, True), (0, 1, False), (5, 5, True), (5, 6, False)])
def test_a_count_allows_so_many_whatever_the_total(count: int, lost: int, allowed: bool) -> None:
    assert [Limit(count=count).allows(lost, of) for of in (lost, 10**9)] == [allowed, allowed]


@pytest.mark.parametrize(
    ("share", "lost", "of", "allowed"),
    [
        ("0", 0, 100, True), ("0", 1, 10**9, False), ("0.29", 29, 100, True), ("0.29", 30, 100, False),
        ("0.005", 1, 200, True),
        ("0.005", 1, 199, False), ("1", 7, 7, True), ("0.5", 0, 0, True),
    ],
)  # fmt: skip
def test_a_share_allows_exactly_its_part_of_the_total(share: str, lost: int, of: int, allowed: bool) -> None:
    assert Limit(share=Decimal(share)).allows(lost, of) is allowed


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "a count or a share"),
        ({"count": 1, "share": Decimal(1)}, "a count or a share"),
        ({"count": -1}, "0 or more, found -1"),
        ({"share": Decimal("1.01")}, "from 0 to 1, found 1.01"),
        ({"share": Decimal("-0.1")}, "from 0 to 1, found -0.1"),
    ],
)
def test_a_limit_is_one_of_the_two_and_in_its_bounds(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Limit(**values)


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (Limit(count=7), "7"),
        (Limit(share=Decimal("0.005")), "0.5%"),
        (Limit(share=Decimal(1)), "100%"),
        (Limit(share=Decimal(0)), "0%"),
    ],
)
def test_a_limit_is_shown_as_it_is_written(limit: Limit, words: str) -> None:
    assert str(limit) == words


# Of a whole build


def facts(*, rows: int = 100, rejected: dict[str, int] | None = None, damage: str | None = None) -> dict[str, Any]:
    return {"rows": rows, "rejected": rejected or {}, "damage": damage and {"reason": damage, "offset": 77}}


def refuse(*items: dict[str, Any], rows: Limit = NONE, inputs: Limit = NONE) -> None:
    spec = make_spec(Path("out"), rejected_rows=rows, rejected_inputs=inputs)
    listing = tuple(Input(number, f"{number}.jsonl", 1, 1, False) for number in range(len(items)))
    refuse_losses(spec, listing, list(items))


def refusal(*items: dict[str, Any], **limits: Limit) -> list[str]:
    with pytest.raises(BuildRefused) as caught:
        refuse(*items, **limits)
    return str(caught.value).splitlines()


BROKEN = facts(rejected={"too-long": 2, "not-json": 1})
DAMAGED = facts(rows=0, damage="truncated")


def test_a_build_that_lost_nothing_goes_on() -> None:
    refuse(facts(), facts(rows=0))


def test_lost_rows_are_told_by_input_and_reason_with_a_way_on() -> None:
    head, first, second, more = refusal(facts(), BROKEN, facts(rejected={"not-utf8": 4}))
    assert head == (
        "7 of 300 rows could not be read, limits.rejected_rows is 0. "
        "Repair or remove them, or allow it: --set limits.rejected_rows=7"
    )
    assert (first, second) == ("  1.jsonl: 1 not-json, 2 too-long", "  2.jsonl: 4 not-utf8")
    assert "zstdcat out/_work/rejected/*.jsonl.zst" in more and "the same command goes on from here" in more


def test_lost_inputs_are_told_with_their_damage_and_a_way_on() -> None:
    head, first, _ = refusal(facts(), DAMAGED)
    assert head == (
        "1 of 2 inputs could not be read, limits.rejected_inputs is 0. "
        "Repair or remove them, or allow it: --set limits.rejected_inputs=1"
    )
    assert first == "  1.jsonl: truncated at byte 77"


def test_both_are_told_at_once() -> None:
    lines = refusal(BROKEN, DAMAGED)
    assert [words.partition(" could")[0] for words in lines if "could" in words] == ["1 of 2 inputs", "3 of 100 rows"]


def test_the_advice_is_just_enough() -> None:
    refuse(BROKEN, DAMAGED, facts(), rows=Limit(count=3), inputs=Limit(count=1))
    refusal(BROKEN, DAMAGED, facts(), rows=Limit(count=2), inputs=Limit(count=1))
    refusal(BROKEN, DAMAGED, facts(), rows=Limit(count=3), inputs=Limit(count=0))


def test_a_share_is_of_all_rows_and_of_all_inputs() -> None:
    refuse(BROKEN, facts(), rows=Limit(share=Decimal("0.015")))
    assert "limits.rejected_rows is 1.4%" in refusal(BROKEN, facts(), rows=Limit(share=Decimal("0.014")))[0]
    refuse(DAMAGED, facts(), inputs=Limit(share=Decimal("0.5")))
    assert "limits.rejected_inputs is 49%" in refusal(DAMAGED, facts(), inputs=Limit(share=Decimal("0.49")))[0]


@pytest.mark.parametrize(
    ("number", "told", "more"), [(10, 10, None), (11, 10, "  ... and 1 more"), (500, 10, "  ... and 490 more")]
)
def test_ten_inputs_are_told_and_the_rest_is_counted(number: int, told: int, more: str | None) -> None:
    lines = refusal(*[BROKEN] * number)
    assert [words for words in lines if words.startswith("  ... ")] == ([more] if more else [])
    assert sum(".jsonl: 1 not-json" in words for words in lines) == told


# In the chain


def test_limits_are_checked_before_anything_is_selected(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": [row("a", "1"), b"{\n"]})
    with pytest.raises(BuildRefused, match=r"a\.jsonl: 1 not-json"):
        chain.select()
    assert not list(chain.work.glob("selection-*"))


def test_within_its_limits_a_build_goes_on(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": [row("a", "1"), b"{\n"]}, rejected_rows=Limit(share=Decimal("0.5")))
    assert chain.counts()["train"] == 1


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([], "it has no readable row"),
        ([b"\n \n"], "it has no readable row"),
        ([b"{\n", b"[]\n"], "it has no readable row"),
    ],
    ids=["empty", "blank", "broken"],
)
def test_a_held_out_input_without_a_readable_row_is_refused_whatever_the_limits(
    tmp_path: Path, rows: list[bytes], why: str
) -> None:
    files = {"a.jsonl.gz": rows, "b.jsonl": [row("b", "2")]}
    chain = Chain(tmp_path, files, ["a.jsonl.gz"], rejected_rows=ALL, rejected_inputs=ALL)
    with pytest.raises(
        BuildRefused, match=rf"a\.jsonl\.gz: this held-out input cannot be used: {why}.*no limit covers it"
    ):
        chain.select()


@pytest.mark.parametrize(("damage", "why"), [("cut", "truncated at byte"), ("gone", "unreadable at byte 0")])
def test_a_damaged_held_out_input_is_refused_whatever_the_limits(tmp_path: Path, damage: str, why: str) -> None:
    files = {"a.jsonl.gz": [row("a", "1")], "b.jsonl": [row("b", "2")]}
    chain = Chain(tmp_path, files, ["a.jsonl.gz"], rejected_rows=ALL, rejected_inputs=ALL)
    cut_off(chain)
    if damage == "gone":
        Path(chain.inputs[0].uri).unlink()
    with pytest.raises(BuildRefused, match=rf"this held-out input cannot be used: {why}"):
        chain.select()


def cut_off(chain: Chain) -> None:
    """Damage the first input before it is listed."""
    path, held_out = Path(chain.inputs[0].uri), chain.inputs[0].held_out
    path.write_bytes(path.read_bytes()[:-1])
    chain.inputs = (listed(0, path, held_out), *chain.inputs[1:])
    chain.units = [(item,) for item in chain.inputs]


def test_a_held_out_input_whose_rows_were_all_dropped_can_be_used(tmp_path: Path) -> None:
    files = {"a.jsonl": [row("a", "1", **DROPPED)], "b.jsonl": [row("a", "2"), row("b", "2")]}
    chain = Chain(tmp_path, files, ["a.jsonl"])
    assert chain.counts() == {"held_out": 0, "held_out_twin": 1, "duplicate": 0, "train": 1}


def test_a_damaged_input_that_is_not_held_out_is_covered_by_the_limits(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl.gz": [row("a", "1")], "b.jsonl": [row("b", "2")]}, rejected_inputs=Limit(count=1))
    cut_off(chain)
    assert chain.counts()["train"] == 1
