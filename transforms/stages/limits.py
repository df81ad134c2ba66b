"""Limits on what a build may lose, checked as soon as every input was read; the message is a list and a way on."""

from collections import Counter
from typing import Any

from transforms.stages.spec import BuildSpec, Input
from transforms.stages.work import BuildRefused, work_path

_SHOWN = 10


def refuse_losses(spec: BuildSpec, inputs: tuple[Input, ...], facts: list[Any]) -> None:
    """Raise BuildRefused when more inputs or rows were rejected than `limits` allows."""
    damaged = [(item, fact) for item, fact in zip(inputs, facts, strict=True) if fact["damage"]]
    broken = [(item, fact) for item, fact in zip(inputs, facts, strict=True) if fact["rejected"]]
    rows, rejected = sum(fact["rows"] for fact in facts), sum(Counter(fact["rejected"]).total() for fact in facts)
    problems = []
    if not spec.rejected_inputs.allows(len(damaged), len(inputs)):
        lines = [f"{item.uri}: {fact['damage']['reason']} at byte {fact['damage']['offset']}" for item, fact in damaged]
        problems += _problem(
            f"{len(damaged)} of {len(inputs)} inputs", "rejected_inputs", spec.rejected_inputs, len(damaged), lines
        )
    if not spec.rejected_rows.allows(rejected, rows):
        lines = [f"{item.uri}: {_reasons(fact['rejected'])}" for item, fact in broken]
        problems += _problem(f"{rejected} of {rows} rows", "rejected_rows", spec.rejected_rows, rejected, lines)
    if problems:
        folder = work_path(spec.root, "rejected")
        problems.append(
            f"Every one, with its line, offset and reason: zstdcat {folder}/*.jsonl.zst. Finished work is kept: the "
            "same command goes on from here."
        )
        raise BuildRefused("\n".join(problems))


def _problem(what: str, name: str, limit: object, lost: int, lines: list[str]) -> list[str]:
    more = [f"  ... and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    way_on = f"Repair or remove them, or allow it: --set limits.{name}={lost}"
    head = f"{what} could not be read, limits.{name} is {limit}. {way_on}"
    return [head, *(f"  {line}" for line in lines[:_SHOWN]), *more]


def _reasons(reasons: dict[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
