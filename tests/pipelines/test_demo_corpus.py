from __future__ import annotations

import gzip
import inspect
import json
import os
import re
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pipelines.demo import corpus, pages
from pipelines.demo.corpus import CorpusFacts, file_name, make_corpus
from pipelines.demo.rows import encode_row, make_row
from pipelines.demo.text import extract

ROOT = Path(__file__).parents[2]

WHOLE = {"key": str, "type": str, "value": str}
LOCAL = WHOLE | {"char_start_idx": int, "char_end_idx": int}
RANKED = LOCAL | {"relative_start_pos": int, "relative_end_pos": int}
SCHEMA: dict[str, Any] = {  # CLIENTS.md 1.1; a dict stands for a list of such entries
    "c4_shard": int,
    "c4_timestamp": str,
    "html": str,
    "url": str,
    "metadata_html": RANKED | {"html_attrs": dict},
    "text": str,
    "html_footer": list,
    "html_head": list,
    "html_title": list,
    "HtmlPreprocessor_error": int,
    "HtmlPreprocessor_error_comment": str,
    "metadata_url": WHOLE,
    "metadata_timestamp": WHOLE,
    "metadata_generation_length_text": WHOLE,
    "metadata_generation_length_sentence": LOCAL,
    "metadata_generation_datasource": WHOLE,
    "metadata_website_desc": WHOLE,
    "metadata_title": WHOLE,
    "metadata_paragraph": LOCAL | {"marker": str},
}
ENTITY_SCHEMA = {"metadata_entity": LOCAL, "metadata_entity_paragraph": RANKED}
KEYS = {  # CLIENTS.md 1.2: where the key of the entries is not the name of the column
    "website_desc": "website_description",
    "generation_datasource": "datasource",
    "generation_length_text": "length",
    "generation_length_sentence": "length",
}


class Corpus(NamedTuple):
    out: Path
    again: Path
    facts: CorpusFacts
    printed: str


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """The corpus twice, by two processes that have as little in common as two processes can have."""
    out, again = tmp_path_factory.mktemp("corpus"), tmp_path_factory.mktemp("again")
    facts = (
        "import dataclasses, json, pathlib, sys; from pipelines.demo.corpus import make_corpus;"
        "print(json.dumps(dataclasses.asdict(make_corpus(pathlib.Path(sys.argv[1])))))"
    )
    one = _start(["-c", facts, str(out)], PYTHONHASHSEED="1", TZ="UTC")
    two = _start(["-m", "pipelines.demo.corpus", str(again)], PYTHONHASHSEED="2", TZ="Asia/Tokyo", PYTHONDOCS="x:/y")
    facts_json, printed = one.communicate()[0], two.communicate()[0]
    assert (one.returncode, two.returncode) == (0, 0)
    return Corpus(out, again, CorpusFacts(**json.loads(facts_json)), printed)


@pytest.fixture(scope="module")
def rows(made: Corpus) -> list[tuple[int, str, str, str, bytes, set[str]]]:
    """Of each readable row: file, url, text, html, line, present metadata types."""
    return [
        (
            file,
            row["url"],
            row["text"],
            row["html"],
            line,
            {name[9:] for name in row if name[:8] == "metadata" and row[name]},
        )
        for file in range(8)
        for line, row in _readable(made.out, file)
    ]


def _start(arguments: list[str], **env: str) -> subprocess.Popen[str]:
    env = {"PATH": os.defpath, "HOME": str(Path.home()), "PYTHONPATH": str(ROOT), **env}
    return subprocess.Popen([sys.executable, *arguments], env=env, stdout=subprocess.PIPE, text=True)


def _lines(out: Path, file: int) -> list[bytes]:
    return [line for line in gzip.decompress((out / file_name(file)).read_bytes()).splitlines() if line]


def _broken_because(line: bytes) -> str | None:
    """The reason of docs/FORMAT.md, section 5; None for a row that can be read."""
    try:
        row = json.loads(line.decode("utf-8"), parse_constant=lambda name: pytest.fail)
    except UnicodeDecodeError:
        return "not-utf8"
    except json.JSONDecodeError:
        return "not-json"
    if not isinstance(row, dict):
        return "not-an-object"
    if pytest.fail in row.values():
        return "not-json"
    if "url" not in row:
        return "missing-field"
    return None if isinstance(row["url"], str) else "wrong-type"


def _readable(out: Path, file: int) -> Iterator[tuple[bytes, dict[str, Any]]]:
    return ((line, json.loads(line)) for line in _lines(out, file) if _broken_because(line) is None)


def test_the_facts_are_those_of_the_files(made: Corpus, rows: list[Any]) -> None:
    lines = [line for file in range(8) for line in _lines(made.out, file)]
    urls = {row[1] for row in rows}
    assert sorted(os.listdir(made.out)) == [f"c4-en-html_cc-main-2019-18_pq00-00{n}.jsonl.gz" for n in range(8)]
    assert made.facts == CorpusFacts(
        documents=len(urls),
        rows=len(lines),
        files=8,
        bytes=sum(path.stat().st_size for path in made.out.iterdir()),
        broken_lines=6,
        duplicate_rows=40,
        entity_files=2,
    )
    assert made.facts.documents >= 2000
    assert made.facts.rows == made.facts.documents + made.facts.duplicate_rows + made.facts.broken_lines


def test_one_line_is_printed(made: Corpus) -> None:
    start = f"{made.facts.documents} documents in 8 files, {made.facts.bytes} bytes, "
    assert re.fullmatch(re.escape(start) + r"\d+\.\d s: .*\n", made.printed)


def test_two_processes_write_the_same_bytes(made: Corpus) -> None:
    for file in range(8):
        assert (made.out / file_name(file)).read_bytes() == (made.again / file_name(file)).read_bytes()


@pytest.mark.parametrize("file", range(8))
def test_every_row_has_the_schema(made: Corpus, file: int) -> None:
    schema = SCHEMA | (ENTITY_SCHEMA if file < 2 else {})
    for _, row in _readable(made.out, file):
        assert list(row) == list(schema)
        for name, wanted in schema.items():
            if isinstance(wanted, dict):
                key = KEYS.get(name[9:], name[9:])
                for entry in row[name]:
                    assert entry["key"] == key
                    assert {part: type(value) for part, value in entry.items()} == wanted, (row["url"], name)
                    assert list(entry) == sorted(entry)
            else:
                assert type(row[name]) is wanted
        assert all(type(value) is str for name in ("html_head", "html_footer", "html_title") for value in row[name])


@pytest.mark.parametrize("file", range(8))
def test_the_offsets_of_every_row_lead_to_what_they_say(made: Corpus, file: int) -> None:
    for _, row in _readable(made.out, file):
        text = row["text"]
        for name in ("metadata_html", "metadata_entity_paragraph"):
            assert _ranks_are_unique(row.get(name, []))
        for name in (name for name, wanted in (SCHEMA | ENTITY_SCHEMA).items() if "char_end_idx" in _keys(wanted)):
            assert all(
                0 <= entry["char_start_idx"] <= entry["char_end_idx"] <= len(text) for entry in row.get(name, [])
            )
        assert "".join(entry["value"] for entry in row["metadata_paragraph"]) == text
        for name in ("metadata_paragraph", "metadata_entity"):
            assert all(text[e["char_start_idx"] : e["char_end_idx"]] == e["value"] for e in row.get(name, []))
        lengths = [int(entry["value"]) for entry in row["metadata_generation_length_sentence"]]
        assert lengths == [len(sentence) for sentence in text.split(".")]
        assert all(len(set(map(len, entry["html_attrs"].values()))) == 1 for entry in row["metadata_html"])
        assert row["metadata_generation_length_text"][0]["value"] == str(len(text))


def _keys(wanted: Any) -> set[str]:
    return set(wanted) if isinstance(wanted, dict) else set()


def _ranks_are_unique(entries: list[dict[str, Any]]) -> bool:
    places = Counter(
        (entry[f"char_{side}_idx"], entry[f"relative_{side}_pos"]) for entry in entries for side in ("start", "end")
    )
    return not places or max(places.values()) == 1


def test_the_metadata_types_are_as_frequent_as_in_the_real_files(rows: list[Any]) -> None:
    types = Counter(name for row in rows for name in row[5])
    for name in ("html", "url", "title", "paragraph", "generation_datasource", "generation_length_text"):
        assert types[name] == len(rows)
    assert 0.08 < types["timestamp"] / len(rows) < 0.2
    assert 0.02 < types["website_desc"] / len(rows) < 0.2
    assert {row[0] for row in rows if "entity" in row[5]} == {0, 1}
    assert types["entity"] > 0.9 * sum(row[0] < 2 for row in rows)


def test_the_rows_are_ascii_json_as_pandas_writes_it(rows: list[Any]) -> None:
    for *_, line, _ in rows:
        line.decode("ascii")
        assert re.search(rb"(?<!\\)/", line) is None
        assert b'": ' not in line[:200]


def test_forty_rows_have_a_url_that_stands_elsewhere_too(rows: list[Any]) -> None:
    by_url: dict[str, list[Any]] = {}
    for row in rows:
        by_url.setdefault(row[1], []).append(row)
    doubled = [group for group in by_url.values() if len(group) > 1]
    assert len(doubled) == 40
    assert all(len(group) == 2 and group[0][0] != group[1][0] for group in doubled)
    assert all(first[2] == second[2] for first, second in doubled)
    assert sum(first[4] == second[4] for first, second in doubled) >= 10
    assert sum(first[3] != second[3] for first, second in doubled) == 20


def test_twelve_rows_have_the_text_of_another_url(rows: list[Any]) -> None:
    urls: dict[str, set[str]] = {}
    for row in rows:
        urls.setdefault(row[2], set()).add(row[1])
    twins = [group for group in urls.values() if len(group) > 1]
    assert len(twins) == 12
    assert all(len(group) == 2 for group in twins)


def test_six_lines_are_broken_in_six_ways_and_files(made: Corpus) -> None:
    reasons = [(file, _broken_because(line)) for file in range(8) for line in _lines(made.out, file)]
    broken = sorted((reason, file) for file, reason in reasons if reason)
    names = ["missing-field", "not-an-object", "not-json", "not-json", "not-utf8", "wrong-type"]
    assert [reason for reason, _ in broken] == names
    assert len({file for _, file in broken}) == 6


def test_one_file_has_a_blank_line_one_crlf_one_many_members(made: Corpus) -> None:
    blank, crlf, members = set(), set(), set()
    for file in range(8):
        packed = (made.out / file_name(file)).read_bytes()
        plain = gzip.decompress(packed)
        if b"\n\n" in plain:
            blank.add(file)
        if b"\r\n" in plain:
            assert plain.count(b"\n") == plain.count(b"\r\n")
            crlf.add(file)
        if _members(packed) > 1:
            members.add(file)
    assert (blank, crlf, members) == ({2}, {3}, {4})


def _members(packed: bytes) -> int:
    count = 0
    while packed:
        unpack = zlib.decompressobj(31)
        unpack.decompress(packed)
        packed, count = unpack.unused_data, count + 1
    return count


def test_nothing_tells_on_which_machine_it_was_made(made: Corpus) -> None:
    places = {sys.prefix, sys.base_prefix, os.path.dirname(os.__file__), str(Path.home()), str(made.out)}
    places -= {"/", "/usr", "/usr/local"}
    for file in range(8):
        packed = (made.out / file_name(file)).read_bytes()
        assert packed[:10] == b"\x1f\x8b\x08\0\0\0\0\0" + packed[8:10]  # no file name, no time
        plain = gzip.decompress(packed)
        for place in places:
            assert place.encode() not in plain
            assert place.replace("/", "\\/").encode() not in plain
        assert re.search(rb"(?: |&nbsp;)at(?: |&nbsp;)0x[0-9a-f]{6}", plain) is None


def test_a_page_that_names_this_machine_and_a_giant_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    urls = [page.url for page in pages.render_pages([json])]
    assert urls[0] == "https://docs.python.example/3/library/json.html"
    assert "https://docs.python.example/3/library/json/JSONEncoder.html" in urls
    with monkeypatch.context() as patch:
        patch.setattr(pages, "machine_paths", lambda: ("Lib/json",))
        assert [page.url for page in pages.render_pages([json])] == urls[1:]
    monkeypatch.setattr(pages, "MAX_HTML", 10)
    assert list(pages.render_pages([json])) == []


def test_rendering_leaves_inspect_as_it_was() -> None:
    before = inspect.getcomments
    assert list(pages.render_pages([json]))
    assert inspect.getcomments is before


def test_a_module_that_is_not_there_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MODULES", ("json", "no_such_module", "re"))
    assert [module.__name__ for module in pages.load_modules()] == ["json", "re"]


def test_a_run_that_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lines() -> Iterator[corpus.Line]:
        yield corpus.Line("document", 0, b"{}")
        raise OSError("disk full")

    monkeypatch.setattr(corpus, "corpus_lines", lines)
    with pytest.raises(OSError, match="disk full"):
        make_corpus(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_text_and_tags_of_a_page() -> None:
    html = (
        "<html><head><title>no</title></head><body><h1>A&nbsp; <b>title</b></h1>one<br>two <i>x</i><hr></body></html>"
    )
    found = extract(html)
    assert found.text == "A title\none\ntwo x\n"
    assert [(tag.name, found.text[tag.start : tag.end]) for tag in found.tags] == [
        ("b", "title"),
        ("h1", "A title\n"),
        ("i", "x"),
        ("hr", ""),
        ("body", found.text),
    ]
    assert [paragraph.marker for paragraph in found.paragraphs] == ["h1", "remainder+lf", "remainder"]
    assert [(tag.start_rank, tag.end_rank) for tag in found.tags] == [(0, 0), (1, 0), (0, 0), (0, 1), (0, 2)]


def test_offsets_count_code_points() -> None:
    found = extract("<p>\N{GRINNING FACE}<b>ü</b></p>")
    assert [(tag.name, tag.start, tag.end) for tag in found.tags] == [("b", 1, 2), ("p", 0, 3)]


def test_entities_are_widened_to_their_paragraph() -> None:
    page = pages.Page(
        "https://docs.python.example/3/library/a/B_c.html", "<p>zipfile and json</p><p>json, json</p>", False
    )
    row = make_row(page, extract(page.html), frozenset(["zipfile", "json"]))
    assert [entry["value"] for entry in row["metadata_entity"]] == ["zipfile", "json", "json", "json"]
    spans = [
        (e["value"], e["char_start_idx"], e["char_end_idx"], e["relative_start_pos"], e["relative_end_pos"])
        for e in row["metadata_entity_paragraph"]
    ]
    assert spans == [("zipfile", 0, 17, 0, 0), ("json", 0, 17, 1, 1), ("json", 17, 28, 2, 0)]
    source = row["metadata_generation_datasource"][0]["value"]
    assert source == "docs.python.example > 3 > library > a > B c html"


@pytest.mark.parametrize(("words", "kept"), [(4, False), (5, True), (50, True), (51, False)])
def test_a_description_has_five_to_fifty_words(words: int, kept: bool) -> None:
    page = pages.Page("https://a.example/b.html", "<p>x</p>", True, " ".join(["word"] * words))
    assert bool(make_row(page, extract(page.html))["metadata_website_desc"]) is kept


def test_json_style() -> None:
    assert encode_row({"a": ["ü/\n"]}) == b'{"a":["\\u00fc\\/\\n"]}'
