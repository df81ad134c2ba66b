"""The README.md files of a build: YAML that Hugging Face reads, and text that a person reads."""

import re
from typing import Any

import pytest
from ruamel.yaml import YAML

from pipelines.cards import C4HtmlCards
from pipelines.features import C4_HTML_ROW, yaml_features
from tests.support import row

MANIFEST: dict[str, Any] = {
    "job": "c4_html",
    "seed": 77,
    "build_id": "b" * 64,
    "splits": {"train": {"samples": 1234567, "shards": 32}},
    "held_out": {"sets": {"all": 4321, "html": 4000}},
}
LOCAL = ["key", "type", "value", "char_start_idx", "char_end_idx"]


def front(card: str) -> dict[str, Any]:
    """The YAML block at the top."""
    empty, block, _ = card.split("---\n", 2)
    assert empty == ""
    value = YAML(typ="safe", pure=True).load(block)
    assert isinstance(value, dict)
    return value


@pytest.fixture(scope="module")
def build_card() -> str:
    return C4HtmlCards().build(MANIFEST)


@pytest.fixture(scope="module")
def html_card() -> str:
    return C4HtmlCards().held_out("html", 4000)


def test_the_build_card_names_its_shards_and_columns(build_card):
    value = front(build_card)
    assert sorted(value) == ["configs", "dataset_info"]
    assert value["configs"] == [{"config_name": "default", "data_files": [{"split": "train", "path": "train/*.tar"}]}]
    features = value["dataset_info"]["features"]
    assert [column["name"] for column in features] == ["__key__", "__url__", "json", "txt"]
    assert features[0] == {"name": "__key__", "dtype": "string"}
    assert features[2] == {"name": "json", "struct": yaml_features(C4_HTML_ROW)}


def test_the_held_out_card_names_its_file_and_the_columns_of_a_row(html_card):
    value = front(html_card)
    assert value["configs"] == [
        {"config_name": "default", "data_files": [{"split": "validation", "path": "validation.jsonl.gz"}]}
    ]
    assert [column["name"] for column in value["dataset_info"]["features"]] == list(C4_HTML_ROW)


def test_the_columns_are_those_of_the_real_schema():
    assert sorted(C4_HTML_ROW) == sorted(row("http://x/", "x"))


@pytest.mark.parametrize(
    ("column", "fields"),
    [
        ("metadata_url", ["key", "type", "value"]),
        ("metadata_entity", LOCAL),
        ("metadata_paragraph", [*LOCAL, "marker"]),
        ("metadata_html", [*LOCAL, "relative_start_pos", "relative_end_pos", "html_attrs"]),
    ],
)
def test_a_metadata_column_is_a_list_of_its_fields(html_card, column, fields):
    [found] = [item for item in front(html_card)["dataset_info"]["features"] if item["name"] == column]
    assert sorted(found) == ["list", "name"]
    assert [field["name"] for field in found["list"]] == fields


def test_the_kinds_of_type():
    columns = {"one": "int64", "many": ["string"], "inner": {"a": "string"}, "rows": [{"b": ["int64"]}]}
    assert yaml_features(columns) == [
        {"name": "one", "dtype": "int64"},
        {"name": "many", "list": "string"},
        {"name": "inner", "struct": [{"name": "a", "dtype": "string"}]},
        {"name": "rows", "list": [{"name": "b", "list": "int64"}]},
    ]


def test_the_build_card_tells_counts_seed_and_id(build_card):
    assert "# c4_html: 1,234,567 samples in 32 shards\n" in build_card
    assert "shuffled with seed 77" in build_card
    assert f"Build id `{'b' * 64}`" in build_card
    assert "{{" not in build_card
    assert "{%" not in build_card


def listed(card: str) -> dict[str, str]:
    return dict(re.findall(r"^\| `load_dataset\(\".*?validation_metadata_(\w+)\", .*\)` \| ([\d,]+) \|$", card, re.M))


def test_the_sets_that_hold_documents_are_listed_and_no_other(build_card):
    assert listed(build_card) == {"all": "4,321", "html": "4,000"}


def test_the_table_of_sets_is_one_unbroken_table(build_card):
    assert re.search(r"^\| set \| documents \|\n\| --- \| --- \|\n(\|.*\|\n){2}\n", build_card, re.M)


def test_a_build_without_held_out_documents_lists_none():
    assert listed(C4HtmlCards().build(MANIFEST | {"held_out": {"sets": {}}})) == {}


def test_a_type_s_card_says_what_was_emptied_and_the_full_set_s_does_not(html_card):
    assert "# Held-out C4-HTML documents: html\n" in html_card
    assert "4,000 documents that carry `metadata_html`; every other `metadata_*` column is emptied." in html_card
    full = C4HtmlCards().held_out("all", 4321)
    assert "4,321 documents.\n" in full
    assert "is emptied" not in full


def test_the_same_facts_are_the_same_card(build_card):
    assert C4HtmlCards().build(MANIFEST) == build_card
