"""What a config may say, what it says when it may not, and what of it is in the fingerprint."""

import json
import pickle
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from pipelines.config import (
    Config,
    ConfigError,
    Limit,
    as_manifest,
    byte_sections,
    differences,
    fingerprint_of,
    load_config,
)
from shardwright.errors import ShardwrightError
from transforms.records.c4_html import METADATA_TYPES

CONFIGS = Path(__file__).parents[2] / "configs"

MINIMAL = """\
job: c4_html
input:
  files: data/*.jsonl.gz
shards:
  count: 8
output: out/c4
"""

VERSIONS = {"zlib": "1.3"}


def load(tmp_path: Path, text: str = MINIMAL, *overrides: str) -> Config:
    """The config of `text` as a file, with overrides."""
    path = tmp_path / "x.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(path, overrides)


def problems(tmp_path: Path, text: str, *overrides: str) -> list[str]:
    """The lines of the ConfigError, with the file's path cut down to `x.yaml`."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text, *overrides)
    return str(caught.value).replace(f"{tmp_path}/", "").split("\n")


def problem(tmp_path: Path, text: str, *overrides: str) -> str:
    """The only problem."""
    (line,) = problems(tmp_path, text, *overrides)
    return line


def fingerprint(tmp_path: Path, *overrides: str) -> str:
    return fingerprint_of(load(tmp_path, MINIMAL, *overrides), VERSIONS)


# What a config may say


def test_defaults(tmp_path: Path) -> None:
    config = load(tmp_path)
    assert config.id == ("url",)
    assert (config.filter.require.any_of, config.filter.require.all_of) == ((), ())
    assert (config.held_out.files, config.held_out.fraction, config.held_out.salt) == ((), 0.0, "held-out/1")
    assert (config.duplicates, config.shuffle.seed, config.shards.format) == ("drop", 42, "tar")
    assert config.limits.rejected_inputs == config.limits.rejected_rows == Limit(count=0)
    assert config.limits.row_bytes == 64 * 1024 * 1024
    runner = config.runner
    assert (runner.engine, runner.workers, runner.keep_work, runner.options) == ("local", "all", False, {})


def test_one_string_stands_for_a_list(tmp_path: Path) -> None:
    config = load(tmp_path, MINIMAL, "id=text", "filter.require.any_of=html", "held_out.files=a.gz")
    assert config.input.files == ("data/*.jsonl.gz",)
    assert (config.id, config.filter.require.any_of, config.held_out.files) == (("text",), ("html",), ("a.gz",))


def test_the_order_of_id_fields_is_kept_and_that_of_sets_is_not(tmp_path: Path) -> None:
    config = load(
        tmp_path, MINIMAL, "id=[text, url]", "input.files=[b, a, b]", "filter.require.all_of=[url, html, url]"
    )
    assert config.id == ("text", "url")
    assert config.input.files == ("a", "b")
    assert config.filter.require.all_of == ("html", "url")


def test_every_metadata_type_may_be_required(tmp_path: Path) -> None:
    config = load(tmp_path, MINIMAL, f"filter.require.all_of={json.dumps(METADATA_TYPES)}")
    assert config.filter.require.all_of == METADATA_TYPES


def test_an_empty_section_is_a_section_of_defaults(tmp_path: Path) -> None:
    assert load(tmp_path, MINIMAL + "held_out:\nfilter:\n  require:\n") == load(tmp_path)


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
def test_seeds_are_unsigned_64_bit(tmp_path: Path, seed: int) -> None:
    assert load(tmp_path, MINIMAL, f"shuffle.seed={seed}").shuffle.seed == seed


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1 KiB", 1024),
        ("1GiB", 1 << 30),
        ("2 MB", 2_000_000),
        ("1.5 MiB", 3 << 19),
        ("2048 B", 2048),
        ("8 mib", 8 << 20),
    ],
)
def test_sizes_have_units(tmp_path: Path, text: str, size: int) -> None:
    assert load(tmp_path, MINIMAL, f"limits.row_bytes={text}").limits.row_bytes == size


@pytest.mark.parametrize("fraction", ["0", "0.02", "0.5"])
def test_fractions(tmp_path: Path, fraction: str) -> None:
    assert load(tmp_path, MINIMAL, f"held_out.fraction={fraction}").held_out.fraction == float(fraction)


def test_runner_takes_any_option(tmp_path: Path) -> None:
    config = load(tmp_path, MINIMAL + "runner:\n  options: {a: 1, b: [x, 2], c: true, d: 0.5, e: text}\n")
    assert config.runner.options == {"a": 1, "b": ("x", 2), "c": True, "d": 0.5, "e": "text"}
    assert load(tmp_path, MINIMAL, "runner.workers=3").runner.workers == 3


def test_a_config_is_frozen_and_travels_to_workers(tmp_path: Path) -> None:
    config = load(tmp_path)
    with pytest.raises(ValidationError):
        config.shards.count = 9
    assert pickle.loads(pickle.dumps(config)) == config


@pytest.mark.parametrize(
    "override",
    [
        "limits.row_bytes=1.5 MiB",
        "limits.rejected_rows=0.50%",
        "limits.rejected_inputs=3",
        "id=[text, url]",
        "runner.workers=2",
        "runner.options={a: [1, x], b: true}",
        "held_out={files: [b, a], fraction: 0.1}",
    ],
)
def test_a_config_written_as_json_is_read_as_the_same(tmp_path: Path, override: str) -> None:
    config = load(tmp_path, MINIMAL, override)
    assert Config.model_validate_json(config.model_dump_json()) == config


def every_model(model: type[BaseModel]) -> list[type[BaseModel]]:
    inner = [field.annotation for field in model.model_fields.values()]
    sections = [kind for kind in inner if isinstance(kind, type) and issubclass(kind, BaseModel)]
    return [model, *(deeper for section in sections for deeper in every_model(section))]


@pytest.mark.parametrize("model", every_model(Config))
def test_every_key_is_described_and_every_model_strict(model: type[BaseModel]) -> None:
    assert all(field.description for field in model.model_fields.values())
    assert (model.model_config["frozen"], model.model_config["extra"], model.model_config["strict"]) == (
        True,
        "forbid",
        True,
    )


# Limits


@pytest.mark.parametrize(
    ("limit", "n", "of", "allowed"),
    [
        (Limit(count=0), 0, 0, True),
        (Limit(count=0), 1, 9, False),
        (Limit(count=5), 5, 5, True),
        (Limit(count=5), 6, 10**9, False),
        (Limit(share=Decimal("0.005")), 1, 200, True),
        (Limit(share=Decimal("0.005")), 1, 199, False),
        (Limit(share=Decimal("0.29")), 29, 100, True),  # 0.29 * 100 < 29 in floats
        (Limit(share=Decimal("0.5")), 0, 0, True),
    ],
)
def test_what_a_limit_allows(limit: Limit, n: int, of: int, allowed: bool) -> None:
    assert limit.allows(n, of) is allowed


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [
        ("0", Limit(count=0), "0"),
        ("12", Limit(count=12), "12"),
        ("0.5%", Limit(share=Decimal("0.005")), "0.5%"),
        ("0.50 %", Limit(share=Decimal("0.005")), "0.5%"),
        ("100%", Limit(share=Decimal(1)), "100%"),
    ],
)
def test_limits_as_they_are_written_and_shown(tmp_path: Path, text: str, limit: Limit, shown: str) -> None:
    config = load(tmp_path, MINIMAL, f"limits.rejected_rows={text}")
    assert (config.limits.rejected_rows, str(config.limits.rejected_rows)) == (limit, shown)


@pytest.mark.parametrize(
    "text", ["0.5", "-1", '"5"', "true", "null", "101%", "100.1%", "5 percent", "-1%", "[1]", "1e2%"]
)
def test_what_is_no_limit(tmp_path: Path, text: str) -> None:
    line = problem(tmp_path, MINIMAL, f"limits.rejected_inputs={text}")
    assert line.startswith(f"--set limits.rejected_inputs={text}: expected a limit, found ")
    assert line.endswith("; write 5 (a count) or '0.5%' (a share)")


@pytest.mark.parametrize(
    "wrong",
    [{}, {"count": 1, "share": Decimal(0)}, {"count": -1}, {"share": Decimal("1.1")}, {"share": Decimal("-0.1")}],
)
def test_a_limit_is_one_thing_in_range(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"a limit is|a count is|a share is"):
        Limit(**wrong)


# What is refused, in which words


def test_an_unknown_key_has_its_line_and_the_nearest_name(tmp_path: Path) -> None:
    text = MINIMAL.replace("  count: 8", "  count: 8\n  fromat: tar")
    expected = 'x.yaml:6: shards.fromat: unknown key; did you mean "format"? (valid keys here: count, format)'
    assert problem(tmp_path, text) == expected


def test_a_misspelt_required_key_is_told_from_both_sides(tmp_path: Path) -> None:
    assert problems(tmp_path, MINIMAL.replace("count", "cout")) == [
        'x.yaml:4: shards.count: missing; add the line "count: 8" under "shards:", or --set shards.count=8',
        'x.yaml:5: shards.cout: unknown key; did you mean "count"? (valid keys here: count, format)',
    ]


def test_a_key_in_the_wrong_section_is_sent_to_the_right_one(tmp_path: Path) -> None:
    line = problem(tmp_path, MINIMAL + "seed: 4\n")
    assert line.startswith(
        'x.yaml:7: seed: unknown key; did you mean "shuffle.seed"? (valid keys here: duplicates, filter'
    )


def test_an_unknown_key_that_resembles_none_lists_the_valid_ones(tmp_path: Path) -> None:
    line = problem(tmp_path, MINIMAL + "shuffle: {zzzz: 1}\n")
    assert line == "x.yaml:7: shuffle.zzzz: unknown key (valid keys here: seed)"


def test_one_letter_resembles_nothing(tmp_path: Path) -> None:
    assert problem(tmp_path, MINIMAL + "a: 1\n").startswith("x.yaml:7: a: unknown key (valid keys here: ")


def test_keys_that_are_no_strings_are_unknown_keys(tmp_path: Path) -> None:
    assert problem(tmp_path, MINIMAL + "5: x\n").startswith("x.yaml:7: 5: unknown key")


def test_missing_keys_say_where_to_add_them(tmp_path: Path) -> None:
    assert problems(tmp_path, "") == [
        'x.yaml: job: missing; add the line "job: c4_html" at the left margin, or --set job=c4_html',
        'x.yaml: input.files: missing; add the line "files: data/*.jsonl.gz" under "input:", '
        "or --set input.files=data/*.jsonl.gz",
        'x.yaml: shards.count: missing; add the line "count: 8" under "shards:", or --set shards.count=8',
        'x.yaml: output: missing; add the line "output: out/c4" at the left margin, or --set output=out/c4',
    ]


TYPES = ", ".join(METADATA_TYPES)
SIZE = "limits.row_bytes: expected a size"


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        ("id: [url, txt]", 'id: expected url, text, or a list of both, found "txt"; did you mean "text"?'),
        ("id: html", 'id: expected url, text, or a list of both, found "html"'),
        ("id: 5", "id: expected url, text, or a list of both, found 5"),
        ("id: []", "id: expected url, text, or a list of both, found []"),
        ("id: [url, url]", 'id: expected each field once, found ["url", "url"]'),
        (
            "filter: {require: {any_of: [metadata_title]}}",
            f'filter.require.any_of: unknown metadata type "metadata_title"; write "title" (types: {TYPES})',
        ),
        (
            "filter: {require: {all_of: timestmp}}",
            f'filter.require.all_of: unknown metadata type "timestmp"; did you mean "timestamp"? (types: {TYPES})',
        ),
        (
            "filter: {require: {all_of: website_description}}",
            'filter.require.all_of: unknown metadata type "website_description"; did you mean "website_desc"?'
            f" (types: {TYPES})",
        ),
        ("filter: {require: {all_of: 7}}", "filter.require.all_of: expected a list of metadata types, found 7"),
        ("filter: html", 'filter: expected a section with the keys require, found "html"'),
        (
            "held_out: {fraction: 0.51}",
            "held_out.fraction: expected a share from 0 to 0.5, such as 0.01 for 1 %, found 0.51",
        ),
        (
            "held_out: {fraction: -0.1}",
            "held_out.fraction: expected a share from 0 to 0.5, such as 0.01 for 1 %, found -0.1",
        ),
        (
            "held_out: {fraction: .nan}",
            "held_out.fraction: expected a share from 0 to 0.5, such as 0.01 for 1 %, found NaN",
        ),
        (
            "held_out: {fraction: 1%}",
            'held_out.fraction: expected a share from 0 to 0.5, such as 0.01 for 1 %, found "1%"',
        ),
        (
            "held_out: {fraction: true}",
            "held_out.fraction: expected a share from 0 to 0.5, such as 0.01 for 1 %, found true",
        ),
        ("held_out: {salt: 3}", "held_out.salt: expected a text, found 3; put it in quotes"),
        ("held_out: {salt: 2020-01-01}", 'held_out.salt: expected a text, found "2020-01-01"; put it in quotes'),
        ("held_out: {salt: ''}", "held_out.salt: expected a text that is not empty"),
        (
            'held_out: {salt: "\\ud800"}',
            "held_out.salt: expected a text without control characters and lone surrogates, found '\\ud800'",
        ),
        (
            "held_out: {files: {a: b}}",
            'held_out.files: expected a path or pattern, or a list of them, found {"a": "b"}',
        ),
        ("held_out: {files: ['']}", "held_out.files: expected a text that is not empty"),
        ("duplicates: dorp", 'duplicates: expected drop or error, found "dorp"; did you mean "drop"?'),
        ("duplicates: keep", 'duplicates: expected drop or error, found "keep"'),
        ("shuffle: {seed: -1}", "shuffle.seed: expected a whole number from 0 to 18446744073709551615, found -1"),
        (
            "shuffle: {seed: 18446744073709551616}",
            "shuffle.seed: expected a whole number from 0 to 18446744073709551615, found 18446744073709551616",
        ),
        ("shuffle: {seed: 1.0}", "shuffle.seed: expected a whole number from 0 to 18446744073709551615, found 1.0"),
        ("shuffle: {seed: true}", "shuffle.seed: expected a whole number from 0 to 18446744073709551615, found true"),
        ("shuffle: {seed: }", "shuffle.seed: expected a whole number from 0 to 18446744073709551615, found nothing"),
        (
            "shuffle: {seed: '8'}",
            'shuffle.seed: expected a whole number from 0 to 18446744073709551615, found "8"; write 8 without quotes',
        ),
        ("shuffle: 5", "shuffle: expected a section with the keys seed, found 5"),
        ("limits: {row_bytes: 64}", f"{SIZE} with its unit, such as 64 MiB, found 64"),
        ("limits: {row_bytes: '64'}", f'{SIZE} with its unit, such as 64 MiB, found "64"'),
        ("limits: {row_bytes: 64 MiB!}", f'{SIZE} with its unit, such as 64 MiB, found "64 MiB!"'),
        ("limits: {row_bytes: 64 MoB}", f'{SIZE} from 1 KiB to 1 GiB, such as 64 MiB, found "64 MoB"'),
        ("limits: {row_bytes: 1023 B}", f'{SIZE} from 1 KiB to 1 GiB, such as 64 MiB, found "1023 B"'),
        ("limits: {row_bytes: 1.1 GiB}", f'{SIZE} from 1 KiB to 1 GiB, such as 64 MiB, found "1.1 GiB"'),
        ("runner: {engine: locl}", 'runner.engine: expected local, found "locl"; did you mean "local"?'),
        ("runner: {workers: 0}", 'runner.workers: expected "all" or a whole number >= 1, found 0'),
        (
            "runner: {workers: al}",
            'runner.workers: expected "all" or a whole number >= 1, found "al"; did you mean "all"?',
        ),
        ("runner: {workers: true}", 'runner.workers: expected "all" or a whole number >= 1, found true'),
        ("runner: {keep_work: yes}", 'runner.keep_work: expected true or false, found "yes"; write true'),
        ("runner: {keep_work: 1}", "runner.keep_work: expected true or false, found 1"),
        (
            "runner: {options: {x: {y: 1}}}",
            'runner.options.x: expected text, a number, true, false, or a list of these, found {"y": 1}',
        ),
        (
            "runner: {options: {x: [[1]]}}",
            "runner.options.x: expected text, a number, true, false, or a list of these, found [[1]]",
        ),
        ("runner: {options: 3}", "runner.options: expected a section of option names and values, found 3"),
    ],
)
def test_wrong_values(tmp_path: Path, yaml: str, message: str) -> None:
    assert problem(tmp_path, f"{MINIMAL}{yaml}\n") == f"x.yaml:7: {message}"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("job: c4_html", "job: c4html", 'x.yaml:1: job: expected c4_html, found "c4html"; did you mean "c4_html"?'),
        ("data/*.jsonl.gz", "[]", "x.yaml:3: input.files: expected a path or pattern, or a list of them, found []"),
        ("data/*.jsonl.gz", "7", "x.yaml:3: input.files: expected a path or pattern, or a list of them, found 7"),
        ("count: 8", "count: many", 'x.yaml:5: shards.count: expected a whole number >= 1, found "many"'),
        ("count: 8", "count: 0", "x.yaml:5: shards.count: expected a whole number >= 1, found 0"),
        ("count: 8", "{count: 8, format: cbor}", 'x.yaml:5: shards.format: expected tar, found "cbor"'),
        ("out/c4", "2019", "x.yaml:6: output: expected a path, found 2019; put it in quotes"),
        ("out/c4", "", "x.yaml:6: output: expected a path, found nothing"),
    ],
)
def test_wrong_values_of_required_keys(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert problem(tmp_path, MINIMAL.replace(old, new)) == message


def test_an_item_of_a_list_has_its_own_line(tmp_path: Path) -> None:
    text = MINIMAL.replace("  files: data/*.jsonl.gz", "  files:\n    - a.gz\n    - 2019\n    - 2020")
    assert problems(tmp_path, text) == [
        "x.yaml:5: input.files: expected a path or pattern, or a list of them, found 2019; put it in quotes",
        "x.yaml:6: input.files: expected a path or pattern, or a list of them, found 2020; put it in quotes",
    ]


def test_all_problems_at_once_in_the_order_of_the_file_then_of_the_overrides(tmp_path: Path) -> None:
    text = "shuffle:\n  seed: x\nlimits:\n  rows: 3\n" + MINIMAL
    lines = problems(tmp_path, text, "duplicates=no", "nonsense", "id=a", "shards.count=0")
    starts = [
        "x.yaml:2: ",
        "x.yaml:4: ",
        "--set duplicates=no: ",
        "--set nonsense: ",
        "--set id=a: ",
        "--set shards.count=0: ",
    ]
    assert len(lines) == len(starts)
    assert all(line.startswith(start) for line, start in zip(lines, starts, strict=True))


def test_no_words_of_the_schema_library(tmp_path: Path) -> None:
    text = "job: 1\ninput: []\nid: {}\nfilter: 1\nheld_out: {fraction: x, salt: 1}\nshuffle: {seed: []}\n"
    more = "shards: {count: 1.5}\nlimits: {row_bytes: 1 zb}\nrunner: {workers: [], options: []}\n"
    told = "\n".join(problems(tmp_path, text + more))
    assert not re.search(r"Input|Value error|pydantic|valid (integer|string|tuple)|Extra|literal|None", told)


def test_a_long_value_is_cut(tmp_path: Path) -> None:
    line = problem(tmp_path, MINIMAL, f"shards.count={'x' * 500}")
    assert line.endswith(f'found "{"x" * 56}...')


# The file


def test_config_errors_are_shardwrights_own_and_keep_their_problems(tmp_path: Path) -> None:
    with pytest.raises(ShardwrightError) as caught:
        load(tmp_path, "")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert len(copy.problems) == 4
    assert str(copy) == str(caught.value)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        (MINIMAL + "job: c4_html\n", 'x.yaml:7: duplicate key "job"; keep one of them'),
        ("a: 1\nb: [1\nc: 2\n", "x.yaml:3: not valid YAML: expected ',' or ']', but got ':'; a value that begins with"),
        ("a: 1\nb: *.gz\n", "x.yaml:2: not valid YAML: found undefined alias '.gz'; a value that begins with * &"),
        ("a: 1\n\tb: 2\n", "x.yaml:2: not valid YAML: "),
        ("a: 1\n---\nb: 2\n", "x.yaml:2: not valid YAML: "),
        ("- a\n", 'x.yaml: expected keys and values, such as job: c4_html, found ["a"]'),
        ("5\n", "x.yaml: expected keys and values, such as job: c4_html, found 5"),
        ("a: 2020-02-31\n", "x.yaml: not valid YAML: day is out of range for month"),
        ("a: \x01\n", "x.yaml: not valid YAML: "),
        ("[" * 3000, "x.yaml: nested too deep"),
        ("a: !!omap 5\n", "x.yaml: not valid YAML: "),
    ],
)
def test_files_that_are_no_config(tmp_path: Path, text: str, start: str) -> None:
    assert problem(tmp_path, text).startswith(start)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    advice = "; give the path of a config, such as configs/demo.yaml"
    with pytest.raises(ConfigError, match=f"none.yaml: No such file or directory{advice}$"):
        load_config(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match=f": Is a directory{advice}$"):
        load_config(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"job: caf\xe9")
    with pytest.raises(ConfigError, match=r"latin.yaml: not UTF-8 at byte 8; save the file as UTF-8"):
        load_config(tmp_path / "latin.yaml")


def test_yaml_1_2(tmp_path: Path) -> None:
    """`no` is a word and 010 is ten; YAML 1.1 read a boolean and an eight."""
    config = load(tmp_path, MINIMAL.replace("count: 8", "count: 010").replace("out/c4", "no"))
    assert (config.shards.count, config.output) == (10, "no")


def test_byte_order_mark_anchors_and_merges(tmp_path: Path) -> None:
    text = "\ufeff" + MINIMAL + "runner: {keep_work: &yes true, options: {a: *yes}}\nshuffle:\n  <<: {sed: 3}\n"
    assert problem(tmp_path, text) == 'x.yaml:8: shuffle.sed: unknown key; did you mean "seed"? (valid keys here: seed)'
    config = load(tmp_path, text.replace("sed", "seed"))
    assert (config.runner.keep_work, config.runner.options, config.shuffle.seed) == (True, {"a": True}, 3)


# Overrides


def test_overrides_are_yaml_and_the_last_one_wins(tmp_path: Path) -> None:
    overrides = ["shards.count=32", "shards.count=64", "id=[url, text]", " output = out/b=c ", "runner.options.x=1e3"]
    config = load(tmp_path, MINIMAL, *overrides)
    assert (config.shards.count, config.id, config.output) == (64, ("url", "text"), "out/b=c")
    assert config.runner.options == {"x": 1000.0}


def test_an_override_makes_the_sections_it_needs(tmp_path: Path) -> None:
    config = load(
        tmp_path, "", "job=c4_html", "input.files=a", "shards.count=2", "output=o", "filter.require.any_of=[html]"
    )
    assert config.filter.require.any_of == ("html",)


def test_an_override_of_a_section_replaces_it(tmp_path: Path) -> None:
    text = MINIMAL + "held_out: {fraction: 0.1, salt: s}\n"
    assert load(tmp_path, text, "held_out={fraction: 0.2}").held_out.salt == "held-out/1"
    assert load(tmp_path, text, "held_out=null").held_out.fraction == 0.0
    assert load(tmp_path, text, "held_out.fraction=0.2").held_out.salt == "s"


def test_what_an_override_replaced_is_told_with_the_override(tmp_path: Path) -> None:
    line = problem(tmp_path, MINIMAL + "held_out:\n  fraction: 0.1\n", "held_out={fraction: 2}")
    assert line.startswith("--set held_out={fraction: 2}: held_out.fraction: expected a share")


def test_an_override_hides_what_was_wrong_in_the_file(tmp_path: Path) -> None:
    assert load(tmp_path, MINIMAL.replace("count: 8", "count: many"), "shards.count=4").shards.count == 4


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("shards.count=many", 'expected a whole number >= 1, found "many"'),
        ("shards.cout=8", 'unknown key; did you mean "count"? (valid keys here: count, format)'),
        ("held_out.seed=8", 'unknown key; did you mean "shuffle.seed"? (valid keys here: files, fraction, salt)'),
        ("shuffle.seed.x=1", "shuffle.seed has no keys below it; write --set shuffle.seed=VALUE"),
        ("runner.options.a.b=1", "runner.options has no keys below it; write --set runner.options=VALUE"),
        ("runner.options.a=", "expected text, a number, true, false, or a list of these, found nothing"),
        ("output=", "expected a path, found nothing"),
        ("shards.count", "expected KEY=VALUE, such as --set shards.count=8"),
        ("=8", "expected KEY=VALUE, such as --set shards.count=8"),
        ("limits=5", "expected a section with the keys rejected_inputs, rejected_rows, row_bytes, found 5"),
        ("held_out={fraction: 2}", "held_out.fraction: expected a share from 0 to 0.5, such as 0.01 for 1 %, found 2"),
    ],
)
def test_overrides_that_are_refused(tmp_path: Path, override: str, message: str) -> None:
    assert problem(tmp_path, MINIMAL, override) == f"--set {override}: {message}"


def test_an_unknown_override_at_the_top(tmp_path: Path) -> None:
    line = problem(tmp_path, MINIMAL, "ouput=x")
    assert line.startswith('--set ouput=x: unknown key; did you mean "output"? (valid keys here: duplicates, filter, ')


@pytest.mark.parametrize("pattern", ["*.gz", "{a,b}.gz", "[a", '"a'])
def test_an_override_that_is_no_yaml_shows_how_to_quote(tmp_path: Path, pattern: str) -> None:
    line = problem(tmp_path, MINIMAL, f"input.files={pattern}")
    assert line.startswith(f"--set input.files={pattern}: the value: not valid YAML: ")
    assert line.endswith(f"; in a shell: --set 'input.files=\"{pattern}\"'")


def test_a_quoted_pattern_is_a_string(tmp_path: Path) -> None:
    assert load(tmp_path, MINIMAL, 'input.files="{a,b}*.gz"').input.files == ("{a,b}*.gz",)


def test_an_override_below_something_that_is_no_section(tmp_path: Path) -> None:
    line = problem(tmp_path, MINIMAL + "shuffle: 5\n", "shuffle.seed=3")
    assert line == "x.yaml:7: shuffle: expected a section with the keys seed, found 5"


def test_a_message_stays_on_its_line_and_can_be_printed(tmp_path: Path) -> None:
    line = problem(tmp_path, MINIMAL, "a\nb\ud800=1")
    assert line.startswith(r"--set a\nb\ud800=1: unknown key")


# The fingerprint


def test_the_fingerprint_is_sha256_over_canonical_json(tmp_path: Path) -> None:
    """Written out once by hand: a change here is a change of the contract, and every earlier build has another one."""
    assert byte_sections(load(tmp_path)) == {
        "job": "c4_html",
        "id": ["url"],
        "filter": {"require": {"any_of": [], "all_of": []}},
        "held_out": {"files": [], "fraction": 0.0, "salt": "held-out/1"},
        "duplicates": "drop",
        "shuffle": {"seed": 42},
        "shards": {"format": "tar", "count": 8},
        "limits": {"row_bytes": "67108864 B"},
    }
    assert fingerprint(tmp_path) == "ae8776fda8afbfd3d74e1fe05dc3ef7f29d6014fc9fd89012a350f17d70def5b"


@pytest.mark.parametrize(
    "override",
    [
        "id=text",
        "id=[url, text]",
        "filter.require.any_of=[html]",
        "filter.require.all_of=[html]",
        "held_out.files=[a.gz]",
        "held_out.fraction=0.1",
        "held_out.salt=other",
        "duplicates=error",
        "shuffle.seed=43",
        "shards.count=9",
        "limits.row_bytes=1 MiB",
    ],
)
def test_what_changes_bytes_changes_the_fingerprint(tmp_path: Path, override: str) -> None:
    assert fingerprint(tmp_path, override) != fingerprint(tmp_path)


@pytest.mark.parametrize(
    "override",
    [
        "input.files=[other/*.gz]",
        "output=elsewhere",
        "limits.rejected_inputs=3",
        "limits.rejected_rows=1%",
        "runner.workers=1",
        "runner.keep_work=true",
        "runner.options.x=1",
        "runner={engine: local, workers: 2}",
        "held_out.fraction=-0.0",
        "shuffle.seed=42",
    ],
)
def test_what_changes_no_byte_does_not(tmp_path: Path, override: str) -> None:
    assert fingerprint(tmp_path, override) == fingerprint(tmp_path)


@pytest.mark.parametrize("key", ["held_out.files", "filter.require.any_of", "filter.require.all_of"])
def test_the_order_of_a_set_is_not_in_the_fingerprint(tmp_path: Path, key: str) -> None:
    assert fingerprint(tmp_path, f"{key}=[title, html]") == fingerprint(tmp_path, f"{key}=[html, title, html]")


def test_the_order_of_id_fields_is_in_the_fingerprint(tmp_path: Path) -> None:
    assert fingerprint(tmp_path, "id=[url, text]") != fingerprint(tmp_path, "id=[text, url]")


def test_the_job_and_the_format_are_in_the_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(tmp_path)
    other = load(tmp_path).model_copy(update={"job": "other"})
    assert fingerprint_of(other, VERSIONS) != before
    monkeypatch.setattr("shardwright.fingerprint.FORMAT", "shardwright/2")
    assert fingerprint(tmp_path) != before


def test_encoder_versions_are_in_the_fingerprint_in_no_order(tmp_path: Path) -> None:
    config = load(tmp_path)
    assert fingerprint_of(config, {"a": "1", "b": "2"}) == fingerprint_of(config, {"b": "2", "a": "1"})
    assert len({fingerprint_of(config, versions) for versions in ({}, {"zlib": "1.2"}, {"zlib": "1.3"})}) == 3


def test_differences_name_keys_and_both_values(tmp_path: Path) -> None:
    old = byte_sections(load(tmp_path))
    new = byte_sections(load(tmp_path, MINIMAL, "shuffle.seed=43", "id=[url, text]", "limits.row_bytes=1 KiB"))
    assert differences(old, json.loads(json.dumps(old))) == []
    assert differences(old, new) == [
        'id: ["url"] -> ["url", "text"]',
        'limits.row_bytes: "67108864 B" -> "1024 B"',
        "shuffle.seed: 42 -> 43",
    ]
    assert differences({"a": {"b": 1}}, {"a": {}}) == ["a: not set -> {}", "a.b: 1 -> not set"]
    assert differences({}, dict.fromkeys("hgfedcba", 1)) == [f"{key}: not set -> 1" for key in "abcdefgh"]


def test_the_manifest_keeps_everything_but_runner_and_output(tmp_path: Path) -> None:
    config = load(tmp_path, MINIMAL, "limits.rejected_rows=0.5%", "limits.rejected_inputs=2", "runner.workers=3")
    kept = as_manifest(config)
    assert kept == json.loads(json.dumps(kept))
    assert set(kept) == set(Config.model_fields) - {"runner", "output"}
    assert kept["input"] == {"files": ["data/*.jsonl.gz"]}
    assert kept["limits"] == {"rejected_inputs": 2, "rejected_rows": "0.5%", "row_bytes": "67108864 B"}


# The configs that come with the project


def test_the_demo_config() -> None:
    config = load_config(CONFIGS / "demo.yaml")
    assert config.input.files == ("build/demo/corpus/*.jsonl.gz",)
    assert (config.id, config.filter.require.any_of, config.held_out.fraction) == (
        ("url",),
        ("entity", "timestamp", "website_desc"),
        0.05,
    )
    assert (config.shuffle.seed, config.shards.count, config.output) == (42, 8, "out/demo")
    assert config.limits.rejected_rows == Limit(count=6)


def test_the_c4_html_config() -> None:
    config = load_config(CONFIGS / "c4_html.yaml")
    assert (config.input.files, config.output) == (("data/*.jsonl.gz",), "out/c4")
    assert config.held_out.files == ("c4-en-html_cc-main-2019-18_pq00-000.jsonl.gz",)
    assert config.limits.rejected_rows == config.limits.rejected_inputs == Limit(count=0)


def test_the_c4_html_config_writes_out_every_key() -> None:
    text = (CONFIGS / "c4_html.yaml").read_text(encoding="utf-8")
    keys = [name for model in every_model(Config) for name in model.model_fields]
    assert [key for key in keys if not re.search(rf"^ *(# )?{key}:", text, re.MULTILINE)] == []
