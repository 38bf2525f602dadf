"""Readers as datasets of PyTorch."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import torch.distributed
import torch.utils.data

from pykiste.datadings.reader.augment import Augment, QuasiShuffler, Shuffler
from pykiste.datadings.reader.reader import Reader
from pykiste.datadings.torch.transform import Transforms, no_rng

Rng = Callable[[dict[str, Any]], dict[str, Any]]


def _unchanged(sample: Any) -> Any:
    return sample


class DatasetBase:
    """What both kinds of datasets have in common."""

    def __init__(
        self,
        reader: Reader | Augment,
        transforms: Transforms | None = None,
        rng: Rng | None = None,
    ) -> None:
        self.reader = reader
        self._rng = rng or no_rng
        self._transforms: Any = transforms
        self.transform: Callable[[Any], Any]
        if isinstance(transforms, dict):
            self.transform = self._transform
        else:
            self.transform = _unchanged if transforms is None else transforms

    def _transform(self, sample: dict[str, Any]) -> dict[str, Any]:
        params = self._rng(sample)
        sample["__params__"] = params
        for name, transform in self._transforms.items():
            sample[name] = transform(sample[name], params)
        return sample

    def __len__(self) -> int:
        return len(self.reader)


class Dataset(DatasetBase, torch.utils.data.Dataset):
    """A reader as a map-style dataset.

    Parameters:
        reader: where samples come from
        transforms: a function of a sample, or for each name in it a function of the value and a dict of
            parameters, such as `Compose`
        rng: a function of a sample that returns the parameters of transforms
    """

    reader: Reader

    def __getitem__(self, index: int) -> Any:
        return self.transform(self.reader.get(index))


class IterableDataset(DatasetBase, torch.utils.data.IterableDataset):
    """A reader as an iterable dataset, which ranks and workers share.

    Each worker of each rank has a part of the samples. With `persistent_workers=True`, ranks take the
    next part in each epoch. The parts of a shuffler are parts of its order.

    Parameters:
        reader: where samples come from
        transforms: as for `Dataset`
        rng: as for `Dataset`
        batch_size: that of the `DataLoader`; an error is raised if a last batch could be empty
        epoch: the first epoch, when a run resumes
        copy: if False, bytes may be a `memoryview`
        chunk_size: how many samples are read at once
        group: the process group, if it is not the usual one
    """

    def __init__(
        self,
        reader: Reader | Augment,
        transforms: Transforms | None = None,
        rng: Rng | None = None,
        batch_size: int | None = None,
        epoch: int = 0,
        copy: bool = True,
        chunk_size: int = 16,
        group: Any = None,
    ) -> None:
        super().__init__(reader, transforms, rng)
        distributed = torch.distributed
        is_distributed = distributed.is_available() and distributed.is_initialized()
        self.rank = distributed.get_rank(group) if is_distributed else 0
        self.world_size = distributed.get_world_size(group) if is_distributed else 1
        self.batch_size = batch_size
        self.epoch = epoch
        self.copy = copy
        self.chunk_size = chunk_size

    def _start_stop(self) -> tuple[int, int]:
        """The part of this worker in this epoch."""
        info = torch.utils.data.get_worker_info()
        workers, worker = (1, 0) if info is None else (info.num_workers, info.id)
        samples, parts = len(self.reader), self.world_size * workers
        size = samples / parts
        if self.batch_size is not None and 0 < (overhang := size % self.batch_size) < 1:
            raise RuntimeError(
                f"len(shard) % batch_size = {overhang}, so last batch may be empty; "
                "change num_workers, batch_size, or world_size"
            )
        part = ((self.rank + self.epoch) * workers + worker) % parts
        start = round(size * part)
        return start, samples if part + 1 == parts else min(samples, round(size * (part + 1)))

    def __len__(self) -> int:
        start, stop = self._start_stop()
        return stop - start

    def _iter_part(self, start: int, stop: int) -> Iterator[Any]:
        reader = self.reader
        options: dict[str, Any] = {"copy": self.copy, "chunk_size": self.chunk_size}
        if start >= stop:
            return iter(())
        if not isinstance(reader, Augment):
            return reader.iter(start, stop, **options)
        if isinstance(reader, (Shuffler, QuasiShuffler)):
            # Each epoch has an order of its own.
            reader.seek(self.epoch * len(reader) + start)
            return islice(reader.iter(**options), stop - start)
        return islice(reader.iter(**options), start, stop)

    def __iter__(self) -> Iterator[Any]:
        samples = self._iter_part(*self._start_stop())
        self.epoch += 1
        with self.reader:
            yield from map(self.transform, samples)
