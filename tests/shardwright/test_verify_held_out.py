"""Forged held-out sets, under a seal that agrees with them: only the proof of the sets themselves can find them."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from shardwright import layout
from tests.shardwright.forge import Forger
from tests.shardwright.verdict import Table, assert_found, verdict

forgery = Table()


@forgery("held-out sets are {'all': 5", "make {'all': 4")
def a_row_gone_from_the_full_set(forger: Forger) -> None:
    del forger.held_out["all"][0]
    forger.write_held_out()
    forger.manifest["held_out"]["sets"]["all"] = 5
    forger.balance("held_out", 5)


@forgery("held-out set html")
def a_row_gone_from_the_full_set_and_its_count(forger: Forger) -> None:
    [at, *_] = [at for at, row in enumerate(forger.held_out["all"]) if row["metadata_html"]]
    del forger.held_out["all"][at]
    forger.write_held_out()


@forgery("held-out set html")
def a_row_gone_from_a_types_set(forger: Forger) -> None:
    del forger.held_out["html"][0]
    forger.write_held_out()
    forger.manifest["held_out"]["sets"]["html"] = 4


@forgery("held-out set html")
def a_row_gone_from_a_types_set_and_its_count(forger: Forger) -> None:
    del forger.held_out["html"][0]
    forger.write_held_out()


@forgery("held-out sets are", "'html': 4")
def a_types_set_that_is_not_there(forger: Forger) -> None:
    del forger.held_out["html"]
    for path in (forger.root / layout.validation_dir("html")).iterdir():
        path.unlink()
    forger.write_held_out()


@forgery("held-out set html")
def a_types_row_with_other_metadata(forger: Forger) -> None:
    forger.held_out["html"][0]["metadata_html"][0]["value"] = "forged"
    forger.write_held_out()


@forgery("held-out set html")
def a_types_row_that_carries_another_type(forger: Forger) -> None:
    forger.held_out["html"][0]["metadata_title"] = forger.held_out["title"][0]["metadata_title"]
    forger.write_held_out()


@forgery("held-out set html")
def a_types_row_without_the_type(forger: Forger) -> None:
    forger.held_out["html"][0]["metadata_html"] = []
    forger.write_held_out()


@forgery("held-out set all: not in the order of the salted hash")
def rows_in_another_order(forger: Forger) -> None:
    forger.held_out["all"].reverse()
    forger.write_held_out()


@forgery("held-out set all: not in the order of the salted hash, or an id twice")
def a_row_twice(forger: Forger) -> None:
    forger.held_out["all"].insert(0, forger.held_out["all"][0])
    forger.write_held_out()


@forgery("held-out set all: not in the order of the salted hash")
def another_salt(forger: Forger) -> None:
    forger.manifest["held_out"]["salt"] = "another"


@forgery("held-out set all, row 1 is not on the struck list")
def a_text_that_is_not_struck(forger: Forger) -> None:
    forger.held_out["all"][0]["text"] += "."
    forger.write_held_out()


@forgery("held-out set all, row 5 is not on the struck list")
def an_empty_struck_list(forger: Forger) -> None:
    forger.struck = []
    forger.write_held_out()


@forgery("held-out set all, row 5 is not canonical")
def rows_that_are_not_canonical(forger: Forger) -> None:
    text = "".join(json.dumps(row) + "\n" for row in forger.held_out["all"]).encode()
    (forger.root / layout.validation_dir("all") / layout.VALIDATION).write_bytes(gzip.compress(text, mtime=0))


@forgery("struck.bin", "sorted")
def a_struck_list_out_of_order(forger: Forger) -> None:
    forger.struck.reverse()
    forger.write_held_out()


@forgery("struck.bin", "each once")
def a_struck_list_that_repeats_itself(forger: Forger) -> None:
    forger.struck.insert(0, forger.struck[0])
    forger.write_held_out()


@forgery("struck.bin: 6 rows, expected 7")
def a_struck_list_of_another_count(forger: Forger) -> None:
    forger.manifest["held_out"]["struck"] = 7


@forgery("held-out set all")
def a_text_that_is_no_string(forger: Forger) -> None:
    forger.held_out["all"][0]["text"] = 5
    forger.write_held_out()


@forgery("held-out set all")
def a_row_without_its_id(forger: Forger) -> None:
    del forger.held_out["all"][0]["url"]
    forger.write_held_out()


@pytest.mark.parametrize(("spoil", "words"), forgery.entries)
def test_a_forged_set_is_found(out: Path, spoil: Any, words: tuple[str, ...]) -> None:
    forger = Forger(out)
    spoil(forger)
    forger.seal()
    lines = verdict(out)
    assert lines[0].startswith("ok     files"), "sealed anew, so that no file digest gives it away"
    assert_found(lines, words)


def test_a_held_out_id_that_is_not_the_digest_of_the_files_is_found(out: Path) -> None:
    forger = Forger(out)
    forger.manifest["held_out_id"] = "0" * 64
    forger.commit()
    assert_found(verdict(out), ("held_out_id",))
