"""What a build pinned in `_work/` at its first start: its configuration and its input listing."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pipelines.config import Config, byte_sections, differences
from pipelines.plan import Plan, PlanRefused, make_plan
from shardwright import canonical, layout
from transforms.stages.spec import Input
from transforms.stages.work import publish, take_back, work_path

PLAN = "plan.json"
_SHOWN = 10


def pin(plan: Plan, arguments: list[str]) -> None:
    """Write `plan` into its output's `_work/`, or check that it is the one that is there. Raises PlanRefused."""
    root = Path(plan.spec.root)
    refuse_taken(root)
    path = work_path(plan.spec.root, PLAN)
    if path.exists():
        _refuse_other(plan, json.loads(path.read_bytes()))
        take_back(root)
    value = {
        "config": plan.config.model_dump(mode="json"),
        "fingerprint": plan.fingerprint,
        "inputs": [asdict(item) for item in plan.inputs],
        "arguments": arguments,
    }
    publish(path, canonical.dumps(value).encode())


def read_pinned(root: str) -> tuple[Plan, list[str]]:
    """The plan and the engine's arguments that were pinned in `root`."""
    value = json.loads(work_path(root, PLAN).read_bytes())
    plan = make_plan(Config.model_validate_json(json.dumps(value["config"])))
    inputs = tuple(Input(**item) for item in value["inputs"])
    if plan.inputs != inputs:
        raise PlanRefused(f"the inputs changed since the build was started: {_input_differences(inputs, plan.inputs)}")
    return replace(plan, spec=replace(plan.spec, root=root)), value["arguments"]


def refuse_taken(root: Path) -> None:
    """Raise PlanRefused when `root` holds a sealed build, or anything that no build left there. Touches nothing."""
    if (root / layout.COMMIT).exists():
        raise PlanRefused(
            f"{root}: a sealed build is here already, and a sealed build is never overwritten. Choose another "
            "output, or delete the folder yourself"
        )
    known = {layout.WORK, *layout.FOLDERS, *layout.FILES}
    unknown = sorted(path.name for path in root.iterdir() if path.name not in known) if root.is_dir() else []
    leftovers = root.is_dir() and any(root.iterdir()) and not (root / layout.WORK).is_dir()
    if unknown or leftovers:
        names = ", ".join(unknown or sorted(path.name for path in root.iterdir()))
        raise PlanRefused(
            f"{root}: the output folder holds what no build left there: {names}. Choose an empty or a new folder"
        )


def _refuse_other(plan: Plan, pinned: Any) -> None:
    old = byte_sections(Config.model_validate_json(json.dumps(pinned["config"])))
    changed = differences(old, byte_sections(plan.config))
    if not changed and pinned["fingerprint"] != plan.fingerprint:
        changed = ["versions: the encoders on this machine are others than those the build was started with"]
    if changed:
        raise PlanRefused(
            f"{plan.spec.root}: an unfinished build with another configuration is here:\n  "
            + "\n  ".join(changed)
            + "\nChoose another output, take the old values back, or delete the folder to start anew"
        )
    inputs = tuple(Input(**item) for item in pinned["inputs"])
    if inputs != plan.inputs:
        raise PlanRefused(
            f"{plan.spec.root}: an unfinished build is here that was started with other inputs: "
            f"{_input_differences(inputs, plan.inputs)}. "
            "Put the inputs back as they were, choose another output, or delete the folder to start anew"
        )


def _input_differences(old: tuple[Input, ...], new: tuple[Input, ...]) -> str:
    before, after = ({item.uri: replace(item, number=0) for item in items} for items in (old, new))
    gone = [f"{uri} is gone" for uri in before.keys() - after.keys()]
    come = [f"{uri} is new" for uri in after.keys() - before.keys()]
    other = [
        f"{uri} changed (size, time or held_out)" for uri in before.keys() & after.keys() if before[uri] != after[uri]
    ]
    words = sorted(gone + come + other)
    return "; ".join(words[:_SHOWN]) + (f"; and {len(words) - _SHOWN} more" if len(words) > _SHOWN else "")
