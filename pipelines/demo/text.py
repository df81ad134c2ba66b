"""Extract the text of a page, with the place of every tag and paragraph in it.

All offsets are code points into the extracted text; an end is exclusive. Tags that begin or end at one offset are
ranked in the order of the page, by one counter for both (`relative_start_pos`, `relative_end_pos` of the row).
"""

from __future__ import annotations

from html.parser import HTMLParser
from typing import NamedTuple

_BLOCK = frozenset(["dd", "div", "dl", "dt", "h1", "h2", "h3", "hr", "li", "ol", "p", "pre", "table", "tr", "ul"])
_CELL = frozenset(["td", "th"])
_VOID = frozenset(["hr", "img"])
_ITEM = frozenset(["dd", "dt"])


class Tag(NamedTuple):
    """An element of the page, or one that is still open (`end` and `end_rank` -1)."""

    name: str
    attrs: list[tuple[str, str | None]]
    start: int
    start_rank: int
    end: int = -1
    end_rank: int = -1


class Paragraph(NamedTuple):
    """A line of the text. `marker` is the block it stands in, with `+lf` when a line break ended it, or `remainder`."""

    start: int
    end: int
    marker: str


class Extract(NamedTuple):
    """A text; its tags in the order in which they end; its paragraphs, which cover it without gap or overlap."""

    text: str
    tags: list[Tag]
    paragraphs: list[Paragraph]


def extract(html: str) -> Extract:
    """Read a whole page. White space is one space, a block or a `<br>` ends a line; `<head>` leaves nothing."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    reader.close_to(0)
    reader.break_line("remainder")
    return Extract("".join(reader.parts), reader.tags, reader.paragraphs)


class _Reader(HTMLParser):
    """Collects the parts of the text and, at each tag, how long the text is by then."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.tags: list[Tag] = []
        self.paragraphs: list[Paragraph] = []
        self._length = 0
        self._line = 0  # where the present line begins
        self._space = False  # white space was read and waits for something to separate
        self._open: list[Tag] = []
        self._ranked = (0, 0)  # the offset of the last tag, and how many tags there are at it
        self._in_head = False

    def handle_data(self, data: str) -> None:
        if self._in_head:
            return
        words = data.split()
        self._space |= data[:1].isspace()
        if words:
            self._put_space()
            self._put(" ".join(words))
            self._space = data[-1:].isspace()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("html", "head") or self._in_head:
            self._in_head = tag != "html"
        elif tag == "br":
            self.break_line(self._block() + "+lf")
        else:
            self._separate(tag)
            opened = Tag(tag, attrs, self._length, self._rank())
            self._open.append(opened)
            if tag in _VOID:
                self._close_last()

    def handle_endtag(self, tag: str) -> None:
        if tag == "head":
            self._in_head = False
        elif not self._in_head:
            for depth in range(len(self._open) - 1, -1, -1):
                if self._open[depth].name == tag:
                    self.close_to(depth)
                    break

    def close_to(self, depth: int) -> None:
        """End the open tags down to `depth` that are left."""
        while len(self._open) > depth:
            self._close_last()

    def break_line(self, marker: str) -> None:
        """End the present line, if there is anything in it."""
        self._space = False
        if self._length > self._line:
            self._put("\n")
            self.paragraphs.append(Paragraph(self._line, self._length, marker))
            self._line = self._length

    def _separate(self, tag: str) -> None:
        """Before a tag begins: a block ends the line and what HTML ends by itself, others let a space through."""
        if tag in _BLOCK:
            self.break_line(self._block())
            last = self._open[-1].name if self._open else ""
            if last == "p" or (last in _ITEM and tag in _ITEM):
                self._close_last()
        elif tag in _CELL:
            self._space = True
        else:
            self._put_space()

    def _close_last(self) -> None:
        tag = self._open.pop()
        if tag.name in _BLOCK:
            self.break_line(tag.name)
        elif tag.name in _CELL:
            self._space = True
        self.tags.append(tag._replace(end=self._length, end_rank=self._rank()))

    def _block(self) -> str:
        return next((tag.name for tag in reversed(self._open) if tag.name in _BLOCK), "remainder")

    def _rank(self) -> int:
        offset, count = self._ranked
        count = count if offset == self._length else 0
        self._ranked = (self._length, count + 1)
        return count

    def _put_space(self) -> None:
        if self._space and self._length > self._line:
            self._put(" ")
        self._space = False

    def _put(self, part: str) -> None:
        self.parts.append(part)
        self._length += len(part)
