"""Spill: a work unit becomes one run and one small reference, made once, and nothing of a damaged input is in it.

`Chain` is what the tests of all stages share.
"""

import io
import json
import os
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest
import zstandard
from xxhash import xxh3_64_digest, xxh3_128_digest, xxh3_128_hexdigest

from pipelines.cards import C4HtmlCards
from tests.support import line, row, write_input
from transforms.records.c4_html import C4HtmlReader
from transforms.records.document import Document
from transforms.records.rules import RequireTypes
from transforms.records.samples import TarTextEncoder, encoder_versions
from transforms.stages.cut_shards import cut_shards
from transforms.stages.gather import GatherSettings, gather
from transforms.stages.resolve import resolve
from transforms.stages.runs import FROM_HELD_OUT_INPUT, KEY_ROW, NO_PAYLOAD, UNDER_FRACTION, KeyRow, RunReader
from transforms.stages.seal import SealSettings, seal
from transforms.stages.select_held_out import SelectSettings, select_held_out
from transforms.stages.spec import BuildSpec, HeldOut, Input, Limit
from transforms.stages.spill import SpillSettings, rejected_path, run_name, run_path, spill
from transforms.stages.work import BuildRefused, read_json, work_path

HTML = RequireTypes(any_of=("html",))
"""Drops what carries no `html`; `row()` carries it unless told otherwise."""
DROPPED: dict[str, Any] = {"types": ("title",)}
"""`row("u", "t", **DROPPED)`: a row that HTML drops."""

Rows = Iterable[dict[str, Any] | bytes]
Element = tuple[int, Any]


def make_spec(root: Path, **changes: Any) -> BuildSpec:
    """A spec that forgives nothing and holds nothing out."""
    spec = BuildSpec(
        root=str(root),
        job="c4_html",
        fingerprint="f" * 64,
        seed=42,
        id_fields=("url",),
        held_out=HeldOut("salt", 0.0),
        duplicates_are_errors=False,
        shards=2,
        rejected_inputs=Limit(count=0),
        rejected_rows=Limit(count=0),
        config="{}",
        versions=json.dumps(encoder_versions(TarTextEncoder())),
    )
    return replace(spec, **changes)


def make_inputs(folder: Path, files: Mapping[str, Rows], held_files: Iterable[str] = ()) -> tuple[Input, ...]:
    """Input files of `rows`, listed as a plan lists them."""
    paths = sorted(write_input(folder / "in" / name, rows) for name, rows in files.items())
    return tuple(listed(number, path, path.name in held_files) for number, path in enumerate(paths))


def listed(number: int, path: Path, held_out: bool = False) -> Input:
    facts = path.stat()
    return Input(number, str(path), facts.st_size, facts.st_mtime_ns, held_out)


class Chain:
    """One build as plain calls of its stages, each of which calls those before it. What passes between them is JSON."""

    def __init__(self, folder: Path, files: Mapping[str, Rows], held_files: Iterable[str] = (), **changes: Any) -> None:
        self.inputs = make_inputs(folder, files, held_files)
        self.units: list[tuple[Input, ...]] = [(item,) for item in self.inputs]
        self.spec = make_spec(folder / "out", **changes)
        self.read: Any = C4HtmlReader(id_fields=self.spec.id_fields, row_bytes=1 << 20)
        self.keep: Any = HTML
        self.encode = TarTextEncoder()
        self.work = work_path(self.spec.root)

    def spill(self) -> list[Any]:
        """Run references."""
        settings = SpillSettings(self.spec, self.read, self.keep, self.encode)
        units = [(number, through_json([asdict(item) for item in unit])) for number, unit in enumerate(self.units)]
        return [reference for unit in units for _, reference in _call(spill, settings, [unit])]

    def select(self) -> list[Element]:
        """An element for each key range."""
        return _call(select_held_out, SelectSettings(self.spec, self.inputs), [(0, run) for run in self.spill()])

    def resolve(self) -> list[Element]:
        """A reference for each key range."""
        return _call(resolve, self.spec, self.select())

    def cut(self) -> list[Element]:
        """A task for each shard and held-out set."""
        return _call(cut_shards, self.spec, self.resolve())

    def gather(self) -> list[Element]:
        """The facts of what each task wrote."""
        return _call(gather, GatherSettings(self.spec, self.encode, C4HtmlCards()), self.cut())

    def seal(self) -> Path:
        """The sealed build."""
        [(_, value)] = _call(seal, SealSettings(self.spec, self.inputs, C4HtmlCards()), self.gather())
        assert list(value) == ["build_id"]
        return Path(self.spec.root)

    def selection(self) -> Any:
        """What SelectHeldOut wrote."""
        return read_json(self.work, self.select()[0][1]["selection"])

    def counts(self) -> dict[str, int]:
        """How many rows of the key columns met each fate."""
        found: dict[str, int] = {}
        for _, reference in self.resolve():
            for fate, rows in reference["fates"].items():
                found[fate] = found.get(fate, 0) + rows
        return found


def _call(stage: Any, settings: Any, elements: list[Element]) -> list[Element]:
    groups: dict[int, list[Any]] = {}
    for key, value in elements:
        groups.setdefault(key, []).append(value)
    return [
        (key, through_json(value))
        for number, values in groups.items()
        for key, value in stage(settings, number, values)
    ]


def through_json(value: Any) -> Any:
    """`value` as the next stage sees it."""
    return json.loads(json.dumps(value))


def key_rows(chain: Chain, reference: Any) -> list[KeyRow]:
    """The key column of a run."""
    with RunReader(run_path(chain.spec.root, reference["name"]), reference["bytes"]) as run:
        return [KeyRow._make(KEY_ROW.unpack(packed)) for packed, _ in run.rows(0, 256)]


def candidate_rows(chain: Chain, reference: Any) -> list[KeyRow]:
    with RunReader(run_path(chain.spec.root, reference["name"]), reference["bytes"]) as run:
        return [candidate.row for candidate in run.candidates()]


def rejects(chain: Chain, reference: Any) -> list[dict[str, Any]]:
    """The entries of a unit's rejected file."""
    with zstandard.open(rejected_path(chain.spec.root, reference["name"]), "rb") as file:
        return [json.loads(entry) for entry in io.BytesIO(file.read())]


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def flip(path: Path, at: int) -> None:
    """Damage one byte of a file, leaving its length and time as they are."""
    facts, data = path.stat(), bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def frame(text: str) -> bytes:
    return len(text.encode()).to_bytes(4, "little") + text.encode()


def id16(url: str) -> bytes:
    """FORMAT.md section 1, written down again."""
    return xxh3_128_digest(frame("url") + frame(url))


def order_key(url: str, seed: int = 42) -> bytes:
    return xxh3_128_digest(seed.to_bytes(8, "little") + id16(url))


def salted(url: str, salt: str = "salt") -> bytes:
    return xxh3_128_digest(frame(salt) + id16(url))


def urls(number: int, *, under: bool, fraction: float = 0.5) -> list[str]:
    """Names whose salted hash is under `fraction`, or is not."""
    found = (f"http://{n}" for n in count())
    bound = int(fraction * 2**128)
    return list(islice((url for url in found if (int.from_bytes(salted(url), "big") < bound) == under), number))


def by_content(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows in ascending order of their content digests."""
    return sorted(rows, key=lambda value: xxh3_128_digest(line(value).rstrip()))


# What a run holds


def test_a_key_row_is_what_the_format_says(tmp_path: Path) -> None:
    value = row("http://a", "some é", ["html", "url"])
    chain = Chain(tmp_path, {"a.jsonl": [b"\n", value], "b.jsonl": []})
    [found] = key_rows(chain, chain.spill()[0])
    emitted = line(value).rstrip()
    sample = chain.encode(order_key("http://a"), Document(2, emitted, ("http://a",), "some é".encode(), 0))
    assert found == KeyRow(
        key=order_key("http://a"),
        content=xxh3_128_digest(emitted),
        input=0,
        row=2,
        text=xxh3_128_digest("some é".encode()),
        digest=xxh3_64_digest(sample)[::-1],
        length=len(sample),
        types=1 << 5 | 1 << 9,
        flags=0,
    )


def test_an_empty_text_has_the_digest_that_matches_nothing(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": [row("u", "")]})
    assert key_rows(chain, chain.spill()[0])[0].text == bytes(16)


def test_the_content_digest_covers_the_columns_that_were_appended(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": [b'{"url":"u","text":"t","metadata_html":[1]}\n']})
    emitted = b'{"url":"u","text":"t","metadata_html":[1],"metadata_entity":[],"metadata_entity_paragraph":[]}'
    assert key_rows(chain, chain.spill()[0])[0].content == xxh3_128_digest(emitted)


def test_seed_and_id_fields_make_the_key(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": [row("u", "t")]}, seed=7, id_fields=("url", "text"))
    both = xxh3_128_digest(frame("url,text") + frame("u") + frame("t"))
    assert key_rows(chain, chain.spill()[0])[0].key == xxh3_128_digest((7).to_bytes(8, "little") + both)


def test_rows_of_a_held_out_input_are_flagged_and_dropped_ones_leave_their_key_and_text(tmp_path: Path) -> None:
    files = {
        "a.jsonl": [row("kept", "1"), row("gone", "2", **DROPPED)],
        "b.jsonl": [row("x", "3"), row("y", "4", **DROPPED)],
    }
    chain = Chain(tmp_path, files, held_files=["a.jsonl"])
    held, other = chain.spill()
    assert {found.row: found.flags for found in candidate_rows(chain, held)} == {
        1: FROM_HELD_OUT_INPUT,
        2: FROM_HELD_OUT_INPUT | NO_PAYLOAD,
    }
    assert [found.row for found in key_rows(chain, held)] == [1]
    [dropped] = [found for found in candidate_rows(chain, held) if found.row == 2]
    assert (dropped.key, dropped.text, dropped.length) == (order_key("gone"), xxh3_128_digest(b"2"), 0)
    assert candidate_rows(chain, other) == []
    assert [found.row for found in key_rows(chain, other)] == [1]


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.5])
def test_the_fraction_flags_the_ids_under_it(tmp_path: Path, fraction: float) -> None:
    rows = [row(f"http://{number}", "t") for number in range(100)]
    chain = Chain(tmp_path, {"a.jsonl": rows}, held_out=HeldOut("pepper", fraction))
    found = {one.row for one in candidate_rows(chain, chain.spill()[0]) if one.flags == UNDER_FRACTION}
    bound = int(fraction * 2**128)
    assert found == {n + 1 for n in range(100) if int.from_bytes(salted(f"http://{n}", "pepper"), "big") < bound}
    assert bool(found) == bool(fraction)


def test_a_dropped_row_is_not_held_out_by_the_fraction(tmp_path: Path) -> None:
    [url] = urls(1, under=True)
    chain = Chain(tmp_path, {"a.jsonl": [row(url, "t", **DROPPED)]}, held_out=HeldOut("salt", 0.5))
    assert candidate_rows(chain, chain.spill()[0]) == []


@pytest.mark.parametrize("versions", [{}, {"zlib": "0.9"}, {"zlib": zlib.ZLIB_RUNTIME_VERSION, "cbor2": "5"}])
def test_a_worker_with_other_encoders_than_the_plans_is_refused(tmp_path: Path, versions: dict[str, str]) -> None:
    chain = Chain(tmp_path, {"a.jsonl": [row("u", "t")]}, versions=json.dumps(versions))
    with pytest.raises(BuildRefused, match=r"has encoders .*, the plan has .*: give all machines one image"):
        chain.spill()
    assert files_below(chain.work) == []


# What a reference says


def test_facts_are_counted_by_input_and_reason(tmp_path: Path) -> None:
    files = {
        "a.jsonl.gz": [row("u", "t"), b"{\n", b"[]\n", b"{}\n", b"\n", b"1\n", row("v", "t", **DROPPED)],
        "b.jsonl": [row("w", "t", **DROPPED), row("x", "t", ())],
    }
    chain = Chain(tmp_path, files)
    chain.units = [chain.inputs]
    [reference] = chain.spill()
    first, second = reference["inputs"]
    assert first == {
        "number": 0,
        "rows": 6,
        "digest": xxh3_128_hexdigest((tmp_path / "in/a.jsonl.gz").read_bytes()),
        "damage": None,
        "rejected": {"not-json": 1, "not-an-object": 2, "missing-field": 1},
        "excluded": {},
        "dropped": {"missing-any:html": 1},
    }
    assert (second["number"], second["rows"], second["rejected"], second["dropped"]) == (
        1,
        2,
        {},
        {"missing-any:html": 2},
    )


def test_a_reference_tells_length_and_digest_of_the_run(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": [row("u", "t")]})
    [reference] = chain.spill()
    data = run_path(chain.spec.root, reference["name"]).read_bytes()
    assert (reference["bytes"], reference["digest"], reference["rejected"]) == (
        len(data),
        xxh3_128_hexdigest(data),
        None,
    )


def test_no_document_is_in_a_reference_and_it_does_not_grow_with_them(tmp_path: Path) -> None:
    def reference(name: str, count: int) -> str:
        rows = [row(f"http://secret/{number}", "secret " * 50) for number in range(count)]
        return json.dumps(Chain(tmp_path / name, {"a.jsonl": [*rows, b'{"secret\n']}).spill())

    assert len(reference("many", 500)) < len(reference("one", 1)) + 20 < 1000
    assert "secret" not in reference("many", 500)


def test_a_file_without_rows_is_a_whole_run(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": [b"\n"]})
    [reference] = chain.spill()
    assert (reference["inputs"][0]["rows"], key_rows(chain, reference)) == (0, [])


# Rejected rows


def test_a_rejected_row_is_kept_with_its_place_reason_and_bytes(tmp_path: Path) -> None:
    first = line(row("u", "t"))
    chain = Chain(tmp_path, {"a.jsonl": [first, b"\n", b'{"text":"\xff"}\n', b"{" * 3000 + b"\n"]})
    [reference] = chain.spill()
    utf8, nested = rejects(chain, reference)
    assert reference["rejected"] == xxh3_128_hexdigest(rejected_path(chain.spec.root, reference["name"]).read_bytes())
    assert utf8 == {
        "uri": str(tmp_path / "in/a.jsonl"),
        "line": 3,
        "offset": len(first) + 1,
        "reason": "not-utf8",
        "detail": "invalid start byte at byte 9 of the line",
        "payload": '{"text":"\\xff"}',
    }
    assert (nested["line"], nested["offset"], nested["payload"]) == (4, len(first) + 14, "{" * 1024)


def test_without_a_rejected_row_there_is_no_rejected_file(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": [row("u", "t", **DROPPED)]})
    [reference] = chain.spill()
    assert files_below(chain.work) == [f"runs/{reference['name']}.json", f"runs/{reference['name']}.run"]


# Damaged inputs


def with_damage(folder: Path, **changes: Any) -> Chain:
    """Of three inputs in one unit, the second is cut off behind its broken row."""
    files = {name: [row(f"{name}{n}", "t") for n in range(20)] for name in ("a.jsonl.gz", "b.jsonl.gz", "c.jsonl.gz")}
    files["b.jsonl.gz"].insert(3, b"{broken\n")  # type: ignore[arg-type]
    chain = Chain(folder, files, **changes)
    cut = folder / "in/b.jsonl.gz"
    cut.write_bytes(cut.read_bytes()[:-4])
    chain.inputs = tuple(listed(item.number, Path(item.uri)) for item in chain.inputs)
    chain.units = [chain.inputs]
    return chain


def test_no_row_of_a_damaged_input_is_in_the_run_and_those_of_its_neighbours_are(tmp_path: Path) -> None:
    chain = with_damage(tmp_path)
    [reference] = chain.spill()
    assert sorted((found.input, found.row) for found in key_rows(chain, reference)) == [
        (number, n) for number in (0, 2) for n in range(1, 21)
    ]


def test_a_damaged_input_counts_no_rows_and_says_what_is_wrong(tmp_path: Path) -> None:
    chain = with_damage(tmp_path)
    [reference] = chain.spill()
    size = chain.inputs[1].bytes
    whole, damaged, _ = reference["inputs"]
    assert whole["rows"] == 20
    assert damaged == {
        "number": 1, "rows": 0, "digest": None, "damage": {"offset": size, "reason": "truncated"},
        "rejected": {}, "excluded": {}, "dropped": {},
    }  # fmt: skip


def test_a_damaged_input_is_one_entry_of_the_rejected_file_and_its_rows_are_none(tmp_path: Path) -> None:
    chain = with_damage(tmp_path)
    [entry] = rejects(chain, chain.spill()[0])
    assert (entry["uri"], entry["line"], entry["offset"], entry["reason"]) == (
        chain.inputs[1].uri, None, chain.inputs[1].bytes, "truncated",
    )  # fmt: skip


def test_damage_does_not_change_the_run_of_the_others(tmp_path: Path) -> None:
    chain = with_damage(tmp_path)
    [reference] = chain.spill()
    alone = Chain(tmp_path / "alone", {})
    alone.inputs, alone.units = chain.inputs, [(chain.inputs[0], chain.inputs[2])]
    [expected] = alone.spill()
    assert reference["digest"] == expected["digest"]


def test_two_damaged_inputs_in_one_unit_are_both_found(tmp_path: Path) -> None:
    chain = with_damage(tmp_path)
    flip(tmp_path / "in/c.jsonl.gz", 0)
    [reference] = chain.spill()
    assert [item["damage"] and item["damage"]["reason"] for item in reference["inputs"]] == [
        None,
        "truncated",
        "not-gzip",
    ]
    assert {found.input for found in key_rows(chain, reference)} == {0}


def test_an_input_that_is_gone_is_a_damaged_input(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": [row("u", "t")], "b.jsonl": [row("v", "t")]})
    (tmp_path / "in/a.jsonl").unlink()
    first, second = chain.spill()
    assert first["inputs"][0]["damage"] == {"offset": 0, "reason": "unreadable"}
    assert "No such file" in rejects(chain, first)[0]["detail"]
    assert second["inputs"][0]["rows"] == 1


def test_an_input_that_could_not_be_opened_is_tried_again(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": [row("u", "t")]})
    path = Path(chain.inputs[0].uri)
    path.rename(tmp_path / "elsewhere")
    chain.spill()
    (tmp_path / "elsewhere").rename(path)
    [reference] = chain.spill()
    assert reference["inputs"][0]["damage"] is None


@pytest.mark.parametrize("change", [1, -1])
def test_an_input_that_changed_its_size_is_refused(tmp_path: Path, change: int) -> None:
    chain = Chain(tmp_path, {"a.jsonl": [row("u", "t"), b"\n\n"]})
    path, size = tmp_path / "in/a.jsonl", chain.inputs[0].bytes
    path.write_bytes(path.read_bytes()[:-1] if change < 0 else path.read_bytes() + b"\n")
    with pytest.raises(BuildRefused, match=rf"a\.jsonl: {size + change} bytes, the plan saw {size}"):
        chain.spill()
    assert files_below(chain.work) == []


def test_a_compressed_input_that_was_cut_while_the_build_ran_is_refused(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl.gz": [row("u", "t")]})
    path = tmp_path / "in/a.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(BuildRefused, match="the plan saw"):
        chain.spill()


# Made once


class Counting:
    """A reader that counts the inputs it opened."""

    def __init__(self, read: Any) -> None:
        self.read, self.inputs = read, 0

    def __call__(self, *arguments: Any) -> Any:
        self.inputs += 1
        return self.read(*arguments)


def counted(folder: Path) -> tuple[Chain, Counting]:
    chain = Chain(folder, {"a.jsonl": [row("u", "t"), row("v", "t"), b"{\n"]})
    chain.read = Counting(chain.read)
    return chain, chain.read


def test_a_whole_run_is_not_made_again(tmp_path: Path) -> None:
    chain, reader = counted(tmp_path)
    assert chain.spill() == chain.spill()
    assert reader.inputs == 1


def test_a_run_without_its_damaged_input_is_not_made_again(tmp_path: Path) -> None:
    chain = with_damage(tmp_path)
    chain.read = Counting(chain.read)
    first, opened = chain.spill(), chain.read.inputs
    assert chain.spill() == first
    assert chain.read.inputs == opened


@pytest.mark.parametrize("suffix", ["runs/{}.run", "runs/{}.json", "rejected/{}.jsonl.zst"])
def test_a_run_of_which_a_file_is_gone_is_made_again(tmp_path: Path, suffix: str) -> None:
    chain, reader = counted(tmp_path)
    [reference] = chain.spill()
    before = {name: (chain.work / name).read_bytes() for name in files_below(chain.work)}
    (chain.work / suffix.format(reference["name"])).unlink()
    assert chain.spill() == [reference]
    assert {name: (chain.work / name).read_bytes() for name in files_below(chain.work)} == before
    assert reader.inputs == 2


@pytest.mark.parametrize("at", [0, 1000, -1])
def test_a_damaged_run_is_made_again(tmp_path: Path, at: int) -> None:
    chain, reader = counted(tmp_path)
    [reference] = chain.spill()
    path = run_path(chain.spec.root, reference["name"])
    whole = path.read_bytes()
    flip(path, at)
    assert chain.spill() == [reference]
    assert (path.read_bytes(), reader.inputs) == (whole, 2)


def test_a_cut_run_and_a_broken_reference_are_made_again(tmp_path: Path) -> None:
    chain, reader = counted(tmp_path)
    [reference] = chain.spill()
    path = run_path(chain.spec.root, reference["name"])
    path.write_bytes(path.read_bytes()[:-1])
    assert chain.spill() == [reference]
    path.with_suffix(".json").write_bytes(b"{")
    assert chain.spill() == [reference]
    assert reader.inputs == 3


def test_a_run_whose_rejected_file_is_damaged_is_made_again(tmp_path: Path) -> None:
    chain, reader = counted(tmp_path)
    [reference] = chain.spill()
    flip(rejected_path(chain.spec.root, reference["name"]), -1)
    chain.spill()
    assert reader.inputs == 2


def stumble(document: Document) -> str | None:
    """A rule with a bug."""
    return str(document.number // 0)


def test_a_failure_in_the_middle_leaves_nothing_behind(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": [b"{\n", row("u", "t")]})
    chain.keep = stumble
    with pytest.raises(ZeroDivisionError):
        chain.spill()
    assert files_below(chain.work) == []


def test_only_what_can_change_its_bytes_names_a_run(tmp_path: Path) -> None:
    spec, item = make_spec(tmp_path), Input(3, "a.jsonl", 10, 11, False)
    other_inputs = [
        replace(item, **change)
        for change in ({"number": 4}, {"uri": "b.jsonl"}, {"bytes": 12}, {"mtime_ns": 12}, {"held_out": True})
    ]
    names = [run_name(spec, [item]), run_name(spec, [item, item]), *(run_name(spec, [other]) for other in other_inputs)]
    names += [run_name(replace(spec, fingerprint="e" * 64), [item]), run_name(replace(spec, segment_bytes=1), [item])]
    assert len(set(names)) == len(names) == 9
    elsewhere = replace(spec, root="elsewhere", rejected_rows=Limit(count=9), batch_bytes=1)
    assert run_name(elsewhere, [item]) == names[0]


# The memory budget


def test_the_memory_budgets_do_not_change_a_byte_of_the_build(tmp_path: Path) -> None:
    rows = [row(f"http://{number % 35}", f"text {number}") for number in range(40)]
    files = {"a.jsonl": rows[:25], "b.jsonl": rows[25:]}

    def built(name: str, **budgets: int) -> dict[str, bytes]:
        root = Chain(tmp_path / name, files, held_out=HeldOut("salt", 0.2), **budgets).seal()
        sealed = [path for path in files_below(root) if path.startswith(("train/", "held_out/", "shards.jsonl"))]
        return {path: (root / path).read_bytes() for path in sealed}

    whole = built("whole")
    assert len(whole) >= 12
    assert built("small", segment_bytes=1, batch_bytes=1) == whole
    assert built("middle", segment_bytes=10_000, batch_bytes=7_000) == whole


def test_a_segment_budget_makes_segments(tmp_path: Path) -> None:
    rows = [row(f"http://{number}", "t") for number in range(10)]
    chain = Chain(tmp_path, {"a.jsonl": rows}, segment_bytes=1)
    assert [found.row for found in key_rows(chain, chain.spill()[0])] == list(range(1, 11))
