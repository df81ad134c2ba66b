"""The `shardwright` command. Reading needs the base install only; the building commands join by entry points."""

import argparse
import io
import os
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points

from shardwright import inspect, verify
from shardwright.errors import ShardwrightError

GROUP = "shardwright.commands"
"""Entry points of this group are `command(argv) -> exit status`; the first line of their docstring is their help."""

_BUILD_SIDE = {"plan": "what a build would do", "build": "run a build"}
_FAILED, _USAGE, _INTERRUPTED = 1, 2, 130


def main(argv: list[str] | None = None) -> int:
    """Run one command; 0 when all is well, 1 when it found something wrong, 2 when the words were not understood."""
    words = sys.argv[1:] if argv is None else argv
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that lacks a sign still shows the rest
    try:
        status = _dispatch(words)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output, such as head, has seen enough; but nothing was proved to it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FAILED
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (ShardwrightError, OSError) as error:
        print(f"shardwright: {error}", file=sys.stderr)
        return _FAILED
    return status


def _dispatch(words: list[str]) -> int:
    installed = {point.name: point for point in entry_points(group=GROUP)}
    name = words[0] if words else ""
    if name in installed:
        command: Callable[[list[str]], int] = installed[name].load()
        return command(words[1:])
    if name in _BUILD_SIDE:
        print(f"shardwright: `{name}` belongs to the build side: pip install 'shardwright[build]'", file=sys.stderr)
        return _USAGE
    options = _parser(installed).parse_args(words)
    return int(options.run(options))


def _parser(installed: dict[str, EntryPoint]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="shardwright", description="Build, prove and read training-ready shards.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, summary in _BUILD_SIDE.items():
        commands.add_parser(
            name, help=summary if name in installed else f"{summary} (needs 'shardwright[build]')", add_help=False
        )
    for module in (verify, inspect):
        module.add_command(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
