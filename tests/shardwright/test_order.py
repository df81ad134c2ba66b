"""Order as a pure function. The golden digests were computed with struct and xxhash alone, by docs/FORMAT.md."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwright import order

ROOT = Path(__file__).parents[2]
URL_ID = bytes.fromhex("6533d0eaf030be3ce125984f884f0246")
TEXT = "Grüße 日本"


@pytest.mark.parametrize(
    ("digest", "golden"),
    [
        (order.id_digest(["url"], ["http://example.org/a"]), "6533d0eaf030be3ce125984f884f0246"),
        (order.id_digest(["url", "text"], ["http://example.org/a", TEXT]), "a2fe5a2694c7ff59ba2d669442121321"),
        (order.order_key(0, URL_ID), "79dca57c648b230ef94096ed0da1ebfa"),
        (order.order_key(42, URL_ID), "94f70d6c7daf145659362ab292477099"),
        (order.order_key(2**64 - 1, URL_ID), "5cc6f395b069ff9a06b2383ac3081399"),
        (order.salted_hash("held-out/1", URL_ID), "62751f8a1d24dc3f24030608c9f94ccf"),
        (order.text_digest(TEXT.encode()), "635c6e10315b303bfd270ffddff73d9a"),
        (order.text_digest(b""), "00000000000000000000000000000000"),
        (order.content_digest(b'{"text":"a"}'), "49f10f8ba8aa0b45cabbe87f4cb4ce5f"),
        (order.sample_digest(b"sample bytes"), "0abeef8fa24b612c"),
        (order.fraction_bound(0.25), "40000000000000000000000000000000"),
        (order.fraction_bound(0.1), "1999999999999a000000000000000000"),
    ],
)
def test_golden_digests(digest: bytes, golden: str) -> None:
    assert digest.hex() == golden


def test_a_frame_counts_bytes_not_characters() -> None:
    assert order.frame("日") == b"\x03\x00\x00\x00\xe6\x97\xa5"


def test_fields_of_an_id_do_not_run_into_each_other() -> None:
    fields = ["url", "text"]
    assert order.id_digest(fields, ["a", "bc"]) != order.id_digest(fields, ["ab", "c"])


@given(st.lists(st.text(max_size=3), min_size=2, max_size=2), st.lists(st.text(max_size=3), min_size=2, max_size=2))
def test_two_ids_are_equal_only_when_every_field_is(one: list[str], other: list[str]) -> None:
    fields = ["url", "text"]
    assert (order.id_digest(fields, one) == order.id_digest(fields, other)) == (one == other)


def test_the_namespace_is_part_of_the_id() -> None:
    assert order.id_digest(["url"], ["a"]) != order.id_digest(["text"], ["a"])
    assert order.id_digest(["url", "text"], ["a", "b"]) != order.id_digest(["text", "url"], ["a", "b"])


def test_another_seed_is_another_order() -> None:
    ids = [order.id_digest(["url"], [str(number)]) for number in range(50)]
    orders = {tuple(sorted(ids, key=lambda id16: order.order_key(seed, id16))) for seed in range(5)}
    assert len(orders) == 5


_SORT_A_SET = """
from shardwright.order import id_digest, order_key
urls = {f"http://example.org/{number}" for number in range(200)}
print(" ".join(urls))
print(" ".join(sorted(urls, key=lambda url: order_key(42, id_digest(["url"], [url])))))
"""


def test_order_does_not_depend_on_pythonhashseed() -> None:
    (set_one, order_one), (set_two, order_two) = (_python(_SORT_A_SET, PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert set_one != set_two, "the hash seeds did not do what this test relies on"
    assert order_one == order_two


def _python(code: str, **env: str) -> list[str]:
    everything = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    done = subprocess.run([sys.executable, "-c", code], env=everything, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@given(st.integers(0, 10**12), st.integers(1, 300))
def test_shard_bounds_cut_all_ranks_into_nearly_equal_shards(samples: int, shards: int) -> None:
    bounds = order.shard_bounds(samples, shards)
    assert len(bounds) == shards
    assert (bounds[0][0], bounds[-1][1]) == (0, samples)
    assert all(before[1] == after[0] for before, after in pairwise(bounds))
    sizes = {stop - start for start, stop in bounds}
    assert max(sizes) - min(sizes) <= 1
    assert 0 not in sizes or samples < shards


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=2))
def test_a_larger_fraction_never_holds_out_less(fractions: list[float]) -> None:
    bounds = [order.fraction_bound(fraction) for fraction in sorted(fractions)]
    assert bounds == sorted(bounds)


def test_fraction_zero_holds_out_nothing() -> None:
    assert order.fraction_bound(0.0) == bytes(16)  # and no 16 bytes are below it


@pytest.mark.parametrize("fraction", [0.01, 0.1, 0.5])
def test_a_fraction_holds_out_about_its_share(fraction: float) -> None:
    bound, count = order.fraction_bound(fraction), 20_000
    ids = (order.id_digest(["url"], [str(number)]) for number in range(count))
    share = sum(order.salted_hash("held-out/1", id16) < bound for id16 in ids) / count
    assert share == pytest.approx(fraction, abs=4 * (fraction / count) ** 0.5)


def test_the_shuffle_seed_and_the_salt_are_apart() -> None:
    assert order.salted_hash("a", URL_ID) != order.salted_hash("b", URL_ID)
    assert order.salted_hash("held-out/1", URL_ID) != order.order_key(42, URL_ID)
