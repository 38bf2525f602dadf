"""`ListReader`: samples in memory."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from pykiste.datadings.reader.natural import natural_key
from pykiste.datadings.reader.reader import Reader
from pykiste.datadings.tools.msgpack import packb

Sample = dict[str, Any]


def load_lines(path: str | bytes | os.PathLike[str]) -> list[str]:
    """The lines of a text file, without spaces around them."""
    with open(path, encoding="utf-8") as lines:
        return [line.strip("\n ") for line in lines]


def sorted_labels(samples: Iterable[Sample]) -> list[Any]:
    """The labels that samples have, in natural order."""
    labels = {sample["label"] for sample in samples if "label" in sample}
    if None in labels:
        raise ValueError("Found None as label. Labels must be given to reader to use None.")
    # Of two labels that are equal in natural order, as 1 and 01, one is always the first.
    return sorted(sorted(labels, key=str), key=natural_key)


def noop(_: Any) -> None:
    """Leaves a sample as it is."""


class ListReader(Reader):
    """Reads samples from a list of dicts, with functions that load and convert them.

    A sample without a `"key"` gets its index as key. With `numeric_labels`, `"label"` is the index of
    the label in `labels`, and `"_label"` the label itself.

    Parameters:
        samples: a sequence of samples, which are changed in place
        labels: the labels in their order, or the path of a file with one in each line; None for all
            that occur, in natural order
        numeric_labels: replace labels by their index
        initfun: called with each sample at the beginning, to change it
        convertfun: called with a shallow copy of each sample that is read, to change it
    """

    def __init__(
        self,
        samples: Sequence[Sample],
        labels: Iterable[Any] | str | Path | None = None,
        numeric_labels: bool = True,
        initfun: Callable[[Sample], Any] = noop,
        convertfun: Callable[[Sample], Any] = noop,
    ) -> None:
        super().__init__()
        self._convertfun = convertfun
        self._samples = samples
        self._index: dict[Any, int] = {}
        for index, sample in enumerate(samples):
            initfun(sample)
            key = sample.get("key", index)
            if key in self._index:
                raise ValueError(f"duplicate key {key!r}")
            sample["key"] = key
            self._index[key] = index
        self.labels: Any = labels or sorted_labels(samples)
        if isinstance(self.labels, (str, bytes, os.PathLike)):
            self.labels = load_lines(self.labels)
        self._numeric_labels = numeric_labels
        if numeric_labels:
            by_text = {str(label): index for index, label in enumerate(self.labels)}
            self._label_index = by_text | {label: index for index, label in enumerate(self.labels)}

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        pass

    def __len__(self) -> int:
        return len(self._samples)

    def __contains__(self, key: object) -> bool:
        return key in self._index

    def find_key(self, index: int) -> Any:
        return self._samples[index]["key"]

    def find_index(self, key: Any) -> int:
        return self._index[key]

    def get(self, index: int, yield_key: bool = False, raw: bool = False, copy: bool = True) -> Any:
        sample = dict(self._samples[index])
        if self._numeric_labels and "label" in sample:
            sample["_label"] = sample["label"]
            sample["label"] = self._label_index[sample["label"]]
        self._convertfun(sample)
        key = sample["key"]
        found = packb(sample) if raw else sample
        return (key, found) if yield_key else found

    def slice(
        self,
        start: int,
        stop: int | None = None,
        yield_key: bool = False,
        raw: bool = False,
        copy: bool = True,
    ) -> Iterator[Any]:
        start, stop, _ = slice(start, stop).indices(len(self._samples))
        for index in range(start, stop):
            yield self.get(index, yield_key=yield_key, raw=raw)
