"""What a configuration may say, and which part of it changes the bytes of a build.

Rules that pydantic knows carry an `Expected`, the words for a person; a validator that needs more raises ValueError
with the whole message. `load.py` puts file, line and key in front of either.
"""

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ByteSize, ConfigDict, Field, PlainSerializer

from shardwright import fingerprint
from shardwright.layout import METADATA_TYPES
from transforms.stages.spec import Limit

STRICT = ConfigDict(frozen=True, extra="forbid", strict=True)
"""Of every model here: a wrong type is refused, never converted."""


@dataclass(frozen=True)
class Expected:
    """What a valid value is, in the words of an error message: "expected <text>, found ..."."""

    text: str


def shown(value: object) -> str:
    """A value as an error message quotes it: one line of at most 60 characters."""
    if value is None:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def did_you_mean(word: str, names: Sequence[str]) -> str:
    """`; did you mean "count"?` for the name nearest to `word`, or nothing when none is near."""
    containing = [name for name in names if len(word) > 2 and word in name]
    near = difflib.get_close_matches(word.lower(), names, n=1) or containing
    return f'; did you mean "{near[0]}"?' if near else ""


def _listed(value: object) -> object:
    """One value stands for a list of it; pydantic then checks a tuple, item by item."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def _as_set(values: tuple[str, ...]) -> tuple[str, ...]:
    """Where order and repetition mean nothing they must not reach a fingerprint either."""
    return tuple(sorted(set(values)))


def _check_text(value: str) -> str:
    if not value.strip():
        raise ValueError("expected a text that is not empty")
    if re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", value):  # a lone surrogate cannot be hashed; the rest are slips
        raise ValueError(f"expected a text without control characters and lone surrogates, found {value!a}")
    return value


def _check_id(values: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(values)) < len(values):
        raise ValueError(f"expected each field once, found {shown(values)}")
    return values


def _check_type(value: str) -> str:
    if value in METADATA_TYPES:
        return value
    bare = value.removeprefix("metadata_")
    advice = f'; write "{bare}"' if bare in METADATA_TYPES else did_you_mean(value, METADATA_TYPES)
    raise ValueError(f"unknown metadata type {shown(value)}{advice} (types: {', '.join(METADATA_TYPES)})")


def _parse_limit(value: object) -> Limit:
    if isinstance(value, Limit):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return Limit(count=value)
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,9})? *%", value):
        share = Decimal(value.rstrip("% ")) / 100
        if share <= 1:
            return Limit(share=share)
    raise ValueError(f"expected a limit, found {shown(value)}; write 5 (a count) or '0.5%' (a share)")


def _plain_limit(limit: Limit) -> int | str:
    return str(limit) if limit.count is None else limit.count


def _plain_size(size: int) -> str:
    """With its unit, so that what is written down can be read again."""
    return f"{int(size)} B"


def _require_unit(value: object) -> object:
    """pydantic takes a bare number, and ignores what follows the unit; whoever forgot the unit meant something else."""
    if isinstance(value, ByteSize):
        return value
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,9})?\s*[A-Za-z]+", value):
        return value
    raise ValueError(f"expected a size with its unit, such as 64 MiB, found {shown(value)}")


def _check_option(value: object) -> object:
    values = _listed(value)
    if all(isinstance(one, (str, int, float)) for one in (values if isinstance(values, tuple) else (values,))):
        return value if isinstance(value, str) else values
    raise ValueError(f"expected text, a number, true, false, or a list of these, found {shown(value)}")


Text = Annotated[str, AfterValidator(_check_text), Expected("a text")]
Paths = Annotated[tuple[Text, ...], BeforeValidator(_listed), Expected("a path or pattern, or a list of them")]
MetadataType = Annotated[str, AfterValidator(_check_type)]
Types = Annotated[
    tuple[MetadataType, ...], BeforeValidator(_listed), AfterValidator(_as_set), Expected("a list of metadata types")
]
IdFields = Annotated[
    tuple[Literal["url", "text"], ...],
    Field(min_length=1),
    BeforeValidator(_listed),
    AfterValidator(_check_id),
    Expected("url, text, or a list of both"),
]
LimitValue = Annotated[Limit, BeforeValidator(_parse_limit), PlainSerializer(_plain_limit)]
RowBytes = Annotated[
    ByteSize,
    BeforeValidator(_require_unit),
    Field(ge=1 << 10, le=1 << 30),
    PlainSerializer(_plain_size),
    Expected("a size from 1 KiB to 1 GiB, such as 64 MiB"),
]
Option = Annotated[str | int | float | bool | tuple[str | int | float | bool, ...], BeforeValidator(_check_option)]


class Input(BaseModel):
    """The documents that come in."""

    model_config = STRICT
    files: Annotated[Paths, Field(min_length=1), AfterValidator(_as_set)] = Field(
        description="Paths and patterns (*, ?, {a,b}) of the input files; their order means nothing.",
        examples=["data/*.jsonl.gz"],
    )


class Require(BaseModel):
    """Metadata types a document must carry to be kept: all of `all_of` and, unless it is empty, one of `any_of`."""

    model_config = STRICT
    any_of: Types = Field(default=(), description="At least one of these metadata types must be present.")
    all_of: Types = Field(default=(), description="Every one of these metadata types must be present.")


class Filter(BaseModel):
    """Rules that drop documents."""

    model_config = STRICT
    require: Require = Field(default=Require(), description="Metadata types a document must carry.")


class HeldOut(BaseModel):
    """What is kept out of training: by input file, by a fraction of the ids, or both."""

    model_config = STRICT
    files: Annotated[Paths, AfterValidator(_as_set)] = Field(
        default=(), description="Names or patterns of inputs held out whole, matched against base name or path."
    )
    fraction: Annotated[
        float,
        Field(ge=0, le=0.5),
        AfterValidator(abs),  # -0.0 equals 0.0 but prints, and so hashes, differently
        Expected("a share from 0 to 0.5, such as 0.01 for 1 %"),
    ] = Field(default=0.0, description="Share of all ids held out, chosen by the salted hash of the id; 0 for none.")
    salt: Text = Field(
        default="held-out/1", description="Decides which ids the fraction takes; apart from shuffle.seed."
    )


class Shuffle(BaseModel):
    """The global order."""

    model_config = STRICT
    seed: Annotated[int, Field(ge=0, lt=2**64), Expected("a whole number from 0 to 18446744073709551615")] = Field(
        default=42, description="With its id, all that decides a sample's position."
    )


class Shards(BaseModel):
    """The files that come out."""

    model_config = STRICT
    format: Literal["tar"] = Field(default="tar", description="Format of the shards.")
    count: Annotated[int, Field(ge=1), Expected("a whole number >= 1")] = Field(
        description="Number of training shards; sizes differ by at most one sample.", examples=["8"]
    )


class Limits(BaseModel):
    """What a build may fail to read and still be sealed."""

    model_config = STRICT
    rejected_inputs: LimitValue = Field(
        default=Limit(count=0), description="Input files that may be unreadable: a count, or a share such as 0.5%."
    )
    rejected_rows: LimitValue = Field(
        default=Limit(count=0), description="Rows that may be unreadable: a count, or a share of all rows such as 0.5%."
    )
    row_bytes: RowBytes = Field(default=ByteSize(64 << 20), description="A longer row is rejected without being held.")


class Runner(BaseModel):
    """How the work is done. Nothing here changes a byte of the build."""

    model_config = STRICT
    engine: Literal["local"] = Field(default="local", description="Where the pipeline runs.")
    workers: Annotated[Literal["all"] | Annotated[int, Field(ge=1)], Expected('"all" or a whole number >= 1')] = Field(
        default="all", description="Worker processes: a number, or all cores."
    )
    keep_work: Annotated[bool, Expected("true or false")] = Field(
        default=False, description="Keep the intermediate files under _work/ after the build is sealed."
    )
    options: Annotated[dict[str, Option], Expected("a section of option names and values")] = Field(
        default_factory=dict, description="Options handed to the engine as they are: a scalar or a list each."
    )


class Config(BaseModel):
    """One job. Frozen; two configs that build the same bytes from the same inputs have one fingerprint."""

    model_config = STRICT
    job: Literal["c4_html"] = Field(description="Which pipeline runs.", examples=["c4_html"])
    input: Input = Field(description="The documents that come in.")
    id: IdFields = Field(default=("url",), description="Fields that make a document's id, and with it its position.")
    filter: Filter = Field(default=Filter(), description="Rules that drop documents.")
    held_out: HeldOut = Field(default=HeldOut(), description="What is kept out of training.")
    duplicates: Literal["drop", "error"] = Field(
        default="drop", description="Documents with one id: keep the one with the smallest digest, or stop the build."
    )
    shuffle: Shuffle = Field(default=Shuffle(), description="The global order.")
    shards: Shards = Field(description="The files that come out.")
    limits: Limits = Field(default=Limits(), description="What a build may fail to read and still be sealed.")
    output: Annotated[Text, Expected("a path")] = Field(description="Folder of the build.", examples=["out/c4"])
    runner: Runner = Field(default=Runner(), description="How the work is done; changes no byte of the build.")


def byte_sections(config: Config) -> dict[str, Any]:
    """What of `config` changes the bytes of a build, as plain JSON values."""
    return fingerprint.byte_sections(config.model_dump(mode="json"))


def fingerprint_of(config: Config, versions: dict[str, str]) -> str:
    """sha256, in hex, of what decides the bytes besides the inputs."""
    return fingerprint.fingerprint(config.model_dump(mode="json"), versions)


def as_manifest(config: Config) -> dict[str, Any]:
    """The config as a manifest keeps it: plain JSON values, without `runner` and `output`."""
    return config.model_dump(mode="json", exclude={"output", "runner"})


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """The dotted keys whose values differ between two `byte_sections`, sorted: `shuffle.seed: 42 -> 43`."""
    before, after = dict(_flat(old)), dict(_flat(new))
    keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    return [f"{key}: {before.get(key, 'not set')} -> {after.get(key, 'not set')}" for key in keys]


def _flat(tree: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", json.dumps(value, ensure_ascii=False, sort_keys=True)
