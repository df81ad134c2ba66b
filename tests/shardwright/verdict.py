"""What `shardwright verify` says of a folder, and tables of what it has to find."""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from shardwright.cli import main

ROOT = Path(__file__).parents[2]


def verdict(root: Path) -> list[str]:
    """The lines that the command prints; its exit status must agree with them."""
    with redirect_stdout(StringIO()) as printed:
        status = main(["verify", str(root), "--workers", "1"])
    lines = printed.getvalue().splitlines()
    assert status == (1 if wrong(lines) else 0)
    return lines


def process_verdict(root: Path, workers: int) -> list[str]:
    """The same from a process of its own: forking here, beside Beam's threads, is asking for trouble."""
    command = [sys.executable, "-m", "shardwright.cli", "verify", str(root), "--workers", str(workers)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


def wrong(lines: list[str]) -> list[str]:
    """The problems among the lines of a verdict."""
    return [line for line in lines if line.startswith("WRONG")]


def assert_found(lines: list[str], words: tuple[str, ...]) -> None:
    """One problem has all `words`."""
    assert any(all(word in line for word in words) for line in wrong(lines)), "\n".join(lines)


class Table:
    """Functions that spoil a build, each with the words that one problem must then have."""

    def __init__(self) -> None:
        self.entries: list[Any] = []

    def __call__(self, *words: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Decorates an entry."""

        def add(spoil: Callable[..., None]) -> Callable[..., None]:
            self.entries.append(pytest.param(spoil, words, id=spoil.__name__))
            return spoil

        return add
