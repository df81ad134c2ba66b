"""The columns of a C4-HTML row as Hugging Face features. Source: bsmetadata, datasetv2.py (features_with_entities)."""

from typing import Any

_STRINGS = ["string"]
_GLOBAL = {"key": "string", "type": "string", "value": "string"}
_LOCAL = {**_GLOBAL, "char_start_idx": "int64", "char_end_idx": "int64"}
_POSITIONS = {"relative_start_pos": "int64", "relative_end_pos": "int64"}

C4_HTML_ROW: dict[str, Any] = {
    "c4_shard": "int64",
    "c4_timestamp": "string",
    "html": "string",
    "url": "string",
    "metadata_html": [{**_LOCAL, **_POSITIONS, "html_attrs": {"attrs": _STRINGS, "values": _STRINGS}}],
    "text": "string",
    "html_footer": _STRINGS,
    "html_head": _STRINGS,
    "html_title": _STRINGS,
    "HtmlPreprocessor_error": "int64",
    "HtmlPreprocessor_error_comment": "string",
    "metadata_url": [_GLOBAL],
    "metadata_timestamp": [_GLOBAL],
    "metadata_generation_length_text": [_GLOBAL],
    "metadata_generation_length_sentence": [_LOCAL],
    "metadata_generation_datasource": [_GLOBAL],
    "metadata_website_desc": [_GLOBAL],
    "metadata_title": [_GLOBAL],
    "metadata_paragraph": [{**_LOCAL, "marker": "string"}],
    "metadata_entity": [_LOCAL],
    "metadata_entity_paragraph": [{**_LOCAL, **_POSITIONS}],
}
"""Column -> type: a name is a scalar, a list of one is a list of it, a dict is a struct."""


def yaml_features(columns: dict[str, Any]) -> list[dict[str, Any]]:
    """`columns` in the form of a card's `dataset_info.features` (what `datasets.Features._to_yaml_list` writes)."""
    return [{"name": name, **_typed(kind)} for name, kind in columns.items()]


def _typed(kind: Any) -> dict[str, Any]:
    if isinstance(kind, dict):
        return {"struct": yaml_features(kind)}
    if isinstance(kind, list):
        [item] = kind
        return {"list": yaml_features(item) if isinstance(item, dict) else item}
    return {"dtype": kind}
