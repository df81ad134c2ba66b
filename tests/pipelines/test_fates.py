"""One whole build on Beam whose corpus meets every fate of docs/FORMAT.md section 2, counted by hand."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

from shardwright.build import Build
from shardwright.errors import ShardwrightError
from shardwright.verify import verify
from tests.support import build_rows, row
from tests.transforms.test_spill import DROPPED, by_content, order_key, salted, urls
from transforms.stages.work import FAILURE

FRACTION = 0.2
UNDER = urls(1, under=True, fraction=FRACTION)[0]
H1, H2, T1, T2, T3, T4, T5, T6, T7, T8, T9, TWICE = urls(12, under=False, fraction=FRACTION)

HELD, HELD_AGAIN = by_content(row(H1, "held", ["html", "url"]), row(H1, "held again"))
UNDER_HELD, UNDER_AGAIN = by_content(row(UNDER, "fraction"), row(UNDER, "fraction again"))
STAYS, GOES = by_content(row(TWICE, "twice"), row(TWICE, "twice again"))

HELD_FILE = [
    HELD,  # held_out
    HELD_AGAIN,  # held_out_twin: one stays for an id
    row(H2, "dropped", **DROPPED),  # dropped, and bars its id and text all the same
    b"{broken\n",  # rejected
]
FILE_A = [
    row(T1, "train"),  # train
    row(H1, "other"),  # held_out_twin by id
    row(T2, HELD["text"]),  # held_out_twin by text
    row(H2, "another"),  # held_out_twin by the id of a dropped row
    row(T3, "dropped"),  # held_out_twin by the text of a dropped row
    row(T4, HELD_AGAIN["text"]),  # held_out_twin by the text of a row that was not chosen
    UNDER_AGAIN,  # held_out_twin by id
    row(T5, UNDER_HELD["text"]),  # held_out_twin by text
    row(T6, ""),  # train: an empty text matches nothing
    row(T7, "dropped", **DROPPED),  # dropped
    GOES,  # duplicate
]
FILE_B = [
    b"\n",  # no row
    STAYS,  # train
    UNDER_HELD,  # held_out by the fraction
    row(T8, UNDER_AGAIN["text"]),  # train: what the fraction did not choose bars nothing
    row(T9, "train"),  # train: the text of another training sample
    b"\xff\n",  # rejected
    b"[]\n",  # rejected
    b"{}\n",  # rejected
    STAYS,  # duplicate
    b" \t\n",  # no row
]
TRAIN = [T1, T6, TWICE, T8, T9]

COUNTS = {
    "inputs": 4,
    "inputs_rejected": 1,
    "read": 4 + 11 + 8,
    "rejected": {"missing-field": 1, "not-an-object": 1, "not-json": 1, "not-utf8": 1},
    "excluded": {},
    "dropped": {"missing-any:html": 2},
    "held_out": 2,
    "held_out_twin": 1 + 7,
    "duplicate": 2,
    "train": 5,
}

SECTIONS: dict[str, Any] = {
    "filter": {"require": {"any_of": ["html"]}},
    "held_out": {"files": ["held.jsonl.gz"], "fraction": FRACTION, "salt": "salt"},
    "limits": {"rejected_inputs": 1, "rejected_rows": 4},
    "shards": {"count": 3},
}


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    files = {"held.jsonl.gz": HELD_FILE, "a.jsonl.gz": FILE_A, "b.jsonl": FILE_B, "c.jsonl.zst": [b"no zstd"]}
    return build_rows(tmp_path_factory.mktemp("fates"), files, **SECTIONS)


def test_every_row_meets_the_fate_that_was_written_down_for_it(build: Build) -> None:
    assert build.manifest["counts"] == COUNTS


def test_the_shards_hold_the_training_documents_in_the_global_order(build: Build) -> None:
    shards = [[sample.json()["url"] for sample in build.split("train").shard(number)] for number in range(3)]
    expected = sorted(TRAIN, key=order_key)
    assert shards == [expected[:1], expected[1:3], expected[3:]]


def test_of_the_rows_of_one_id_the_right_one_trains(build: Build) -> None:
    [sample] = [sample for sample in build.split("train") if sample.json()["url"] == TWICE]
    assert sample.json() == STAYS


def test_the_held_out_sets_hold_the_held_out_documents(build: Build) -> None:
    in_order = sorted([HELD, UNDER_HELD], key=lambda value: salted(value["url"]))
    assert list(build.held_out()) == in_order
    assert [value["url"] for value in build.held_out("html")] == [value["url"] for value in in_order]
    assert list(build.held_out("url")) == ([HELD | {"metadata_html": []}] if HELD["metadata_url"] else [])


def test_what_could_not_be_read_is_listed_with_its_place(build: Build) -> None:
    entries = []
    for path in (build.root / "rejected").iterdir():
        with zstandard.open(path, "rb") as file:
            entries += [json.loads(entry) for entry in io.BytesIO(file.read())]
    assert sorted((Path(entry["uri"]).name, entry["line"] or 0, entry["reason"]) for entry in entries) == [
        ("b.jsonl", 6, "not-utf8"),
        ("b.jsonl", 7, "not-an-object"),
        ("b.jsonl", 8, "missing-field"),
        ("c.jsonl.zst", 0, "not-zstd"),
        ("held.jsonl.gz", 4, "not-json"),
    ]


def test_the_build_is_proved_again_from_its_bytes(build: Build) -> None:
    assert verify(build) == []


def test_a_build_with_nothing_left_to_train_on_is_refused_with_its_funnel(tmp_path: Path) -> None:
    files = {"held.jsonl.gz": [HELD], "a.jsonl": [row(H1, "other"), row(T7, "dropped", **DROPPED)]}
    with pytest.raises(ShardwrightError, match="no document is left to train on"):
        build_rows(tmp_path, files, **SECTIONS)
    words = (tmp_path / "out" / "_work" / FAILURE).read_text()
    lines = {" ".join(line.split()) for line in words.splitlines()}
    assert {"3 read", "1 dropped", "1 missing-any:html", "1 held_out", "1 held_out_twin", "0 train"} <= lines
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["_work"]
