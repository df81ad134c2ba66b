"""Unchanged wids reads the training samples by number through shardindex.json.

wids imports torch, 2.9 GB that the development environment does not have. Where torch is not installed, a stand-in of
ten lines (conftest.py, `torch_stand_in`) gives it the three names that it uses: two empty base classes and
`is_initialized`. All code that reads shards is wids' own.
"""

import random

import pytest


@pytest.fixture
def dataset(wids, built, tmp_path, monkeypatch):
    monkeypatch.setenv("WIDS_CACHE", str(tmp_path / "cache"))
    opened = wids.ShardListDataset(str(built.root / "shardindex.json"), transformations=[], lru_size=2)
    yield opened
    opened.close()


def as_read(sample):
    return sample["__key__"], sample[".json"].read(), sample[".txt"].read()


def as_put_in(recount):
    return [(key, row.data, row.text.encode()) for key, row in recount.train.items()]


def test_length(dataset, expected, built):
    assert len(dataset) == len(expected.train)
    assert dataset.lengths == [shard.samples for shard in built.shards]


def test_every_sample_in_order(dataset, expected):
    assert [as_read(dataset[number]) for number in range(len(dataset))] == as_put_in(expected)


def test_any_sample_in_any_order(dataset, expected, built):
    """With fewer shards open than there are, so that they come and go."""
    numbers = list(range(len(dataset))) * 2
    random.Random(5).shuffle(numbers)
    rows = as_put_in(expected)
    for number in numbers:
        sample = dataset[number]
        assert as_read(sample) == rows[number]
        shard = built.shards[sum(number >= end for end in dataset.cum_lengths)]
        assert sample["__shard__"] == str(shard.path)
    assert dataset.get_stats()[1] > len(built.shards)


def test_its_decoders_know_the_suffixes(wids, built, expected, tmp_path, monkeypatch):
    """Its default, and an index named relative to the current folder."""
    monkeypatch.setenv("WIDS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(built.root)
    with pytest.warns(UserWarning, match="String specifications"):
        dataset = wids.ShardListDataset("shardindex.json")
    samples = [dataset[number] for number in range(len(dataset))]
    found = [(sample["__key__"], sample[".json"], sample[".txt"]) for sample in samples]
    dataset.close()
    assert found == [(key, row.value(), row.text) for key, row in expected.train.items()]


def test_its_sampler_keeps_the_order(wids, dataset):
    with pytest.warns(UserWarning, match="assuming single process"):
        sampler = wids.DistributedChunkedSampler(dataset, shuffle=False)
    assert list(sampler) == list(range(len(dataset)))
