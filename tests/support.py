"""What tests share: rows of the real schema, input files, and a whole build run inside this process."""

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import shardwright
from pipelines.config import Config
from pipelines.pinned import pin, read_pinned
from pipelines.plan import make_plan
from shardwright.build import Build
from transforms.records.c4_html import METADATA_TYPES

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
"""Real documents beside the project; tests that want them skip where they are absent."""

_LOCAL = ("html", "paragraph", "generation_length_sentence", "entity", "entity_paragraph")


def row(url: str, text: str, types: Iterable[str] = ("html",), **more: Any) -> dict[str, Any]:
    """A row of all 21 columns that carries the metadata `types`; `more` sets or adds columns."""
    value: dict[str, Any] = {
        "c4_shard": 1,
        "c4_timestamp": "2019-04-18T00:00:00Z",
        "html": f"<p>{text}</p>",
        "url": url,
        "text": text,
        "html_footer": [],
        "html_head": [],
        "html_title": [],
        "HtmlPreprocessor_error": 0,
        "HtmlPreprocessor_error_comment": "",
    }
    value |= {f"metadata_{kind}": [] for kind in METADATA_TYPES}
    value |= {f"metadata_{kind}": [_entry(kind, text)] for kind in types}
    return value | more


def _entry(kind: str, text: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"key": kind, "type": "global", "value": "v"}
    if kind in _LOCAL:
        entry |= {"type": "local", "char_start_idx": 0, "char_end_idx": len(text)}
    if kind in ("html", "entity_paragraph"):
        entry |= {"relative_start_pos": 0, "relative_end_pos": 0}
    if kind == "html":
        entry["html_attrs"] = {"attrs": ["class"], "values": ["x"]}
    if kind == "paragraph":
        entry["marker"] = "p"
    return entry


def line(value: Any) -> bytes:
    """One JSON line."""
    return json.dumps(value).encode() + b"\n"


def write_input(path: Path, rows: Iterable[dict[str, Any] | bytes]) -> Path:
    """An input file of `rows` (bytes go in as they are); .gz by its suffix."""
    data = b"".join(item if isinstance(item, bytes) else line(item) for item in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return path


def make_config(output: Path, files: Iterable[Path | str], **sections: Any) -> Config:
    """A config for `files`; `sections` are those of the YAML, as plain values."""
    value = {
        "job": "c4_html",
        "input": {"files": [str(file) for file in files]},
        "output": str(output),
        "shards": {"count": 2},
    }
    return Config.model_validate_json(json.dumps(value | sections))


def run_here(config: Config, *arguments: str) -> Build:
    """Build `config` to its seal in this process, on one in-memory worker; `arguments` are Beam options."""
    from pipelines.engine import run
    from pipelines.runners import beam_options

    one_worker = config.model_copy(update={"runner": config.runner.model_copy(update={"workers": 1})})
    plan = make_plan(one_worker)
    pin(plan, list(arguments))
    pinned, words = read_pinned(plan.spec.root)
    run(pinned, beam_options(pinned.config.runner, words))
    return shardwright.open(config.output)


def build_rows(folder: Path, files: Mapping[str, Iterable[dict[str, Any] | bytes]], **sections: Any) -> Build:
    """Write `files` {name: rows} under `folder`/in and build them into `folder`/out."""
    paths = [write_input(folder / "in" / name, rows) for name, rows in files.items()]
    return run_here(make_config(folder / "out", paths, **sections))
