"""One small build that every client reads, and no network for any of them."""

import importlib
import importlib.util
import socket
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Generic, TypeVar

import pytest

from shardwright.build import Build
from tests.clients import corpus, oracle
from tests.clients.hf import OFFLINE
from tests.support import build_rows


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a client needs lies in the build's folder: a connection or a name look-up is an error."""

    def refuse(*words: object) -> None:
        raise AssertionError(f"a client wanted the network: {words}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture(scope="package")
def built(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """The build of corpus.FILES. Shared: look, do not touch."""
    return build_rows(tmp_path_factory.mktemp("clients"), corpus.FILES, **corpus.SECTIONS)


@pytest.fixture(scope="package")
def expected(built: Build) -> oracle.Recount:
    """What the build must hold, by the input files and docs/FORMAT.md alone."""
    files = sorted((built.root.parent / "in").iterdir())
    recount = oracle.recount(files, held_files=corpus.HELD_FILES, fraction=corpus.FRACTION)
    assert recount.counts == corpus.COUNTS, "the corpus lost a case, or the oracle errs"
    return recount


@pytest.fixture(scope="package")
def load_dataset(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """The function of Hugging Face `datasets`, offline and with its own cache, which it looks up when imported."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (OFFLINE | {"HF_HOME": str(tmp_path_factory.mktemp("home"))}).items():
            patch.setenv(name, value)
        module = importlib.import_module("datasets")
    module.disable_progress_bars()
    return module.load_dataset


@pytest.fixture(scope="package")
def wids() -> Iterator[ModuleType]:
    """The wids package, over torch where it is installed and over `torch_stand_in` where it is not."""
    with pytest.MonkeyPatch.context() as patch:
        if importlib.util.find_spec("torch") is None:
            for name, module in torch_stand_in().items():
                patch.setitem(sys.modules, name, module)
        found = importlib.import_module("wids")
    # The stand-in is out of sys.modules again: wids keeps what it took, and no other library mistakes it for torch.
    yield found


def torch_stand_in() -> dict[str, ModuleType]:
    """All that wids takes from torch: two base classes, and whether a process group runs."""

    class Dataset(Generic[TypeVar("T")]):
        pass

    class Sampler:
        pass

    names = ("torch", "torch.distributed", "torch.utils", "torch.utils.data")
    torch, distributed, utils, data = modules = [ModuleType(name) for name in names]
    torch.distributed, torch.utils, utils.data = distributed, utils, data
    distributed.is_initialized = lambda: False
    data.Dataset, data.Sampler = Dataset, Sampler
    return dict(zip(names, modules, strict=True))
