"""The closing summary of a build, and the table of a plan."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipelines.plan import Plan, worker_count
from pipelines.supervise import Usage
from shardwright.build import Build
from shardwright.funnel import FATES, total

_SHOWN = 20


def print_plan(plan: Plan, console: Console) -> None:
    """What would run: inputs, units, shards, held-out, fingerprint."""
    table = Table("input", "MB", "held out", title=None, box=None, header_style="bold")
    for item in plan.inputs[:_SHOWN]:
        table.add_row(Text(item.uri), f"{item.bytes / 1e6:,.2f}", "yes" if item.held_out else "")
    console.print(table)
    if len(plan.inputs) > _SHOWN:
        console.print(f"... and {len(plan.inputs) - _SHOWN:,} more")
    config = plan.config
    largest = max(sum(item.bytes for item in unit) for unit in plan.units)
    workers, barred = worker_count(config.runner), sum(item.held_out for item in plan.inputs)
    rows = {
        "inputs": f"{len(plan.inputs):,} files, {plan.bytes / 1e6:,.1f} MB as stored",
        "work": f"{len(plan.units):,} units on {workers} workers, the largest {largest / 1e6:,.1f} MB",
        "held out": f"{barred} files, fraction {config.held_out.fraction:g} of the ids",
        "shards": f"{config.shards.count:,} x {config.shards.format}",
        "output": config.output,
        "fingerprint": plan.fingerprint,
    }
    _print_pairs(rows, console)


def print_summary(build: Build, usage: Usage, console: Console) -> None:
    """The funnel with counts and shares, then what was made, how long it took and how much memory."""
    counts, split = build.manifest["counts"], build.manifest["splits"]["train"]
    console.print(_funnel(counts))
    each = _range([shard.samples for shard in build.shards])
    rows = {
        "inputs": f"{counts['inputs']:,} files"
        + (f", {counts['inputs_rejected']:,} rejected" if counts["inputs_rejected"] else ""),
        "train": f"{split['samples']:,} samples in {split['shards']} shards of {each}, {split['bytes'] / 1e6:,.1f} MB",
        "held out": ", ".join(f"{kind} {count:,}" for kind, count in build.manifest["held_out"]["sets"].items())
        or "nothing",
        "took": f"{usage.seconds:.1f} s, peak memory {usage.peak_bytes / 1e6:,.0f} MB over all processes",
        "build id": build.id,
        "sealed": str(build.root),
    }
    wanted = build.manifest["config"]["shards"]["count"]
    if split["shards"] < wanted:
        rows["warning"] = (
            f"{wanted} shards were asked for, but there are only {split['samples']} samples: no shard is empty"
        )
    _print_pairs(rows, console)


def _funnel(counts: dict[str, Any]) -> Table:
    table = Table("rows", "", "share", box=None, header_style="bold")
    table.columns[0].justify = table.columns[2].justify = "right"
    table.add_row(f"{counts['read']:,}", "read", "")
    for fate in FATES:
        number = total(counts, fate)
        table.add_row(f"{number:,}", fate.replace("_", " "), f"{number / counts['read']:.2%}")
        if isinstance(counts[fate], dict):
            for reason, count in counts[fate].items():
                table.add_row("", f"  {count:,} {reason}", "", style="dim")
    return table


def _range(sizes: list[int]) -> str:
    return f"{min(sizes):,}" if min(sizes) == max(sizes) else f"{min(sizes):,} or {max(sizes):,}"


def _print_pairs(rows: dict[str, str], console: Console) -> None:
    for name, value in rows.items():
        console.print(f"[bold]{name:>12}[/bold]  ", end="")
        console.print(value, highlight=False, markup=False, soft_wrap=True)
