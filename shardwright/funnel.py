"""The funnel: every row's fate, counted, and the law that the counts obey. docs/FORMAT.md section 2."""

from typing import Any

FATES = ("rejected", "excluded", "dropped", "held_out", "held_out_twin", "duplicate", "train")
REASONED = ("rejected", "excluded", "dropped")
"""Fates that are counted by reason."""


def total(counts: dict[str, Any], fate: str) -> int:
    """How many rows met `fate`, over all its reasons."""
    value = counts[fate]
    return sum(value.values()) if isinstance(value, dict) else int(value)


def broken_law(counts: dict[str, Any]) -> str | None:
    """What is wrong with the conservation law, or None when every row that was read has one fate."""
    parts = {fate: total(counts, fate) for fate in FATES}
    if counts["read"] == sum(parts.values()):
        return None
    terms = " + ".join(f"{fate} {count}" for fate, count in parts.items())
    return f"read {counts['read']} rows, but {terms} = {sum(parts.values())}"
