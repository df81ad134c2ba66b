"""The plain Hugging Face way: load_dataset, filter, shuffle(seed), webdataset's writer over the rows in their new
order, shard after shard.

The features are given, since only some files have the entity columns and a schema inferred from the first file would be
refused at the next. `--tuned` is what someone who knows the library well may do: filter on Arrow columns, without
making Python objects of them, and let several processes write. No hashes, no sidecars, no twins taken out, no fsync.
"""

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import webdataset
from datasets import Dataset, Features, Value, load_dataset
from multiprocess import Pool

from benchmarks.peers import job
from pipelines.features import C4_HTML_ROW

COLUMN = f"metadata_{job.METADATA}"


def features() -> Features:
    """The columns of all rows."""
    return Features({name: _feature(kind) for name, kind in C4_HTML_ROW.items()})


def _feature(kind: Any) -> Any:
    if isinstance(kind, dict):
        return {name: _feature(inner) for name, inner in kind.items()}
    return [_feature(kind[0])] if isinstance(kind, list) else Value(kind)


def filter_in_arrow(rows: Dataset) -> Dataset:
    """The rows whose column is a non-empty list."""
    kept = rows.with_format("arrow").filter(
        lambda lists: pc.greater(pc.list_value_length(lists), 0), batched=True, input_columns=[COLUMN]
    )
    return kept.with_format(None)


def write_shard(train: Dataset, out: Path, shards: int, number: int) -> None:
    """The part of `train`, in its order, that is shard `number`."""
    with webdataset.TarWriter(str(out / f"train-{number:05d}.tar"), mtime=0) as tar:
        for row in train.shard(shards, number, contiguous=True):
            tar.write({"__key__": job.sample_key(row["url"]), "json": row, "txt": row["text"]})


def main() -> None:
    parser = job.arguments(__doc__)
    parser.add_argument("--tuned", action="store_true", help="filter in Arrow, write in parallel")
    args = parser.parse_args()
    args.out.mkdir(parents=True)
    rows = load_dataset(
        "json",
        data_files=job.inputs(args.corpus),
        features=features(),
        split="train",
        num_proc=args.workers,
        cache_dir=str(args.out / "cache"),
    )
    kept = filter_in_arrow(rows) if args.tuned else rows.filter(bool, input_columns=[COLUMN], num_proc=args.workers)
    held_out = kept.filter(job.is_held_out, input_columns=["url"], fn_kwargs={"fraction": args.fraction})
    train = kept.filter(job.is_training, input_columns=["url"], fn_kwargs={"fraction": args.fraction}).shuffle(job.SEED)
    held_out.to_json(args.out / "held_out.jsonl.gz", compression="gzip")
    write = partial(write_shard, train, args.out, args.shards)
    if args.tuned:
        with Pool(args.workers) as pool:
            pool.map(write, range(args.shards), chunksize=1)
    else:
        for number in range(args.shards):
            write(number)


if __name__ == "__main__":
    main()
