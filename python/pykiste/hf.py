"""Hugging Face `datasets`: shards as a `Dataset` or an `IterableDataset`, and back.

>>> import pytest
>>> _ = pytest.importorskip("datasets")
>>> import pykiste as ki
>>> from pykiste.hf import from_dataset, to_iterable
>>> path = getfixture("tmp_path") / "train.msgpack"
>>> with ki.Writer(path) as writer:
...     for number in range(5):
...         writer.write({"key": str(number), "label": number % 2})
>>> stream = to_iterable(path)
>>> [row["label"] for row in stream]
[0, 1, 0, 1, 0]
>>> odd = stream.filter(lambda row: row["label"] == 1)
>>> from_dataset(odd, path.with_name("odd.msgpack"))["samples"]
2
"""

import os

import numpy as np

import pykiste as ki

__all__ = ["from_dataset", "to_dataset", "to_iterable"]


def _shards(paths):
    """Each shard with what tells it from one that replaced it: `datasets` caches by these."""
    paths = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    shards = []
    for path in paths:
        path = os.path.abspath(path)
        with ki.open(path) as dataset:
            shards.append((path, len(dataset), dataset.data_size, os.stat(path).st_mtime_ns))
    return shards


def _samples(shards):
    for path, samples, size, _ in shards:
        with ki.open(path) as dataset:
            if (len(dataset), dataset.data_size) != (samples, size):
                message = f"{path}: expected {samples} samples in {size} bytes, found another dataset"
                raise ki.errors.ReplacedError(message, path=path)
            yield from dataset


def to_dataset(paths, *, features=None, num_proc=None, **options):
    """A `datasets.Dataset` of all samples of a dataset, or of several shards.

    `datasets` copies them to its cache as Arrow, on `num_proc` processes, each with some of the shards. A
    dataset that was replaced is copied again. Without `features` it guesses the types from the first
    samples. Other options are those of `Dataset.from_generator`.
    """
    import datasets

    shards = _shards(paths)
    if num_proc is not None:
        num_proc = min(num_proc, len(shards))
    return datasets.Dataset.from_generator(
        _samples, gen_kwargs={"shards": shards}, features=features, num_proc=num_proc, **options
    )


def to_iterable(paths, *, features=None, **options):
    """A `datasets.IterableDataset` of all samples, which copies nothing. Workers of a `DataLoader` take
    turns at the shards. Other options are those of `IterableDataset.from_generator`."""
    import datasets

    return datasets.IterableDataset.from_generator(
        _samples, gen_kwargs={"shards": _shards(paths)}, features=features, **options
    )


def from_dataset(dataset, path, *, key="key", progress=None, **options):
    """Writes the rows of a `datasets.Dataset` or `IterableDataset`, and returns what was written.

    `key` is the column with the keys, or a function of a row and its number. Columns of images and audio
    are written as the encoded bytes that they are stored as, those of fixed-size arrays as arrays of
    NumPy, all others as the values of Python that they are. `progress` is called with the number of rows
    now and then. Other options are those of `pykiste.Writer`.
    """
    import datasets

    features = dataset.features or {}
    encoded = (datasets.Image, datasets.Audio)
    files = [name for name, feature in features.items() if isinstance(feature, encoded)]
    fixed = (datasets.Array2D, datasets.Array3D, datasets.Array4D, datasets.Array5D)
    arrays = {name: feature.dtype for name, feature in features.items() if isinstance(feature, fixed)}
    for name in files:
        dataset = dataset.cast_column(name, type(features[name])(decode=False))
    with ki.Writer(path, **options) as writer:
        for number, row in enumerate(dataset.with_format(None)):
            for name in files:
                row[name] = _encoded(row[name])
            for name, dtype in arrays.items():
                if row[name] is not None:
                    row[name] = np.asarray(row[name], dtype)
            if callable(key):
                row["key"] = key(row, number)
            elif key != "key":
                row = {"key": row.pop(key), **row}
            if not isinstance(row.get("key"), str):
                message = f"row {number}: expected text as its key, found {row.get('key')!r}"
                raise ki.errors.InvalidError(message)
            writer.write(row)
            if progress is not None and number % 1000 == 0:
                progress(number)
        return writer.close()


def _encoded(file):
    """The bytes of an image or a recording, which may be those of a file elsewhere."""
    if file is None or file["bytes"] is not None:
        return file and file["bytes"]
    with open(file["path"], "rb") as opened:
        return opened.read()
