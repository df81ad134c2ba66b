"""CutShards and Gather: shards of exact bounds, every sample once and checked, nothing held out among them."""

import gzip
import hashlib
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from xxhash import xxh3_64_digest, xxh3_128_digest

from pipelines.cards import C4HtmlCards
from shardwright.errors import Damaged
from tests.support import row
from tests.transforms.test_resolve import survivors
from tests.transforms.test_select_held_out import HALF
from tests.transforms.test_spill import DROPPED, Chain, files_below, flip, order_key, salted, through_json, urls
from transforms.records.document import Document
from transforms.stages import payload as reading
from transforms.stages.cut_shards import cut_shards
from transforms.stages.gather import GatherSettings, gather
from transforms.stages.payload import read_samples
from transforms.stages.runs import ORDER_ROW, Ordered, RunReader
from transforms.stages.spec import HeldOut, Limit
from transforms.stages.spill import run_path
from transforms.stages.work import BuildRefused, publish_by_digest, publish_json, read_json


def documents(number: int, name: str = "doc") -> list[dict[str, Any]]:
    return [row(f"http://{name}/{n}", f"text of {name} {n}") for n in range(number)]


def orders(chain: Chain) -> list[list[Ordered]]:
    """What each shard will hold."""
    tasks = [value for _, value in chain.cut() if "order" in value]
    files = [(chain.work / "orders" / value["order"]).read_bytes() for value in tasks]
    return [[Ordered._make(values) for values in ORDER_ROW.iter_unpack(data)] for data in files]


def cut_of(chain: Chain) -> Any:
    return read_json(chain.work, chain.cut()[0][1]["cut"])


# CutShards


@pytest.mark.parametrize(
    ("samples", "shards", "sizes"), [(10, 3, [3, 3, 4]), (10, 1, [10]), (3, 5, [1, 1, 1]), (4, 4, [1, 1, 1, 1])]
)
def test_shards_differ_by_at_most_one_sample_and_none_is_empty(
    tmp_path: Path, samples: int, shards: int, sizes: list[int]
) -> None:
    chain = Chain(tmp_path, {"a.jsonl": documents(samples)}, shards=shards)
    assert [len(order) for order in orders(chain)] == sizes
    assert cut_of(chain)["shards"] == len(sizes)


def test_shards_laid_end_to_end_are_all_training_samples_in_the_global_order(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": documents(40), "b.jsonl": documents(40, "more")}, shards=7, held_out=HALF)
    laid = [item for order in orders(chain) for item in order]
    assert laid == survivors(chain)
    assert [item.key for item in laid] == sorted(item.key for item in laid)
    assert 20 < len(laid) < 60


def test_tasks_are_numbered_shards_first_then_sets_by_name(tmp_path: Path) -> None:
    first, second, third = sorted(["a", "b", "c"], key=salted)
    held = [row(first, "1", ["url", "html"]), row(second, "2", ["entity", "html"]), row(third, "3", ["title"])]
    chain = Chain(tmp_path, {"a.jsonl": held, "b.jsonl": documents(5)}, ["a.jsonl"])
    tasks = chain.cut()
    assert [number for number, _ in tasks] == [0, 1, 2, 3, 4, 5]
    assert [value.get("set") for _, value in tasks] == [None, None, "all", "entity", "html", "url"]
    assert cut_of(chain)["sets"] == {"all": 2, "entity": 1, "html": 2, "url": 1}, "a type of no held-out row has no set"


def test_without_held_out_documents_there_is_no_set(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": documents(5)})
    assert [value.get("set") for _, value in chain.cut()] == [None, None]


def test_the_ids_of_content_and_order_are_folded_over_all_shards(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": documents(30)}, shards=4)
    samples = survivors(chain)
    cut = cut_of(chain)
    assert cut["content_id"] == hashlib.sha256(b"".join(item.key + item.content for item in samples)).hexdigest()
    assert cut["align"] == hashlib.sha256(b"".join(item.key for item in samples)).hexdigest()


def test_counts_and_types_are_those_of_all_ranges(tmp_path: Path) -> None:
    rows = [*documents(9), row("t", "t", ["html", "title"]), row("d", "d", **DROPPED), b"{\n"]
    cut = cut_of(Chain(tmp_path, {"a.jsonl": rows}, rejected_rows=Limit(count=1)))
    assert cut["types"] == {"html": 10, "title": 1}
    assert (cut["counts"]["read"], cut["counts"]["train"], cut["counts"]["dropped"]) == (
        12,
        10,
        {"missing-any:html": 1},
    )


def test_the_order_in_which_ranges_arrive_does_not_matter(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": documents(30)})
    ranges = [value for _, value in chain.resolve()]
    assert list(cut_shards(chain.spec, 0, ranges[::-1])) == list(cut_shards(chain.spec, 0, ranges))


@pytest.mark.parametrize("numbers", [[*range(7)], [*range(1, 8)], [*range(8), 3], [0, 1, 2, 2, 4, 5, 6, 7]])
def test_a_lost_or_repeated_range_is_refused(tmp_path: Path, numbers: list[int]) -> None:
    chain = Chain(tmp_path, {"a.jsonl": documents(30)})
    ranges = [value for _, value in chain.resolve()]
    with pytest.raises(BuildRefused, match="lost or repeated key ranges"):
        list(cut_shards(chain.spec, 0, [ranges[number] for number in numbers]))


def test_ranges_of_two_selections_are_refused(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": documents(30)})
    ranges = [value for _, value in chain.resolve()]
    ranges[5] = ranges[5] | {"selection": publish_json(chain.work, "selection", {"other": 1})}
    with pytest.raises(BuildRefused, match="lost or repeated key ranges"):
        list(cut_shards(chain.spec, 0, ranges))


def test_nothing_to_train_on_is_refused_with_the_funnel(tmp_path: Path) -> None:
    files = {"a.jsonl": [row("a", "1"), row("x", "2")], "b.jsonl": [row("a", "3"), row("d", "4", **DROPPED)]}
    with pytest.raises(BuildRefused) as caught:
        Chain(tmp_path, files, ["a.jsonl"]).cut()
    lines = [" ".join(words.split()) for words in str(caught.value).splitlines()]
    assert lines[0] == "no document is left to train on:"
    assert {"4 read", "1 dropped", "1 missing-any:html", "2 held_out", "1 held_out_twin", "0 train"} <= set(lines)
    assert "Loosen filter.require or held_out" in lines[-1]


# Gather: reading


def several_runs(folder: Path) -> Chain:
    """Three runs of several segments, whose samples lie interleaved in the global order."""
    files = {f"{name}.jsonl": documents(20, name) for name in "abc"}
    return Chain(folder, files, segment_bytes=12_000)


def payload(chain: Chain, item: Ordered) -> bytes:
    """The sample that a document should make, from the input again."""
    data = Path(chain.inputs[item.input].uri).read_bytes().splitlines()[item.row - 1]
    value = json.loads(data)
    return chain.encode(order_key(value["url"]), Document(item.row, data, (), value["text"].encode(), 0))


@pytest.mark.parametrize("gap", [0, 3000, 1 << 20])
@pytest.mark.parametrize("batch_bytes", [1, 9000, 1 << 30])
@pytest.mark.parametrize("step", [1, 3])
def test_every_payload_comes_once_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gap: int, batch_bytes: int, step: int
) -> None:
    monkeypatch.setattr(reading, "_GAP_BYTES", gap)
    chain = several_runs(tmp_path)
    wanted = survivors(chain)[::step]
    spec = replace(chain.spec, batch_bytes=batch_bytes)
    assert list(read_samples(spec, chain.selection(), wanted)) == [(item, payload(chain, item)) for item in wanted]


def reads(chain: Chain, rows: list[Ordered], batch_bytes: int) -> list[int]:
    """The lengths of the single reads that `read_samples` makes."""
    selection, lengths, read = chain.selection(), [], RunReader.read

    def counting(self: RunReader, offset: int, length: int) -> bytes:
        lengths.append(length)
        return read(self, offset, length)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunReader, "read", counting)
        assert [item for item, _ in read_samples(replace(chain.spec, batch_bytes=batch_bytes), selection, rows)] == rows
    return lengths


def equal_samples(folder: Path, names: str = "a") -> tuple[Chain, list[Ordered], int]:
    """Twenty samples a run, all of one length."""
    chain = Chain(folder, {f"{name}.jsonl": documents(20, name) for name in names})
    rows = survivors(chain)
    [length] = {item.length for item in rows}
    return chain, rows, length


def test_samples_side_by_side_in_a_run_are_one_read(tmp_path: Path) -> None:
    chain, rows, length = equal_samples(tmp_path, "ab")
    assert reads(chain, rows, 1 << 30) == [20 * length, 20 * length]


def test_a_batch_is_read_when_the_one_before_was_given_out(tmp_path: Path) -> None:
    chain, rows, length = equal_samples(tmp_path)
    assert reads(chain, rows, 5 * length) == [5 * length] * 4
    assert reads(chain, rows, 6 * length) == [6 * length] * 3 + [2 * length]
    assert reads(chain, rows, 1) == [length] * 20


def test_what_lies_between_is_read_up_to_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain, rows, length = equal_samples(tmp_path)
    monkeypatch.setattr(reading, "_GAP_BYTES", length)
    assert reads(chain, rows[::2], 1 << 30) == [19 * length]
    monkeypatch.setattr(reading, "_GAP_BYTES", length - 1)
    assert reads(chain, rows[::2], 1 << 30) == [length] * 10


def test_a_read_takes_no_more_along_than_it_wants_and_one_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or where most rows are twins and duplicates, one batch would read a whole run."""
    chain, rows, length = equal_samples(tmp_path)
    monkeypatch.setattr(reading, "_GAP_BYTES", 4 * length)
    assert reads(chain, rows[::5], 1 << 30) == [6 * length, 6 * length]
    assert reads(chain, rows[::4], 1 << 30) == [9 * length, 5 * length]
    assert reads(chain, rows[::2], 1 << 30) == [19 * length]


def test_a_gap_is_at_most_an_eighth_of_a_batch(tmp_path: Path) -> None:
    """Batches are read from many runs, each of which may take a gap along."""
    chain, rows, length = equal_samples(tmp_path)
    assert reads(chain, rows[::4], 24 * length) == [5 * length, 5 * length, length]
    assert reads(chain, rows[::4], 23 * length) == [length] * 5


def test_a_damaged_payload_is_refused(tmp_path: Path) -> None:
    chain = several_runs(tmp_path)
    rows, selection = survivors(chain), chain.selection()
    victim = rows[17]
    flip(run_path(chain.spec.root, selection["runs"][victim.run]["name"]), victim.offset + victim.length - 1)
    with pytest.raises(
        BuildRefused, match=rf"\.run: sample at byte {victim.offset} is damaged on disk; delete the file"
    ):
        list(read_samples(chain.spec, selection, rows))


def test_a_run_that_is_cut_or_gone_is_refused(tmp_path: Path) -> None:
    chain, rows, _ = equal_samples(tmp_path)
    selection = chain.selection()
    path = run_path(chain.spec.root, selection["runs"][0]["name"])
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(BuildRefused, match="damaged on disk"):
        list(read_samples(chain.spec, selection, rows))
    path.unlink()
    with pytest.raises(BuildRefused, match="gone while the build ran"):
        list(read_samples(chain.spec, selection, rows))


def test_an_offset_that_damage_moved_is_found_by_the_digest_of_the_sample(tmp_path: Path) -> None:
    """Nothing covers the offsets in a run's table, see test_runs.py."""
    chain, rows, length = equal_samples(tmp_path)
    moved = [rows[0]._replace(offset=rows[0].offset + shift) for shift in (1, 512, length)]
    for item in moved:
        with pytest.raises(BuildRefused, match="damaged on disk"):
            list(read_samples(chain.spec, chain.selection(), [item]))


# Gather: what is held out


def settings(chain: Chain) -> GatherSettings:
    return GatherSettings(chain.spec, chain.encode, C4HtmlCards())


def with_struck(chain: Chain, task: Any, pairs: list[bytes]) -> Any:
    """The task, had the selection struck `pairs`."""
    cut = read_json(chain.work, task["cut"])
    selection = read_json(chain.work, cut["selection"])
    selection["struck"] = publish_by_digest(chain.work, "selection", ".struck", b"".join(sorted(pairs)))
    cut["selection"] = publish_json(chain.work, "selection", selection)
    return task | {"cut": publish_json(chain.work, "cut", cut)}


@pytest.mark.parametrize("which", ["id", "text"])
def test_a_struck_sample_is_never_written(tmp_path: Path, which: str) -> None:
    chain = Chain(tmp_path, {"a.jsonl": documents(10)})
    task = chain.cut()[0][1]
    victim = orders(chain)[0][2]
    text = f"text of doc {victim.row - 1}".encode()
    pair = victim.key + bytes(16) if which == "id" else bytes(16) + xxh3_128_digest(text)
    with pytest.raises(
        BuildRefused, match=rf"sample {victim.key.hex()} \(input 0, line {victim.row}\) is held out or the twin"
    ):
        list(gather(settings(chain), 0, [with_struck(chain, task, [pair])]))
    assert not [path for path in files_below(chain.work) if path.startswith(("train", "done"))]


def test_an_empty_text_on_the_struck_list_bars_no_sample(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": [row("a", ""), row("b", "")]}, shards=1)
    task = with_struck(chain, chain.cut()[0][1], [bytes(32)])
    [(_, reference)] = gather(settings(chain), 0, [task])
    assert reference["samples"] == 2


@pytest.mark.parametrize("which", ["id", "text"])
def test_a_held_out_document_that_is_not_struck_is_never_written(tmp_path: Path, which: str) -> None:
    chain = Chain(tmp_path, {"a.jsonl": [row("a", "1")], "b.jsonl": documents(3)}, ["a.jsonl"])
    [number, task] = chain.cut()[-2]
    assert task["set"] == "all"
    pair = bytes(16) + xxh3_128_digest(b"1") if which == "id" else order_key("a") + bytes(16)
    with pytest.raises(BuildRefused, match=f"held-out document {order_key('a').hex()} is not on the struck list"):
        list(gather(settings(chain), number, [with_struck(chain, task, [pair])]))
    assert not [path for path in files_below(chain.work) if path.startswith(("held_out", "done"))]


def test_a_sample_under_another_key_is_never_written(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": documents(3)}, shards=1)
    task = chain.cut()[0][1]
    [rows] = orders(chain)
    wrong = [rows[0]._replace(key=bytes(16)), *rows[1:]]
    task["order"] = publish_by_digest(
        chain.work / "orders", "00000", ".order", b"".join(ORDER_ROW.pack(*one) for one in wrong)
    )
    with pytest.raises(Damaged, match=f"its bytes carry the key {rows[0].key.hex()}"):
        list(gather(settings(chain), 0, [task]))
    assert not [path for path in files_below(chain.work) if path.startswith("train")]


# Gather: what it writes


def test_a_shard_is_a_tar_of_its_samples_with_three_sidecars(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": documents(9), "b.jsonl": documents(9, "more")}, shards=3)
    reference = chain.gather()[1][1]
    rows = orders(chain)[1]
    stem = chain.work / "train/train-00001-of-00003"
    blobs = [payload(chain, item) for item in rows]
    assert stem.with_suffix(".tar").read_bytes() == b"".join(blobs) + bytes(1024)
    with tarfile.open(stem.with_suffix(".tar")) as archive:
        assert archive.getnames() == [f"{item.key.hex()}.{part}" for item in rows for part in ("json", "txt")]
    ends = [sum(map(len, blobs[:n])) for n in range(len(blobs) + 1)]
    assert stem.with_suffix(".tar.idx").read_bytes() == b"".join(end.to_bytes(8, "little") for end in ends)
    signatures = b"".join(item.key + xxh3_64_digest(blob)[::-1] for item, blob in zip(rows, blobs, strict=True))
    assert stem.with_suffix(".sig").read_bytes() == signatures
    sources = b"".join(item.input.to_bytes(4, "little") + item.row.to_bytes(8, "little") for item in rows)
    assert stem.with_suffix(".src").read_bytes() == sources
    assert reference["samples"] == len(rows) == 6
    assert (reference["stem"], reference["first"], reference["last"]) == (
        "train/train-00001-of-00003", rows[0].key.hex(), rows[-1].key.hex(),
    )  # fmt: skip


def test_a_reference_tells_length_and_sha256_of_every_file(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": documents(9)}, held_out=HALF)
    files = {path: facts for _, value in chain.gather() for path, facts in value["files"].items()}
    assert sorted(files) == [path for path in files_below(chain.work) if path.startswith(("train", "held_out"))]
    for path, facts in files.items():
        data = (chain.work / path).read_bytes()
        assert facts == {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def held_set(chain: Chain, kind: str) -> list[dict[str, Any]]:
    folder = chain.work / f"held_out/bs-modeling-metadata/c4-en-html-with-validation_metadata_{kind}"
    data = gzip.decompress((folder / "validation.jsonl.gz").read_bytes())
    values = [json.loads(written) for written in data.splitlines()]
    canonical = [json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False) for value in values]
    assert data == b"".join(words.encode() + b"\n" for words in canonical)
    assert f"{len(values)} documents" in (folder / "README.md").read_text()
    return values


def test_each_held_out_set_has_the_rows_of_its_type_in_the_order_of_the_salted_hash(tmp_path: Path) -> None:
    held = [
        row("a", "1", ["html"]),
        row("b", "é", ["html", "url"]),
        row("c", "", ["url", "html"]),
        row("d", "4", ["title"]),
    ]
    chain = Chain(tmp_path, {"a.jsonl": held, "b.jsonl": documents(4)}, ["a.jsonl"])
    references = {value["set"]: value["samples"] for _, value in chain.gather() if "set" in value}
    assert references == {"all": 3, "html": 3, "url": 2}
    ordered = sorted(held[:3], key=lambda value: salted(value["url"]))
    assert held_set(chain, "all") == ordered
    assert held_set(chain, "url") == [value | {"metadata_html": []} for value in ordered if value["metadata_url"]]
    assert [value["metadata_url"] for value in held_set(chain, "html")] == [[], [], []]


@pytest.mark.parametrize("number", [b"1e999", b"-1e999"])
def test_a_held_out_row_that_cannot_be_written_again_is_named(tmp_path: Path, number: bytes) -> None:
    broken = b'{"url":"a","text":"t","metadata_html":[1],"c4_shard":%b}\n' % number
    chain = Chain(tmp_path, {"a.jsonl": [row("b", "1"), broken], "b.jsonl": documents(3)}, ["a.jsonl"])
    with pytest.raises(BuildRefused, match=rf"{order_key('a').hex()} \(input 0, line 2\) cannot be written as JSON"):
        chain.gather()


def test_rows_of_the_held_out_fraction_are_in_the_set(tmp_path: Path) -> None:
    under = urls(4, under=True, fraction=0.2)
    rows = [row(url, url) for url in under + urls(4, under=False, fraction=0.2)]
    chain = Chain(tmp_path, {"a.jsonl": rows}, held_out=HeldOut("salt", 0.2))
    chain.gather()
    assert [value["url"] for value in held_set(chain, "all")] == sorted(under, key=salted)


def test_a_worker_with_other_encoders_than_the_plans_is_refused(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": documents(3)})
    number, task = chain.cut()[0]
    other = replace(settings(chain), spec=replace(chain.spec, versions='{"zlib":"0.9"}'))
    with pytest.raises(BuildRefused, match="has encoders"):
        list(gather(other, number, [task]))


# Gather: made once


def test_what_is_finished_and_whole_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = Chain(tmp_path, {"a.jsonl": documents(9)}, held_out=HALF)
    first = chain.gather()
    monkeypatch.setattr(reading, "_read_span", None)
    assert chain.gather() == first


@pytest.mark.parametrize("what", ["damaged", "gone", "no reference"])
@pytest.mark.parametrize("path", ["train/train-00000-of-00002.tar", "train/train-00001-of-00002.sig", "held_out"])
def test_what_is_damaged_or_gone_is_made_again(tmp_path: Path, path: str, what: str) -> None:
    chain = Chain(tmp_path, {"a.jsonl": documents(9)}, held_out=HALF)
    first = chain.gather()
    written = {name: (chain.work / name).read_bytes() for name in files_below(chain.work)}
    victim = next((chain.work / path).rglob("*.gz")) if path == "held_out" else chain.work / path
    if what == "damaged":
        flip(victim, 5)
    else:
        victim.unlink()
    if what == "no reference":
        for done in (chain.work / "done").iterdir():
            done.write_bytes(b"{")
    assert chain.gather() == first
    assert {name: (chain.work / name).read_bytes() for name in files_below(chain.work)} == written


def test_a_task_that_comes_twice_gives_the_same(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": documents(9)})
    number, task = chain.cut()[1]
    once = list(gather(settings(chain), number, [through_json(task)]))
    assert list(gather(settings(chain), number, [through_json(task)])) == once
