"""`ShardedReader`: several readers as one."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from glob import glob
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Any

from pykiste.datadings.reader.msgpack import MsgpackReader
from pykiste.datadings.reader.reader import Reader, checked_index

Shard = str | Path | Reader


def _as_reader(shard: Shard) -> Reader:
    if isinstance(shard, Reader):
        return shard
    if isinstance(shard, (str, Path)):
        return MsgpackReader(shard)
    raise ValueError("need either msgpack path or Reader instance")


def _entered(reader: Reader) -> AbstractContextManager[Reader]:
    """A shard while it is read. Datasets stay open: they hold no file descriptor."""
    return nullcontext(reader) if type(reader) is MsgpackReader else reader


class ShardedReader(Reader):
    """Reads several shards, one after the other.

    Parameters:
        shards: a pattern of dataset files such as `"train/*.msgpack"`, whose matches are sorted as
            strings, or paths and readers
    """

    def __init__(self, shards: str | Path | Iterable[Shard]) -> None:
        super().__init__()
        if isinstance(shards, (str, Path)):
            shards = sorted(glob(str(shards)))
        self._readers = [_as_reader(shard) for shard in shards]
        ends = list(accumulate(map(len, self._readers), initial=0))
        self._len = ends.pop()
        self._offsets = ends

    def __len__(self) -> int:
        return self._len

    def __contains__(self, key: object) -> bool:
        return any(key in reader for reader in self._readers)

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        for reader in self._readers:
            reader.__exit__(exc_type, exc_val, exc_tb)

    def _locate(self, index: int) -> tuple[Reader, int]:
        """The shard that has a sample, and the index there."""
        index = checked_index(index, self._len)
        shard = bisect_right(self._offsets, index) - 1
        return self._readers[shard], index - self._offsets[shard]

    def find_key(self, index: int) -> Any:
        reader, index = self._locate(index)
        with _entered(reader):
            return reader.find_key(index)

    def find_index(self, key: Any) -> int:
        for offset, reader in zip(self._offsets, self._readers):
            if key in reader:
                with _entered(reader):
                    return offset + reader.find_index(key)
        raise KeyError(key)

    def get(self, index: int, yield_key: bool = False, raw: bool = False, copy: bool = True) -> Any:
        reader, index = self._locate(index)
        with _entered(reader):
            return reader.get(index, yield_key, raw, copy)

    def slice(
        self,
        start: int,
        stop: int | None = None,
        yield_key: bool = False,
        raw: bool = False,
        copy: bool = True,
    ) -> Iterator[Any]:
        if slice(start, stop).indices(self._len)[0] == self._len:
            return iter(())
        return self.iter(start, stop, yield_key, raw, copy)

    def _iter_impl(
        self,
        start: int,
        stop: int,
        yield_key: bool = False,
        raw: bool = False,
        copy: bool = True,
        chunk_size: int = 16,
    ) -> Iterator[Any]:
        first, end = bisect_right(self._offsets, start) - 1, bisect_left(self._offsets, stop)
        for offset, reader in zip(self._offsets[first:end], self._readers[first:end]):
            if not len(reader):
                continue
            with _entered(reader):
                yield from reader.iter(
                    max(0, start - offset), stop - offset, yield_key, raw, copy, chunk_size
                )
