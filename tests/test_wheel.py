"""The two wheels as a stranger gets them: what is in each, and what a job has that installs only the reader."""

import json
import os
import re
import statistics
import subprocess
import sys
import time
import tomllib
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from uv import find_uv_bin

import shardwright

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
BUILD_SIDE = {"pipelines", "transforms"}
NOT_THE_READERS = ("apache_beam", "numpy", "pyarrow", *sorted(BUILD_SIDE))
ROUNDS = 7


def run(*argv: str | Path) -> subprocess.CompletedProcess[str]:
    """Run to the end, in a folder that holds nothing of ours on a path that Python looks at."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return subprocess.run(list(map(str, argv)), cwd="/", env=clean, capture_output=True, text=True)


def must(*argv: str | Path) -> str:
    done = run(*argv)
    assert done.returncode == 0, f"{' '.join(map(str, argv))}\n{done.stdout}{done.stderr}"
    return done.stdout


def install(python: Path, *what: str | Path) -> None:
    """From uv's cache, which `make setup` has filled; from the registry only where the cache does not do."""
    argv = [find_uv_bin(), "pip", "install", "--python", python, "--constraints", CONSTRAINTS, *what]
    if run(*argv, "--offline").returncode:
        must(*argv)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both wheels by project name, built with the tools of this environment."""
    folder = tmp_path_factory.mktemp("wheels")
    for project in (ROOT, ROOT / "packaging"):
        argv = (find_uv_bin(), "build", "--wheel", "--no-build-isolation", "--offline", "--python", sys.executable)
        must(*argv, "--out-dir", folder, project)
    return {path.name.partition("-")[0]: path for path in folder.glob("*.whl")}


@pytest.fixture(scope="module")
def reader(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of a fresh environment with the reader's wheel and what it requires."""
    place = tmp_path_factory.mktemp("reader") / "venv"
    must(find_uv_bin(), "venv", "--offline", "--python", sys.executable, place)
    install(place / "bin/python", wheels["shardwright"])
    return place / "bin"


def about(wheel: Path) -> metadata.Distribution:
    """The wheel's own metadata, read from inside it."""
    return next(iter(metadata.distributions(path=[str(wheel)])))


def names(wheel: Path) -> list[str]:
    return ZipFile(wheel).namelist()


def test_the_readers_wheel_holds_the_reader_only(wheels: dict[str, Path]) -> None:
    found = names(wheels["shardwright"])
    assert {name.partition("/")[0].partition("-")[0] for name in found} == {"shardwright"}
    assert "shardwright/py.typed" in found
    base = [rule for rule in about(wheels["shardwright"]).requires or [] if "extra ==" not in rule]
    assert [Requirement(rule).name for rule in base] == ["xxhash"]


def test_the_build_wheel_holds_the_whole_build_side(wheels: dict[str, Path]) -> None:
    found = names(wheels["shardwright_build"])
    sources = [path for top in BUILD_SIDE for path in (ROOT / top).rglob("*.py")]
    assert sources and {path.relative_to(ROOT).as_posix() for path in sources} <= set(found)
    assert {name.partition("/")[0] for name in found if ".dist-info/" not in name} == BUILD_SIDE
    commands = about(wheels["shardwright_build"]).entry_points.select(group="shardwright.commands")
    assert {(entry.name, entry.value) for entry in commands} == {(x, f"pipelines.cli:{x}") for x in ("plan", "build")}


def test_no_wheel_holds_compiled_files(wheels: dict[str, Path]) -> None:
    assert not [name for wheel in wheels.values() for name in names(wheel) if "__pycache__" in name]


def test_both_wheels_have_one_version_and_ask_for_each_other(wheels: dict[str, Path]) -> None:
    version = shardwright.__version__
    assert {about(wheel).version for wheel in wheels.values()} == {version}
    assert f"shardwright=={version}" in (about(wheels["shardwright_build"]).requires or [])
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras["build"] == [f"shardwright-build=={version}"]


def test_the_reader_alone_brings_xxhash_and_nothing_else(reader: Path) -> None:
    code = "import importlib.metadata as m; print(*sorted(d.name for d in m.distributions()))"
    assert must(reader / "python", "-I", "-c", code).split() == ["shardwright", "xxhash"]


def test_the_reader_alone_neither_imports_nor_finds_the_build_side(reader: Path) -> None:
    code = f"""
import json, sys, sysconfig, pathlib, importlib.util
import shardwright
names = {NOT_THE_READERS!r}
print(json.dumps({{
    "loaded": [name for name in names if name in sys.modules],
    "found": [name for name in names if importlib.util.find_spec(name)],
    "site": sorted(path.name for path in pathlib.Path(sysconfig.get_path("purelib")).iterdir()),
    "home": shardwright.__file__,
}}))"""
    found = json.loads(must(reader / "python", "-I", "-c", code))
    assert found["loaded"] == [] and found["found"] == []
    assert BUILD_SIDE.isdisjoint(found["site"])
    assert found["home"].startswith(str(reader.parent)), "this is not the installed wheel"


def test_importing_the_reader_is_quick(reader: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A ratio and a generous one, for a busy machine. Measured: ours is 2.3, with numpy it is 7, with Beam 100."""
    plain, ours = [], []
    for _ in range(ROUNDS):  # in turn, so that a slow moment meets both
        plain.append(seconds(reader, "import argparse, json"))
        ours.append(seconds(reader, "import shardwright"))
    base, whole = statistics.median(plain), statistics.median(ours)
    with capsys.disabled():
        print(f"\nimport shardwright: {1000 * whole:.0f} ms with the interpreter; a plain script: {1000 * base:.0f} ms")
    assert whole < 4 * base


def seconds(reader: Path, code: str) -> float:
    began = time.perf_counter()
    must(reader / "python", "-I", "-c", code)
    return time.perf_counter() - began


def test_the_readers_command_works(reader: Path) -> None:
    assert "verify" in must(reader / "shardwright", "--help")


@pytest.mark.parametrize("command", ["build", "plan"])
def test_a_building_command_says_what_to_install(reader: Path, command: str) -> None:
    done = run(reader / "shardwright", command, "x")
    assert done.returncode == 2
    assert "shardwright[build]" in done.stderr and "Traceback" not in done.stderr


def test_constraints_pin_all_that_both_projects_require() -> None:
    """What no line pins, `make setup` takes as it comes: run `make constraints` after adding a requirement."""
    pinned = dict(re.findall(r"^([^ =]+)==([^ ]+)", CONSTRAINTS.read_text(), re.MULTILINE))
    wanted = [("shardwright", frozenset({"dev"})), ("shardwright-build", frozenset())]
    seen, loose = set(wanted), {}
    while wanted:
        name, extras = wanted.pop()
        installed = metadata.distribution(name)
        if not name.startswith("shardwright") and pinned.get(name) != installed.version:
            loose[name] = f"{installed.version} is installed, {pinned.get(name)} is pinned"
        for rule in map(Requirement, installed.requires or []):
            if rule.marker is None or any(rule.marker.evaluate({"extra": extra}) for extra in extras | {""}):
                item = (canonicalize_name(rule.name), frozenset(rule.extras))
                wanted += {item} - seen
                seen.add(item)
    assert len(seen) > 50, "the walk over the requirements went nowhere"
    assert not loose
