"""How the engine starts: `python -m pipelines.process OUTPUT`.

Half of Beam's import time goes into pandas and pymongo, which it imports where they are installed (as they are beside
Hugging Face datasets) for transforms that no job here has: 1.2 of 2.5 s of processor time. They are hidden while Beam
is imported, and only then: a function of a user's own may import them as ever.
"""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_UNUSED_BY_US = ("pandas", "pymongo")


@contextmanager
def hidden(*names: str) -> Iterator[None]:
    """Make the import of modules that are not loaded yet fail inside the block, as if they were not installed."""
    absent = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  # None is how the import system says "no"
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


def main(words: list[str]) -> int:
    """Run the engine of one output folder."""
    with hidden(*_UNUSED_BY_US):
        importlib.import_module("apache_beam.runners.worker.sdk_worker_main")
    from pipelines import engine

    [root] = words
    return engine.main(root)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
