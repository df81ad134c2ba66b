"""The funnel: counts of a build from its parts, and the law that they obey."""

from typing import Any

import pytest

from shardwright.funnel import FATES, broken_law, total
from transforms.stages.funnel import build_counts, show_counts


def an_input(rows: int, *, damage: bool = False, **reasons: dict[str, int]) -> dict[str, Any]:
    none = {"rejected": {}, "excluded": {}, "dropped": {}}
    return {"rows": rows, "damage": {"offset": 1, "reason": "truncated"} if damage else None} | none | reasons


def a_range(held_out: int = 0, held_out_twin: int = 0, duplicate: int = 0, train: int = 0) -> dict[str, Any]:
    return {"fates": {"held_out": held_out, "held_out_twin": held_out_twin, "duplicate": duplicate, "train": train}}


INPUTS = [
    an_input(20, rejected={"too-long": 1, "not-json": 2}, dropped={"missing:html": 3}),
    an_input(0, damage=True),
    an_input(10, rejected={"not-json": 1}, excluded={"list": 2}, dropped={"missing:html": 1, "missing:url": 1}),
]
RANGES = [a_range(1, 2, 3, 4), a_range(train=5), a_range(duplicate=1, train=3)]
COUNTS = {
    "inputs": 3, "inputs_rejected": 1, "read": 30,
    "rejected": {"not-json": 3, "too-long": 1}, "excluded": {"list": 2}, 
    "dropped": {"missing:html": 4, "missing:url": 1},
    "held_out": 1, "held_out_twin": 2, "duplicate": 4, "train": 12,
}  # fmt: skip


def test_counts_are_summed_over_inputs_and_ranges_by_reason() -> None:
    assert build_counts(INPUTS, RANGES) == COUNTS


def test_reasons_stand_in_the_order_of_their_names() -> None:
    assert list(build_counts(INPUTS, RANGES)["rejected"]) == ["not-json", "too-long"]


def test_without_any_row_every_fate_is_there_at_nought() -> None:
    counts = build_counts([], [])
    assert {fate: total(counts, fate) for fate in FATES} == dict.fromkeys(FATES, 0)
    assert (counts["read"], counts["inputs"], counts["inputs_rejected"]) == (0, 0, 0)
    assert broken_law(counts) is None


def test_a_total_sums_over_reasons() -> None:
    assert [total(COUNTS, fate) for fate in FATES] == [4, 2, 5, 1, 2, 4, 12]


def test_the_fates_are_those_of_the_law_in_the_order_of_the_table() -> None:
    assert FATES == ("rejected", "excluded", "dropped", "held_out", "held_out_twin", "duplicate", "train")


def test_where_every_row_has_one_fate_the_law_holds() -> None:
    assert broken_law(COUNTS) is None


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("change", [1, -1])
def test_one_row_too_many_or_too_few_of_any_fate_breaks_it(fate: str, change: int) -> None:
    value = COUNTS[fate]
    changed = (
        {**value, next(iter(value)): next(iter(value.values())) + change} if isinstance(value, dict) else value + change
    )
    words = broken_law({**COUNTS, fate: changed})
    assert words is not None
    assert words.startswith("read 30 rows, but rejected ")
    assert f"{fate} {total(COUNTS, fate) + change}" in words
    assert words.endswith(f"= {30 + change}")


def test_the_funnel_is_shown_with_its_reasons() -> None:
    lines = [" ".join(words.split()) for words in show_counts({**COUNTS, "read": 1_234_567}).splitlines()]
    assert lines == [
        "1,234,567 read", "4 rejected", "3 not-json", "1 too-long", "2 excluded", "2 list", "5 dropped",
        "4 missing:html",
        "1 missing:url", "1 held_out", "2 held_out_twin", "4 duplicate", "12 train",
    ]  # fmt: skip
