"""Names that lie on disk: the files of a build, its metadata types. docs/FORMAT.md section 4."""

FORMAT = "shardwright/1"

MANIFEST = "manifest.json"
COMMIT = "COMMIT"
SHARDS = "shards.jsonl"
SHARD_INDEX = "shardindex.json"
DISALLOW = "disallow.json"
CARD = "README.md"
WORK = "_work"
TRAIN = "train"
HELD_OUT = "held_out"
REJECTED = "rejected"
STRUCK = "held_out/struck.bin"
VALIDATION = "validation.jsonl.gz"

FOLDERS = (TRAIN, HELD_OUT, REJECTED)
FILES = (SHARDS, SHARD_INDEX, DISALLOW, CARD, MANIFEST, COMMIT)
"""With FOLDERS, all that a sealed build has at its root."""

METADATA_TYPES = (
    "entity",
    "entity_paragraph",
    "generation_datasource",
    "generation_length_sentence",
    "generation_length_text",
    "html",
    "paragraph",
    "timestamp",
    "title",
    "url",
    "website_desc",
)
"""The suffixes of C4-HTML's `metadata_*` columns (bsmetadata, datasetv2.py); bit i of a type mask is entry i."""
ALL = "all"
"""Name of the held-out set that holds every held-out document."""

_VALIDATION = "bs-modeling-metadata/c4-en-html-with-validation_metadata_{}"


def shard_stem(split: str, number: int, count: int) -> str:
    """`train/train-00003-of-00032`: fixed width, so that braces, globs and Hugging Face splits all read it."""
    width = max(5, len(str(count)))
    return f"{split}/{split}-{number:0{width}d}-of-{count:0{width}d}"


def validation_dir(kind: str) -> str:
    """Folder of one held-out set, under the repository name that bsmetadata's evaluation loads (its VLD_DS_IDS)."""
    return f"{HELD_OUT}/{_VALIDATION.format(kind)}"
