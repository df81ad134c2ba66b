"""The house of docs/ARCHITECTURE.md: who may import whom, and how long a file or a function may be.

Imports are read from the syntax tree, so those inside functions, relative ones and `import_module("...")` count too.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("shardwright", "transforms", "pipelines")
MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 60

IN_ONE_FILE = frozenset({"PIL", "datasets", "isal", "msgspec", "orjson", "pyarrow", "zstandard"})
COMMAND_LINE = frozenset({"bracex", "jinja2", "pydantic", "pydantic_core", "rich", "ruamel", "typer"})


@dataclass(frozen=True)
class Import:
    """One imported name: `target` is the dotted module, or module.name where a `from` may mean a submodule."""

    target: str
    line: int
    lazy: bool  # inside a function or under TYPE_CHECKING: importing the file does not run it


@dataclass(frozen=True)
class Ring:
    """What the files of a folder may import besides the standard library and each other."""

    folder: str
    may: frozenset[str]  # dotted prefixes
    lazily: frozenset[str] = frozenset()

    def objection(self, found: Import) -> str | None:
        """Why this import turns back, or None."""
        if owner(found.target) is self or within(found.target, self.may | sys.stdlib_module_names):
            return None
        if within(found.target, self.lazily):
            return None if found.lazy else f"imports {found.target} at module level, may do so inside a function only"
        return f"imports {found.target}, which {self.folder} must not know"


# The most specific folder first: a file belongs to the first ring that holds it.
RINGS = (
    Ring("shardwright", may=frozenset({"xxhash"}), lazily=frozenset({"boto3", "cbor2", "google.cloud", "zstandard"})),
    Ring("transforms/records", may=IN_ONE_FILE | {"shardwright", "xxhash"}),
    Ring(
        "transforms/stages",
        may=frozenset({"apache_beam", "psutil", "shardwright", "transforms.records", "xxhash", "zstandard"}),
    ),
    Ring("transforms", may=frozenset()),
    Ring("pipelines", may=COMMAND_LINE | {"apache_beam", "google", "psutil", "shardwright", "transforms", "xxhash"}),
)


def owner(target: str) -> Ring | None:
    """The ring whose folder holds the dotted name."""
    return next((ring for ring in RINGS if within(target, {ring.folder.replace("/", ".")})), None)


def within(target: str, prefixes: frozenset[str] | set[str]) -> bool:
    """Whether the dotted name is one of the prefixes or below one."""
    return any(target == prefix or target.startswith(prefix + ".") for prefix in prefixes)


def imports(source: str, path: str) -> list[Import]:
    """Every import of the file at `path` (posix, relative to the root)."""
    package = path.removesuffix("/__init__.py").removesuffix(".py").split("/")
    if not path.endswith("/__init__.py"):
        package = package[:-1]
    return list(_walk(ast.parse(source), package, lazy=False))


def _walk(node: ast.AST, package: list[str], *, lazy: bool) -> Iterator[Import]:
    yield from (Import(target, node.lineno, lazy) for target in _targets(node, package))  # type: ignore[attr-defined]
    inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    inside = inside or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
    for child in ast.iter_child_nodes(node):
        yield from _walk(child, package, lazy=lazy or inside)


def _targets(node: ast.AST, package: list[str]) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [name.name for name in names]
        case ast.ImportFrom(module=module, names=names, level=level):
            above = package[: len(package) - level + 1] if level else []
            # `from transforms import stages` names a module by its second half; where that is none it does no harm.
            return [".".join([*above, *filter(None, [module]), name.name]) for name in names]
        case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]):
            called = ast.unparse(func).rpartition(".")[2]
            return [name.lstrip(".")] if called in {"import_module", "__import__"} else []
    return []


def import_faults(files: dict[str, str]) -> list[str]:
    """One line for every import among `files` (path -> source) that turns back."""
    faults, homes = [], defaultdict(set)
    for path, source in files.items():
        ring = next(ring for ring in RINGS if path.startswith(ring.folder + "/"))
        for found in imports(source, path):
            if why := ring.objection(found):
                faults.append(f"{path}:{found.line} {why}")
            if ring.folder == "transforms/records" and within(found.target, IN_ONE_FILE):
                homes[found.target.partition(".")[0]].add(path)
    for library, paths in homes.items():
        if len(paths) > 1:
            faults.append(f"{library} is imported by {', '.join(sorted(paths))}; give it one home in records")
    return faults


def length_faults(files: dict[str, str]) -> list[str]:
    """One line for every file and function that is too long."""
    faults = []
    for path, source in files.items():
        if (lines := len(source.splitlines())) > MAX_FILE_LINES:
            faults.append(f"{path} has {lines} lines, {MAX_FILE_LINES} are allowed")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > MAX_FUNCTION_LINES:
                    name = f"{path}:{node.lineno} {node.name}"
                    faults.append(f"{name} has {lines} lines, {MAX_FUNCTION_LINES} are allowed")
    return faults


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    found = {p.relative_to(ROOT).as_posix(): p.read_text() for top in FOLDERS for p in (ROOT / top).rglob("*.py")}
    assert {path.partition("/")[0] for path in found} == set(FOLDERS), "a folder of the house is missing or empty"
    return found


def test_imports_point_inward(files: dict[str, str]) -> None:
    assert not (faults := import_faults(files)), "\n" + "\n".join(faults)


def test_files_and_functions_are_short(files: dict[str, str]) -> None:
    assert not (faults := length_faults(files)), "\n" + "\n".join(faults)


ALLOWED = [
    ("shardwright/a.py", "import json, xxhash\nfrom shardwright import tar\nfrom . import errors\nfrom .tar import x"),
    ("shardwright/a.py", "def f():\n    import zstandard\n    from google.cloud import storage"),
    ("shardwright/a.py", "if typing.TYPE_CHECKING:\n    import zstandard"),
    ("transforms/records/a.py", "import msgspec\nfrom shardwright.order import id_digest\nfrom .rules import rule"),
    ("transforms/stages/a.py", "import apache_beam as beam\nfrom transforms.records import a\nfrom ..records import b"),
    ("pipelines/a.py", "import typer\nfrom transforms.stages import spill\nimport shardwright.order"),
]

REFUSED = [
    ("shardwright/a.py", "import numpy", "imports numpy"),
    ("shardwright/a.py", "import zstandard", "at module level"),
    ("shardwright/a.py", "class A:\n    import zstandard", "at module level"),
    ("shardwright/a.py", "try:\n    import cbor2\nexcept ImportError:\n    pass", "at module level"),
    ("shardwright/a.py", "def f():\n    import apache_beam.io", "a.py:2 imports apache_beam.io"),
    ("shardwright/a.py", "def f():\n    async def g():\n        from pipelines import cli", "imports pipelines.cli"),
    ("shardwright/a.py", "import importlib\nimportlib.import_module('transforms.stages')", "imports transforms.stages"),
    ("shardwright/sub/__init__.py", "from ... import pipelines", "imports pipelines"),
    ("shardwright/a.py", "if TYPE_CHECKING:\n    from transforms import records", "imports transforms.records"),
    ("transforms/__init__.py", "from .stages import spill", "imports transforms.stages.spill"),
    ("transforms/records/a.py", "import apache_beam", "imports apache_beam"),
    ("transforms/records/a.py", "from ..stages.spill import Spill", "imports transforms.stages.spill.Spill"),
    ("transforms/records/a.py", "from .. import stages", "imports transforms.stages"),
    ("transforms/records/a.py", "def f():\n    import pipelines.config", "imports pipelines.config"),
    ("transforms/stages/a.py", "from pipelines.config import schema", "imports pipelines.config.schema"),
    ("transforms/stages/a.py", "def f():\n    from rich.progress import Progress", "imports rich.progress.Progress"),
    ("transforms/stages/a.py", "import pydantic", "imports pydantic"),
    ("pipelines/a.py", "from tests import helpers", "imports tests.helpers"),
]


@pytest.mark.parametrize(("path", "source"), ALLOWED)
def test_the_check_allows(path: str, source: str) -> None:
    assert import_faults({path: source}) == []


@pytest.mark.parametrize(("path", "source", "fault"), REFUSED)
def test_the_check_refuses(path: str, source: str, fault: str) -> None:
    (found,) = import_faults({path: source})
    assert fault in found


def test_the_check_wants_one_home_for_a_heavy_library() -> None:
    both = {"transforms/records/a.py": "import pyarrow", "transforms/records/b.py": "import pyarrow.parquet as pq"}
    (found,) = import_faults(both)
    assert found.startswith("pyarrow is imported by transforms/records/a.py, transforms/records/b.py")


def test_the_check_measures_length() -> None:
    body = "    pass\n" * MAX_FUNCTION_LINES
    assert length_faults({"pipelines/a.py": "def f():\n" + body.removesuffix("    pass\n")}) == []
    (found,) = length_faults({"pipelines/a.py": "def f():\n" + body})
    assert found == f"pipelines/a.py:1 f has {MAX_FUNCTION_LINES + 1} lines, {MAX_FUNCTION_LINES} are allowed"
    (found,) = length_faults({"pipelines/b.py": "\n" * (MAX_FILE_LINES + 1)})
    assert found.startswith("pipelines/b.py has 301 lines")
