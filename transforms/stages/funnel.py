"""Making and showing the funnel of a build; what it means is `shardwright.funnel`."""

from collections import Counter
from typing import Any

from shardwright.funnel import FATES, REASONED, total


def build_counts(inputs: list[Any], ranges: list[Any]) -> dict[str, Any]:
    """The counts of a build from the facts of its inputs and the fates of its key ranges."""
    counts: dict[str, Any] = {
        "inputs": len(inputs),
        "inputs_rejected": sum(1 for item in inputs if item["damage"]),
        "read": sum(item["rows"] for item in inputs),
    }
    for fate in REASONED:
        counts[fate] = dict(sorted(sum((Counter(item[fate]) for item in inputs), Counter[str]()).items()))
    fates = sum((Counter(item["fates"]) for item in ranges), Counter[str]())
    counts.update({fate: fates[fate] for fate in FATES if fate not in REASONED})
    return counts


def show_counts(counts: dict[str, Any]) -> str:
    """The funnel as indented plain lines."""
    lines = [f"  {counts['read']:>12,} read"]
    for fate in FATES:
        lines.append(f"  {total(counts, fate):>12,} {fate}")
        if fate in REASONED:
            lines += [f"  {'':>12} {count:>12,} {reason}" for reason, count in counts[fate].items()]
    return "\n".join(lines)
