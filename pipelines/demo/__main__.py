"""`make demo`: the whole path on an embedded corpus, from nothing to a verified dataset, each step told as it goes."""

import shutil
import sys
from pathlib import Path

from pipelines.demo.corpus import make_corpus
from shardwright import cli

CORPUS = Path("build/demo/corpus")
CONFIG = "configs/demo.yaml"
OUTPUT = Path("out/demo")

_NEXT = f"""
Made: {OUTPUT}/train/*.tar (the samples, in their global order), {OUTPUT}/held_out/ (validation sets by metadata type),
{OUTPUT}/manifest.json (what went in, what became of every row), {OUTPUT}/README.md (how to load it). Go on with:
  .venv/bin/shardwright inspect {OUTPUT} 3#0           a sample
  .venv/bin/shardwright plan configs/c4_html.yaml      your own files: every key is explained in that config"""


def main() -> int:
    """Make the corpus, build it, verify the build. The demo's own earlier output is replaced."""
    _say("1/3", f"a corpus of real HTML (pydoc's pages of this Python) in {CORPUS}, with 6 broken rows on purpose")
    facts = make_corpus(CORPUS)
    print(f"{facts.documents:,} documents in {facts.files} files, {facts.bytes / 1e6:.1f} MB")
    shutil.rmtree(OUTPUT, ignore_errors=True)
    _say("2/3", f"shardwright build {CONFIG}")
    if status := cli.main(["build", CONFIG]):
        return status
    _say("3/3", f"shardwright verify {OUTPUT}")
    if status := cli.main(["verify", str(OUTPUT)]):
        return status
    print(_NEXT)
    return 0


def _say(step: str, what: str) -> None:
    print(f"\n[{step}] {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
