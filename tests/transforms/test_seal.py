"""Seal: every law is checked before anything has a final name, and without COMMIT there is no dataset."""

import copy
import hashlib
import json
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest

from pipelines.cards import C4HtmlCards
from shardwright import layout
from tests.support import line, row
from tests.transforms.test_spill import DROPPED, Chain, files_below, through_json
from transforms.stages import seal as sealing
from transforms.stages.seal import SealSettings, check_laws, seal
from transforms.stages.spec import HeldOut, Limit
from transforms.stages.work import BuildRefused

# The laws

CUT: dict[str, Any] = {
    "counts": {
        "inputs": 3,
        "inputs_rejected": 1,
        "read": 100,
        "rejected": {"not-json": 3, "too-long": 4},
        "excluded": {"list": 2},
        "dropped": {"missing:html": 11},
        "held_out": 13,
        "held_out_twin": 17,
        "duplicate": 19,
        "train": 31,
    },
    "shards": 2,
    "sets": {"all": 13, "html": 5},
}
SHARDS: list[dict[str, Any]] = [
    {"task": 0, "samples": 15, "first": "00", "last": "7f"},
    {"task": 1, "samples": 16, "first": "80", "last": "ff"},
]


def broken(cut: Any, shards: list[Any], sets: dict[str, int]) -> str:
    with pytest.raises(BuildRefused) as caught:
        check_laws(cut, shards, sets)
    assert str(caught.value).startswith("the build does not add up and was not sealed:")
    return str(caught.value)


def test_numbers_that_add_up_are_sealed() -> None:
    check_laws(CUT, SHARDS, CUT["sets"])


@pytest.mark.parametrize("change", [1, -1])
@pytest.mark.parametrize(
    "path",
    [
        ("read",), ("rejected", "not-json"), ("rejected", "too-long"), ("excluded", "list"),
        ("dropped", "missing:html"),
        ("held_out",), ("held_out_twin",), ("duplicate",), ("train",),
    ],
)  # fmt: skip
def test_each_number_of_the_funnel_breaks_the_law_alone(path: tuple[str, ...], change: int) -> None:
    cut = copy.deepcopy(CUT)
    holder = cut["counts"]
    for name in path[:-1]:
        holder = holder[name]
    holder[path[-1]] += change
    words = broken(cut, SHARDS, CUT["sets"])
    total = 100 if path == ("read",) else 100 + change
    read = 100 + change if path == ("read",) else 100
    assert f"read {read} rows, but rejected" in words
    assert f"= {total}\n" in words + "\n"


def test_the_broken_law_names_every_term() -> None:
    cut = CUT | {"counts": CUT["counts"] | {"read": 101}}
    terms = "rejected 7 + excluded 2 + dropped 11 + held_out 13 + held_out_twin 17 + duplicate 19 + train 31 = 100"
    assert f"read 101 rows, but {terms}" in broken(cut, SHARDS, CUT["sets"])


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("change", [1, -1])
def test_a_shard_with_another_number_of_samples_breaks_the_law(number: int, change: int) -> None:
    shards = copy.deepcopy(SHARDS)
    shards[number]["samples"] += change
    assert f"the shards hold {31 + change} samples, the funnel counts 31 for training" in broken(
        CUT, shards, CUT["sets"]
    )


@pytest.mark.parametrize("sets", [{"all": 12, "html": 5}, {"html": 5}])
def test_another_number_of_held_out_documents_breaks_the_law(sets: dict[str, int]) -> None:
    words = broken(CUT, SHARDS, sets)
    assert f"the held-out set holds {sets.get('all', 0)} documents, the funnel counts 13" in words
    assert f"2 shards and held-out sets {sets} were written, 2 and {CUT['sets']} were cut" in words


@pytest.mark.parametrize("sets", [{"all": 13, "html": 4}, {"all": 13}, {"all": 13, "html": 5, "url": 1}])
def test_the_sets_must_be_those_that_were_cut(sets: dict[str, int]) -> None:
    assert f"held-out sets {sets} were written" in broken(CUT, SHARDS, sets)


def test_the_shards_must_be_those_that_were_cut() -> None:
    one, two = SHARDS
    assert "1 shards and held-out sets" in broken(CUT, [one | {"samples": 31}], CUT["sets"])
    more = {"task": 2, "samples": 0, "first": "ff0", "last": "ff0"}
    assert "3 shards and held-out sets" in broken(CUT, [one, two, more], CUT["sets"])


def test_a_shard_that_comes_twice_in_place_of_another_breaks_the_law() -> None:
    one, two = SHARDS
    assert "the tasks were [0, 0]" in broken(CUT, [one, two | {"task": 0}], CUT["sets"])


@pytest.mark.parametrize(
    ("number", "name", "key"), [(0, "first", "80"), (0, "last", "81"), (1, "first", "7e"), (1, "last", "7f")]
)
def test_shards_out_of_order_break_the_law(number: int, name: str, key: str) -> None:
    shards = copy.deepcopy(SHARDS)
    shards[number][name] = key
    assert "the shards are not in the global order" in broken(CUT, shards, CUT["sets"])


def test_a_key_in_two_shards_breaks_the_law() -> None:
    shards = [SHARDS[0], SHARDS[1] | {"first": "7f"}]
    assert "the shards are not in the global order" in broken(CUT, shards, CUT["sets"])


def test_all_that_is_wrong_is_told_at_once() -> None:
    cut = CUT | {"counts": CUT["counts"] | {"train": 32}}
    assert len(broken(cut, SHARDS[::-1], {}).splitlines()) == 1 + 5


# A sealed build


def every_kind_of_row(folder: Path, **changes: Any) -> Chain:
    """Training samples, held-out documents of two types, a rejected and a dropped row."""
    held = [row("h1", "held 1", ["html"]), row("h2", "held 2", ["html", "url"])]
    rows = [
        *(row(f"http://{n}", f"text {n}") for n in range(12)),
        b"{broken\n",
        row("d", "d", **DROPPED),
        row("h1", "twin"),
    ]
    return Chain(
        folder, {"a.jsonl.gz": rows, "held.jsonl": held}, ["held.jsonl"], rejected_rows=Limit(count=1), **changes
    )


def test_a_sealed_build_holds_what_its_manifest_lists_and_nothing_else(tmp_path: Path) -> None:
    root = every_kind_of_row(tmp_path).seal()
    manifest = json.loads((root / "manifest.json").read_bytes())
    here = {path for path in files_below(root) if not path.startswith("_work/")}
    assert set(manifest["files"]) == here - {"manifest.json", "COMMIT"}
    assert {"shards.jsonl", "shardindex.json", "disallow.json", "README.md", "held_out/struck.bin"} <= here
    assert len([path for path in here if path.startswith("train/")]) == 8
    assert len([path for path in here if path.startswith("rejected/")]) == 1
    for path, facts in manifest["files"].items():
        data = (root / path).read_bytes()
        assert facts == {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}, path


def test_commit_seals_the_manifest_and_the_manifest_the_ids(tmp_path: Path) -> None:
    root = every_kind_of_row(tmp_path).seal()
    data = (root / "manifest.json").read_bytes()
    assert (root / "COMMIT").read_text() == hashlib.sha256(data).hexdigest() + "\n"
    manifest = json.loads(data)
    assert manifest["build_id"] == hashlib.sha256((root / "shards.jsonl").read_bytes()).hexdigest()
    held = {path: facts["sha256"] for path, facts in manifest["files"].items() if path.startswith("held_out/")}
    words = json.dumps(held, sort_keys=True, separators=(",", ":"))
    assert manifest["held_out_id"] == hashlib.sha256(words.encode()).hexdigest()


def test_the_manifest_says_what_came_in_and_what_became_of_it(tmp_path: Path) -> None:
    chain = every_kind_of_row(tmp_path, held_out=HeldOut("pepper", 0.0), seed=7, config='{"a":1}')
    manifest = json.loads((chain.seal() / "manifest.json").read_bytes())
    assert {name: manifest[name] for name in ("format", "job", "config", "fingerprint", "versions", "seed", "id")} == {
        "format": "shardwright/1",
        "job": "c4_html",
        "config": {"a": 1},
        "fingerprint": "f" * 64,
        "versions": {"zlib": zlib.ZLIB_RUNTIME_VERSION},
        "seed": 7,
        "id": ["url"],
    }
    assert [(item["rows"], item["held_out"], item["rejected"]) for item in manifest["inputs"]] == [
        (15, False, None),
        (2, True, None),
    ]
    assert [(item["uri"], item["bytes"]) for item in manifest["inputs"]] == [
        (item.uri, item.bytes) for item in chain.inputs
    ]
    assert manifest["counts"] == {
        "inputs": 2, "inputs_rejected": 0, "read": 17, "rejected": {"not-json": 1}, "excluded": {},
        "dropped": {"missing-any:html": 1}, "held_out": 2, "held_out_twin": 1, "duplicate": 0, "train": 12,
    }  # fmt: skip
    assert manifest["types"] == {"train": {"html": 12}}
    assert manifest["held_out"] == {
        "salt": "pepper",
        "fraction": 0.0,
        "struck": 2,
        "sets": {"all": 2, "html": 2, "url": 1},
    }
    shards = [(Path(chain.spec.root) / "train" / f"train-0000{n}-of-00002.tar").stat().st_size for n in (0, 1)]
    assert manifest["splits"] == {"train": {"samples": 12, "shards": 2, "bytes": sum(shards)}}


def test_a_rejected_input_is_in_the_manifest_with_its_damage(tmp_path: Path) -> None:
    files = {"a.jsonl.gz": [b"x" * 50], "b.jsonl": [row("a", "1")]}
    chain = Chain(tmp_path, files, rejected_inputs=Limit(count=1))
    path = tmp_path / "in/a.jsonl.gz"
    damaged = path.read_bytes()[:-8] + bytes(8)
    path.write_bytes(damaged)
    manifest = json.loads((chain.seal() / "manifest.json").read_bytes())
    assert [item["rejected"] for item in manifest["inputs"]] == [{"offset": 0, "reason": "bad-checksum"}, None]
    assert (manifest["counts"]["inputs_rejected"], manifest["counts"]["read"]) == (1, 1)


def test_every_json_file_is_canonical(tmp_path: Path) -> None:
    root = every_kind_of_row(tmp_path).seal()
    for name in ("manifest.json", "shardindex.json", "disallow.json", "shards.jsonl"):
        for written in (root / name).read_text().splitlines(keepends=True):
            value = json.loads(written)
            assert written == json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"


def test_a_line_for_each_shard_and_the_index_and_the_disallow_list_agree(tmp_path: Path) -> None:
    root = every_kind_of_row(tmp_path).seal()
    lines = [json.loads(written) for written in (root / "shards.jsonl").read_text().splitlines()]
    for number, value in enumerate(lines):
        data = (root / f"train/train-0000{number}-of-00002.tar").read_bytes()
        signatures = (root / f"train/train-0000{number}-of-00002.sig").read_bytes()
        assert value == {
            "bytes": len(data),
            "file": f"train/train-0000{number}-of-00002.tar",
            "first": signatures[:16].hex(),
            "last": signatures[-24:-8].hex(),
            "num_sequences": 6,
            "sha256": hashlib.sha256(data).hexdigest(),
            "shard": f"train/train-0000{number}-of-00002",
        }
    index = json.loads((root / "shardindex.json").read_bytes())
    assert index["shardlist"] == [{"url": v["file"], "nsamples": 6, "filesize": v["bytes"]} for v in lines]
    assert (index["__kind__"], index["wids_version"], index["name"]) == ("wids-shard-index-v1", 1, "train")
    disallow = json.loads((root / "disallow.json").read_bytes())
    struck = hashlib.sha256((root / "held_out/struck.bin").read_bytes()).hexdigest()
    build_id = hashlib.sha256((root / "shards.jsonl").read_bytes()).hexdigest()
    assert (disallow["build"], disallow["lists"], disallow["samples"], disallow["shards"]) == (
        build_id,
        [f"sha256:{struck}"],
        12,
        2,
    )
    assert disallow["counts"] == {"held_out": 2, "held_out_twin": 1, "duplicate": 0}


def test_nobody_held_out_and_nothing_rejected_is_a_build_too(tmp_path: Path) -> None:
    root = Chain(tmp_path, {"a.jsonl": [row("a", "1")]}).seal()
    here = [path for path in files_below(root) if not path.startswith(("_work/", "train/"))]
    assert here == [
        "COMMIT",
        "README.md",
        "disallow.json",
        "held_out/struck.bin",
        "manifest.json",
        "shardindex.json",
        "shards.jsonl",
    ]
    assert (root / "held_out/struck.bin").read_bytes() == b""


# What is not sealed


def settings(chain: Chain) -> SealSettings:
    return SealSettings(chain.spec, chain.inputs, C4HtmlCards())


def references(chain: Chain) -> list[Any]:
    return [value for _, value in chain.gather()]


def final_names(chain: Chain) -> list[str]:
    return sorted(path.name for path in Path(chain.spec.root).iterdir())


def test_a_broken_law_leaves_nothing_under_a_final_name(tmp_path: Path) -> None:
    chain = every_kind_of_row(tmp_path)
    gathered = references(chain)
    gathered[0]["samples"] += 1
    with pytest.raises(BuildRefused, match="the shards hold 13 samples, the funnel counts 12"):
        list(seal(settings(chain), 0, gathered))
    assert final_names(chain) == ["_work"]


def test_a_lost_shard_leaves_nothing_under_a_final_name(tmp_path: Path) -> None:
    chain = every_kind_of_row(tmp_path)
    with pytest.raises(BuildRefused, match="1 shards and held-out sets"):
        list(seal(settings(chain), 0, references(chain)[1:]))
    assert final_names(chain) == ["_work"]


def test_a_struck_list_that_is_gone_leaves_nothing_under_a_final_name(tmp_path: Path) -> None:
    chain = every_kind_of_row(tmp_path)
    gathered = references(chain)
    (chain.work / chain.selection()["struck"]).unlink()
    with pytest.raises(BuildRefused, match=r"\.struck: gone"):
        list(seal(settings(chain), 0, gathered))
    assert final_names(chain) == ["_work"]


def test_the_order_in_which_shards_arrive_does_not_matter(tmp_path: Path) -> None:
    one, two = every_kind_of_row(tmp_path / "one"), every_kind_of_row(tmp_path / "two")
    list(seal(settings(two), 0, references(two)[::-1]))
    assert (one.seal() / "shards.jsonl").read_bytes() == (Path(two.spec.root) / "shards.jsonl").read_bytes()


@pytest.mark.parametrize("victim", ["shards.jsonl", "manifest.json", "COMMIT"])
def test_a_seal_that_dies_leaves_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, victim: str) -> None:
    chain = every_kind_of_row(tmp_path)
    gathered = references(chain)
    die_at(victim, monkeypatch)
    with pytest.raises(OSError, match="died"):
        list(seal(settings(chain), 0, gathered))
    assert "COMMIT" not in final_names(chain)


def die_at(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    publish = sealing.publish

    def dying(path: Path, data: bytes, *, durable: bool = False) -> None:
        if path.name == name:
            raise OSError(f"died at {name}")
        publish(path, data, durable=durable)

    monkeypatch.setattr(sealing, "publish", dying)


def test_commit_comes_after_every_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    publish = sealing.publish
    monkeypatch.setattr(
        sealing, "publish", lambda path, *rest, **more: (written.append(path.name), publish(path, *rest, **more))
    )
    chain = every_kind_of_row(tmp_path)
    chain.seal()
    assert written[-2:] == [layout.MANIFEST, layout.COMMIT]
    assert written.count(layout.COMMIT) == 1


def test_a_seal_that_comes_twice_gives_the_same_id_and_changes_nothing(tmp_path: Path) -> None:
    chain = every_kind_of_row(tmp_path)
    gathered = references(chain)
    once = list(seal(settings(chain), 0, through_json(gathered)))
    root = Path(chain.spec.root)
    before = {path: (root / path).stat().st_mtime_ns for path in files_below(root)}
    assert list(seal(settings(chain), 0, through_json(gathered))) == once
    assert {path: (root / path).stat().st_mtime_ns for path in files_below(root)} == before


def test_a_seal_that_died_and_comes_again_loses_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As engines that try a bundle again do; the command line starts all over."""
    held = [row("h1", "held 1", ["html"])]
    chain = Chain(tmp_path, {"a.jsonl": [row("a", "1")], "held.jsonl": held}, ["held.jsonl"])
    gathered = references(chain)
    with monkeypatch.context() as patch:
        die_at("COMMIT", patch)
        with pytest.raises(OSError, match="died"):
            list(seal(settings(chain), 0, gathered))
    list(seal(settings(chain), 0, gathered))
    root = Path(chain.spec.root)
    listed = json.loads((root / "manifest.json").read_bytes())["files"]
    assert [path for path in listed if not (root / path).is_file()] == []


def test_a_seal_that_died_and_comes_again_finds_its_rejected_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = every_kind_of_row(tmp_path)
    gathered = references(chain)
    with monkeypatch.context() as patch:
        die_at("COMMIT", patch)
        with pytest.raises(OSError, match="died"):
            list(seal(settings(chain), 0, gathered))
    list(seal(settings(chain), 0, gathered))


@pytest.mark.parametrize(
    "name", ["train/train-00000-of-00002.tar.0123.tmp", "held_out/left.over", "rejected/old.jsonl.zst"]
)
def test_what_a_killed_attempt_left_is_not_published(tmp_path: Path, name: str) -> None:
    chain = every_kind_of_row(tmp_path)
    gathered = references(chain)
    (chain.work / name).write_bytes(b"half")
    list(seal(settings(chain), 0, gathered))
    assert name not in files_below(Path(chain.spec.root))


def test_a_build_that_found_its_shards_finished_is_the_same_build(tmp_path: Path) -> None:
    whole = every_kind_of_row(tmp_path / "whole").seal()
    resumed = every_kind_of_row(tmp_path / "resumed")
    resumed.gather()  # and dies
    assert (resumed.seal() / "shards.jsonl").read_bytes() == (whole / "shards.jsonl").read_bytes()


def test_a_build_that_found_its_runs_finished_is_the_same_build(tmp_path: Path) -> None:
    whole = every_kind_of_row(tmp_path / "whole").seal()
    resumed = every_kind_of_row(tmp_path / "resumed")
    resumed.cut()  # and dies
    shutil.rmtree(resumed.work / "orders")
    assert (resumed.seal() / "shards.jsonl").read_bytes() == (whole / "shards.jsonl").read_bytes()


def test_the_place_of_the_inputs_does_not_change_the_build(tmp_path: Path) -> None:
    rows = [row(f"http://{n}", f"text {n % 9}", c4_shard=n) for n in range(20)]
    one = Chain(tmp_path / "one", {"a.jsonl": rows[:9], "b.jsonl": rows[5:]}, held_out=HeldOut("salt", 0.2)).seal()
    names = {"0.jsonl.gz": rows[10:], "1.jsonl": [line(value) for value in rows[9::-1]] + [line(rows[10])]}
    two = Chain(tmp_path / "two", names, held_out=HeldOut("salt", 0.2), segment_bytes=1).seal()
    assert (one / "shards.jsonl").read_bytes() == (two / "shards.jsonl").read_bytes()
