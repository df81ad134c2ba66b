"""What bsmetadata's evaluation does with the held-out sets, and what Hugging Face `datasets` makes of a JSON row."""

import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}

_NO_NETWORK = """
import socket
def refuse(*words):
    raise AssertionError(f"a client wanted the network: {words}")
socket.socket.connect = socket.getaddrinfo = refuse
"""

THE_CALL = """
from datasets import load_dataset
dataset = load_dataset("bs-modeling-metadata/c4-en-html-with-validation_metadata_html", split="validation")
found = list(dataset)
"""
"""Word for word as in bsmetadata/evaluation.py, but that it takes the name from a list."""

EVERY_SET = """
import sys
from datasets import load_dataset
found = {}
for suffix in sys.argv[1:]:
    try:
        dataset = load_dataset(f"bs-modeling-metadata/c4-en-html-with-validation_metadata_{suffix}", split="validation")
        found[suffix] = list(dataset)
    except Exception as error:
        found[suffix] = f"{type(error).__name__}: {error}"
"""


def run_in(folder: Path, home: Path, script: str, *words: str) -> Any:
    """What `found` is after `script` ran in a process of its own, in `folder`, with a cache of its own and offline."""
    whole = f"{_NO_NETWORK}{script}\nimport json; print('FOUND', json.dumps(found), sep='')"
    environment = os.environ | OFFLINE | {"HF_HOME": str(home), "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", whole, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.rpartition("FOUND")[2])


def moments(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """`rows` with `c4_timestamp` as the moment it means.

    The JSON reader of `datasets` lets pyarrow guess a column's type before it looks at the features, and a column of
    ISO 8601 strings comes out of that as `2019-04-18 00:00:00`. It does so with any JSON file, the original ones too.
    """
    return [row | {"c4_timestamp": _moment(row["c4_timestamp"])} for row in rows]


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=None)
