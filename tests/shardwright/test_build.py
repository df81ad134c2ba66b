"""A sealed build as a training job sees it."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import xxhash

import shardwright
from shardwright import Damaged, NotSealed, ShardwrightError, layout
from shardwright.build import Build
from tests.shardwright import corpus
from tests.shardwright.forge import Forger

ROOT = Path(__file__).parents[2]
SHARD = "train/train-00001-of-00003.tar"


def _ids(rows: Any) -> set[str]:
    return {row["url"] for row in rows}


def _canonical(rows: Any) -> set[str]:
    return {json.dumps(row, sort_keys=True) for row in rows}


def test_every_document_that_may_train_or_be_held_out_is_there_once(built: Build) -> None:
    train, held_out = [sample.json() for sample in built.split("train")], list(built.held_out())
    expected = [*corpus.KEPT, *corpus.HELD, corpus.CONTROL, corpus.EMPTY_TEXT, corpus.EMPTY_HELD]
    assert _canonical([*train, *held_out]) == _canonical(expected)
    assert len(train) + len(held_out) == len(expected)


def test_a_sample_is_its_row_and_its_text(built: Build) -> None:
    for sample in built.split("train"):
        assert list(sample.parts) == ["json", "txt"]
        assert sample.parts["txt"].decode() == sample.json()["text"]


def test_samples_ascend_in_their_keys(built: Build) -> None:
    keys = [sample.key for sample in built.split("train")]
    assert keys == sorted(set(keys))


def test_a_key_is_the_hash_of_seed_and_id(built: Build) -> None:
    for sample in built.split("train"):
        url = sample.json()["url"].encode()
        id16 = xxhash.xxh3_128_digest(b"\x03\0\0\0url" + len(url).to_bytes(4, "little") + url)
        assert sample.key == xxhash.xxh3_128_hexdigest((42).to_bytes(8, "little") + id16)


def test_a_rank_is_the_position_in_the_iteration(built: Build) -> None:
    split = built.split("train")
    assert [split[rank] for rank in range(len(split))] == list(split)
    assert len(split) == built.manifest["splits"]["train"]["samples"] == 23


def test_a_sample_knows_where_it_stands(built: Build) -> None:
    split = built.split("train")
    assert [split.fetch(sample.shard, sample.index) for sample in split] == list(split)
    assert [len(list(split.shard(number))) for number in range(3)] == [7, 8, 8]


@pytest.mark.parametrize("rank", [-1, 23, 10**9])
def test_a_rank_outside_is_an_index_error(built: Build, rank: int) -> None:
    with pytest.raises(IndexError, match=f"sample {rank} of 23"):
        built.split("train")[rank]


@pytest.mark.parametrize(("shard", "index"), [(3, 0), (-1, 0), (0, 7), (0, -1)])
def test_a_place_outside_is_our_error(built: Build, shard: int, index: int) -> None:
    with pytest.raises(ShardwrightError, match=f"no sample {shard}#{index}"):
        built.split("train").fetch(shard, index)


def test_a_shard_can_be_walked_from_any_sample(built: Build) -> None:
    split = built.split("train")
    whole = list(split.shard(1))
    assert [list(split.shard(1, start)) for start in range(9)] == [whole[start:] for start in range(9)]


def test_every_key_is_found_where_its_sample_is(built: Build) -> None:
    split = built.split("train")
    assert [split.find(sample.key) for sample in split] == [(sample.shard, sample.index) for sample in split]


@pytest.mark.parametrize("key", ["0" * 32, "f" * 32, "", "no key"])
def test_a_key_that_is_not_there_is_a_key_error(built: Build, key: str) -> None:
    with pytest.raises(KeyError) as caught:
        built.split("train").find(key)
    assert caught.value.args == (key,)


def test_a_key_between_two_samples_is_a_key_error(built: Build) -> None:
    split = built.split("train")
    for sample in split:
        after = f"{int(sample.key, 16) + 1:032x}"
        with pytest.raises(KeyError, match=after):
            split.find(after)


def test_an_unknown_split_is_answered_with_those_there_are(built: Build) -> None:
    with pytest.raises(ShardwrightError, match=r"no split 'validation': this build has 'train'.*Build\.held_out"):
        built.split("validation")


def test_held_out_rows_are_the_rows_as_they_came(built: Build) -> None:
    rows = list(built.held_out())
    assert _ids(rows) >= _ids([*corpus.HELD, corpus.EMPTY_HELD])
    by_url = {row["url"]: row for row in [*corpus.KEPT, *corpus.HELD, corpus.EMPTY_HELD]}
    assert rows == [by_url[row["url"]] for row in rows]


@pytest.mark.parametrize("kind", ["html", "title", "url"])
def test_a_types_set_has_its_rows_with_the_other_types_emptied(built: Build, kind: str) -> None:
    expected = []
    for row in built.held_out():
        others = {name: [] for name in row if name.startswith("metadata_") and name != f"metadata_{kind}"}
        if row[f"metadata_{kind}"]:
            expected.append(row | others)
    assert list(built.held_out(kind)) == expected
    assert expected


def test_a_type_that_no_held_out_row_has_gives_nothing(built: Build) -> None:
    assert list(built.held_out("entity")) == []


def test_a_misspelt_type_is_answered_with_the_types(built: Build) -> None:
    with pytest.raises(ShardwrightError, match=r"no held-out set 'htlm': one of all, .*html"):
        list(built.held_out("htlm"))


def test_the_idx_has_the_offsets_at_which_tarfile_finds_the_samples(built: Build) -> None:
    for shard in built.shards:
        with tarfile.open(shard.path) as archive:
            members = archive.getmembers()
            assert [member.offset for member in members if member.name.endswith(".json")] == list(shard.offsets()[:-1])
        assert shard.offsets()[-1] == shard.path.stat().st_size - 1024


def test_a_build_may_be_named_by_a_string(built: Build) -> None:
    assert shardwright.open(str(built.root)).id == built.id


def _refusal(path: Path) -> str:
    with pytest.raises(NotSealed) as caught:
        shardwright.open(path)
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert "is the path right?" in _refusal(tmp_path / "nowhere")


def test_a_file_is_refused(out: Path) -> None:
    assert "no sealed build here" in _refusal(out / layout.CARD)


def test_a_build_without_commit_is_refused(out: Path) -> None:
    (out / layout.COMMIT).unlink()
    assert "no COMMIT" in _refusal(out)


def test_a_build_under_way_is_refused_with_what_to_do(out: Path) -> None:
    shutil.rmtree(out)
    (out / layout.WORK).mkdir(parents=True)
    assert "run the same build command again" in _refusal(out)


@pytest.mark.parametrize("name", [layout.MANIFEST, layout.COMMIT])
def test_a_changed_seal_is_refused(out: Path, name: str) -> None:
    data = (out / name).read_bytes()
    (out / name).write_bytes(bytes([data[0] ^ 1]) + data[1:])
    assert "manifest.json is not the one that COMMIT seals" in _refusal(out)


def test_a_commit_that_is_no_text_is_refused(out: Path) -> None:
    (out / layout.COMMIT).write_bytes(b"\xff" * 65)
    assert "manifest.json is not the one that COMMIT seals" in _refusal(out)


def test_another_format_is_refused(out: Path) -> None:
    forger = Forger(out)
    forger.manifest["format"] = "shardwright/2"
    forger.seal()
    assert "format 'shardwright/2', this version reads 'shardwright/1'" in _refusal(out)


@pytest.mark.parametrize("manifest", [{}, [], "text"])
def test_a_manifest_that_says_no_format_is_refused(out: Path, manifest: Any) -> None:
    forger = Forger(out)
    forger.manifest = manifest
    forger.commit()
    assert "format" in _refusal(out)


@pytest.mark.parametrize("data", [b"no JSON", b"\xff", b"[" * 200_000])
def test_a_manifest_that_is_no_json_is_refused(out: Path, data: bytes) -> None:
    (out / layout.MANIFEST).write_bytes(data)
    (out / layout.COMMIT).write_text(hashlib.sha256(data).hexdigest() + "\n")
    assert "manifest.json" in _refusal(out)


def test_changed_shards_jsonl_is_damaged(out: Path) -> None:
    path = out / layout.SHARDS
    path.write_bytes(path.read_bytes().replace(b'"num_sequences":7', b'"num_sequences":6'))
    with pytest.raises(Damaged, match=r"shards\.jsonl: its sha256 is not the build id"):
        shardwright.open(out).split("train")


@pytest.mark.parametrize("file", ["../train-00000-of-00003.tar", "/etc/passwd", SHARD, 5])
def test_a_line_that_leads_elsewhere_is_damaged(out: Path, file: object) -> None:
    forger = Forger(out)
    first, *rest = forger.lines()
    forger.write_lines([first | {"file": file}, *rest])
    forger.seal()
    with pytest.raises(Damaged, match=r"shards\.jsonl: line 1 names "):
        shardwright.open(out).split("train")


@pytest.mark.parametrize("index", [0, 3, 7])
def test_a_flipped_byte_is_damaged_and_the_samples_before_it_are_not(out: Path, index: int) -> None:
    split = shardwright.open(out).split("train")
    data = bytearray((out / SHARD).read_bytes())
    data[split.shards[1].offsets()[index] + 700] ^= 1
    (out / SHARD).write_bytes(data)
    read = []
    with pytest.raises(Damaged, match=f"{SHARD}#{index}: .*restore"):
        for sample in split.shard(1):
            read.append(sample.index)
    assert read == list(range(index))
    with pytest.raises(Damaged, match=f"{SHARD}#{index}: "):
        split.fetch(1, index)


def test_two_samples_exchanged_on_disk_are_damaged(out: Path) -> None:
    """Each is whole; but it is not the one that stands there."""
    split = shardwright.open(out).split("train")
    rows = split.shards[1].signatures()
    path = split.shards[1].path.with_suffix(".sig")
    path.write_bytes(path.read_bytes().replace(rows[0][0], rows[1][0]))
    with pytest.raises(Damaged, match=f"key {rows[0][0].hex()}, .sig says {rows[1][0].hex()}"):
        split.fetch(1, 0)


@pytest.mark.parametrize("suffix", [".tar", ".tar.idx", ".sig"])
def test_a_missing_file_of_a_shard_is_damaged(out: Path, suffix: str) -> None:
    path = out / SHARD.replace(".tar", suffix)
    path.unlink()
    with pytest.raises(Damaged, match=f"{path}: missing"):
        list(shardwright.open(out).split("train"))


@pytest.mark.parametrize("suffix", [".tar.idx", ".sig"])
def test_a_sidecar_of_another_shard_is_damaged(out: Path, suffix: str) -> None:
    path = out / SHARD.replace(".tar", suffix)
    shutil.copy(out / f"train/train-00000-of-00003{suffix}", path)
    with pytest.raises(Damaged, match=f"{path}: 7 samples, shards.jsonl says 8"):
        list(shardwright.open(out).split("train"))


def test_an_idx_that_points_behind_the_shard_is_damaged(out: Path) -> None:
    path = out / f"{SHARD}.idx"
    path.write_bytes(path.read_bytes()[:-8] + (2**63).to_bytes(8, "little"))
    with pytest.raises(Damaged, match=f"{path}: "):
        list(shardwright.open(out).split("train"))


@pytest.mark.parametrize("length", [None, 30, -4])
def test_a_held_out_file_that_is_torn_or_gone_is_damaged(out: Path, length: int | None) -> None:
    path = out / layout.validation_dir("all") / "validation.jsonl.gz"
    data = path.read_bytes()
    path.unlink()
    if length is not None:
        path.write_bytes(data[:length])
    with pytest.raises(Damaged, match=str(path)):
        list(shardwright.open(out).held_out())


_READ_ALONE = """
import sys
for name in ("apache_beam", "numpy", "msgspec", "pydantic", "typer", "transforms", "pipelines"):
    sys.modules[name] = None
import shardwright
build = shardwright.open(sys.argv[1])
samples = list(build.split("train"))
assert build.split("train")[5] == samples[5]
print(len(samples), len(list(build.held_out())))
from shardwright.cli import main
sys.exit(main(["verify", sys.argv[1], "--workers", "2"]))
"""


def test_reading_and_verifying_need_no_package_but_xxhash(built: Build, tmp_path: Path) -> None:
    """No site-packages at all (-S): the reader, xxhash and the standard library are the whole path."""
    (tmp_path / "shardwright").symlink_to(ROOT / "shardwright")
    (tmp_path / "xxhash").symlink_to(Path(xxhash.__file__).parent)
    done = subprocess.run(
        [sys.executable, "-S", "-c", _READ_ALONE, str(built.root)],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("23 5\n")
