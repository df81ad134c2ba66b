"""Forged facts in manifest.json, shards.jsonl and the indexes, under a seal that agrees with them."""

from pathlib import Path
from typing import Any

import pytest

from shardwright import canonical, layout
from tests.shardwright.forge import Forger
from tests.shardwright.verdict import Table, assert_found, verdict, wrong

SHARD = "train/train-00000-of-00003.tar"
SRC = SHARD.replace(".tar", ".src")

forgery = Table()


@forgery("manifest.json: read 35 rows")
def rows_without_a_fate(forger: Forger) -> None:
    forger.manifest["counts"]["read"] += 1
    forger.manifest["inputs"][0]["rows"] += 1


@forgery("manifest.json: read 34 rows")
def rows_with_two_fates(forger: Forger) -> None:
    forger.manifest["counts"]["rejected"]["not-json"] += 1


@forgery("manifest.json: 35 rows of the inputs, the counts say 34")
def an_input_with_more_rows(forger: Forger) -> None:
    forger.manifest["inputs"][0]["rows"] += 1


@forgery("manifest.json: 1 rejected inputs, the counts say 0")
def a_rejected_input_untold(forger: Forger) -> None:
    forger.manifest["counts"]["inputs_rejected"] = 0


@forgery("manifest.json: 5 held-out documents, the counts say 6")
def more_held_out_than_there_are(forger: Forger) -> None:
    forger.manifest["counts"]["held_out"] += 1
    forger.manifest["counts"]["duplicate"] -= 1


@forgery("counts.train: found 24, expected 23")
def more_training_samples_than_there_are(forger: Forger) -> None:
    forger.manifest["counts"]["train"] += 1
    forger.manifest["counts"]["duplicate"] -= 1


@forgery("splits.train")
def a_split_of_other_bytes(forger: Forger) -> None:
    forger.manifest["splits"]["train"]["bytes"] -= 512


@forgery("types.train")
def a_type_that_fewer_samples_have(forger: Forger) -> None:
    forger.manifest["types"]["train"]["html"] += 1


@forgery("content_id")
def another_content_id(forger: Forger) -> None:
    forger.manifest["content_id"] = "0" * 64


def _edit(path: Path, old: bytes, new: bytes) -> None:
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))


def _line(forger: Forger, **changes: Any) -> None:
    first, *rest = forger.lines()
    forger.write_lines([first | changes, *rest])


@forgery("shards.jsonl line 1", "manifest's")
def a_line_with_other_bytes(forger: Forger) -> None:
    _line(forger, bytes=forger.lines()[0]["bytes"] + 512)


@forgery(SHARD, "sha256 is not the one in shards.jsonl")
def a_line_with_another_digest(forger: Forger) -> None:
    _line(forger, sha256="0" * 64)


@forgery(SHARD, "first and last key")
def a_line_with_another_first_key(forger: Forger) -> None:
    _line(forger, first="0" * 32)


@forgery("shards.jsonl line 1")
def a_line_with_another_stem(forger: Forger) -> None:
    _line(forger, shard="train/train-00001-of-00003")


@forgery("shards.jsonl line 1")
def a_line_that_is_not_canonical(forger: Forger) -> None:
    path = forger.root / layout.SHARDS
    _edit(path, b'{"bytes":', b'{ "bytes":')
    forger.manifest["build_id"] = canonical.file_digest(path)
    forger.write_disallow()


@forgery("disallow.json")
def a_disallow_list_with_another_digest(forger: Forger) -> None:
    _edit(forger.root / layout.DISALLOW, b'"digest":"', b'"digest":"0')


@forgery("disallow.json")
def a_disallow_list_of_another_build(forger: Forger) -> None:
    forger.write_disallow(build="0" * 64)


@forgery("disallow.json align")
def a_disallow_list_of_other_samples(forger: Forger) -> None:
    forger.write_disallow(align="0" * 64)


@forgery("disallow.json")
def a_disallow_list_that_names_other_lists(forger: Forger) -> None:
    forger.write_disallow(lists=[])


@forgery("disallow.json")
def a_disallow_list_with_other_counts(forger: Forger) -> None:
    forger.write_disallow(samples=22, counts={"held_out": 0, "held_out_twin": 0, "duplicate": 0})


@forgery("shardindex.json", "'nsamples': 8")
def a_shard_index_with_another_count(forger: Forger) -> None:
    _edit(forger.root / layout.SHARD_INDEX, b'"nsamples":7', b'"nsamples":8')


@forgery("shardindex.json")
def a_shard_index_of_another_version(forger: Forger) -> None:
    _edit(forger.root / layout.SHARD_INDEX, b'"wids_version":1', b'"wids_version":2')


@forgery("fingerprint")
def another_fingerprint(forger: Forger) -> None:
    forger.manifest["fingerprint"] = "0" * 64


@forgery("seed")
def a_config_with_another_seed(forger: Forger) -> None:
    forger.manifest["config"]["shuffle"]["seed"] = 7


@forgery("id:")
def a_config_with_another_id(forger: Forger) -> None:
    forger.manifest["config"]["id"] = ["text"]


@forgery("salt")
def a_config_with_another_salt(forger: Forger) -> None:
    forger.manifest["config"]["held_out"]["salt"] = "another"


@pytest.mark.parametrize(("spoil", "words"), forgery.entries)
def test_forged_facts_are_found(out: Path, spoil: Any, words: tuple[str, ...]) -> None:
    forger = Forger(out)
    spoil(forger)
    forger.seal()
    lines = verdict(out)
    assert lines[0].startswith("ok     files"), "sealed anew, so that no file digest gives it away"
    assert_found(lines, words)


def test_a_shard_of_another_name_is_found(out: Path) -> None:
    forger = Forger(out)
    for path in (out / "train").glob("train-00000-*"):
        path.rename(path.with_name(path.name.replace("train-00000", "train-0")))
    _line(forger, file=SHARD.replace("train-00000", "train-0"))
    forger.seal()
    assert_found(verdict(out), ("shards.jsonl", "line 1", SHARD))


def test_a_file_that_the_manifest_forgets_is_found(out: Path) -> None:
    forger = Forger(out)
    del forger.manifest["files"][SRC]
    forger.commit()
    assert_found(verdict(out), (SRC, "not in the manifest"))


@pytest.mark.parametrize("name", [layout.CARD, layout.DISALLOW, layout.SHARD_INDEX, layout.SHARDS])
def test_a_file_at_the_root_that_the_manifest_forgets_is_found(out: Path, name: str) -> None:
    forger = Forger(out)
    del forger.manifest["files"][name]
    forger.commit()
    assert_found(verdict(out), (name, "not in the manifest"))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("counts", {}),
        ("inputs", None),
        ("held_out", []),
        ("types", 5),
        ("id", []),
        ("files", []),
        ("splits/train/samples", 10**30),
        ("held_out/sets", {"../../etc": 1}),
        ("seed", -1),
        ("held_out/fraction", 2.0),
    ],
)
def test_a_manifest_of_the_wrong_shape_is_a_problem_and_no_crash(out: Path, path: str, value: object) -> None:
    forger = Forger(out)
    *above, name = path.split("/")
    section = forger.manifest
    for key in above:
        section = section[key]
    section[name] = value
    forger.commit()
    assert wrong(verdict(out))


@pytest.mark.parametrize("name", [layout.SHARDS, layout.SHARD_INDEX, layout.DISALLOW])
@pytest.mark.parametrize("data", [b"", b"x\n", b"[]\n", b"[" * 200_000])
def test_a_file_of_the_wrong_shape_is_a_problem_and_no_crash(out: Path, name: str, data: bytes) -> None:
    forger = Forger(out)
    (out / name).write_bytes(data)
    forger.manifest["build_id"] = canonical.file_digest(out / layout.SHARDS)
    forger.seal()
    assert wrong(verdict(out))


def test_a_build_without_a_sample_is_found(out: Path) -> None:
    forger = Forger(out)
    forger.samples = []
    forger.write_train()
    forger.manifest["types"]["train"] = {}
    forger.seal()
    assert wrong(verdict(out))
