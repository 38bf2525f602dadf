"""Hugging Face `datasets`: shards as a `Dataset` or an `IterableDataset`, and back.

>>> import pytest
>>> _ = pytest.importorskip("datasets")
>>> import pykiste as ki
>>> from pykiste.hf import from_dataset, to_dataset, to_iterable
>>> path = getfixture("tmp_path") / "train.msgpack"
>>> with ki.Writer(path) as writer:
...     for number in range(5):
...         writer.write({"key": str(number), "label": number % 2, "box": np.zeros(4, "float32")})
...     writer.set_labels(["even", "odd"])
>>> stream = to_iterable(path)
>>> [row["label"] for row in stream]
[0, 1, 0, 1, 0]
>>> odd = stream.filter(lambda row: row["label"] == 1)
>>> from_dataset(odd, path.with_name("odd.msgpack"))["samples"]
2

A table has features for the samples, and becomes the same samples again:

>>> table = to_dataset(path, cache_dir=str(path.with_name("cache")))
>>> table.features["label"]
ClassLabel(names=['even', 'odd'])
>>> _ = from_dataset(table, path.with_name("again.msgpack"))
>>> again = ki.open(path.with_name("again.msgpack"))
>>> again[3]["box"], again.labels
(array([0., 0., 0., 0.], dtype=float32), ['even', 'odd'])
"""

import os
import time
import warnings
from itertools import islice

import numpy as np

import pykiste as ki
from pykiste import _features

__all__ = ["from_dataset", "to_dataset", "to_iterable"]

# Samples of each shard that features are from, and shards.
_FIRST, _SHARDS = 100, 10
# Seconds between two calls of `progress`.
_EACH = 0.25


def _shards(paths):
    """Each shard with what tells it from one that replaced it: `datasets` caches by these."""
    paths = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    shards = []
    for path in paths:
        path = os.path.abspath(path)
        with ki.open(path) as dataset:
            shards.append((path, len(dataset), dataset.data_size, os.stat(path).st_mtime_ns))
    return shards


def _samples(shards, features=None):
    """The samples of these shards; with features, as `datasets` takes them."""
    for path, samples, size, _ in shards:
        with ki.open(path) as dataset:
            if (len(dataset), dataset.data_size) != (samples, size):
                message = f"{path}: expected {samples} samples in {size} bytes, found another dataset"
                raise ki.errors.ReplacedError(message, path=path)
            if features is None:
                yield from dataset
            else:
                yield from (_features.to_row(sample, features) for sample in dataset)


def _first(shards):
    for path, *_ in shards[:_SHARDS]:
        with ki.open(path) as dataset:
            yield from islice(dataset, _FIRST)


def _labels(shards):
    """The names of the labels, which must be the same in all shards."""
    found = {}
    for path, *_ in shards:
        with ki.open(path) as dataset:
            names = dataset.labels
        found.setdefault(None if names is None else tuple(names), path)
    if len(found) > 1:
        one, other = list(found.values())[:2]
        message = f"expected shards with the same labels, found others in {one} than in {other}"
        raise ki.errors.InvalidError(message)
    names = next(iter(found), None)
    if names is not None and len(set(names)) < len(names):
        raise ki.errors.InvalidError("expected labels with a name of its own for each, as `datasets` has, found one twice")
    return names and list(names)


def to_dataset(paths, *, features=None, label="label", num_proc=None, **options):
    """A `datasets.Dataset` of all samples of a dataset, or of several shards.

    `datasets` copies them to its cache as Arrow, on `num_proc` processes, each with some of the shards. A
    dataset that was replaced is copied again. Other options go to `Dataset.from_generator`.

    Without `features` they come from the first samples: arrays are `Array2D` and so on where their shape allows it, or
    else lists that remember in the `id` of their feature that they are arrays; `ki.Timestamp` is a time in UTC; the
    numbers in the field `label` are a `ClassLabel`, if the dataset has names for them. `from_dataset` makes the same
    samples of them. A sample that has something else than the first ones is an `InvalidError` or a `WrongTypeError`.
    With `features`, `datasets` converts what it can.
    """
    import datasets

    shards = _shards(paths)
    if num_proc is not None:
        num_proc = min(num_proc, len(shards))
    given = {"shards": shards}
    if features is None and any(samples for _, samples, *_ in shards):
        names = _labels(shards)
        features = _features.infer(_first(shards), names, label)
        given["features"] = features
        if names is not None and not isinstance(features.get(label), datasets.ClassLabel):
            message = f"the names of labels are left out, as there are no integers in {label!r}: `label` names their field"
            warnings.warn(message, stacklevel=2)
    try:
        return datasets.Dataset.from_generator(
            _samples, gen_kwargs=given, features=features, num_proc=num_proc, **options
        )
    except datasets.exceptions.DatasetGenerationError as error:
        # Errors of a sample have our words.
        if isinstance(error.__cause__, ki.Error):
            raise error.__cause__ from None
        raise


def to_iterable(paths, *, features=None, **options):
    """A `datasets.IterableDataset` of all samples, which copies nothing. Workers of a `DataLoader` take
    turns at the shards. Other options go to `IterableDataset.from_generator`.

    Without `features` the rows are the samples as they are, with arrays of NumPy, and names of labels are not in them.
    """
    import datasets

    return datasets.IterableDataset.from_generator(
        _samples, gen_kwargs={"shards": _shards(paths)}, features=features, **options
    )


def from_dataset(dataset, path, *, key="key", labels=None, progress=None, **options):
    """Writes the rows of a `datasets.Dataset` or `IterableDataset`, and returns what was written.

    `key` is the column with the keys, or a function of a row and its number. Images and recordings, also in lists and
    dicts, are written as the encoded bytes that they are stored as, `Array2D` and so on as arrays of NumPy, times as
    `pykiste.types.Timestamp` says, all others as the values of Python that they are.

    The names of a `ClassLabel` become the names of the labels. If there are several with different names, `labels` is
    the column whose names they are, or a list of names, or `False` for none. `progress` is called with the number of
    rows about four times a second, and at the end. Other options go to `pykiste.Writer`.
    """
    import datasets

    features = dataset.features
    names = _names(features, labels)
    rows = dataset.with_format(None)
    if features is not None:
        stored = _features.undecoded(features)
        if isinstance(rows, datasets.IterableDataset):
            rows = rows.cast(stored) if stored != features else rows
        else:
            # A copy, whose columns stay as they are stored: nothing is read or written for that.
            rows.info.features = stored
    told, number = time.monotonic(), -1
    with ki.Writer(path, **options) as writer:
        for number, row in enumerate(rows):
            row = _features.from_row(row, features)
            if callable(key):
                row["key"] = key(row, number)
            elif key != "key":
                row = {"key": row.pop(key), **row}
            if not isinstance(row.get("key"), str):
                message = f"row {number}: expected text as its key, found {row.get('key')!r}"
                raise ki.errors.InvalidError(message)
            writer.write(row)
            if progress is not None and time.monotonic() - told >= _EACH:
                progress(number + 1)
                told = time.monotonic()
        if names is not None:
            writer.set_labels(names)
        made = writer.close()
    if progress is not None:
        progress(number + 1)
    return made


def _names(features, chosen):
    """The names of the labels of a table."""
    if chosen is False:
        return None
    if chosen is not None and not isinstance(chosen, str):
        return list(chosen)
    found = _features.labels(features or {})
    if chosen is not None:
        if chosen not in found:
            message = f"expected a column of class labels ({', '.join(found) or 'there are none'}), found {chosen!r}"
            raise ki.errors.InvalidError(message)
        return found[chosen]
    if len({tuple(names) for names in found.values()}) > 1:
        some = " and ".join(repr(name) for name in list(found)[:2])
        message = f"expected one list of names for labels, found different ones in {some}: `labels` chooses one, or False none"
        raise ki.errors.InvalidError(message)
    return next(iter(found.values()), None)
