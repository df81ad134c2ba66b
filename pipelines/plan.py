"""From a config to what would run: the inputs that are there, the work units, the fingerprint. Touches nothing."""

import fnmatch
import glob
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from typing import Any

import bracex

from pipelines.config import Config, Runner, as_manifest, fingerprint_of
from shardwright import canonical
from shardwright.errors import ShardwrightError
from transforms.records.samples import TarTextEncoder, encoder_versions
from transforms.stages.spec import BuildSpec, HeldOut, Input

_UNIT_BYTES = 64 << 20
"""Small files are packed into one work unit up to this size; a larger file is a unit of its own."""
_UNITS_WANTED = 64
_MOST_SPELLINGS = 1_000_000


class PlanRefused(ShardwrightError):
    """The config is sound, but it cannot run here: no such files, or an output that is taken."""


@dataclass(frozen=True)
class Plan:
    """One build, ready to run: `units` are tuples of inputs, largest first."""

    config: Config
    inputs: tuple[Input, ...]
    units: tuple[tuple[Input, ...], ...]
    fingerprint: str
    spec: BuildSpec

    @property
    def bytes(self) -> int:
        """Size of all inputs, as stored."""
        return sum(item.bytes for item in self.inputs)

    def elements(self) -> list[tuple[int, str]]:
        """What the chain starts from: (unit number, JSON list of its inputs)."""
        return [(number, canonical.dumps([asdict(item) for item in unit])) for number, unit in enumerate(self.units)]


def make_plan(config: Config) -> Plan:
    """Look at the inputs of `config` and lay the work out. Raises PlanRefused when something named is not there."""
    inputs = list_inputs(config.input.files, config.held_out.files)
    versions = encoder_versions(TarTextEncoder())
    fingerprint = fingerprint_of(config, versions)
    return Plan(config, inputs, pack_units(inputs), fingerprint, _spec(config, fingerprint, versions))


def worker_count(runner: Runner) -> int:
    """Worker processes that `runner` asks for."""
    return usable_cores() if runner.workers == "all" else runner.workers


def usable_cores() -> int:
    """Processors that this process may use; all of them where the system cannot say."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def list_inputs(patterns: tuple[str, ...], held_out_patterns: tuple[str, ...]) -> tuple[Input, ...]:
    """Every file that matches, once however it is spelled, by path. A pattern that matches nothing is refused."""
    found: dict[str, str] = {}
    for pattern in patterns:
        spellings = _spellings(pattern, "input.files")
        matches = [
            path for spelling in spellings for path in glob.glob(spelling, recursive=True) if os.path.isfile(path)
        ]
        if not matches:
            where = f"relative to {Path.cwd()}"
            raise PlanRefused(f"input.files: {pattern!r} matches no file ({where}); correct the pattern or take it out")
        for path in map(os.path.normpath, matches):
            absolute = os.path.abspath(path)
            found[absolute] = min(path, found.get(absolute, path))
    uris = sorted(found.values())
    barred = _held_out(uris, held_out_patterns)
    return tuple(_input(number, uri, uri in barred) for number, uri in enumerate(uris))


def pack_units(inputs: tuple[Input, ...]) -> tuple[tuple[Input, ...], ...]:
    """Whole inputs, small neighbours together, largest unit first; depends on the listing alone, not the workers."""
    target = min(_UNIT_BYTES, sum(item.bytes for item in inputs) // _UNITS_WANTED)
    units: list[list[Input]] = []
    size = 0
    for item in inputs:
        if not units or size + item.bytes > target:
            units.append([])
            size = 0
        units[-1].append(item)
        size += item.bytes
    units.sort(key=lambda unit: (-sum(item.bytes for item in unit), unit[0].number))
    return tuple(map(tuple, units))


def _spellings(pattern: str, key: str) -> list[str]:
    """The patterns without braces that `pattern` stands for."""
    try:
        return list(bracex.expand(pattern, limit=_MOST_SPELLINGS))
    except bracex.ExpansionLimitException:
        raise PlanRefused(f"{key}: {pattern!r} stands for more than {_MOST_SPELLINGS:,} names; use * instead") from None


def _held_out(uris: list[str], patterns: tuple[str, ...]) -> set[str]:
    barred: set[str] = set()
    for pattern in patterns:
        spellings = _spellings(pattern, "held_out.files")
        name, path = _any_of(spellings), _any_of([os.path.abspath(item) for item in spellings])
        matches = [uri for uri in uris if name.match(PurePath(uri).name) or path.match(os.path.abspath(uri))]
        if not matches:
            raise PlanRefused(
                f"held_out.files: {pattern!r} matches none of the {len(uris)} inputs, by base name or by path; a "
                "held-out file must be one of input.files"
            )
        barred.update(matches)
    return barred


def _any_of(patterns: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(fnmatch.translate, patterns)))


def _input(number: int, uri: str, is_held_out: bool) -> Input:
    facts = os.stat(uri)
    return Input(number, uri, facts.st_size, facts.st_mtime_ns, is_held_out)


def _spec(config: Config, fingerprint: str, versions: dict[str, Any]) -> BuildSpec:
    return BuildSpec(
        root=os.path.abspath(config.output),
        job=config.job,
        fingerprint=fingerprint,
        seed=config.shuffle.seed,
        id_fields=config.id,
        held_out=HeldOut(config.held_out.salt, config.held_out.fraction),
        duplicates_are_errors=config.duplicates == "error",
        shards=config.shards.count,
        rejected_inputs=config.limits.rejected_inputs,
        rejected_rows=config.limits.rejected_rows,
        config=canonical.dumps(as_manifest(config)),
        versions=canonical.dumps(versions),
    )
