"""The documents of the shared build, by the fate that each must meet."""

from typing import Any

from tests.support import row

_WORDS = "Grüße 日本 sixteen shards of letters "


def _document(number: int, types: tuple[str, ...] = ("html",)) -> dict[str, Any]:
    """Texts of very different lengths, so that no two shards have the same offsets."""
    return row(f"http://example.org/{number}", f"{number} {_WORDS * (number * 7 % 40)}", types)


KEPT = [_document(number, ("html", "title") if number % 3 else ("html",)) for number in range(22)]
"""Train, or are held out by the fraction."""

CONTROL = row("http://example.org/\x1b]0;url\x07", "text \x1b[31m\x9b \u202e \r end", ["html"])
"""Acts on a terminal, in its text and in its url."""

EMPTY_TEXT = row("http://example.org/empty", "", ["title"])

HELD = [_document(100), _document(101, ("html", "title")), _document(102, ("title", "url"))]
EMPTY_HELD = row("http://example.org/empty-held", "", ["html"])
"""An empty text is nobody's twin: EMPTY_TEXT trains none the less."""

DROPPED_HELD = row("http://example.org/bare", "no type at all, and yet no other document may have this text", [])
TWIN = row("http://example.org/twin", HELD[0]["text"], ["title"])
TWIN_OF_DROPPED = row("http://example.org/twin-of-dropped", DROPPED_HELD["text"], ["title"])

NOT_JSON = b"{not json\n"
TORN = b"\x28\xb5\x2f\xfd\x00"
"""The head of a zstd frame, and then nothing."""

FILES: dict[str, list[dict[str, Any] | bytes]] = {
    "a.jsonl.gz": KEPT[:11],
    "b.jsonl": [*KEPT[11:], KEPT[0], TWIN, TWIN_OF_DROPPED, NOT_JSON, CONTROL, EMPTY_TEXT, _document(50, ("url",))],
    "held.jsonl": [*HELD, EMPTY_HELD, DROPPED_HELD],
    "torn.jsonl.zst": [TORN],
}

SECTIONS: dict[str, Any] = {
    "filter": {"require": {"any_of": ["html", "title"]}},
    "held_out": {"files": ["held.jsonl"], "fraction": 0.1},
    "limits": {"rejected_inputs": 1, "rejected_rows": 1},
    "shards": {"count": 3},
}
