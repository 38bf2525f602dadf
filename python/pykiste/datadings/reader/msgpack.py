"""`MsgpackReader`: a dataset in files."""

import operator
import warnings
from collections.abc import Iterator
from functools import cached_property
from math import ceil
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

import pykiste as ki
from pykiste import _pickle
from pykiste.datadings.index import (
    SUFFIX_FILTER,
    SUFFIX_KEY_HASHES,
    SUFFIX_KEYS,
    SUFFIX_LEGACY_INDEX,
    SUFFIX_OFFSETS,
)
from pykiste.datadings.reader.reader import Reader, out_of_range
from pykiste.datadings.tools.hashing import hash_md5hex, load_md5file
from pykiste.datadings.tools.paths import path_append


class MsgpackReader(Reader):
    """Reads a dataset, `NAME` with its side files `NAME.offsets`, `NAME.keys` and so on.

    Leaving a `with` block closes the files; the next read opens them again. Threads and forked
    processes can share a reader, except for its position. A pickle of it is small.

    Parameters:
        path: the data file
        buffering: has no effect, as files are mapped into memory
    """

    _do_not_copy = ("_dataset",)

    def __init__(self, path: str | Path, buffering: int = 0) -> None:
        super().__init__()
        path = Path(path)
        if not path.exists():
            raise FileNotFoundError(f"{path} not found")
        indices = [path_append(path, suffix) for suffix in (SUFFIX_OFFSETS, SUFFIX_LEGACY_INDEX)]
        if not any(index.exists() for index in indices):
            names = ", ".join(map(str, indices))
            raise FileNotFoundError(f"need at least one of {names} but none found")
        for suffix in SUFFIX_KEYS, SUFFIX_KEY_HASHES, SUFFIX_FILTER:
            side = path_append(path, suffix)
            if not side.exists():
                warnings.warn(
                    f"{side} not found, some functionality may not be available", stacklevel=2
                )
        self._path = path
        self._buffering = buffering
        self._dataset = dataset = ki.open(path)
        self._len = len(dataset)
        # Found by `find_key`: how many, and all keys once they have paid for themselves.
        self._asked = 0
        self._listed: list[str] | None = None
        self._pickled = dataset.__reduce__()[1]

    @cached_property
    def _dataset(self) -> ki.Dataset:
        """The open dataset, which is still the one from the beginning."""
        return _pickle.reopen(*self._pickled)

    @cached_property
    def _keys(self) -> list[str]:
        return list(self._dataset.keys())

    def __getstate__(self) -> dict[str, Any]:
        made_again = {"_dataset", "_keys"}
        state = {name: value for name, value in self.__dict__.items() if name not in made_again}
        return state | {"_listed": None}

    def __len__(self) -> int:
        return self._len

    def _close(self) -> None:
        # Iterators keep the files open, and go on.
        self.__dict__.pop("_dataset", None)

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self._close()

    def __contains__(self, key: object) -> bool:
        return checked_key(key) in self._dataset

    def find_index(self, key: str) -> int:
        index = self._dataset.find(checked_key(key))
        if index is None:
            raise KeyError(key)
        return index

    def find_key(self, index: int) -> str:
        if self._listed is not None:
            return self._listed[index]
        self._asked += 1
        if self._asked * 4 > self._len or isinstance(index, slice):
            self._listed = self._keys
            return self._listed[index]
        return self._dataset.key(operator.index(index))

    def _resolve(self, index: Any) -> int:
        """The index of a sample, with the errors of a NumPy array, which datadings looks it up in."""
        if isinstance(index, (str, bytes, float, np.floating)):
            raise IndexError(f"expected an integer, found {index!r}")
        if isinstance(index, (bool, np.bool_)):
            raise TypeError(f"expected an integer, found {index!r}")
        number = operator.index(index)
        if not -self._len <= number < self._len:
            raise out_of_range(number, self._len)
        return number

    def get(self, index: int, yield_key: bool = False, raw: bool = False, copy: bool = True) -> Any:
        if type(index) is not int or not 0 <= index < self._len:
            index = self._resolve(index)
        dataset = self._dataset
        sample = dataset.raw(index) if raw else dataset[index]
        return (dataset.key(index), sample) if yield_key else sample

    def _samples(self, start: int, stop: int, yield_key: bool, raw: bool, copy: bool) -> Iterator[Any]:
        dataset, indices = self._dataset, range(start, stop)
        samples: Iterator[Any]
        if not raw:
            samples = map(dataset.__getitem__, indices)
        elif copy:
            samples = map(dataset.raw, indices)
        else:
            samples = (dataset.raw(index, copy=False) for index in indices)
        return zip(map(dataset.key, indices), samples) if yield_key else samples

    def slice(
        self,
        start: int,
        stop: int | None = None,
        yield_key: bool = False,
        raw: bool = False,
        copy: bool = True,
    ) -> Iterator[Any]:
        start, stop, _ = slice(start, stop).indices(self._len)
        yield from self._samples(start, stop, yield_key, raw, copy)

    def _iter_impl(
        self,
        start: int,
        stop: int,
        yield_key: bool = False,
        raw: bool = False,
        copy: bool = True,
        chunk_size: int = 16,
    ) -> Iterator[Any]:
        # Nothing is read in chunks, but a negative size still means none, and 0 is an error.
        if ceil((stop - start) / chunk_size) > 0:
            return self._samples(start, stop, yield_key, raw, copy)
        return iter(())

    def verify_data(self, read_size: int = 512 * 1024, progress: bool = False) -> bool:
        """Whether the data file has the digest that `NAME.md5` lists.

        Parameters:
            read_size: how many bytes are read at once
            progress: show a progress bar
        """
        listed = load_md5file(path_append(self._path, ".md5"))
        return listed[self._path.name] == hash_md5hex(self._path, read_size, progress)

    def verify_index(self, read_size: int = 512 * 1024, progress: bool = False) -> bool:
        """Whether all side files have the digests that `NAME.md5` lists.

        Parameters:
            read_size: how many bytes are read at once
            progress: show a progress bar
        """
        listed = load_md5file(path_append(self._path, ".md5"))
        sides = {name: md5 for name, md5 in listed.items() if name != self._path.name}
        if not sides:
            raise KeyError(path_append(self._path, SUFFIX_OFFSETS).name)
        return all(
            hash_md5hex(self._path.with_name(name), read_size, progress) == md5
            for name, md5 in sides.items()
        )


def checked_key(key: object) -> str:
    """A key, with the error that datadings raises for what is no string."""
    if not isinstance(key, str):
        raise AttributeError(f"{type(key).__name__!r} object has no attribute 'encode'")
    return key
