"""The same documents give the same shards: whatever runs them, on however many workers, in whatever order they come."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import shardwright
from shardwright.verify import verify
from tests.support import row, write_input

pytestmark = pytest.mark.smoke

CONFIG = """\
job: c4_html
input: {{files: [{files}]}}
held_out: {{fraction: 0.1}}
shards: {{count: 5}}
output: {output}
runner: {{workers: 1}}
"""


def rows() -> list[dict]:
    """200 documents, 10 of them twice, 10 with another one's text."""
    plain = [row(f"http://x/{i}", f"text {i} " * (i % 40 + 1), ["html"] + ["title"] * (i % 2)) for i in range(200)]
    again = [row(f"http://x/{i}", f"another text {i}") for i in range(10)]
    same_text = [row(f"http://y/{i}", plain[i]["text"]) for i in range(20, 30)]
    return plain + again + same_text


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    for number in range(7):
        write_input(folder / f"part-{number}.jsonl.gz", rows()[number::7])
    return folder


def build(folder: Path, files: str, *words: str, **environment: str) -> shardwright.Build:
    """Run the real command in a process of its own."""
    output = folder / "out"
    config = folder / "config.yaml"
    config.write_text(CONFIG.format(files=files, output=output))
    command = [sys.executable, "-m", "shardwright.cli", "build", str(config), *words]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return shardwright.open(output)


@pytest.fixture(scope="module")
def reference(inputs, tmp_path_factory) -> shardwright.Build:
    return build(tmp_path_factory.mktemp("reference"), f"'{inputs}/*.gz'")


def assert_same(built: shardwright.Build, reference: shardwright.Build) -> None:
    assert (built.root / "shards.jsonl").read_bytes() == (reference.root / "shards.jsonl").read_bytes()
    for name in ("content_id", "held_out_id", "types", "fingerprint"):
        assert built.manifest[name] == reference.manifest[name], name
    assert {**built.manifest["counts"], "inputs": 0} == {**reference.manifest["counts"], "inputs": 0}
    assert verify(built) == []


def test_two_workers(inputs, reference, tmp_path):
    assert_same(build(tmp_path, f"'{inputs}/*.gz'", "--set", "runner.workers=2"), reference)


def test_every_bundle_run_twice(inputs, reference, tmp_path):
    again = build(tmp_path, f"'{inputs}/*.gz'", "--set", "runner.workers=2", "--", "--direct_runner_bundle_repeat=1")
    assert_same(again, reference)


def test_files_listed_in_another_order(inputs, reference, tmp_path):
    files = ", ".join(f"'{path}'" for path in sorted(inputs.iterdir(), reverse=True))
    assert_same(build(tmp_path, files), reference)


def test_files_under_other_names_and_rows_dealt_otherwise(reference, tmp_path):
    shuffled = sorted(rows(), key=lambda item: hash((item["url"], item["text"][::-1])))
    for number in range(3):
        write_input(tmp_path / "in" / f"{'cab'[number]}.jsonl", shuffled[number::3])
    assert_same(build(tmp_path, f"'{tmp_path}/in/{{a,b,c}}.jsonl'"), reference)


def test_another_hash_seed(inputs, reference, tmp_path):
    assert_same(build(tmp_path, f"'{inputs}/*.gz'", PYTHONHASHSEED="12345"), reference)


def test_the_whole_manifest_is_the_same_for_the_same_inputs(inputs, reference, tmp_path):
    again = build(tmp_path, f"'{inputs}/*.gz'", PYTHONHASHSEED="7")
    assert (again.root / "manifest.json").read_bytes() == (reference.root / "manifest.json").read_bytes()
    assert (again.root / "COMMIT").read_bytes() == (reference.root / "COMMIT").read_bytes()


def test_another_seed_is_another_order_of_the_same_documents(inputs, reference, tmp_path):
    other = build(tmp_path, f"'{inputs}/*.gz'", "--set", "shuffle.seed=43")
    urls = [[sample.json()["url"] for sample in build.split("train")] for build in (reference, other)]
    assert sorted(urls[0]) == sorted(urls[1])
    assert urls[0] != urls[1]
    assert list(other.held_out()) == list(reference.held_out())


def test_a_document_more_moves_no_other(inputs, reference, tmp_path):
    shutil.copytree(inputs, tmp_path / "in")
    write_input(tmp_path / "in" / "part-9.jsonl.gz", [row("http://new/1", "one more")])
    more = build(tmp_path, f"'{tmp_path}/in/*.gz'")
    before = [sample.key for sample in reference.split("train")]
    after = [sample.key for sample in more.split("train")]
    assert [key for key in after if key in set(before)] == before
    assert len(after) == len(before) + 1
