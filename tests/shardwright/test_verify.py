"""Verify on a clean build, on every kind of plain damage, and on forged counts and indexes."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from shardwright import NotSealed, layout, open
from shardwright.build import Build
from shardwright.cli import main
from shardwright.verify import verify
from tests.shardwright.forge import Forger
from tests.shardwright.verdict import Table, assert_found, process_verdict, verdict, wrong
from tests.support import build_rows, row

TARS = [f"train/train-{number:05d}-of-00003.tar" for number in range(3)]
SHARD = TARS[0]
IDX, SIG, SRC = f"{SHARD}.idx", SHARD.replace(".tar", ".sig"), SHARD.replace(".tar", ".src")
HELD_OUT = f"{layout.validation_dir('html')}/validation.jsonl.gz"


def test_a_clean_build_has_no_problems(built: Build) -> None:
    said: list[str] = []
    assert verify(built, 1, said.append) == []
    proved = [line.removeprefix("ok ").strip().partition(":")[0] for line in said]
    assert proved == ["files", "counts", "settings", "shards.jsonl", "samples", "held-out sets", "indexes"]


def test_the_command_proves_a_clean_build(out: Path) -> None:
    assert verdict(out)[-1] == f"{out}: proved; build id {open(out).id}"


def test_any_number_of_workers_says_the_same(out: Path) -> None:
    assert process_verdict(out, workers=2) == process_verdict(out, workers=1) == verdict(out)
    _flip(out / TARS[0], 600)
    _flip(out / TARS[2], 600)
    assert process_verdict(out, workers=2) == process_verdict(out, workers=1) == verdict(out)
    assert len(wrong(verdict(out))) >= 2


def _flip(path: Path, at: int, bit: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= bit
    path.write_bytes(data)


def _append(path: Path, data: bytes) -> None:
    path.write_bytes(path.read_bytes() + data)


def _cut(path: Path, length: int) -> None:
    path.write_bytes(path.read_bytes()[:length])


def _edit(path: Path, old: bytes, new: bytes) -> None:
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))


damage = Table()


@damage(f"{SHARD}#0", "digest")
def a_bit_in_a_tar_header(out: Path) -> None:
    _flip(out / SHARD, 3)


@damage(f"{SHARD}#0", "digest")
def a_bit_in_a_row(out: Path) -> None:
    _flip(out / SHARD, 700)


@damage(f"{SHARD}#0", "digest")
def a_bit_in_the_padding(out: Path) -> None:
    _flip(out / SHARD, open(out).shards[0].offsets()[1] - 1)


@damage(SHARD, "end-of-archive")
def a_bit_in_the_end_marker(out: Path) -> None:
    _flip(out / SHARD, -1)


@damage(SHARD, "bytes, the manifest says")
def a_shard_cut_between_two_samples(out: Path) -> None:
    _cut(out / SHARD, open(out).shards[0].offsets()[3])


@damage(f"{SHARD}#2", "digest")
def a_shard_cut_inside_a_member(out: Path) -> None:
    _cut(out / SHARD, open(out).shards[0].offsets()[2] + 600)


@damage(SHARD, "end-of-archive")
def a_shard_without_its_end(out: Path) -> None:
    _cut(out / SHARD, -1024)


@damage(SHARD, "behind it")
def a_byte_behind_a_shard(out: Path) -> None:
    _append(out / SHARD, b"\0")


@damage(SHARD, "missing")
def no_shard(out: Path) -> None:
    (out / SHARD).unlink()


@damage("train/stray.tar", "not in the manifest")
def one_more_tar(out: Path) -> None:
    shutil.copy(out / SHARD, out / "train/stray.tar")


@damage("rejected/stray.jsonl.zst", "not in the manifest")
def one_more_rejected_file(out: Path) -> None:
    (out / "rejected/stray.jsonl.zst").write_bytes(b"")


@damage("train/stray.tar", "not in the manifest")
def a_dangling_link_in_train(out: Path) -> None:
    (out / "train/stray.tar").symlink_to("nowhere")


def _exchange(out: Path, one: str, other: str) -> None:
    """Swap the contents of two shards and of all their sidecars."""
    for mine in sorted((out / "train").glob(f"{one}-*")):
        theirs = mine.with_name(mine.name.replace(one, other))
        data = mine.read_bytes()
        mine.write_bytes(theirs.read_bytes())
        theirs.write_bytes(data)


@damage("train-00001")
def two_shards_exchanged_with_all_their_sidecars(out: Path) -> None:
    _exchange(out, "train-00001", "train-00002")


@damage(IDX, "8 samples, shards.jsonl says 7")
def two_shards_of_other_counts_exchanged(out: Path) -> None:
    _exchange(out, "train-00000", "train-00001")


@damage("train-00002")
def a_shard_in_the_place_of_two(out: Path) -> None:
    for one in sorted((out / "train").glob("train-00001-*")):
        shutil.copy(one, one.with_name(one.name.replace("train-00001", "train-00002")))


@damage(IDX, "samples, shards.jsonl says")
def an_idx_of_another_shard(out: Path) -> None:
    shutil.copy(out / f"{TARS[1]}.idx", out / IDX)


@damage(SIG, "samples, shards.jsonl says")
def a_sig_of_another_shard(out: Path) -> None:
    shutil.copy(out / TARS[1].replace(".tar", ".sig"), out / SIG)


@damage(SIG, "are not rows of 24")
def a_sig_cut_in_a_row(out: Path) -> None:
    _cut(out / SIG, -1)


@damage(SIG, "missing")
def no_sig(out: Path) -> None:
    (out / SIG).unlink()


@damage(SRC, "6 samples, shards.jsonl says 7")
def a_src_cut_between_two_rows(out: Path) -> None:
    _cut(out / SRC, 6 * 12)


@damage(SRC, "are not rows of 12")
def a_src_cut_in_a_row(out: Path) -> None:
    _cut(out / SRC, 5)


@damage(SRC, "names an input or a line that is not there")
def a_src_that_names_no_input(out: Path) -> None:
    _flip(out / SRC, 0, 0x80)


@damage("shards.jsonl", "is not the build id")
def shards_jsonl_edited(out: Path) -> None:
    _edit(out / layout.SHARDS, b'"num_sequences":7', b'"num_sequences":8')


@damage("shards.jsonl", "missing")
def no_shards_jsonl(out: Path) -> None:
    (out / layout.SHARDS).unlink()


@damage(HELD_OUT, "sha256 is not the manifest's")
def a_held_out_file_edited(out: Path) -> None:
    _flip(out / HELD_OUT, -1)


@damage(HELD_OUT, "Compressed file ended")
def a_held_out_file_cut(out: Path) -> None:
    _cut(out / HELD_OUT, -20)


@damage(HELD_OUT, "missing")
def no_held_out_file(out: Path) -> None:
    (out / HELD_OUT).unlink()


@damage("struck.bin", "are not rows of 32")
def a_struck_list_cut_in_a_row(out: Path) -> None:
    _cut(out / layout.STRUCK, -1)


@damage("disallow.json", "missing")
def no_disallow_list(out: Path) -> None:
    (out / layout.DISALLOW).unlink()


@damage("README.md", "missing")
def no_card(out: Path) -> None:
    (out / layout.CARD).unlink()


@damage("README.md", "sha256")
def a_card_edited(out: Path) -> None:
    _flip(out / layout.CARD, 100)


@pytest.mark.parametrize(("spoil", "words"), damage.entries)
def test_damage_is_found_and_named(out: Path, spoil: Any, words: tuple[str, ...]) -> None:
    spoil(out)
    assert_found(verdict(out), words)


def test_an_idx_that_points_far_behind_the_shard_is_no_crash(out: Path) -> None:
    for power in (40, 62, 63):
        _flip(out / IDX, 7 * 8 + power // 8, 1 << power % 8)
        assert_found(verdict(out), (IDX,))
        _flip(out / IDX, 7 * 8 + power // 8, 1 << power % 8)


def test_a_flipped_bit_in_any_file_is_found_and_its_file_named(out: Path) -> None:
    for path in sorted(path for path in out.rglob("*") if path.is_file()):
        if path.name in (layout.MANIFEST, layout.COMMIT):
            continue
        for at in (0, path.stat().st_size // 2, -1):
            _flip(path, at)
            assert_found(verdict(out), (str(path.relative_to(out)),))
            _flip(path, at)
    assert wrong(verdict(out)) == []


@pytest.mark.parametrize("name", [layout.MANIFEST, layout.COMMIT])
def test_a_changed_manifest_is_no_build_at_all(out: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    _flip(out / name, 20)
    with pytest.raises(NotSealed):
        open(out)
    assert main(["verify", str(out)]) == 1
    assert f"shardwright: {out}: " in capsys.readouterr().err


def test_the_forger_changes_nothing_by_itself(out: Path) -> None:
    """All the proofs below rest on this: a forged build differs from an honest one in what the test changed alone."""
    before = (out / layout.COMMIT).read_bytes()
    forger = Forger(out)
    forger.deal(forger.all())
    forger.write_held_out()
    forger.seal()
    assert (out / layout.COMMIT).read_bytes() == before


def test_a_list_that_a_person_keeps_beside_a_build_is_not_ours_to_judge(out: Path) -> None:
    (out / "my-exclusions.json").write_text("{}")
    assert wrong(verdict(out)) == []


def test_a_build_of_two_id_fields_with_nothing_held_out_and_fewer_samples_than_shards(tmp_path: Path) -> None:
    rows = [row("http://example.org/same", "one"), row("http://example.org/same", "other")]
    build = build_rows(tmp_path, {"a.jsonl": rows}, id=["url", "text"], shards={"count": 5})
    assert [shard.samples for shard in build.shards] == [1, 1]
    assert wrong(verdict(build.root)) == []


def test_a_column_that_only_looks_like_a_metadata_type_is_no_matter(tmp_path: Path) -> None:
    rows = [row(f"http://example.org/{number}", f"text {number}", metadata_mine=[1]) for number in range(9)]
    build = build_rows(tmp_path, {"a.jsonl": rows[:4], "b.jsonl": rows[4:]}, held_out={"files": ["b.jsonl"]})
    assert wrong(verdict(build.root)) == []
