"""A build of all real documents beside the project: each is accounted for, and every client reads it as it came in."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import webdataset as wds

import shardwright
from shardwright.build import Build
from shardwright.verify import verify
from tests.clients.hf import EVERY_SET, moments, run_in
from tests.clients.oracle import TYPES, Recount, Row, recount
from tests.support import SHARED

FILES = SHARED / "c4"
HELD_FILE = "carpentries-git-novice.jsonl.gz"
FRACTION = 0.02
SHARDS = 12

pytestmark = [
    pytest.mark.smoke,
    pytest.mark.skipif(
        not (FILES / HELD_FILE).exists(), reason=f"the real documents are not here: no {FILES / HELD_FILE}"
    ),
]

CONFIG = """\
job: c4_html
input: {{files: ['{files}/*.jsonl.gz']}}
filter: {{require: {{all_of: [html, title]}}}}
held_out: {{files: [{held_file}], fraction: {fraction}}}
shards: {{count: {shards}}}
output: {output}
"""


def why_dropped(row: Row) -> str | None:
    return next((f"missing:{kind}" for kind in ("html", "title") if kind not in row.types), None)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Built by the real command, in processes of its own, on all cores."""
    folder = tmp_path_factory.mktemp("shared")
    config, output = folder / "config.yaml", folder / "out"
    config.write_text(
        CONFIG.format(files=FILES, held_file=HELD_FILE, fraction=FRACTION, shards=SHARDS, output=output), "utf-8"
    )
    command = [sys.executable, "-m", "shardwright.cli", "build", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return shardwright.open(output)


@pytest.fixture(scope="module")
def expected() -> Recount:
    """A recount of the .gz files with `gzip` and `json`, by the fate table of docs/FORMAT.md."""
    files = sorted(FILES.glob("*.jsonl.gz"))
    return recount(files, held_files=[HELD_FILE], fraction=FRACTION, why_dropped=why_dropped)


def shards(built: Build) -> list[str]:
    return [str(path) for path in sorted((built.root / "train").glob("*.tar"))]


def assert_same(found: Any, expected: Any) -> None:
    """Whether they are the same; says at which sample they part instead of printing 250 MB."""
    number = -1
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert one[0] == other[0], f"sample {number} is {one[0]}, expected {other[0]}"
        differ = [place for place, (mine, theirs) in enumerate(zip(one, other, strict=True)) if mine != theirs]
        assert not differ, f"sample {number}, {one[0]}: its parts {differ} are not those of the input row"
    assert number >= 0


def test_verify_has_no_objection(built):
    assert verify(built, workers=2) == []


def test_every_document_is_accounted_for(built, expected):
    counts = built.manifest["counts"]
    assert {name: counts[name] for name in expected.counts} == expected.counts
    assert (counts["rejected"], counts["excluded"], counts["inputs_rejected"]) == ({}, {}, 0)
    assert counts["inputs"] == len(list(FILES.glob("*.jsonl.gz")))
    fates = expected.counts | {"dropped": sum(expected.counts["dropped"].values())}
    assert fates.pop("read") == sum(fates.values())


def test_the_recount_met_what_it_should(expected):
    """Real documents with every fate but one: no two of them have one address."""
    counts = expected.counts
    assert counts["read"] == 2637
    assert counts["duplicate"] == 0
    assert set(counts["dropped"]) == {"missing:html", "missing:title"}
    assert counts["held_out_twin"] > 0
    assert counts["held_out"] > 40
    assert counts["train"] > 2000


def test_the_training_documents_are_those_of_the_recount(built, expected):
    urls = [sample.json()["url"] for sample in built.split("train")]
    assert len(urls) == len(set(urls))
    assert set(urls) == {row.url for row in expected.train.values()}
    types = {kind: sum(kind in row.types for row in expected.train.values()) for kind in TYPES}
    assert built.manifest["types"]["train"] == {kind: count for kind, count in types.items() if count}


def test_webdataset_reads_every_sample_in_order(built, expected):
    dataset = wds.WebDataset(shards(built), shardshuffle=False)
    found = ((sample["__key__"], sample["json"], sample["txt"]) for sample in dataset)
    assert_same(found, ((key, row.data, row.text.encode()) for key, row in expected.train.items()))


def test_wids_reads_every_sample_in_order(wids, built, expected, tmp_path, monkeypatch):
    monkeypatch.setenv("WIDS_CACHE", str(tmp_path))
    dataset = wids.ShardListDataset(str(built.root / "shardindex.json"), transformations=[])
    assert len(dataset) == len(expected.train)
    samples = (dataset[number] for number in range(len(dataset)))
    found = ((sample["__key__"], sample[".json"].read(), sample[".txt"].read()) for sample in samples)
    assert_same(found, ((key, row.data, row.text.encode()) for key, row in expected.train.items()))
    dataset.close()


@pytest.mark.parametrize("streaming", [True, False])
def test_hf_datasets_reads_every_sample_in_order(load_dataset, built, expected, tmp_path, streaming):
    cache = {} if streaming else {"cache_dir": str(tmp_path)}
    dataset = load_dataset(str(built.root), split="train", streaming=streaming, **cache)
    found = ((sample["__key__"], sample["json"], sample["txt"]) for sample in dataset)
    assert_same(found, ((key, row.value(), row.text) for key, row in expected.train.items()))


def test_the_held_out_sets_load_by_bsmetadatas_names(built, expected, tmp_path):
    present = [kind for kind in TYPES if any(kind in row.types for row in expected.held)]
    assert set(built.manifest["held_out"]["sets"]) == {"all", *present}
    sets = run_in(Path(built.root / "held_out"), tmp_path, EVERY_SET, "all", *present)
    for kind, rows in sets.items():
        assert isinstance(rows, list), (kind, rows)
        wanted = [row.value() for row in expected.held] if kind == "all" else expected.held_set(kind)
        pairs = zip(moments(rows), moments(wanted), strict=True)
        assert [row["url"] for row, want in pairs if row != want] == [], kind
