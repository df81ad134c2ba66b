"""Forged training samples, under a seal that agrees with them: only the proof of the sample itself can find them."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from shardwright import order
from tests.shardwright import corpus
from tests.shardwright.forge import Forged, Forger
from tests.shardwright.verdict import Table, assert_found, verdict, wrong

SHARD = "train/train-00001-of-00003.tar"
SAMPLE = f"{SHARD}#2"
SRC = SHARD.replace(".tar", ".src")

forgery = Table()


def _sample(forger: Forger) -> Forged:
    return forger.samples[1][2]


@forgery("the twin of a held-out document")
def a_text_that_is_held_out(forger: Forger) -> None:
    forger.change(text=corpus.HELD[0]["text"])


@forgery("the twin of a held-out document")
def a_text_of_a_dropped_row_of_a_held_out_input(forger: Forger) -> None:
    forger.change(text=corpus.DROPPED_HELD["text"])


@forgery("the twin of a held-out document")
def an_id_that_is_held_out(forger: Forger) -> None:
    forger.change(url=corpus.HELD[1]["url"])


@forgery("train-0000", "fraction")
def an_id_that_the_fraction_takes(forger: Forger) -> None:
    bound = order.fraction_bound(0.1)
    urls = (f"http://example.org/forged/{number}" for number in range(10_000))
    forger.change(
        url=next(url for url in urls if order.salted_hash("held-out/1", order.id_digest(["url"], [url])) < bound)
    )


@forgery(SHARD, "the order is broken")
def two_samples_exchanged(forger: Forger) -> None:
    samples = forger.samples[1]
    samples[2], samples[3] = samples[3], samples[2]
    forger.write_train()


@forgery(SHARD, "the order is broken")
def two_samples_exchanged_between_shards(forger: Forger) -> None:
    forger.samples[0][-1], forger.samples[1][0] = forger.samples[1][0], forger.samples[0][-1]
    forger.write_train()


@forgery(SHARD, "the order is broken")
def a_sample_twice(forger: Forger) -> None:
    forger.samples[1][3] = forger.samples[1][2]
    forger.write_train()


@forgery(SAMPLE, "does not follow from the seed and its id (url)")
def a_key_that_does_not_follow_from_the_id(forger: Forger) -> None:
    key = int.from_bytes(_sample(forger).key, "big") + 1
    _sample(forger).key = key.to_bytes(16, "big")
    forger.write_train()


@forgery(SAMPLE, "does not follow from the seed and its id (url)")
def another_seed(forger: Forger) -> None:
    forger.manifest["seed"] = 7


@forgery(SAMPLE, "KEY.txt is not the text of KEY.json")
def a_text_that_is_not_the_rows(forger: Forger) -> None:
    _sample(forger).parts["txt"] += b"."
    forger.write_train()


@forgery(SAMPLE, "its parts are ['json', 'txt', 'jpg']")
def a_part_too_many(forger: Forger) -> None:
    _sample(forger).parts["jpg"] = b""
    forger.write_train()


@forgery(SAMPLE, "its parts are ['txt', 'json']")
def parts_in_another_order(forger: Forger) -> None:
    _sample(forger).parts = dict(reversed(_sample(forger).parts.items()))
    forger.write_train()


@forgery(SAMPLE)
def a_header_with_a_clock_in_it(forger: Forger) -> None:
    blobs = []
    for suffix, data in _sample(forger).parts.items():
        info = tarfile.TarInfo(f"{_sample(forger).key.hex()}.{suffix}")
        info.size, info.mode, info.mtime = len(data), 0o444, 1
        blobs.append(info.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % 512))
    _sample(forger).blob = b"".join(blobs)
    forger.write_train()


def _with_row(forger: Forger, data: bytes) -> None:
    _sample(forger).parts["json"] = data
    forger.write_train()


@forgery(SAMPLE, "KEY.json is no row")
def a_row_that_is_no_json(forger: Forger) -> None:
    _with_row(forger, b"{")


@forgery(SAMPLE, "KEY.json is no row")
def a_row_that_is_a_list(forger: Forger) -> None:
    _with_row(forger, b'["text"]')


@forgery(SAMPLE, "KEY.json is no row")
def a_row_nested_too_deep(forger: Forger) -> None:
    _with_row(forger, b"[" * 100_000 + b"]" * 100_000)


@forgery(SAMPLE, "KEY.json is no row")
def a_row_without_a_text(forger: Forger) -> None:
    _with_row(forger, b'{"url":"u"}')


@forgery(SAMPLE, "KEY.json is no row")
def a_row_without_its_id(forger: Forger) -> None:
    _with_row(forger, b'{"text":"a"}')


@forgery(SAMPLE, "KEY.json is no row")
def a_row_whose_id_is_no_string(forger: Forger) -> None:
    _with_row(forger, b'{"text":"a","url":5}')


@forgery(SAMPLE, "KEY.json is no row")
def a_row_whose_id_is_half_a_surrogate_pair(forger: Forger) -> None:
    _with_row(forger, rb'{"text":"a","url":"\ud800"}')


@forgery(SAMPLE, "KEY.json is no row")
def a_row_in_utf_16(forger: Forger) -> None:
    _with_row(forger, _sample(forger).parts["json"].decode().encode("utf-16"))


@forgery(SAMPLE, "KEY.json is no row")
def a_row_with_nan(forger: Forger) -> None:
    _with_row(forger, json.dumps(json.loads(_sample(forger).parts["json"]) | {"c4_shard": float("nan")}).encode())


@forgery(SRC, "names an input or a line")
def a_source_in_no_input(forger: Forger) -> None:
    _sample(forger).source = (len(corpus.FILES), 1)
    forger.write_train()


@forgery(SRC, "names an input or a line")
def a_source_in_line_0(forger: Forger) -> None:
    _sample(forger).source = (0, 0)
    forger.write_train()


@forgery(SRC)
def a_source_in_a_held_out_input(forger: Forger) -> None:
    _sample(forger).source = (2, 1)
    forger.write_train()


@forgery(SRC)
def a_source_in_a_rejected_input(forger: Forger) -> None:
    _sample(forger).source = (3, 1)
    forger.write_train()


@forgery("shards.jsonl line 1", '"num_sequences":7')
def shards_of_uneven_size(forger: Forger) -> None:
    forger.samples[1].insert(0, forger.samples[0].pop())
    forger.write_train()


@forgery(SHARD, "without samples")
def an_empty_shard(forger: Forger) -> None:
    forger.samples[0] += forger.samples[1]
    forger.samples[1] = []
    forger.write_train()


@pytest.mark.parametrize(("spoil", "words"), forgery.entries)
def test_a_forged_sample_is_found(out: Path, spoil: Any, words: tuple[str, ...]) -> None:
    forger = Forger(out)
    spoil(forger)
    forger.seal()
    lines = verdict(out)
    assert lines[0].startswith("ok     files"), "sealed anew, so that no file digest gives it away"
    assert_found(lines, words)


def test_a_document_that_nobody_holds_out_may_take_the_place_of_another(out: Path) -> None:
    """The control of the twins above: the same change with a text and an id of its own is no forgery."""
    forger = Forger(out)
    forger.change(text="nobody's text", url="http://example.org/mine")
    forger.seal()
    assert wrong(verdict(out)) == []


def _one_shard_that_is_all_wrong(forger: Forger) -> None:
    forger.samples = [forger.all()]
    for sample in forger.all():
        sample.parts["txt"] = b"x"
    forger.write_train()
    forger.seal()


def test_of_a_shard_that_is_all_wrong_20_problems_are_told(out: Path) -> None:
    _one_shard_that_is_all_wrong(Forger(out))
    assert sum("KEY.txt is not the text" in line for line in wrong(verdict(out))) == 20


def test_what_is_not_told_is_counted(out: Path) -> None:
    _one_shard_that_is_all_wrong(Forger(out))
    assert_found(verdict(out), ("3 more",))
