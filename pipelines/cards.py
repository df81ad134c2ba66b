"""Dataset cards: the README.md files whose YAML makes `datasets.load_dataset(<folder>)` work, because it fixes the
features.

Without it Hugging Face infers the columns from the first rows, and a list that is empty there breaks the load later on.
"""

import io
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from ruamel.yaml import YAML

from pipelines.features import C4_HTML_ROW, yaml_features


@dataclass(frozen=True)
class C4HtmlCards:
    """Cards of a C4-HTML build."""

    def build(self, manifest: dict[str, Any]) -> str:
        """The README.md of the whole build, from its manifest."""
        columns = {"__key__": "string", "__url__": "string", "json": C4_HTML_ROW, "txt": "string"}
        front = _front("train", "train/*.tar", columns)
        return _render("build_card.md.j2", front=front, manifest=manifest, here="PATH/TO/THIS/FOLDER")

    def held_out(self, kind: str, samples: int) -> str:
        """The README.md of one held-out set."""
        return _render(
            "held_out_card.md.j2",
            front=_front("validation", "validation.jsonl.gz", C4_HTML_ROW),
            kind=kind,
            samples=samples,
        )


def _front(split: str, path: str, columns: dict[str, Any]) -> str:
    """The YAML block at the top of a card."""
    value = {
        "configs": [{"config_name": "default", "data_files": [{"split": split, "path": path}]}],
        "dataset_info": {"features": yaml_features(columns)},
    }
    out = io.StringIO()
    YAML(typ="safe", pure=True).dump(value, out)
    return out.getvalue()


def _render(template: str, **values: Any) -> str:
    """Markdown from our own template; the values are numbers and names of ours, never text from documents."""
    environment = Environment(
        loader=PackageLoader("pipelines"),
        undefined=StrictUndefined,
        autoescape=select_autoescape(default_for_string=False),
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(**values)
