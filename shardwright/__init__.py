"""shardwright: read sealed shard builds from a training job.

    import shardwright

    build = shardwright.open("out/c4")
    for sample in build.split("train"):
        sample.key, sample.parts["txt"], sample.json()

Needs the standard library and xxhash. `pip install 'shardwright[build]'` adds the pipeline that makes builds.
"""

from shardwright.build import Build, Sample, Split, open_build
from shardwright.errors import Damaged, NotSealed, ShardwrightError

open = open_build  # the call a trainer writes: shardwright.open(path)

__all__ = ["Build", "Damaged", "NotSealed", "Sample", "ShardwrightError", "Split", "open"]
__version__ = "0.1.0"
