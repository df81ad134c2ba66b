"""Beam options and runners: what `runner:` in a config and the words after `--` mean."""

import argparse
import difflib
from typing import Any, NoReturn

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
    parser = _parser()
    _refuse_unknown(parser, [f"--{name}" for name in runner.options])
    flags = [flag for name, value in runner.options.items() for flag in _flags(name, value)] + arguments
    _refuse_unknown(parser, parser.parse_known_args(flags)[1])
    options = PipelineOptions(flags)
    direct = options.view_as(DirectOptions)
    if not any(flag.startswith("--direct_num_workers") for flag in flags):
        direct.direct_num_workers = worker_count(runner)
    if direct.direct_num_workers < 0:
        raise OptionsRefused(f"--direct_num_workers={direct.direct_num_workers}: expected 0 (all cores) or more")
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


class _Parser(argparse.ArgumentParser):
    """argparse ends the process at a value that it cannot read; here that is a problem with words."""

    def error(self, message: str) -> NoReturn:
        raise OptionsRefused(f"Beam options: {message}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(add_help=False, allow_abbrev=False, conflict_handler="resolve")
    for cls in _subclasses(PipelineOptions):
        if "_add_argparse_args" in vars(cls):
            cls._add_argparse_args(parser)
    return parser


def _subclasses(cls: type[PipelineOptions]) -> list[type[PipelineOptions]]:
    return [found for child in cls.__subclasses__() for found in (child, *_subclasses(child))]


def _refuse_unknown(parser: argparse.ArgumentParser, words: list[str]) -> None:
    known = [option for action in parser._actions for option in action.option_strings]
    lines = []
    for word in words:
        name = word.partition("=")[0]
        if name not in known or "=" in word:
            near = difflib.get_close_matches(f"--{name.lstrip('-')}", known, n=1)
            lines.append(f"{word}: no Beam option" + (f"; did you mean {near[0]}?" if near else ""))
    if lines:
        raise OptionsRefused("\n".join(lines))
