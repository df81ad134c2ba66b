"""Unchanged Hugging Face `datasets` reads every training sample, by itself and through the build's card, resumes
exactly, and loads the held-out sets by the names that bsmetadata's evaluation uses.
"""

import pytest

from tests.clients import corpus
from tests.clients.hf import EVERY_SET, THE_CALL, moments, run_in
from tests.clients.oracle import TYPES


def as_read(dataset):
    """(key, row, text) of what `datasets` yields, and nothing else may be in a sample."""
    found = []
    for sample in dataset:
        assert set(sample) == {"__key__", "__url__", "json", "txt"}
        found.append((sample["__key__"], sample["json"], sample["txt"]))
    return found


def as_put_in(recount):
    return [(key, row.value(), row.text) for key, row in recount.train.items()]


def the_features(datasets):
    """The columns of CLIENTS.md 1.1, as bsmetadata's datasetv2.py writes them."""
    string, int64 = datasets.Value("string"), datasets.Value("int64")
    strings = datasets.List(string)
    entry = dict.fromkeys(("key", "type", "value"), string)
    local = {**entry, "char_start_idx": int64, "char_end_idx": int64}
    positions = {"relative_start_pos": int64, "relative_end_pos": int64}
    attributes = {"html_attrs": {"attrs": strings, "values": strings}}
    scalars = ("text", "url", "html", "c4_timestamp", "HtmlPreprocessor_error_comment")
    return {
        **dict.fromkeys(scalars, string),
        **dict.fromkeys(("c4_shard", "HtmlPreprocessor_error"), int64),
        **dict.fromkeys(("html_head", "html_footer", "html_title"), strings),
        **{f"metadata_{kind}": datasets.List(entry) for kind in TYPES},
        "metadata_generation_length_sentence": datasets.List(local),
        "metadata_paragraph": datasets.List({**local, "marker": string}),
        "metadata_html": datasets.List({**local, **positions, **attributes}),
        "metadata_entity": datasets.List(local),
        "metadata_entity_paragraph": datasets.List({**local, **positions}),
    }


@pytest.fixture(scope="module")
def train(load_dataset, built):
    """The training split through the card, streaming."""
    return load_dataset(str(built.root), split="train", streaming=True)


@pytest.fixture(scope="module")
def sets(built, tmp_path_factory):
    """What every held-out set holds, or the error; loaded in held_out/ in another process."""
    return run_in(built.root / "held_out", tmp_path_factory.mktemp("home"), EVERY_SET, "all", *TYPES)


def test_the_first_samples_do_not_show_the_columns(expected):
    """What this module relies on: `datasets` infers columns from five samples, and these show empty lists only."""
    samples = list(expected.train.values())
    for kind in ("website_desc", "timestamp", corpus.ABSENT):
        assert not any(kind in row.types for row in samples[:5])
        assert any(kind in row.types for row in samples[5:])
    assert not any(row.value()["html_head"] for row in samples[:5])


@pytest.mark.parametrize("pattern", ["*.tar", "train-*-of-*.tar", ["train-0000[0-3]-of-00004.tar"]])
def test_every_sample_without_the_card(load_dataset, built, expected, pattern):
    folder = str(built.root / "train")
    dataset = load_dataset("webdataset", data_dir=folder, data_files=pattern, split="train", streaming=True)
    assert as_read(dataset) == as_put_in(expected)


def test_every_sample_from_a_list_of_files(load_dataset, built, expected):
    files = [str(shard.path) for shard in built.shards]
    dataset = load_dataset("webdataset", data_files=files, split="train", streaming=True)
    assert as_read(dataset) == as_put_in(expected)
    assert dataset.num_shards == corpus.SHARDS


def test_every_sample_through_the_card_streaming(train, expected):
    assert as_read(train) == as_put_in(expected)
    assert train.num_shards == corpus.SHARDS


def test_every_sample_through_the_card(load_dataset, built, expected, tmp_path):
    dataset = load_dataset(str(built.root), split="train", cache_dir=str(tmp_path))
    assert len(dataset) == len(expected.train)
    assert as_read(dataset) == as_put_in(expected)
    assert dataset[51]["__key__"] == list(expected.train)[51]


def test_the_features_are_those_of_the_card(load_dataset, built, train, tmp_path):
    import datasets

    string = datasets.Value("string")
    features = {"__key__": string, "__url__": string, "json": the_features(datasets), "txt": string}
    assert train.features == features
    assert load_dataset(str(built.root), split="train", cache_dir=str(tmp_path)).features == features


def test_the_card_has_one_split(load_dataset, built):
    assert list(load_dataset(str(built.root), streaming=True)) == ["train"]


@pytest.mark.parametrize("seen", [0, 1, 12, 13, 14, 30, 51, 52])
def test_a_run_is_resumed_exactly(load_dataset, built, expected, seen):
    """In a shard, at its end and in its first sample, before everything and after."""
    dataset = load_dataset(str(built.root), split="train", streaming=True)
    samples = iter(dataset)
    before = as_read(next(samples) for _ in range(seen))
    again = load_dataset(str(built.root), split="train", streaming=True)
    again.load_state_dict(dataset.state_dict())
    assert before + as_read(again) == as_put_in(expected)


def test_two_nodes_share_the_shards(train, expected):
    from datasets.distributed import split_dataset_by_node

    parts = [as_read(split_dataset_by_node(train, rank=rank, world_size=2)) for rank in (0, 1)]
    rows = as_put_in(expected)
    shards = [rows[:13], rows[13:26], rows[26:39], rows[39:]]
    assert parts == [shards[0] + shards[2], shards[1] + shards[3]]


def test_the_very_call_of_the_evaluation(built, expected, tmp_path):
    rows = run_in(built.root / "held_out", tmp_path, THE_CALL)
    assert moments(rows) == moments(expected.held_set("html"))
    assert len(rows) == 5


@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind != corpus.ABSENT])
def test_a_held_out_set_holds_its_type_and_no_other(sets, expected, kind):
    assert isinstance(sets[kind], list), sets[kind]
    assert moments(sets[kind]) == moments(expected.held_set(kind))
    for row in sets[kind]:
        assert [other for other in TYPES if row[f"metadata_{other}"]] == [kind]
        assert [other for other in TYPES if row[f"metadata_{other}"] is None] == []


def test_the_full_held_out_set_is_the_rows_as_they_came(sets, expected):
    assert isinstance(sets["all"], list), sets["all"]
    assert moments(sets["all"]) == moments([row.value() for row in expected.held])


def test_no_held_out_document_is_in_training(sets, train):
    urls, texts = ({row[name] for row in sets["all"]} for name in ("url", "text"))
    for sample in train:
        assert sample["json"]["url"] not in urls
        assert sample["txt"] not in texts


def test_the_features_of_a_held_out_set_are_those_of_its_card(load_dataset, built, monkeypatch):
    import datasets

    monkeypatch.chdir(built.root / "held_out")
    for kind in ("html", "all"):
        name = f"bs-modeling-metadata/c4-en-html-with-validation_metadata_{kind}"
        assert load_dataset(name, split="validation", streaming=True).features == the_features(datasets)


def test_a_type_without_documents_is_an_error_not_an_empty_set(sets, built):
    name = f"bs-modeling-metadata/c4-en-html-with-validation_metadata_{corpus.ABSENT}"
    assert sets[corpus.ABSENT].startswith("ConnectionError: Couldn't reach 'bs-modeling-metadata/")
    assert not (built.root / "held_out" / name).exists()
    assert corpus.ABSENT not in built.manifest["held_out"]["sets"]
    assert list(built.held_out(corpus.ABSENT)) == []
    card = (built.root / "README.md").read_text()
    assert f"with-validation_metadata_{corpus.ABSENT}" not in card
    assert "with-validation_metadata_html" in card
