"""From a YAML file and `--set` overrides to a Config, or to one ConfigError that names every problem at once.

Each value has a place: the file and line it stands in, or the override that gave it. Problems start with their place.
"""

import warnings
from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.scalarbool import ScalarBoolean

from pipelines.config.schema import Config, Expected, did_you_mean, shown
from shardwright.errors import ShardwrightError

Keys = tuple[str | int, ...]
"""Where a value stands: section and key names, then the number of a list's item."""

QUOTES = "a value that begins with * & ! % @ { or [, or has ': ' or ' #' in it, needs quotes"


class ConfigError(ShardwrightError):
    """The configuration cannot be used. `problems` has one line for each thing to put right; str() is all of them."""

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems = tuple(_printable(problem) for problem in problems)

    def __str__(self) -> str:
        return "\n".join(self.problems)


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


class Place(NamedTuple):
    """Where the value of `keys` was written; problems are told in the order of `rank`."""

    rank: int
    text: str
    keys: Keys
    override: bool = False


class Problem(NamedTuple):
    """One thing to put right."""

    place: Place
    keys: Keys
    text: str

    def __str__(self) -> str:
        if self.place.override and self.place.keys == self.keys:
            return f"{self.place.text}: {self.text}"  # the override shows its key already
        return f"{self.place.text}: {dotted(self.keys)}: {self.text}"


Places = dict[Keys, Place]


def load_config(path: str | Path, overrides: Iterable[str] = ()) -> Config:
    """The config in the YAML file `path`, with `a.b=value` overrides applied in order (values are YAML).

    Raises ConfigError: for a file that cannot be read or is not YAML at once, else with all problems together.
    """
    tree, data = _read(path)
    places = {(): Place(0, str(path), ()), **_line_places(tree, str(path))}
    problems = [*_override(data, places, overrides)]
    _open_sections(data, Config)
    try:
        config = Config.model_validate(data)
    except ValidationError as error:
        problems += _explained(error, places)
    if problems:
        raise ConfigError(*(str(problem) for problem in sorted(problems, key=attrgetter("place.rank"))))
    return config


def _read(path: str | Path) -> tuple[CommentedMap, dict[str, Any]]:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; give the path of a config, such as configs/demo.yaml") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8") from None
    tree, data = _parse(text, str(path), lined=True)
    if tree is None:
        return CommentedMap(), {}
    if not isinstance(tree, CommentedMap):
        raise ConfigError(f"{path}: expected keys and values, such as job: c4_html, found {shown(data)}")
    return tree, data


def _parse(text: str, where: str, lined: bool) -> tuple[Any, Any]:
    """YAML 1.2, as a tree that knows its lines and as plain values. A ConfigError begins with `where` and the line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an anchor used twice: legal, and none of our business
            tree = YAML(typ="rt").load(text)
        return tree, _plain(tree)
    except MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if lined and error.problem_mark else ""
        raise ConfigError(f"{where}{line}: {_yaml_problem(error)}") from None
    except (YAMLError, ValueError, LookupError, AttributeError, TypeError) as error:
        # Not only YAMLError: 2020-02-31 reads as a date, a number has 5000 digits, a tag does not fit its value.
        raise ConfigError(f"{where}: not valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ConfigError(f"{where}: nested too deep; a config has at most three levels") from None


def _yaml_problem(error: MarkedYAMLError) -> str:
    problem = str(error.problem)
    if isinstance(error, DuplicateKeyError):
        return f"{problem.split(' with value')[0].removeprefix('found ')}; keep one of them"
    return f"not valid YAML: {problem}; {QUOTES}"


def _plain(node: Any) -> Any:
    """Plain Python values instead of ruamel's, which remember how they were written."""
    if isinstance(node, dict):
        return {str(key): _plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if isinstance(node, ScalarBoolean):  # true with an anchor: an int to Python
        return bool(node)
    for kind in (bool, int, float, str):
        if isinstance(node, kind):
            return kind(node)
    return node


def _line_places(node: Any, file: str, keys: Keys = ()) -> Places:
    """The place of every key and list item under `node`. What a merge (`<<`) brought in has none of its own."""
    places: Places = {}
    if isinstance(node, (CommentedMap, CommentedSeq)):
        for key, value in node.items() if isinstance(node, CommentedMap) else enumerate(node):
            here = (*keys, key if isinstance(node, CommentedSeq) else str(key))
            if key in (node.lc.data or ()):
                line = node.lc.data[key][0] + 1
                places[here] = Place(line, f"{file}:{line}", here)
            places |= _line_places(value, file, here)
    return places


def _override(data: dict[str, Any], places: Places, overrides: Iterable[str]) -> Iterator[Problem]:
    """Write each override into `data` and `places`; yields the problems of those that cannot be."""
    after_the_file = 1 + max(place.rank for place in places.values())
    for number, override in enumerate(overrides):
        key, equals, text = override.partition("=")
        keys: Keys = tuple(key.strip().split("."))
        place = Place(after_the_file + number, f"--set {override}", keys, override=True)
        advice = _bad_target(keys) if equals and key.strip() else "expected KEY=VALUE, such as --set shards.count=8"
        try:
            value = None if advice else _parse(text, "the value", lined=False)[1]
        except ConfigError as error:
            advice = f"{error}; in a shell: --set '{key}=\"{text}\"'"
        if advice:
            yield Problem(place, keys, advice)
        elif _write(data, keys, value):
            for old in [old for old in places if old[: len(keys)] == keys]:
                del places[old]
            places[keys] = place


def _bad_target(keys: Keys) -> str:
    """Why an override cannot set `keys`, or nothing when it can."""
    path, model, field = _walk(keys)
    if field is None:
        return _unknown_key(path, model)
    too_deep = len(keys) - len(path) > (1 if get_origin(field.annotation) is dict else 0)
    return f"{dotted(path)} has no keys below it; write --set {dotted(path)}=VALUE" if too_deep else ""


def _write(data: Any, keys: Keys, value: Any) -> bool:
    """Put `value` at `keys`, making sections on the way; False, for validation to report, where no section stands."""
    *sections, last = keys
    for name in sections:
        if data.get(name) is None:
            data[name] = {}
        data = data[name]
        if not isinstance(data, dict):
            return False
    data[last] = value
    return True


def _open_sections(data: dict[str, Any], model: type[BaseModel]) -> None:
    """A section that is absent or empty is a section of defaults, and what it needs is then missing key by key."""
    for name, field in model.model_fields.items():
        inner = _section(field)
        if inner is not None:
            if data.get(name) is None:
                data[name] = {}
            if isinstance(data[name], dict):
                _open_sections(data[name], inner)


def dotted(keys: Keys) -> str:
    """`shards.count`; the number of a list's item is left out, the value tells which."""
    return ".".join(key for key in keys if isinstance(key, str))


def _explained(error: ValidationError, places: Places) -> Iterator[Problem]:
    """One problem for each value that is wrong: pydantic tells one for each branch of a union, and of a list too."""
    seen: set[Keys] = set()
    for details in error.errors(include_url=False):
        keys, model, field = _field_at(details["loc"])
        if not any(told[: len(keys)] == keys for told in seen):
            seen.add(keys)
            yield Problem(_place_of(keys, places), keys, _explain(details, keys, model, field))


def _field_at(loc: Keys) -> tuple[Keys, type[BaseModel], FieldInfo | None]:
    """What pydantic's `loc` leads to; the keys are those a person wrote, without names of union branches."""
    keys, model, field = _walk(loc)
    below = loc[len(keys) :][:1]
    if field and below and (isinstance(below[0], int) or get_origin(field.annotation) is dict):
        keys += below
    return keys, model, field


def _place_of(keys: Keys, places: Places) -> Place:
    return next(places[keys[:depth]] for depth in range(len(keys), -1, -1) if keys[:depth] in places)


def _explain(details: ErrorDetails, keys: Keys, model: type[BaseModel], field: FieldInfo | None) -> str:
    if field is None:
        return _unknown_key(keys, model)
    if details["type"] == "missing":
        return _missing(keys, field)
    if details["type"] == "value_error":
        return str(details["ctx"]["error"])
    choices = str(details.get("ctx", {}).get("expected", "")).split("'")[1::2]
    inner = _section(field)
    told = [item.text for item in field.metadata if isinstance(item, Expected)] or [" or ".join(choices)]
    expected = f"a section with the keys {', '.join(sorted(inner.model_fields))}" if inner else told[-1]
    value = details["input"]
    return f"expected {expected}, found {shown(value)}{_advice(details['type'], value, choices)}"


def _advice(kind: str, value: object, choices: list[str]) -> str:
    """What to do about a value of the wrong kind, where that can be told."""
    if kind == "string_type" and value is not None and not isinstance(value, (list, dict)):
        return "; put it in quotes"
    if kind == "int_type" and isinstance(value, str) and value.isdecimal():
        return f"; write {value} without quotes"
    if kind == "bool_type" and isinstance(value, str) and value.lower() in ("yes", "no", "on", "off"):
        return f"; write {'true' if value.lower() in ('yes', 'on') else 'false'}"
    return did_you_mean(value, choices) if isinstance(value, str) else ""


def _missing(keys: Keys, field: FieldInfo) -> str:
    *sections, name = map(str, keys)
    example = shown(field.examples[0]).strip('"') if field.examples else "..."
    where = f'under "{".".join(sections)}:"' if sections else "at the left margin"
    return f'missing; add the line "{name}: {example}" {where}, or --set {dotted(keys)}={example}'


def _unknown_key(keys: Keys, model: type[BaseModel]) -> str:
    """The key of this name in another section, else the nearest one in this."""
    wrong, valid = str(keys[-1]), sorted(model.model_fields)
    elsewhere = [key for key in _all_keys(Config) if key.split(".")[-1] == wrong]
    near = did_you_mean(elsewhere[0], elsewhere) if elsewhere else did_you_mean(wrong, valid)
    return f"unknown key{near} (valid keys here: {', '.join(valid)})"


def _all_keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        inner = _section(field)
        yield from _all_keys(inner, f"{prefix}{name}.") if inner else [f"{prefix}{name}"]


def _walk(keys: Keys) -> tuple[Keys, type[BaseModel], FieldInfo | None]:
    """How far `keys` lead through the schema: to a field, or (None) to a name that its section has not."""
    model: type[BaseModel] = Config
    for depth, name in enumerate(keys[:-1], 1):
        field = model.model_fields.get(str(name))
        inner = field and _section(field)
        if inner is None:
            return keys[:depth], model, field
        model = inner
    return keys, model, model.model_fields.get(str(keys[-1]))


def _section(field: FieldInfo) -> type[BaseModel] | None:
    """The model of a field that is a section."""
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None
