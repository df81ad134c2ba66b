"""`shardwright plan` and `shardwright build`: they join the reader's commands by the entry points of the build side."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

ConfigPath = Annotated[Path, typer.Argument(help="The job's YAML file.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override one key of the config; may be repeated."),
]


def plan(argv: list[str]) -> int:
    """What a build would do: files, sizes, shards, fingerprint; touches nothing."""
    return _run("plan", _plan, argv)


def build(argv: list[str]) -> int:
    """Run a build to its seal. Words after -- are Beam options."""
    cut = argv.index("--") if "--" in argv else len(argv)
    beam_arguments = argv[cut + 1 :]

    def command(config: ConfigPath, overrides: Overrides = None) -> None:
        _build(config, overrides or [], beam_arguments)

    return _run("build", command, argv[:cut])


def _plan(config: ConfigPath, overrides: Overrides = None) -> None:
    from pipelines.config import load_config
    from pipelines.plan import make_plan
    from pipelines.summary import print_plan

    print_plan(make_plan(load_config(config, overrides or [])), Console())


def _build(config: Path, overrides: list[str], beam_arguments: list[str]) -> None:
    from pipelines.config import load_config
    from pipelines.display import Display
    from pipelines.plan import make_plan
    from pipelines.summary import print_summary
    from pipelines.supervise import run_build
    from shardwright.build import open_build

    made = make_plan(load_config(config, overrides))
    console = Console()
    usage = run_build(made, beam_arguments, Display(made, console))
    print_summary(open_build(made.config.output), usage, console)


def _run(name: str, command: object, argv: list[str]) -> int:
    """Run one typer command in this process; ShardwrightError passes through to the caller, who prints it."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(name, help={"plan": plan, "build": build}[name].__doc__)(command)  # type: ignore[type-var]
    try:
        app(argv, prog_name=f"shardwright {name}")
    except SystemExit as done:  # typer's way to end: 0, or 2 after it said what it did not understand
        return int(done.code or 0)
    return 0
