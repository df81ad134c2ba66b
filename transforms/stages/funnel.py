"""The funnel: every row's fate, counted, and the law that the counts obey. docs/FORMAT.md section 2."""

from collections import Counter
from typing import Any

FATES = ("rejected", "excluded", "dropped", "held_out", "held_out_twin", "duplicate", "train")
_REASONED = ("rejected", "excluded", "dropped")


def build_counts(inputs: list[Any], ranges: list[Any]) -> dict[str, Any]:
    """The counts of a build from the facts of its inputs and the fates of its key ranges."""
    counts: dict[str, Any] = {
        "inputs": len(inputs),
        "inputs_rejected": sum(1 for item in inputs if item["damage"]),
        "read": sum(item["rows"] for item in inputs),
    }
    for fate in _REASONED:
        counts[fate] = dict(sorted(sum((Counter(item[fate]) for item in inputs), Counter[str]()).items()))
    fates = sum((Counter(item["fates"]) for item in ranges), Counter[str]())
    counts.update({fate: fates[fate] for fate in FATES if fate not in _REASONED})
    return counts


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


def show_counts(counts: dict[str, Any]) -> str:
    """The funnel as indented plain lines."""
    lines = [f"  {counts['read']:>12,} read"]
    for fate in FATES:
        lines.append(f"  {total(counts, fate):>12,} {fate}")
        if fate in _REASONED:
            lines += [f"  {'':>12} {count:>12,} {reason}" for reason, count in counts[fate].items()]
    return "\n".join(lines)
