"""Turn a page into a row of c4-en-html-with-metadata, as a line of JSON: 19 columns, 21 in files with entities.

Column and entry names, their order and the JSON style are those of the real files (`docs/FORMAT.md`, section 5).
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from pipelines.demo.pages import Page
from pipelines.demo.text import Extract, Paragraph, Tag

Entry = dict[str, Any]
Row = dict[str, Any]

_HEAD = re.compile(r"<head>.*?</head>", re.DOTALL)
_TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)
_WORD = re.compile(r"\w+")


def make_row(page: Page, found: Extract, entities: frozenset[str] | None = None) -> Row:
    """The row of `page`, whose text and tags are `found`; with `entities`, the two entity columns too."""
    title = _TITLE.search(page.html)
    row: Row = {
        "c4_shard": digest(page.url, "shard") % 1024,
        "c4_timestamp": _crawl_time(page.url),
        "html": page.html,
        "url": page.url,
        "metadata_html": [_html_entry(tag) for tag in found.tags],
        "text": found.text,
        "html_footer": [],
        "html_head": _HEAD.findall(page.html),
        "html_title": [title[0]] if title else [],
        "HtmlPreprocessor_error": 0,
        "HtmlPreprocessor_error_comment": "",
        "metadata_url": [_whole("url", page.url)],
        "metadata_timestamp": [_whole("timestamp", day) for day in _release_day() if page.is_module],
        "metadata_generation_length_text": [_whole("length", str(len(found.text)))],
        "metadata_generation_length_sentence": list(_sentence_entries(found.text)),
        "metadata_generation_datasource": [_whole("datasource", _data_source(page.url))],
        "metadata_website_desc": [_whole("website_description", text) for text in _description(page)],
        "metadata_title": [_whole("title", title[1])] if title else [],
        "metadata_paragraph": [_paragraph_entry(found.text, paragraph) for paragraph in found.paragraphs],
    }
    if entities is not None:
        row["metadata_entity"] = list(_entity_entries(found.text, entities))
        row["metadata_entity_paragraph"] = list(_entity_paragraphs(row["metadata_entity"], found.paragraphs))
    return row


def encode_row(row: object) -> bytes:
    """One line of JSON, without its end, in the style of pandas' `to_json`: ASCII, no spaces, slashes escaped."""
    return json.dumps(row, separators=(",", ":")).replace("/", "\\/").encode("ascii")


def digest(url: str, purpose: str) -> int:
    """A number that depends on the url and on nothing else; one for each `purpose`."""
    return int.from_bytes(hashlib.blake2b(url.encode(), digest_size=8, person=purpose.encode()).digest(), "big")


def _whole(key: str, value: str) -> Entry:
    """An entry about the whole document."""
    return {"key": key, "type": "global", "value": value}


def _local(key: str, start: int, end: int, value: str) -> Entry:
    return {"char_end_idx": end, "char_start_idx": start, "key": key, "type": "local", "value": value}


def _html_entry(tag: Tag) -> Entry:
    attrs = {"attrs": [name for name, _ in tag.attrs], "values": [value or "" for _, value in tag.attrs]}
    return {
        "char_end_idx": tag.end,
        "char_start_idx": tag.start,
        "html_attrs": attrs,
        "key": "html",
        "relative_end_pos": tag.end_rank,
        "relative_start_pos": tag.start_rank,
        "type": "local",
        "value": tag.name,
    }


def _paragraph_entry(text: str, paragraph: Paragraph) -> Entry:
    start, end, marker = paragraph
    return {
        "char_end_idx": end,
        "char_start_idx": start,
        "key": "paragraph",
        "marker": marker,
        "type": "local",
        "value": text[start:end],
    }


def _sentence_entries(text: str) -> Iterator[Entry]:
    """The length of each sentence; its span begins at the full stop before it, as upstream has it."""
    start = 0
    for number, sentence in enumerate(text.split(".")):
        end = start + len(sentence) + (number > 0)
        yield _local("length", start, end, str(len(sentence)))
        start = end


def _entity_entries(text: str, names: frozenset[str]) -> Iterator[Entry]:
    """Every word of `text` that is one of `names`."""
    for word in _WORD.finditer(text):
        if word[0] in names:
            yield _local("entity", word.start(), word.end(), word[0])


def _entity_paragraphs(entities: list[Entry], paragraphs: Iterable[Paragraph]) -> Iterator[Entry]:
    """Each paragraph with each entity that it names, once. One counter ranks all ends and beginnings at an offset."""
    ranks: Counter[int] = Counter()
    waiting = iter(entities)
    entity = next(waiting, None)
    for start, end, _ in paragraphs:
        values: dict[str, None] = {}
        while entity is not None and entity["char_start_idx"] < end:
            values[entity["value"]] = None
            entity = next(waiting, None)
        for value in values:
            places = {"relative_end_pos": ranks[end], "relative_start_pos": ranks[start]}
            yield dict(sorted((_local("entity_paragraph", start, end, value) | places).items()))
            ranks[start] += 1
            ranks[end] += 1


def _crawl_time(url: str) -> str:
    """A time of the crawl that the file names speak of, 2019-04-20 to 26."""
    seconds = digest(url, "time") % (7 * 86400)
    days, rest = divmod(seconds, 86400)
    return f"2019-04-{20 + days}T{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}Z"


def _data_source(url: str) -> str:
    """`netloc > directory > page`, with spaces for what separates words."""
    split = urlsplit(url)
    steps = [re.sub(r"[-_.]+", " ", step) for step in split.path.split("/") if step]
    return " > ".join([split.netloc, *steps])


def _description(page: Page) -> list[str]:
    """The summary of a module's page, if it is as long as upstream wants it: 5 to 50 words."""
    return [page.summary] if page.summary and 5 <= len(page.summary.split()) <= 50 else []


@cache
def _release_day() -> list[str]:
    """The day on which this Python was built, as bsmetadata writes a date; nothing if the build does not say."""
    try:
        built = datetime.strptime(" ".join(platform.python_build()[1].split()[:3]), "%b %d %Y")
    except ValueError:
        return []
    return [str(built)]
