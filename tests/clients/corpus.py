"""Documents that a client could stumble over: by their bytes, and by what the first samples do not show."""

import json
from typing import Any

from tests.support import row

ENTITY = ("metadata_entity", "metadata_entity_paragraph")
ABSENT = "generation_length_sentence"
"""The type that no held-out document has, though one in training has."""


def without(value: dict[str, Any], *columns: str) -> dict[str, Any]:
    """A row that lacks columns, as those of 2,500 of the 2,757 real files do."""
    return {name: part for name, part in value.items() if name not in columns}


def pandas_line(value: dict[str, Any]) -> bytes:
    """The style of the real files: no spaces, `\\uXXXX`, and `\\/`."""
    return json.dumps(value, separators=(",", ":")).replace("/", "\\/").encode() + b"\n"


def raw_line(value: dict[str, Any], end: bytes = b"\n") -> bytes:
    """Signs as UTF-8, not escaped."""
    return json.dumps(value, ensure_ascii=False).encode() + end


def _page(number: int, *types: str, **more: Any) -> dict[str, Any]:
    return row(f"http://example.org/{number}", f"{number} " + "some words " * (number * 7 % 23), types, **more)


PLAIN = [without(_page(number, "html", "generation_length_text"), *ENTITY) for number in range(24)]
ENTITIES = [_page(number, "html", "entity", "entity_paragraph", "title") for number in range(100, 112)]

SIGNS = "Grüße, 日本語, العربية, \U0001f9ea, e\u0301, \u2028, \ufeff, \x00, \x7f, \t, \r\n, \\ / \" ' <>&"
LONG = "A sentence that comes again. Grüße. " * 60_000

RARE = [_page(200, "website_desc", "timestamp"), _page(201, "website_desc"), _page(202, "timestamp", ABSENT)]
"""The only ones with these types in training: the first samples show empty lists in these columns."""

LISTS = _page(210, "url", html_head=["<head>", ""], html_title=["<title>ä</title>"], html_footer=["<footer>"] * 3)
MANY = _page(211)
MANY["metadata_html"] = [
    {
        **{"key": "html", "type": "local", "value": tag, "char_start_idx": 0, "char_end_idx": place},
        **{"relative_start_pos": place, "relative_end_pos": 0, "html_attrs": {"attrs": names, "values": names}},
    }
    for place, (tag, names) in enumerate([("p", []), ("a", ["href", "class"]), ("日本", ["ü"]), ("p", [])])
]

EDGES: list[dict[str, Any] | bytes] = [
    raw_line(row("http://example.org/signs", SIGNS, ["html", "title"])),
    pandas_line(row("http://example.org/escaped", SIGNS + " escaped", ["html"])),
    pandas_line(without(row("http://example.org/escaped-19", SIGNS + " 19 columns", ["html"]), *ENTITY)),
    raw_line(row("http://example.org/ü/日本?q=a b", "its address is not ASCII", ["url"])),
    row("http://example.org/very-long", LONG, ["html"]),
    row("http://example.org/empty-text", "", ["title"]),
    row("http://example.org/bare", "no metadata at all", []),
    raw_line(row("http://example.org/crlf", "its line ends as on Windows", ["html"]), b"\r\n"),
    raw_line(row("http://example.org/spaces", "spaces before its line end", ["html"]), b" \t \n"),
    raw_line(without(row("http://example.org/spaces-19", "and a column less", ["html"]), *ENTITY), b"  \n"),
    without(row("http://example.org/one-column", "one entity column of two", ["html", "entity"]), ENTITY[1]),
    row("http://example.org/null", "null for a list", ["html"], metadata_title=None, html_title=None),
    raw_line(row("http://example.org/text-twice", "the last counts")).replace(b'{"', b'{"text": "the first", "', 1),
    b"\n",
    LISTS,
    MANY,
    *RARE,
]

HELD: list[dict[str, Any]] = [
    _page(300, "html", "title", "url", "entity", "entity_paragraph"),
    _page(301, "website_desc", "generation_datasource", "generation_length_text"),
    _page(302, "paragraph", "timestamp", "html", html_head=["<head>"], metadata_url=None),
    without(_page(303, "html"), *ENTITY),
    row("http://example.org/held-signs", SIGNS + " held", ["title"]),
    row("http://example.org/held-bare", "held, and of no type", []),
]
HELD[2]["metadata_timestamp"][0]["value"] = "2018-12-10 00:00:00"

TWIN = row("http://example.net/twin", HELD[0]["text"], ["html"])
SAME_ID = row(HELD[1]["url"], "another text under a held-out address", ["html"])

FILES: dict[str, list[dict[str, Any] | bytes]] = {
    "plain-000.jsonl.gz": [*PLAIN, TWIN],
    "entity-000.jsonl.gz": [*ENTITIES, SAME_ID, PLAIN[3]],
    "edges.jsonl": EDGES,
    "held-000.jsonl.gz": HELD,
}
HELD_FILES = ["held-000.jsonl.gz"]
FRACTION = 0.055
"""Of the rows of the other files it takes two of ENTITIES, and none of EDGES."""
SHARDS = 4
SECTIONS: dict[str, Any] = {
    "held_out": {"files": HELD_FILES, "fraction": FRACTION},
    "shards": {"count": SHARDS},
}

COUNTS = {"read": 63, "held_out": 8, "held_out_twin": 2, "duplicate": 1, "train": 52, "dropped": {}}
