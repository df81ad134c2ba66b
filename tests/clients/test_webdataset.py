"""Unchanged webdataset reads every training sample, in the global order, equal to the input row."""

import webdataset as wds

from tests.clients import corpus


def shards(built):
    return [str(path) for path in sorted((built.root / "train").glob("*.tar"))]


def as_read(samples):
    """(key, row, text) of what webdataset yields, and nothing else may be in a sample."""
    found = []
    for sample in samples:
        assert {name for name in sample if not name.startswith("__")} == {"json", "txt"}
        found.append((sample["__key__"], sample["json"], sample["txt"]))
    return found


def as_put_in(recount):
    return [(key, row.data, row.text.encode()) for key, row in recount.train.items()]


def test_every_sample_in_order(built, expected):
    found = as_read(wds.WebDataset(shards(built), shardshuffle=False))
    assert found == as_put_in(expected)
    assert len(shards(built)) == corpus.SHARDS


def test_every_edge_of_the_corpus_is_among_them(built, expected):
    edges = {"signs", "escaped", "very-long", "empty-text", "crlf", "spaces", "one-column", "null", "text-twice"}
    found = {sample["txt"].decode() for sample in wds.WebDataset(shards(built), shardshuffle=False)}
    urls = {row.url.removeprefix("http://example.org/") for row in expected.train.values()}
    assert edges <= urls
    assert {corpus.SIGNS, corpus.LONG, "", "the last counts"} <= found
    assert "the first" not in found


def test_a_pipeline_of_its_parts(built, expected):
    pipeline = wds.DataPipeline(wds.SimpleShardList(shards(built)), wds.split_by_worker, wds.tarfile_to_samples())
    assert as_read(pipeline) == as_put_in(expected)


def test_brace_notation(built, expected, monkeypatch):
    monkeypatch.chdir(built.root / "train")
    dataset = wds.WebDataset("train-{00000..00003}-of-00004.tar", shardshuffle=False)
    assert as_read(dataset) == as_put_in(expected)


def test_its_decoders_know_the_suffixes(built, expected):
    dataset = wds.WebDataset(shards(built), shardshuffle=False).decode().to_tuple("__key__", "json", "txt")
    assert list(dataset) == [(key, row.value(), row.text) for key, row in expected.train.items()]


def test_two_nodes_of_two_workers_share_the_shards(built, expected, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("NUM_WORKERS", "2")
    parts = {}
    for rank in (0, 1):
        for worker in (0, 1):
            monkeypatch.setenv("RANK", str(rank))
            monkeypatch.setenv("WORKER", str(worker))
            dataset = wds.WebDataset(shards(built), shardshuffle=False, nodesplitter=wds.split_by_node)
            parts[rank + 2 * worker] = as_read(dataset)
    assert [sample for number in range(4) for sample in parts[number]] == as_put_in(expected)
    assert all(parts.values())
