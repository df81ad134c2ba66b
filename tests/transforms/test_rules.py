"""Filter rules: every option shows its effect, and the reasons are exact."""

import pytest

from transforms.records.c4_html import METADATA_TYPES
from transforms.records.document import Document
from transforms.records.rules import RequireTypes, type_bit, types_of


def document(*types: str) -> Document:
    return Document(1, b"{}", ("u",), b"t", sum(1 << METADATA_TYPES.index(kind) for kind in types))


def test_without_options_everything_is_kept() -> None:
    assert RequireTypes()(document()) is None


@pytest.mark.parametrize(
    ("types", "reason"),
    [
        ((), "missing:html"),
        (("url",), "missing:html"),
        (("html",), "missing:url"),
        (("html", "url"), None),
        (("html", "url", "title"), None),
    ],
)
def test_all_of_wants_each_type_and_names_the_first_that_is_absent(types: tuple[str, ...], reason: str | None) -> None:
    assert RequireTypes(all_of=("html", "url"))(document(*types)) == reason


@pytest.mark.parametrize(
    ("types", "reason"),
    [
        ((), "missing-any:html|url"),
        (("title",), "missing-any:html|url"),
        (("html",), None),
        (("url",), None),
        (("html", "url"), None),
    ],
)
def test_any_of_wants_one_type_and_names_them_all(types: tuple[str, ...], reason: str | None) -> None:
    assert RequireTypes(any_of=("html", "url"))(document(*types)) == reason


@pytest.mark.parametrize(
    ("types", "reason"),
    [
        ((), "missing:title"),
        (("html",), "missing:title"),
        (("title",), "missing-any:html|url"),
        (("title", "url"), None),
    ],
)
def test_with_both_options_all_of_is_asked_first(types: tuple[str, ...], reason: str | None) -> None:
    assert RequireTypes(all_of=("title",), any_of=("html", "url"))(document(*types)) == reason


@pytest.mark.parametrize("kind", METADATA_TYPES)
def test_every_type_can_be_required(kind: str) -> None:
    others = [other for other in METADATA_TYPES if other != kind]
    for rule, reason in (
        (RequireTypes(all_of=(kind,)), f"missing:{kind}"),
        (RequireTypes(any_of=(kind,)), f"missing-any:{kind}"),
    ):
        assert rule(document(kind)) is None
        assert rule(document(*others)) == reason


def test_bit_i_of_a_mask_is_entry_i_of_the_types() -> None:
    assert [type_bit(kind) for kind in METADATA_TYPES] == [1 << bit for bit in range(len(METADATA_TYPES))]


def test_a_mask_names_its_types_in_their_order() -> None:
    assert types_of(0) == []
    assert types_of(type_bit("url") | type_bit("entity")) == ["entity", "url"]
    assert types_of((1 << len(METADATA_TYPES)) - 1) == list(METADATA_TYPES)
