"""Beam options and runners: what `runner:` in a config and the words after `--` mean."""

import argparse
import difflib
from typing import Any

from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions
from apache_beam.portability.api import beam_provision_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.portability.fn_api_runner.fn_runner import ExtendedProvisionInfo
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.runners.runner import PipelineRunner, create_runner
from apache_beam.transforms.environments import SubprocessSDKEnvironment

from pipelines.config import Runner
from pipelines.plan import usable_cores, worker_count
from shardwright.errors import ShardwrightError

LOCAL = ("DirectRunner", "FnApiRunner")
"""Names that mean our pinned local runner."""


class OptionsRefused(ShardwrightError):
    """An option that no part of Beam knows: Beam itself would ignore it."""


def beam_options(runner: Runner, arguments: list[str]) -> PipelineOptions:
    """The options of the config, then the words after `--`; raises OptionsRefused at one that Beam does not know."""
    flags = [flag for name, value in runner.options.items() for flag in _flags(name, value)] + arguments
    unknown = [word for word in _parser().parse_known_args(flags)[1] if word.startswith("-")]
    if unknown:
        raise OptionsRefused(_unknown_message(unknown))
    options = PipelineOptions(flags)
    direct = options.view_as(DirectOptions)
    if not any(flag.startswith("--direct_num_workers") for flag in flags):
        direct.direct_num_workers = worker_count(runner)
    return options


def make_runner(options: PipelineOptions) -> PipelineRunner:
    """The runner that `--runner` names; the local one by default.

    Local means FnApiRunner, pinned: Beam's own DirectRunner first tries to download another engine, and its choice
    changes with the network. With more than one worker it uses processes, and they are given the pipeline's options,
    which FnApiRunner by itself does not do.
    """
    if not _is_local(options):
        return create_runner(options.view_as(StandardOptions).runner)
    encoded = JobServiceHandle.encode_pipeline_options(options.get_all_options())
    provision = ExtendedProvisionInfo(beam_provision_api_pb2.ProvisionInfo(pipeline_options=encoded))
    if not forked_workers(options):
        return FnApiRunner(provision_info=provision)
    forked = SubprocessSDKEnvironment.from_command_string("taken by pipelines.crew")
    return FnApiRunner(forked, provision_info=provision)


def forked_workers(options: PipelineOptions) -> int:
    """How many worker processes the local runner needs: none on another runner, and for one worker its own process."""
    count = options.view_as(DirectOptions).direct_num_workers or usable_cores()
    return count if _is_local(options) and count > 1 else 0


def _is_local(options: PipelineOptions) -> bool:
    return (options.view_as(StandardOptions).runner or LOCAL[0]) in LOCAL


def _flags(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}"] if value else []
    values = value if isinstance(value, (list, tuple)) else [value]
    return [f"--{name}={item}" for item in values]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, conflict_handler="resolve")
    for cls in _subclasses(PipelineOptions):
        if "_add_argparse_args" in vars(cls):
            cls._add_argparse_args(parser)
    return parser


def _subclasses(cls: type[PipelineOptions]) -> list[type[PipelineOptions]]:
    return [found for child in cls.__subclasses__() for found in (child, *_subclasses(child))]


def _unknown_message(unknown: list[str]) -> str:
    known = [option for action in _parser()._actions for option in action.option_strings]
    lines = []
    for word in unknown:
        near = difflib.get_close_matches(word.partition("=")[0], known, n=1)
        lines.append(f"{word}: no Beam option" + (f"; did you mean {near[0]}?" if near else ""))
    return "\n".join(lines)
