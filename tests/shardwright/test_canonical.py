"""Equal values are equal bytes."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwright import canonical

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=10
)


def test_golden_text_and_digest() -> None:
    value = {"b": 0.5, "a": [1, None, "é"]}
    assert canonical.dumps(value) == '{"a":[1,null,"é"],"b":0.5}'
    assert canonical.digest(value) == "141c3b694daf9eb6805ece72ad134234c45b5edf27b5594039b6085212fcb467"


@given(VALUES)
def test_what_is_written_reads_back(value: Any) -> None:
    assert json.loads(canonical.dumps(value)) == value


@given(st.dictionaries(st.text(), SCALARS))
def test_the_order_of_keys_does_not_matter(value: dict[str, Any]) -> None:
    assert canonical.dumps(dict(reversed(value.items()))) == canonical.dumps(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": [float("-inf")]}])
def test_what_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical.dumps(value)


def test_file_digest_is_sha256_of_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    assert canonical.file_digest(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
