"""`Reader`: samples by index and key, and a position."""

from abc import ABCMeta, abstractmethod
from collections.abc import Iterator
from math import ceil
from types import TracebackType
from typing import Any, Self


def out_of_range(index: int, samples: int) -> IndexError:
    """The error for an index that there is no sample for."""
    return IndexError(f"index {index} out of range for length {samples} reader")


def checked_index(index: int, samples: int) -> int:
    """An index that may count from the end as one that counts from the start."""
    found = index + samples if index < 0 else index
    if found < 0 or found >= samples:
        raise out_of_range(found, samples)
    return found


def checked_start(start: int, samples: int) -> int:
    """The same for the start of a range, which may be 0 where there are no samples."""
    return 0 if start == samples == 0 else checked_index(start, samples)


class Reader(metaclass=ABCMeta):
    """What all readers have in common.

    A reader has a position, which `seek` sets and which `next` and iterators move: an iterator of
    `iter()` begins there. Subclasses have `__len__`, `__contains__`, `__exit__`, `find_key`,
    `find_index`, `get` and `slice`.
    """

    _do_not_copy: tuple[str, ...] = ()
    """Attributes that a copy does not share."""

    def __init__(self) -> None:
        self._i = 0
        self.getitem_max_slice_length = 512
        self.getitem_chunk_size = 64

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __contains__(self, key: object) -> bool: ...

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None: ...

    def __copy__(self) -> Self:
        """Another reader of the same samples, with a position of its own."""
        copy = self.__class__.__new__(self.__class__)
        hidden = self._do_not_copy
        copy.__dict__.update(
            (name, value) for name, value in self.__dict__.items() if name not in hidden
        )
        return copy

    @abstractmethod
    def find_key(self, index: int) -> Any:
        """The key of the sample with this index."""

    @abstractmethod
    def find_index(self, key: Any) -> int:
        """The index of the sample with this key."""

    def seek_index(self, index: int) -> None:
        """Moves to this index, which counts from the end if it is negative."""
        self._i = checked_index(index, len(self))

    def seek(self, index: int) -> None:
        """Moves to this index, as `seek_index`."""
        self.seek_index(index)

    def seek_key(self, key: Any) -> None:
        """Moves to the sample with this key."""
        self.seek_index(self.find_index(key))

    @abstractmethod
    def get(self, index: int, yield_key: bool = False, raw: bool = False, copy: bool = True) -> Any:
        """The sample with this index, wherever the position is.

        Parameters:
            index: index of the sample
            yield_key: return (key, sample)
            raw: return the packed message instead of the sample
            copy: if False, bytes may be a `memoryview`
        """

    @abstractmethod
    def slice(
        self,
        start: int,
        stop: int | None = None,
        yield_key: bool = False,
        raw: bool = False,
        copy: bool = True,
    ) -> Iterator[Any]:
        """The samples from `start` to before `stop`, as a slice of a list has them.

        Parameters:
            start: first index
            stop: index after the last one; None for the end
            yield_key: yield (key, sample)
            raw: yield packed messages instead of samples
            copy: if False, bytes may be a `memoryview`
        """

    def _advance(self, raw: bool) -> Any:
        try:
            sample = self.get(self._i, raw=raw)
        except IndexError:
            raise StopIteration from None
        self._i += 1
        return sample

    def next(self) -> Any:
        """The sample at the position, which moves on. `iter` is faster for many samples."""
        return self._advance(raw=False)

    def __next__(self) -> Any:
        return self.next()

    def rawnext(self) -> bytes:
        """The packed message at the position, which moves on."""
        return self._advance(raw=True)

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, slice):
            return self.get(index)
        start, stop, step = index.indices(len(self))
        if step != 1:
            raise ValueError("step must be 1")
        if stop - start < self.getitem_max_slice_length:
            return self.slice(start, stop)
        return self.iter(start, stop, chunk_size=self.getitem_chunk_size)

    def _iter_impl(
        self,
        start: int,
        stop: int,
        yield_key: bool = False,
        raw: bool = False,
        copy: bool = True,
        chunk_size: int = 16,
    ) -> Iterator[Any]:
        for chunk in range(ceil((stop - start) / chunk_size)):
            first = start + chunk * chunk_size
            yield from self.slice(first, min(stop, first + chunk_size), yield_key, raw, copy)

    def iter(
        self,
        start: int | None = None,
        stop: int | None = None,
        yield_key: bool = False,
        raw: bool = False,
        copy: bool = True,
        chunk_size: int = 16,
    ) -> Iterator[Any]:
        """Iterates over a range of samples, and moves the position by one for each.

        Parameters:
            start: first index; None for the position, or for 0 if that is at the end
            stop: index after the last one; None for the end
            yield_key: yield (key, sample)
            raw: yield packed messages instead of samples
            copy: if False, bytes may be a `memoryview`
            chunk_size: how many samples are read at once
        """
        samples = len(self)
        if start is not None:
            start = checked_start(start, samples)
        else:
            if self._i >= samples:
                self._i = 0
            start = self._i
        start, stop, _ = slice(start, stop).indices(samples)
        for sample in self._iter_impl(start, stop, yield_key, raw, copy, chunk_size):
            self._i += 1
            yield sample

    def __iter__(self) -> Iterator[Any]:
        return self.iter()

    def rawiter(self, yield_key: bool = False) -> Iterator[Any]:
        """Iterates over packed messages."""
        return self.iter(yield_key=yield_key, raw=True)
