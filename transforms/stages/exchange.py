"""The one shape of a stage: a GroupByKey on an int key, then a FlatMap over (key, references).

Elements are `(int, str)`, the text a JSON reference of well under 1 MB: strings hash differently in each process, and
a payload in a GroupByKey costs five times its size in memory on the local runner. No side inputs, tagged outputs,
state or finish_bundle: each of them breaks on one of the engines that this chain must run on unchanged.
"""

import errno
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import apache_beam as beam

from shardwright.errors import ShardwrightError
from transforms.stages import progress
from transforms.stages.work import FAILURE, publish, work_path

Element = tuple[int, str]
S = TypeVar("S")


@dataclass(frozen=True)
class _Call(Generic[S]):
    """Picklable FlatMap body: decode the references of one key, run the stage's function, encode what it yields."""

    function: Callable[[S, int, list[Any]], Iterable[tuple[int, Any]]]
    settings: S
    root: str

    def __call__(self, group: tuple[int, Iterable[str]]) -> Iterator[Element]:
        key, values = group
        try:
            with progress.task(self.root, self.function.__name__, key):
                for out, value in self.function(self.settings, key, [json.loads(value) for value in values]):
                    yield out, json.dumps(value)
        except ShardwrightError as error:
            publish(work_path(self.root, FAILURE), str(error).encode())
            raise
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):  # what was half written is gone by now: a line fits again
                publish(work_path(self.root, FAILURE), _full_disk(self.root, error).encode())
            raise


def _full_disk(root: str, error: OSError) -> str:
    return (
        f"{root}: {error.strerror}. A build needs about 2.2 times its samples there until it is sealed. Nothing was "
        "published; finished work is kept: free some space and give the same command again"
    )


def exchange(
    elements: beam.PCollection[Element],
    function: Callable[[S, int, list[Any]], Iterable[tuple[int, Any]]],
    settings: S,
    root: str,
) -> beam.PCollection[Element]:
    """`function(settings, key, references)` for each key; what it yields, (int, JSON value), are the next stage's
    elements.
    """
    call = _Call(function, settings, root)
    return elements | "Exchange" >> beam.GroupByKey() | "Apply" >> beam.FlatMap(call).with_output_types(tuple[int, str])
