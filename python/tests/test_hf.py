"""Hugging Face datasets: there and back."""

import numpy as np
import pytest

import pykiste as ki

datasets = pytest.importorskip("datasets")

from pykiste.hf import from_dataset, to_dataset, to_iterable  # noqa: E402


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def shards(tmp_path):
    paths = [tmp_path / f"{shard}.msgpack" for shard in range(3)]
    for shard, path in enumerate(paths):
        with ki.Writer(path) as writer:
            for number in range(10):
                image = np.full((4, 3), number, np.float32)
                sample = {"key": f"{shard}/{number}", "label": number, "image": image, "data": b"\1" * number}
                writer.write(sample)
    return paths


FEATURES = {
    "key": datasets.Value("string"),
    "label": datasets.Value("int64"),
    "image": datasets.Array2D((4, 3), "float32"),
    "data": datasets.Value("binary"),
}


@pytest.mark.parametrize("num_proc", [None, 2])
def test_there_and_back(shards, tmp_path, num_proc):
    features = datasets.Features(FEATURES)
    table = to_dataset(shards, features=features, num_proc=num_proc, cache_dir=str(tmp_path / "c"))
    assert len(table) == 30 and table[11]["label"] == 1
    made = from_dataset(table, tmp_path / "back.msgpack")
    assert made["samples"] == 30
    ki.merge(shards, tmp_path / "all.msgpack")
    assert ki.diff(tmp_path / "all.msgpack", tmp_path / "back.msgpack")["same"] == 30


def test_a_dataset_that_was_replaced_is_not_taken_from_the_cache(shards, tmp_path):
    one = shards[0]
    assert to_dataset(one, cache_dir=str(tmp_path / "c"))["label"][:3] == [0, 1, 2]
    with ki.Writer(one, overwrite=True) as writer:
        for number in range(10):
            writer.write({"key": f"0/{number}", "label": 9 - number})
    assert to_dataset(one, cache_dir=str(tmp_path / "c"))["label"][:3] == [9, 8, 7]


def test_streams_have_the_shards(shards, tmp_path):
    stream = to_iterable(shards)
    assert stream.num_shards == 3
    assert [row["key"] for row in stream] == [f"{s}/{n}" for s in range(3) for n in range(10)]
    from_dataset(stream.take(5), tmp_path / "five.msgpack", key=lambda row, number: f"n{number}")
    assert list(ki.open(tmp_path / "five.msgpack").keys()) == [f"n{n}" for n in range(5)]


def test_images_are_written_as_their_bytes(tmp_path):
    pytest.importorskip("PIL")
    png = (
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\0\0\0\0:~\x9bU\0\0\0\nIDATx\x9cc`\0\0\0\2"
        b"\0\1H\xaf\xa4q\0\0\0\0IEND\xaeB`\x82"
    )
    table = datasets.Dataset.from_dict({"name": ["a"], "image": [{"bytes": png, "path": None}]})
    table = table.cast_column("image", datasets.Image())
    from_dataset(table, tmp_path / "x.msgpack", key="name")
    assert list(ki.open(tmp_path / "x.msgpack")) == [{"key": "a", "image": png}]


def test_a_row_without_a_key_is_refused(tmp_path):
    table = datasets.Dataset.from_dict({"key": [1, 2]})
    with pytest.raises(ValueError, match="row 0: expected text as its key, found 1"):
        from_dataset(table, tmp_path / "x.msgpack")
    assert not (tmp_path / "x.msgpack").exists()
