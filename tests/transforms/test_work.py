"""Files under `_work/`: whole under their final name or not there, and what is named by its digest proves itself."""

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from xxhash import xxh3_128_hexdigest

from tests.transforms.test_spill import files_below, flip
from transforms.stages import work
from transforms.stages.work import (
    BuildRefused,
    HashingWriter,
    bytes_facts,
    publish,
    publish_by_digest,
    publish_json,
    publishing,
    read_by_digest,
    read_json,
    work_path,
)


def test_a_path_under_work_is_below_the_output() -> None:
    assert work_path("out/c4", "runs", "a.run") == Path("out/c4/_work/runs/a.run")


def test_a_file_appears_when_the_block_ends_and_not_before(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "a.bin"
    with publishing(path) as file:
        file.write(b"half")
        assert not path.exists()
        file.write(b" and half")
    assert path.read_bytes() == b"half and half"
    assert files_below(tmp_path) == ["deep/er/a.bin"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, GeneratorExit])
def test_an_exception_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), publishing(tmp_path / "a.bin") as file:
        file.write(b"half")
        raise error
    assert files_below(tmp_path) == []


def test_an_exception_leaves_what_was_there(tmp_path: Path) -> None:
    publish(tmp_path / "a.bin", b"old")
    with pytest.raises(ValueError), publishing(tmp_path / "a.bin") as file:
        file.write(b"new")
        raise ValueError
    assert (tmp_path / "a.bin").read_bytes() == b"old"
    assert files_below(tmp_path) == ["a.bin"]


def test_a_file_that_was_there_is_replaced_whole(tmp_path: Path) -> None:
    publish(tmp_path / "a.bin", b"old and long")
    publish(tmp_path / "a.bin", b"new")
    assert (tmp_path / "a.bin").read_bytes() == b"new"


def test_two_attempts_at_one_file_do_not_mix(tmp_path: Path) -> None:
    with publishing(tmp_path / "a.bin") as one, publishing(tmp_path / "a.bin") as two:
        one.write(b"1" * 9)
        two.write(b"2" * 5)
    assert (tmp_path / "a.bin").read_bytes() == b"1" * 9
    assert files_below(tmp_path) == ["a.bin"]


@pytest.mark.parametrize("durable", [True, False])
def test_durable_waits_for_the_disk_before_the_name_is_final(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    path, synced = tmp_path / "a.bin", []
    monkeypatch.setattr(
        work.os, "fsync", lambda handle: synced.append((path.exists(), next(tmp_path.iterdir()).stat().st_size))
    )
    publish(path, b"data", durable=durable)
    assert synced == ([(False, 4)] if durable else [])


def test_a_file_named_by_its_digest_reads_back(tmp_path: Path) -> None:
    name = publish_by_digest(tmp_path, "selection", ".held", b"data")
    assert name == f"selection-{xxh3_128_hexdigest(b'data')}.held"
    assert read_by_digest(tmp_path, name) == b"data"


@pytest.mark.parametrize("stem", ["00007", "with-a-dash", "with.a.dot"])
def test_the_digest_is_found_in_every_name(tmp_path: Path, stem: str) -> None:
    assert read_by_digest(tmp_path, publish_by_digest(tmp_path, stem, ".order", b"")) == b""


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    name = publish_by_digest(tmp_path, "cut", ".json", b"some data")
    for at in range(9):
        flip(tmp_path / name, at)
        with pytest.raises(BuildRefused, match=r"cut-.*\.json: damaged on disk .*delete it and start the build again"):
            read_by_digest(tmp_path, name)
        flip(tmp_path / name, at)
    assert read_by_digest(tmp_path, name) == b"some data"


@pytest.mark.parametrize("data", [b"", b"some dat", b"some data "])
def test_a_shorter_or_longer_file_is_refused(tmp_path: Path, data: bytes) -> None:
    name = publish_by_digest(tmp_path, "cut", ".json", b"some data")
    (tmp_path / name).write_bytes(data)
    with pytest.raises(BuildRefused, match="damaged on disk"):
        read_by_digest(tmp_path, name)


def test_a_file_that_is_gone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildRefused, match=r"cut-0\.json: gone while the build ran; start the build again"):
        read_by_digest(tmp_path, "cut-0.json")


@pytest.mark.parametrize("value", [{"b": [1, None, "é"], "a": 0.5}, [], "x"])
def test_a_value_reads_back_and_equal_values_have_one_name(tmp_path: Path, value: Any) -> None:
    name = publish_json(tmp_path, "cut", value)
    assert read_json(tmp_path, name) == value
    assert publish_json(tmp_path, "cut", json.loads(json.dumps(value, indent=3))) == name


def test_facts_are_length_and_sha256_however_the_bytes_came() -> None:
    file = io.BytesIO()
    writer = HashingWriter(file)
    for piece in (b"some", b"", b" data"):
        writer.write(piece)
    assert file.getvalue() == b"some data"
    expected = {"bytes": 9, "sha256": hashlib.sha256(b"some data").hexdigest()}
    assert writer.facts() == bytes_facts(b"some data") == expected
