"""One build for all tests of the reader, and copies of it to damage."""

import shutil
from pathlib import Path

import pytest
from hypothesis import settings

from shardwright.build import Build
from tests.shardwright import corpus
from tests.support import build_rows

settings.register_profile("no deadline", deadline=None)  # a busy machine is no finding
settings.load_profile("no deadline")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """The build of corpus.FILES. Shared: look, do not touch."""
    return build_rows(tmp_path_factory.mktemp("built"), corpus.FILES, **corpus.SECTIONS)


@pytest.fixture
def out(built: Build, tmp_path: Path) -> Path:
    """A copy of it, as a finished build command leaves it."""
    return Path(shutil.copytree(built.root, tmp_path / "out", ignore=shutil.ignore_patterns("_work")))
