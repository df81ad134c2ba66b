"""Write the demo corpus: eight files like the real ones, with the faults that real ones have, each of them on purpose.

    python -m pipelines.demo.corpus OUT_DIR

The bytes are a function of the Python installation and of nothing else. It works without a network and as a stream:
memory is the pages of one module and the digests of the texts.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pipelines.demo.pages import SITE, Page, documented_names, load_modules, render_pages
from pipelines.demo.rows import Row, digest, encode_row, make_row
from pipelines.demo.text import Extract, extract

FILES = 8
ENTITY_FILES = 2  # the first ones, as in the real data
BLANK_LINE_FILE, CRLF_FILE, MULTI_MEMBER_FILE = 2, 3, 4
MEMBER_LINES = 100  # of each gzip member of the multi-member file
MIN_TEXT = 160  # characters; a shorter page is a bare signature
DUPLICATES, TWINS = 40, 12
STRIDE = 40  # the faults come from every fortieth page, so that they are spread over the corpus
MIRROR = "https://mirror.python.example/3/library"


@dataclass(frozen=True)
class CorpusFacts:
    """What was written. `rows` counts every line that is not blank: `documents + duplicate_rows + broken_lines`.

    `documents` are the distinct urls of the readable rows, `bytes` the size of the files on disk.
    """

    documents: int
    rows: int
    files: int
    bytes: int
    broken_lines: int
    duplicate_rows: int
    entity_files: int


class Line(NamedTuple):
    """A line, without its end, of file number `file`; `kind` is document, duplicate or broken."""

    kind: str
    file: int
    data: bytes


def make_corpus(out: Path) -> CorpusFacts:
    """Write the corpus into the directory `out`, each file whole or not at all, and say what it holds."""
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / file_name(number) for number in range(FILES)]
    kinds = _write_files(paths, corpus_lines())
    return CorpusFacts(
        documents=kinds["document"],
        rows=kinds.total(),
        files=FILES,
        bytes=sum(path.stat().st_size for path in paths),
        broken_lines=kinds["broken"],
        duplicate_rows=kinds["duplicate"],
        entity_files=ENTITY_FILES,
    )


def file_name(number: int) -> str:
    """The name of file `number`, as the real ones have it."""
    return f"c4-en-html_cc-main-2019-18_pq00-{number:03}.jsonl.gz"


def corpus_lines() -> Iterator[Line]:
    """Every line of the corpus but the blank one, in the order of the pages."""
    modules = load_modules()
    names = documented_names(modules)
    for number, (page, found) in enumerate(_distinct_pages(render_pages(modules))):
        yield _line("document", page, found, names)
        turn, place = divmod(number, STRIDE)
        if place == 0 and turn < DUPLICATES:
            yield _duplicate(page, found, names, changed=turn % 2 == 1)
        elif place == 10 and turn < TWINS:
            yield _line("document", replace(page, url=page.url.replace(SITE, MIRROR)), found, names)
        elif place == 20 and turn < len(BREAKS):
            yield Line("broken", FILES - 1 - turn, BREAKS[turn](make_row(page, found)))


def _distinct_pages(pages: Iterable[Page]) -> Iterator[tuple[Page, Extract]]:
    """Pages of some length, each text once: the only twins are those that are made on purpose."""
    seen: set[bytes] = set()
    for page in pages:
        found = extract(page.html)
        key = hashlib.sha256(found.text.encode()).digest()
        if len(found.text) >= MIN_TEXT and key not in seen:
            seen.add(key)
            yield page, found


def _line(kind: str, page: Page, found: Extract, names: frozenset[str], further: int = 0) -> Line:
    """A row in the file that its url falls into, or in the one `further` on."""
    file = (digest(page.url, "file") + further) % FILES
    return Line(kind, file, encode_row(make_row(page, found, names if file < ENTITY_FILES else None)))


def _duplicate(page: Page, found: Extract, names: frozenset[str], *, changed: bool) -> Line:
    """The same url once more, in the next file; `changed`, with a later state of its html.

    The same bytes where neither file or both have entities, else the one row has two columns more.
    """
    again = replace(page, html=page.html + "\n<!-- crawled again -->") if changed else page
    return _line("duplicate", again, found, names, further=1)


def _half(row: Row) -> bytes:
    line = encode_row(row)
    return line[: len(line) // 2]


def _not_utf8(row: Row) -> bytes:
    return encode_row(row).replace(b'"text":"', b'"text":"\xff\xfe', 1)


def _list(row: Row) -> bytes:
    return encode_row([row])


def _without_url(row: Row) -> bytes:
    return encode_row({key: value for key, value in row.items() if key != "url"})


def _null_url(row: Row) -> bytes:
    return encode_row(row | {"url": None})


def _nan(row: Row) -> bytes:
    return encode_row(row | {"c4_shard": float("nan")})


BREAKS: tuple[Callable[[Row], bytes], ...] = (_half, _not_utf8, _list, _without_url, _null_url, _nan)


def _write_files(paths: list[Path], lines: Iterable[Line]) -> Counter[str]:
    """Deal `lines` to the files and count their kinds. The files get their names when all are complete, or never."""
    temporary = [path.with_name(path.name + ".tmp") for path in paths]
    kinds: Counter[str] = Counter()
    try:
        with ExitStack() as stack:
            files = [stack.enter_context(closing(_LineFile(path, number))) for number, path in enumerate(temporary)]
            for line in lines:
                files[line.file].put(line.data)
                kinds[line.kind] += 1
        for before, after in zip(temporary, paths, strict=True):
            os.replace(before, after)
    finally:
        for path in temporary:
            path.unlink(missing_ok=True)
    return kinds


class _LineFile:
    """One gzip file, with the peculiarity that its number has."""

    def __init__(self, path: Path, number: int) -> None:
        self._raw = path.open("wb")
        self._gzip = _member(self._raw)
        self._end = b"\r\n" if number == CRLF_FILE else b"\n"
        self._member_lines = MEMBER_LINES if number == MULTI_MEMBER_FILE else 0
        self._blank_after = 10 if number == BLANK_LINE_FILE else 0
        self._lines = 0

    def put(self, data: bytes) -> None:
        """Add a line."""
        self._gzip.write(data + self._end)
        self._lines += 1
        if self._lines == self._blank_after:
            self._gzip.write(self._end)
        if self._member_lines and self._lines % self._member_lines == 0:
            self._gzip.close()
            self._gzip = _member(self._raw)

    def close(self) -> None:
        """End the file."""
        self._gzip.close()
        self._raw.close()


def _member(raw: BinaryIO) -> gzip.GzipFile:
    """A gzip member in `raw` that says neither when nor under which name it was written."""
    return gzip.GzipFile(filename="", mode="wb", compresslevel=4, fileobj=raw, mtime=0)


def main() -> None:
    """Write the corpus and print one line about it."""
    parser = argparse.ArgumentParser(description="Write the demo corpus: the standard library's pages as C4-HTML rows.")
    parser.add_argument("out", type=Path, metavar="OUT_DIR")
    out = parser.parse_args().out
    begun = time.monotonic()
    facts = make_corpus(out)
    seconds = time.monotonic() - begun
    print(f"{facts.documents} documents in {facts.files} files, {facts.bytes} bytes, {seconds:.1f} s: {out}")


if __name__ == "__main__":
    main()
