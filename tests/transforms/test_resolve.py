"""Resolve: every row meets the fate that the table of docs/FORMAT.md gives it, in small corpora of every shape."""

import itertools
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xxhash import xxh3_128_digest

from tests.support import line, row
from tests.transforms.test_select_held_out import HALF, OVER, OVER_TOO, UNDER, chosen, struck
from tests.transforms.test_spill import DROPPED, Chain, by_content, flip, order_key, salted
from transforms.records.c4_html import METADATA_TYPES
from transforms.stages.resolve import Placed, decide, resolve
from transforms.stages.runs import ORDER_ROW, KeyRow, Ordered
from transforms.stages.select_held_out import Struck
from transforms.stages.spec import HeldOut, Limit
from transforms.stages.spill import run_path
from transforms.stages.work import BuildRefused


def survivors(chain: Chain) -> list[Ordered]:
    """The training samples in the global order."""
    ranges = sorted((value for _, value in chain.resolve()), key=lambda value: value["range"])
    data = b"".join((chain.work / "ranges" / value["order"]).read_bytes() for value in ranges)
    return [Ordered._make(values) for values in ORDER_ROW.iter_unpack(data)]


def staying(chain: Chain) -> set[tuple[int, int]]:
    """(input, line) of the training samples."""
    return {(item.input, item.row) for item in survivors(chain)}


def fates(chain: Chain) -> tuple[int, int, int, int]:
    """held out, twins, duplicates, training."""
    counts = chain.counts()
    return counts["held_out"], counts["held_out_twin"], counts["duplicate"], counts["train"]


# Each line of the fate table


def test_a_row_that_is_nothing_special_trains(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": [row("a", "1"), row("b", "2")]})
    assert (fates(chain), staying(chain)) == ((0, 0, 0, 2), {(0, 1), (0, 2)})


def test_a_row_with_the_id_of_a_held_out_document_is_its_twin(tmp_path: Path) -> None:
    files = {"a.jsonl": [row("a", "1")], "b.jsonl": [row("a", "other"), row("b", "2")]}
    chain = Chain(tmp_path, files, ["a.jsonl"])
    assert (fates(chain), staying(chain)) == ((1, 1, 0, 1), {(1, 2)})


def test_a_row_with_the_text_of_a_held_out_document_is_its_twin(tmp_path: Path) -> None:
    files = {"a.jsonl": [row("a", "same")], "b.jsonl": [row("other", "same"), row("b", "2")]}
    chain = Chain(tmp_path, files, ["a.jsonl"])
    assert (fates(chain), staying(chain)) == ((1, 1, 0, 1), {(1, 2)})


def test_a_document_under_the_fraction_has_twins_by_text(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": [row(OVER, "same"), row(UNDER, "same"), row(OVER_TOO, "3")]}, held_out=HALF)
    assert (fates(chain), staying(chain)) == ((1, 1, 0, 1), {(0, 3)})


def test_a_document_under_the_fraction_has_twins_by_id(tmp_path: Path) -> None:
    rows = [row(UNDER, "1"), row(UNDER, "2"), row(OVER, "3")]
    chain = Chain(tmp_path, {"a.jsonl": rows}, held_out=HALF)
    assert (fates(chain), staying(chain)) == ((1, 1, 0, 1), {(0, 3)})


def test_an_empty_text_is_nobodys_twin(tmp_path: Path) -> None:
    files = {"a.jsonl": [row("a", "")], "b.jsonl": [row("b", ""), row("c", "")]}
    chain = Chain(tmp_path, files, ["a.jsonl"])
    assert fates(chain) == (1, 0, 0, 2)


@pytest.mark.parametrize("twin", [row("gone", "other"), row("other", "gone too")], ids=["by id", "by text"])
def test_a_dropped_row_of_a_held_out_input_bars_its_twins(tmp_path: Path, twin: dict[str, Any]) -> None:
    held = [row("a", "1"), row("gone", "gone too", **DROPPED)]
    chain = Chain(tmp_path, {"a.jsonl": held, "b.jsonl": [twin, row("b", "2")]}, ["a.jsonl"])
    assert (fates(chain), staying(chain)) == ((1, 1, 0, 1), {(1, 2)})


def test_a_dropped_row_of_another_input_bars_nothing(tmp_path: Path) -> None:
    rows = [row("a", "1", **DROPPED), row("a", "2"), row("b", "1")]
    assert fates(Chain(tmp_path, {"a.jsonl": rows})) == (0, 0, 0, 2)


def test_a_second_row_of_an_id_inside_a_held_out_input_is_a_twin_and_bars_its_own_text(tmp_path: Path) -> None:
    held = by_content(row("a", "1"), row("a", "2"))
    chain = Chain(tmp_path, {"a.jsonl": held, "b.jsonl": [row("b", held[1]["text"]), row("c", "3")]}, ["a.jsonl"])
    assert (chosen(chain), fates(chain), staying(chain)) == ([(0, 1)], (1, 2, 0, 1), {(1, 2)})


def test_a_second_row_with_a_text_inside_a_held_out_input_is_held_out_as_well(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": [row("a", "same"), row("b", "same")], "b.jsonl": [row("c", "3")]}, ["a.jsonl"])
    assert fates(chain) == (2, 0, 0, 1)


def test_a_held_out_inputs_row_is_held_out_and_the_one_under_the_fraction_is_its_twin(tmp_path: Path) -> None:
    smaller, larger = by_content(row(UNDER, "1"), row(UNDER, "2"))
    files = {"a.jsonl": [smaller, row(OVER, smaller["text"])], "b.jsonl": [larger]}
    chain = Chain(tmp_path, files, ["b.jsonl"], held_out=HALF)
    assert (chosen(chain), fates(chain)) == ([(1, 1)], (1, 1, 0, 1))
    assert staying(chain) == {(0, 2)}, "the text of the one that was not chosen bars nothing"


@pytest.mark.parametrize("smaller_first", [True, False])
@pytest.mark.parametrize("one_unit", [True, False])
def test_of_one_id_the_smallest_content_digest_stays_whichever_file_it_is_in(
    tmp_path: Path, smaller_first: bool, one_unit: bool
) -> None:
    first, second = by_content(row("a", "1"), row("a", "2"))[:: 1 if smaller_first else -1]
    chain = Chain(tmp_path, {"a.jsonl": [first], "b.jsonl": [second]})
    chain.units = [chain.inputs] if one_unit else chain.units
    assert (fates(chain), staying(chain)) == ((0, 0, 1, 1), {(0 if smaller_first else 1, 1)})


def test_the_content_digest_covers_the_metadata(tmp_path: Path) -> None:
    rows = by_content(row("a", "1", ["html"]), row("a", "1", ["html", "url"]), row("a", "1", ["html", "title"]))
    assert staying(Chain(tmp_path, {"a.jsonl": rows[::-1]})) == {(0, 3)}


def test_of_equal_rows_one_stays(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": [row("a", "1")] * 2, "b.jsonl": [row("a", "1")]})
    assert (fates(chain), staying(chain)) == ((0, 0, 2, 1), {(0, 1)})


def test_a_twin_by_text_leaves_its_id_to_the_next(tmp_path: Path) -> None:
    barred, free = by_content(row("a", "1"), row("a", "2"))
    chain = Chain(tmp_path, {"a.jsonl": [row("held", barred["text"])], "b.jsonl": [barred, free]}, ["a.jsonl"])
    assert (fates(chain), staying(chain)) == ((1, 1, 0, 1), {(1, 2)})


def test_two_ids_with_one_text_are_no_duplicates(tmp_path: Path) -> None:
    assert fates(Chain(tmp_path, {"a.jsonl": [row("a", "same"), row("b", "same")]})) == (0, 0, 0, 2)


# duplicates: error


def test_duplicates_can_be_an_error_that_names_places_and_ways_out(tmp_path: Path) -> None:
    smaller, larger = by_content(row("a", "1"), row("a", "2"))
    chain = Chain(tmp_path, {"a.jsonl": [row("b", "1"), larger], "b.jsonl": [smaller]}, duplicates_are_errors=True)
    with pytest.raises(BuildRefused) as caught:
        chain.resolve()
    words = str(caught.value)
    assert "several documents have one id (url) and duplicates is 'error'" in words
    assert "for instance input 1 line 1, input 0 line 2 (" in words
    assert "`duplicates: drop`" in words and "`id: [url, text]`" in words


def test_without_duplicates_their_error_is_not_raised(tmp_path: Path) -> None:
    files = {"a.jsonl": [row("a", "1")], "b.jsonl": [row("a", "2"), row("b", "2")]}
    assert fates(Chain(tmp_path, files, ["a.jsonl"], duplicates_are_errors=True)) == (1, 1, 0, 1)


def test_the_error_names_a_duplicate_and_not_a_twin(tmp_path: Path) -> None:
    names = sorted((f"http://{number}" for number in range(20)), key=order_key)
    first, second = next((a, b) for a, b in itertools.pairwise(names) if order_key(a)[0] // 32 == order_key(b)[0] // 32)
    others = [row(first, "barred"), row(first, "1"), row(second, "2"), row(second, "3")]
    chain = Chain(
        tmp_path, {"a.jsonl": [row("held", "barred")], "b.jsonl": others}, ["a.jsonl"], duplicates_are_errors=True
    )
    with pytest.raises(BuildRefused) as caught:
        chain.resolve()
    assert "input 1 line 3" in str(caught.value)


# As a pure function


def placed(key: int, number: int, *, content: int = 1, text: int = 0, types: int = 0, run: int = 0) -> Placed:
    values = KeyRow(bytes([key]) * 16, bytes([content]) * 16, number, 7, bytes([text]) * 16, b"digest!!", 30, types, 0)
    return Placed(values.pack(), run, 1000 + number)


NOTHING_STRUCK = Struck(frozenset(), frozenset())


def test_survivors_say_where_their_bytes_lie_and_where_they_came_from() -> None:
    found, _, _ = decide([placed(3, 9, content=4, run=2)], {}, NOTHING_STRUCK)
    assert found == [Ordered(bytes([3]) * 16, bytes([4]) * 16, b"digest!!", 2, 1009, 30, 9, 7)]


def test_only_the_chosen_row_of_an_id_is_held_out() -> None:
    rows = [placed(3, 1), placed(3, 2), placed(3, 3, content=0)]
    struck_too = Struck(frozenset({bytes([3]) * 16}), frozenset())
    _, counts, _ = decide(sorted(rows), {bytes([3]) * 16: (2, 7)}, struck_too)
    assert counts == {"held_out": 1, "held_out_twin": 2, "duplicate": 0, "train": 0}


def test_no_rows_are_all_fates_at_nought() -> None:
    assert decide([], {}, NOTHING_STRUCK) == ([], {"held_out": 0, "held_out_twin": 0, "duplicate": 0, "train": 0}, {})


def test_types_are_counted_over_the_training_samples_alone() -> None:
    html, url = (1 << METADATA_TYPES.index(kind) for kind in ("html", "url"))
    rows = [
        placed(1, 1, types=html),
        placed(2, 2, types=html | url),
        placed(2, 3, content=9, types=url),
        placed(3, 4, types=html),
        placed(4, 5, text=5, types=url),
    ]
    _, _, types = decide(rows, {}, Struck(frozenset(), frozenset({bytes([5]) * 16})))
    assert types == {"html": 3, "url": 1}


# The stage


def test_a_reference_counts_bytes_and_types_of_the_training_samples(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": [row("a", "1", ["html", "url"]), row("a", "2"), row("b", "3")]})
    references = [value for _, value in chain.resolve()]
    assert sum(value["bytes"] for value in references) == sum(item.length for item in survivors(chain))
    staying_types = sum((Counter(value["types"]) for value in references), Counter[str]())
    url = (0, 1) in staying(chain)
    assert staying_types == Counter(html=2, url=int(url))


def test_a_damaged_run_is_refused(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": [row("a", "1")]})
    elements = chain.select()
    [run] = chain.spill()
    with run_path(chain.spec.root, run["name"]).open("r+b") as file:
        size = file.seek(0, 2)
        file.truncate(size - 1)
    with pytest.raises(BuildRefused, match="damaged on disk"):
        [list(resolve(chain.spec, number, [value])) for number, value in elements]


def test_a_struck_list_that_changed_is_refused(tmp_path: Path) -> None:
    chain = Chain(tmp_path, {"a.jsonl": [row("a", "1")], "b.jsonl": [row("b", "2")]}, ["b.jsonl"])
    elements = chain.select()
    flip(chain.work / chain.selection()["struck"], 3)
    with pytest.raises(BuildRefused, match=r"selection-.*\.struck: damaged on disk"):
        list(resolve(chain.spec, 0, [elements[0][1]]))


# Small corpora of every shape, against the table read as sets


@dataclass(frozen=True)
class Doc:
    """A row of a small corpus: of few ids and few texts, so that they meet."""

    url: str
    text: str
    dropped: bool = False
    broken: bool = False
    variant: int = 0

    def data(self) -> bytes:
        value = row(self.url, self.text, ["title"] if self.dropped else ["html"], c4_shard=self.variant)
        return b"{broken\n" if self.broken else line(value)


@dataclass(frozen=True)
class Corpus:
    files: tuple[tuple[Doc, ...], ...]
    held: frozenset[int]
    fraction: float
    salt: str
    seed: int
    one_unit: bool
    segment_bytes: int


DOCS = st.builds(
    Doc,
    url=st.sampled_from([f"http://{number}" for number in range(6)]),
    text=st.sampled_from(["", "one", "two", "three", "four", "five"]),
    dropped=st.sampled_from([False, False, False, True]),
    broken=st.sampled_from([False] * 7 + [True]),
    variant=st.integers(0, 2),
)


def _usable(corpus: Corpus) -> bool:
    """A held-out input without a readable row is refused, see test_limits.py."""
    return all(
        any(not doc.broken for doc in corpus.files[number]) for number in corpus.held if number < len(corpus.files)
    )


CORPORA = st.builds(
    Corpus,
    files=st.lists(st.lists(DOCS, max_size=8).map(tuple), min_size=1, max_size=4).map(tuple),
    held=st.frozensets(st.integers(0, 3), max_size=2),
    fraction=st.sampled_from([0.0, 0.25, 0.5]),
    salt=st.sampled_from(["salt", "pepper", "sugar"]),
    seed=st.integers(0, 3),
    one_unit=st.booleans(),
    segment_bytes=st.sampled_from([1, 5000, 1 << 20]),
).filter(_usable)

Place = tuple[int, int]


@dataclass(frozen=True)
class Oracle:
    """The fate table of FORMAT.md section 2, over sets of (input, line)."""

    held_out: list[Place]
    twins: set[Place]
    duplicates: set[Place]
    train: list[Place]
    struck: set[bytes]


def oracle(corpus: Corpus) -> Oracle:
    held_inputs = {number for number in corpus.held if number < len(corpus.files)}
    docs = {
        (number, at): doc
        for number, file in enumerate(corpus.files)
        for at, doc in enumerate(file, 1)
        if not doc.broken
    }
    kept = {place for place, doc in docs.items() if not doc.dropped}
    bound = int(corpus.fraction * 2**128)
    barred = {place for place in docs if place[0] in held_inputs}
    picked = {place for place in kept if int.from_bytes(salted(docs[place].url, corpus.salt), "big") < bound}

    def digest(place: Place) -> bytes:
        return xxh3_128_digest(docs[place].data().rstrip())

    def of_id(places: set[Place], url: str) -> set[Place]:
        return {place for place in places if docs[place].url == url}

    eligible = kept & (barred | picked)
    held_out = {
        min(of_id(eligible, url), key=lambda place: (place not in barred, digest(place), place))
        for url in {docs[place].url for place in eligible}
    }
    strikers = held_out | barred
    struck_ids = {docs[place].url for place in strikers}
    struck_texts = {docs[place].text for place in strikers} - {""}
    twins = {place for place in kept - held_out if docs[place].url in struck_ids or docs[place].text in struck_texts}
    left = kept - held_out - twins
    train = {
        min(of_id(left, url), key=lambda place: (digest(place), place)) for url in {docs[place].url for place in left}
    }
    return Oracle(
        held_out=sorted(held_out, key=lambda place: salted(docs[place].url, corpus.salt)),
        twins=twins,
        duplicates=left - train,
        train=sorted(train, key=lambda place: order_key(docs[place].url, corpus.seed)),
        struck={
            order_key(docs[place].url, corpus.seed)
            + (xxh3_128_digest(docs[place].text.encode()) if docs[place].text else bytes(16))
            for place in strikers
        },
    )


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(CORPORA)
def test_every_small_corpus_meets_the_fates_of_the_table(corpus: Corpus) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = {f"{number}.jsonl": [doc.data() for doc in file] for number, file in enumerate(corpus.files)}
        chain = Chain(
            Path(folder),
            files,
            [f"{number}.jsonl" for number in corpus.held],
            held_out=HeldOut(corpus.salt, corpus.fraction),
            seed=corpus.seed,
            segment_bytes=corpus.segment_bytes,
            rejected_rows=Limit(count=100),
        )
        chain.units = [chain.inputs] if corpus.one_unit else chain.units
        expected = oracle(corpus)
        assert chosen(chain) == expected.held_out
        assert struck(chain) == expected.struck
        assert [(item.input, item.row) for item in survivors(chain)] == expected.train
        counts = len(expected.held_out), len(expected.twins), len(expected.duplicates), len(expected.train)
        assert fates(chain) == counts
