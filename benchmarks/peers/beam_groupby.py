"""The plain Beam way: the documents themselves go through GroupByKey, by bucket; each bucket is sorted and written.

On the local engine it runs in memory, in one process (a pinned FnApiRunner: `DirectRunner` would try to download
another engine first). `--processes` spreads it over worker processes, which is slower and larger: each document is then
piped to the driver and back, the driver still holds them all, and a worker that dies leaves the pipeline hanging. No
hashes, no sidecars, no twins taken out, no fsync; Beam's own text reader is avoided, it accepts truncated .gz files.
"""

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import webdataset
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from benchmarks.peers import job

HELD_OUT = -1
"""The bucket of what is held out."""

Sample = tuple[str, bytes, bytes]
"""Key, row, text."""


def read_lines(path: str) -> Iterator[bytes]:
    """The rows of one file."""
    with gzip.open(path, "rb") as file:
        for line in file:
            yield line.rstrip(b"\r\n")


def parse(line: bytes) -> tuple[bytes, dict[str, Any]]:
    """The row as it is and as a value."""
    return line, json.loads(line)


def has_metadata(parsed: tuple[bytes, dict[str, Any]]) -> bool:
    """The filter."""
    return job.is_kept(parsed[1])


def place(parsed: tuple[bytes, dict[str, Any]], shards: int, fraction: float) -> tuple[int, Sample]:
    """The bucket of a document (its place in the order, cut evenly), with its sample."""
    line, row = parsed
    key = job.sample_key(row["url"])
    bucket = HELD_OUT if job.is_held_out(row["url"], fraction) else int(key[:16], 16) * shards >> 64
    return bucket, (key, line, row["text"].encode())


def write(group: tuple[int, Iterable[Sample]], out: str) -> int:
    """One shard, or the held-out file."""
    bucket, samples = group
    ordered = sorted(samples)
    if bucket == HELD_OUT:
        with gzip.open(Path(out, "held_out.jsonl.gz"), "wb") as file:
            file.writelines(row + b"\n" for _, row, _ in ordered)
        return len(ordered)
    with webdataset.TarWriter(str(Path(out, f"train-{bucket:05d}.tar")), mtime=0) as tar:
        for key, row, text in ordered:
            tar.write({"__key__": key, "json": row, "txt": text})
    return len(ordered)


def main() -> None:
    parser = job.arguments(__doc__)
    parser.add_argument("--processes", action="store_true", help="worker processes instead of one, in memory")
    args = parser.parse_args()
    flags = [f"--direct_num_workers={args.workers}", "--direct_running_mode=multi_processing"] if args.processes else []
    args.out.mkdir(parents=True)
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(flags)) as pipeline:
        _ = (
            pipeline
            | beam.Create(job.inputs(args.corpus))
            | "Read" >> beam.FlatMap(read_lines)
            | "Parse" >> beam.Map(parse)
            | "Filter" >> beam.Filter(has_metadata)
            | "Place" >> beam.Map(place, args.shards, args.fraction).with_output_types(tuple[int, Sample])
            | beam.GroupByKey()
            | "Write" >> beam.Map(write, str(args.out))
        )


if __name__ == "__main__":
    main()
