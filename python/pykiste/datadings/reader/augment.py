"""Augments: readers whose samples come in another order."""

from abc import abstractmethod
from collections.abc import Iterator
from math import ceil
from random import Random
from types import TracebackType
from typing import Any, Self

import pykiste as ki
from pykiste.datadings.reader.reader import Reader, checked_start

__all__ = ["Cycler", "QuasiShuffler", "Range", "Repeater", "Shuffler"]


class Augment:
    """The base of all augments. `len` is the reader's.

    Threads must not share an augment.

    Parameters:
        reader: where samples come from
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def __enter__(self) -> Self:
        self._reader.__enter__()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self._reader.__exit__(exc_type, exc_val, exc_tb)

    def __len__(self) -> int:
        return len(self._reader)

    def __iter__(self) -> Iterator[Any]:
        return self.iter()

    @abstractmethod
    def iter(
        self, yield_key: bool = False, raw: bool = False, copy: bool = True, chunk_size: int = 16
    ) -> Iterator[Any]:
        """Iterates over samples.

        Parameters:
            yield_key: yield (key, sample)
            raw: yield packed messages instead of samples
            copy: if False, bytes may be a `memoryview`
            chunk_size: how many samples are read at once
        """

    def rawiter(self, yield_key: bool = False) -> Iterator[Any]:
        """Iterates over packed messages."""
        return self.iter(yield_key=yield_key, raw=True)

    @abstractmethod
    def seek(self, index: int) -> None:
        """Moves to a position in the order."""


class Range(Augment):
    """A part of a reader.

    Parameters:
        reader: where samples come from
        start: first index, which counts from the end if it is negative
        stop: index after the last one; None for the end
    """

    def __init__(self, reader: Reader, start: int = 0, stop: int | None = None) -> None:
        super().__init__(reader)
        start = checked_start(start, len(reader))
        self.start, self.stop, _ = slice(start, stop).indices(len(reader))

    def iter(
        self, yield_key: bool = False, raw: bool = False, copy: bool = True, chunk_size: int = 16
    ) -> Iterator[Any]:
        return self._reader.iter(
            start=self.start,
            stop=self.stop,
            yield_key=yield_key,
            raw=raw,
            copy=copy,
            chunk_size=chunk_size,
        )

    def seek(self, index: int) -> None:
        self._reader.seek(self.start + index)


class Repeater(Augment):
    """A reader several times over.

    Parameters:
        reader: where samples come from
        times: how often
    """

    def __init__(self, reader: Reader, times: int) -> None:
        super().__init__(reader)
        self.times = times

    def iter(
        self, yield_key: bool = False, raw: bool = False, copy: bool = True, chunk_size: int = 16
    ) -> Iterator[Any]:
        for _ in range(self.times):
            yield from self._reader.iter(
                yield_key=yield_key, raw=raw, copy=copy, chunk_size=chunk_size
            )

    def seek(self, index: int) -> None:
        self._reader.seek(index % len(self._reader))


class Cycler(Augment):
    """A reader over and over. Without samples, it ends at once."""

    def iter(
        self, yield_key: bool = False, raw: bool = False, copy: bool = True, chunk_size: int = 16
    ) -> Iterator[Any]:
        while len(self._reader):
            yield from self._reader.iter(
                yield_key=yield_key, raw=raw, copy=copy, chunk_size=chunk_size
            )

    def seek(self, index: int) -> None:
        self._reader.seek(index % len(self._reader))


def _order(samples: int, seed: Any) -> list[int]:
    """What `Random(seed).shuffle` makes of the indices."""
    if type(seed) is int and 0 <= seed < 2**63:
        return ki.Sampler.datadings_shuffle(samples, seed).order()[:].tolist()
    order = list(range(samples))
    Random(seed).shuffle(order)
    return order


class Shuffler(Augment):
    """A reader in random order, which is another one in each pass.

    An iterator that is dropped leaves the position where it was: the next one continues from there.

    Parameters:
        reader: where samples come from
        seed: seed of the order; None for the length
    """

    def __init__(self, reader: Reader, seed: Any = None) -> None:
        super().__init__(reader)
        self._n = len(reader)
        self._seed = self._n if seed is None else seed
        self._offset = 0
        self._i = 0

    def seek(self, index: int) -> None:
        """Moves to a position, counted over all passes."""
        passes, self._i = divmod(index, self._n)
        self._offset = passes * self._n

    def iter(
        self, yield_key: bool = False, raw: bool = False, copy: bool = True, chunk_size: int = 16
    ) -> Iterator[Any]:
        get = self._reader.get
        for index in _order(self._n, self._seed + self._offset)[self._i :]:
            yield get(index, yield_key=yield_key, raw=raw, copy=copy)
            self._i += 1
        self._i = 0
        self._offset += self._n


class _Later(int):
    """The index of a sample in the buffer that has not been read."""


class QuasiShuffler(Augment):
    """A reader in an order that is nearly random, and reads chunks of neighbours.

    A buffer is filled with chunks, which come in random order. Each further sample takes the place of a
    random one in the buffer, which is yielded; what is in the buffer at the end comes last.

    Parameters:
        reader: where samples come from
        buf_size: samples in the buffer; any number below 1 is a hundredth of all samples
        chunk_size: samples in a chunk
        seed: seed of the order; None for one that follows from the sizes
    """

    def __init__(
        self, reader: Reader, buf_size: float = 0.01, chunk_size: int = 16, seed: Any = None
    ) -> None:
        super().__init__(reader)
        self.reader = reader
        self._i = 0
        self._n = len(reader)
        self._offset = 0
        buffered = int(ceil(self._n * 0.01) if buf_size < 1 else buf_size)
        self.buf_size = ceil(buffered / chunk_size) * chunk_size
        self.chunk_size = chunk_size
        self.num_chunks = ceil(self._n / chunk_size)
        self._seed = self._n * self.buf_size * chunk_size if seed is None else seed

    def seek(self, index: int) -> None:
        """Moves to a position, counted over all passes."""
        if index < 0:
            raise IndexError("index must be > 0")
        passes, self._i = divmod(index, self._n)
        self._offset = passes * self._n

    def iter(
        self,
        yield_key: bool = False,
        raw: bool = False,
        copy: bool = True,
        chunk_size: int | None = None,
    ) -> Iterator[Any]:
        """Iterates over samples. Chunks always have the size that the augment was made with."""

        def read(start: int, stop: int) -> Iterator[Any]:
            return self.reader.slice(start, stop, yield_key=yield_key, raw=raw)

        def ready(entry: Any) -> Any:
            is_read = type(entry) is not _Later
            return entry if is_read else self.reader.get(entry, yield_key=yield_key, raw=raw)

        random = Random(self._seed + self._offset)
        order = list(range(self.num_chunks))
        random.shuffle(order)
        chunks = [
            (chunk * self.chunk_size, min(self._n, (chunk + 1) * self.chunk_size))
            for chunk in order
        ]
        filling = self.buf_size // self.chunk_size
        # Behind the first samples, those in the buffer are read when their turn comes.
        fill = read if self._i < self.buf_size else lambda start, stop: map(_Later, range(start, stop))
        buffer: list[Any] = []
        for start, stop in chunks[:filling]:
            buffer.extend(fill(start, stop))

        # What the samples before the position leave in the buffer.
        position = 0
        for start, stop in chunks[filling:]:
            skipped = min(stop - start, max(0, self._i - position))
            for index in range(start, start + skipped):
                buffer[random.randrange(len(buffer))] = _Later(index)
            position += skipped
            if start + skipped == stop:
                continue
            for sample in read(start + skipped, stop):
                slot = random.randrange(len(buffer))
                yield ready(buffer[slot])
                buffer[slot] = sample
                self._i += 1
                position += 1

        for entry in buffer[max(0, len(buffer) - self._n + self._i) :]:
            yield ready(entry)
            self._i += 1
        self._i = 0
        self._offset += self._n
