"""PyTorch: samplers with state, and batches as tensors.

`pykiste.Dataset` is a map-style dataset as it is: it has `__len__`, `__getitem__` and `__getitems__`, and
pickles to its path. A `DataLoader` takes it, with workers of any start method::

    import pykiste as ki
    from pykiste.torch import StatefulSampler
    from torch.utils.data import DataLoader

    train = ki.open("train.msgpack")
    sampler = StatefulSampler(ki.Sampler.shuffle(len(train), seed=1), rank=rank, world=world)
    loader = DataLoader(train, batch_size=64, sampler=sampler, num_workers=4, collate_fn=collate)

`ColumnDataset` collates in the workers without a dict for each sample. `TensorLoader` needs no workers: the threads of
`pykiste.Loader` do the work, without the lock of Python.
"""

import math

import numpy as np

import pykiste as ki
from pykiste._batches import BatchColumns, Batches
from pykiste._core import Collator, _arrays_of
from pykiste._ranks import Ranks

__all__ = ["ColumnDataset", "ResumableDataLoader", "StatefulSampler", "TensorBatch", "TensorLoader", "buffers"]


class StatefulSampler:
    """The indices of an epoch for one rank, for `DataLoader(sampler=…)`.

    Ranks take turns: rank `r` of `w` has the positions `r`, `r + w`, … of the order. Ranks have equally
    many, so that none waits for another: a few samples come twice, or with `drop_last` are left out. `rank` and `world`
    come from `mesh` or `torch.distributed` if they are not given, as for `pykiste.Loader`.

    Each loop is an epoch; after a `break` the next one begins where that one began. `state_dict()` counts the positions of
    all ranks, so that another number of them can resume. `len` is that of a whole epoch, also in the middle of one, as
    trainers ask for it once and use it for all epochs; `remaining` is what is left.

    A dataset stands for the order that it has by itself: a mixture for its own.

    A `DataLoader` takes indices ahead of its batches. `ResumableDataLoader` knows which of them were in batches.

    >>> import pykiste as ki
    >>> sampler = StatefulSampler(ki.Sampler.sequential(10), rank=1, world=2)
    >>> list(sampler)
    [1, 3, 5, 7, 9]
    >>> sampler.set_epoch(1)
    >>> indices = iter(sampler)
    >>> next(indices), next(indices), sampler.state_dict()
    (1, 3, {'epoch': 1, 'position': 4})
    >>> sampler = StatefulSampler(ki.Sampler.sequential(10))
    >>> sampler.load_state_dict({'epoch': 1, 'position': 4})
    >>> len(sampler), sampler.remaining, list(sampler)
    (10, 6, [4, 5, 6, 7, 8, 9])
    """

    def __init__(self, sampler, *, rank=None, world=None, mesh=None, drop_last=False):
        self._ranks = Ranks(rank, world, mesh)
        self.sampler = sampler.sampler() if isinstance(sampler, ki.Dataset) else sampler
        self.drop_last = drop_last
        self.epoch = 0
        self.position = 0
        # Where the current loop began, or the next one begins; and how often that was set by a caller.
        self._begin = (0, 0)
        self._told = 0

    @property
    def rank(self):
        """The rank that the indices are for."""
        return self._ranks.known()[0]

    @property
    def world(self):
        """How many ranks there are."""
        return self._ranks.known()[1]

    def __len__(self):
        """Indices of a whole epoch for this rank."""
        return self._share(len(self.sampler))

    @property
    def remaining(self):
        """Indices that are left in the epoch for this rank."""
        return self._share(len(self.sampler) - self.position)

    def _share(self, samples):
        return samples // self.world if self.drop_last else -(-samples // self.world)

    def __iter__(self):
        rank, world = self._ranks()
        self.epoch, self.position = self._begin
        order, samples = self.sampler.order(self.epoch), len(self.sampler)
        start, steps = self.position, self.remaining
        for step in range(steps):
            position = start + step * world + rank
            self.position = start + (step + 1) * world
            # Beyond the end of the epoch its beginning fills up the last step.
            yield order[position % samples]
        self._go_to(self.epoch + 1, 0)

    def _go_to(self, epoch, position):
        self.epoch, self.position = self._begin = (epoch, position)

    def set_epoch(self, epoch):
        """Begins an epoch, as `DistributedSampler.set_epoch` does."""
        self._told += 1
        if epoch != self.epoch:
            self._go_to(epoch, 0)

    def state_dict(self):
        """Where the run is after the indices so far, which may be ahead of the batches of a `DataLoader`."""
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state):
        """Goes on from a saved state."""
        self._told += 1
        self._go_to(state["epoch"], state["position"])


def __getattr__(name):
    # Its base is a class of torch, which the sampler does without.
    if name == "ResumableDataLoader":
        from pykiste._data_loader import ResumableDataLoader

        return ResumableDataLoader
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def buffers(columns, batch_size, count=4, *, pin_memory=False):
    """Tensors for `pykiste.Loader(buffers=…)`, for the same columns and size of batches.

    With `pin_memory=True` the threads of the loader write straight to memory that a GPU copies from.
    A loader makes up to `count - 2` batches ahead.

    >>> from pykiste.torch import buffers
    >>> [made] = buffers({"label": "int64", "image": ("uint8", (28, 28)), "name": bytes}, 64, count=1)
    >>> {name: tuple(tensor.shape) for name, tensor in made.items()}
    {'label': (64,), 'image': (64, 28, 28)}
    """
    import torch

    def empty(dtype, shape):
        return torch.empty((batch_size, *shape), dtype=getattr(torch, dtype), pin_memory=pin_memory)

    arrays = _arrays_of(columns)
    return [{name: empty(*array) for name, array in arrays.items()} for _ in range(count)]


class TensorBatch(BatchColumns):
    """Tensors by the names of columns; lists for columns of bytes and ragged ones. What else is known of the batch are its
    attributes: see `pykiste._batches.BatchColumns`. `to` and `pin_memory` keep them.

    From a worker of a `DataLoader` a batch comes in one piece of shared memory."""

    def to(self, *arguments, **options):
        """The same batch with its tensors moved or converted, as `torch.Tensor.to` does."""
        return self.mapped(lambda value: value.to(*arguments, **options) if hasattr(value, "to") else value)

    def pin_memory(self):
        """The same batch in memory that a GPU copies from."""
        return self.mapped(lambda value: value.pin_memory() if hasattr(value, "pin_memory") else value)

    def __reduce__(self):
        # For each tensor torch asks the other process for its memory, and waits.
        wholes = {}
        packed = self.mapped(lambda value: _Part.of(value, wholes))
        remade, what = BatchColumns.__reduce__(packed)
        return _unpacked, (remade, what, list(wholes.values()))


def _unpacked(remade, what, wholes):
    return remade(*what).mapped(lambda value: value.tensor(wholes) if isinstance(value, _Part) else value)


class _Part:
    """A tensor on its way to another process: a small one itself, a larger one as the place in shared memory."""

    SMALL = 1 << 16

    def __init__(self, array=None, whole=None, dtype=None, place=()):
        self.array, self.whole, self.dtype, self.place = array, whole, dtype, place

    @staticmethod
    def of(value, wholes):
        import torch

        is_plain = type(value) is torch.Tensor and value.is_cpu and value.layout == torch.strided
        if not is_plain or value.requires_grad or value.is_conj() or value.is_neg() or value.is_quantized:
            return value
        storage = value.untyped_storage()
        if storage.nbytes() <= _Part.SMALL and value.dtype != torch.bfloat16:
            return _Part(array=value.numpy())
        whole, _ = wholes.setdefault(storage.data_ptr(), (len(wholes), torch.empty(0, dtype=torch.uint8).set_(storage)))
        return _Part(whole=whole, dtype=value.dtype, place=(value.storage_offset(), value.shape, value.stride()))

    def tensor(self, wholes):
        import torch

        if self.array is not None:
            return torch.from_numpy(self.array)
        _, whole = wholes[self.whole]
        return torch.empty(0, dtype=self.dtype).set_(whole.untyped_storage(), *self.place)


class _Tensors(Batches):
    """Batches whose arrays become tensors."""

    _kind = TensorBatch

    def __init__(self, loader, mask):
        import torch

        super().__init__(loader, mask)
        self._torch = torch

    def _mask(self, valid):
        return self._torch.from_numpy(valid)

    def _own(self, array):
        return self._torch.from_numpy(array)

    def _convert(self, name, column):
        if isinstance(column, list) and column and isinstance(column[0], np.ndarray):
            # Their memory is part of a batch, which a later one may use again.
            return [self._torch.from_numpy(rows.copy()) for rows in column]
        return self._tensor(name, column) if isinstance(column, np.ndarray) else column


class TensorLoader(_Tensors):
    """Batches of tensors (`TensorBatch`) from the threads of a `pykiste.Loader` with columns: what trainers take in place of a
    `DataLoader`, with `len`, `set_epoch`, `state_dict` and `load_state_dict`.

    If the loader has `buffers`, tensors share their memory, and keep it until they are gone. Otherwise
    they are copies: in pinned memory with `pin_memory=True`, in memory that each batch uses again with
    `reuse=True`, for loops that are done with a batch before they take the next one. With `device` they are moved there, which
    does not wait for the copy if the memory is pinned.

    With several ranks the last batch of an epoch is filled up with samples that come twice, so that all ranks have
    equally many batches. `mask="valid"` adds a tensor of booleans, false where a row only fills up; `batch.padding` says how
    many such rows there are.

    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> import pykiste as ki
    >>> path = getfixture("tmp_path") / "train.msgpack"
    >>> with ki.Writer(path) as writer:
    ...     for number in range(10):
    ...         writer.write({"key": str(number), "label": number})
    >>> loader = TensorLoader(ki.Loader(ki.open(path), batch_size=4, columns={"label": "int64"}))
    >>> len(loader), [batch["label"].tolist() for batch in loader]
    (3, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]])
    >>> batch = next(iter(loader))
    >>> batch.sample_keys, batch.padding, batch.state["position"]
    (['0', '1', '2', '3'], 0, 4)
    """

    def __init__(self, loader, *, device=None, pin_memory=False, reuse=False, mask=None):
        super().__init__(loader, mask)
        if loader.has_buffers and (pin_memory or reuse):
            message = "expected neither pin_memory nor reuse: the loader has buffers, which decide both"
            raise ki.errors.InvalidError(message)
        self.device = device
        self.pin_memory = pin_memory
        self.reuse = reuse
        self._kept = {}

    def __iter__(self):
        for batch in super().__iter__():
            moved = batch if self.device is None else batch.to(self.device, non_blocking=True)
            del batch
            yield moved
            del moved

    def _tensor(self, name, column):
        if self.loader.has_buffers:
            return self._torch.from_numpy(column)
        kept = self._kept.get(name)
        fits = kept is not None and len(kept) >= len(column) and kept.shape[1:] == column.shape[1:]
        if not fits or not self.reuse:
            dtype = self._torch.from_numpy(np.empty(0, column.dtype)).dtype
            kept = self._torch.empty(column.shape, dtype=dtype, pin_memory=self.pin_memory)
            if self.reuse:
                self._kept[name] = kept
        made = kept[: len(column)]
        made.copy_(self._torch.from_numpy(column))
        return made


class ColumnDataset:
    """Samples as columns under a `DataLoader`: its workers collate each batch at once, from packed samples to a
    `TensorBatch`, without a dict for each sample. `columns` are described as for `pykiste.Loader`. What is random in them,
    such as crops, is drawn by the seed of torch, and differs each time.

    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> from torch.utils.data import DataLoader
    >>> import pykiste as ki
    >>> from pykiste.torch import ColumnDataset
    >>> path = getfixture("tmp_path") / "train.msgpack"
    >>> with ki.Writer(path) as writer:
    ...     for number in range(6):
    ...         writer.write({"key": str(number), "label": number})
    >>> train = ColumnDataset(ki.open(path), {"label": "int64"})
    >>> loader = DataLoader(train, batch_size=4, collate_fn=train.collate)
    >>> [batch["label"].tolist() for batch in loader]
    [[0, 1, 2, 3], [4, 5]]
    """

    def __init__(self, dataset, columns):
        self.dataset = dataset
        self.columns = dict(columns)
        self._made = None

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        """One sample: a `TensorBatch` of one row."""
        return self.__getitems__([range(len(self))[index]])

    def __getitems__(self, indices):
        """The batch of these indices, in their order."""
        if self._made is None:
            self._made = _Collated(self.dataset, self.columns)
        return self._made(indices)

    @staticmethod
    def collate(batch):
        """What `DataLoader` gets from `__getitems__` is a batch already."""
        return batch

    def __getstate__(self):
        return {**self.__dict__, "_made": None}


class _Collated(_Tensors):
    """Makes batches of the samples that are asked for."""

    def __init__(self, dataset, columns):
        super().__init__(Collator(dataset, columns), None)
        self._arrays = _arrays_of(columns)
        self._memory = None

    def __call__(self, indices):
        # As for transforms of torchvision, the seed is that of torch: each worker and epoch has its own.
        draw = int(self._torch.randint(1 << 62, ()))
        self._memory = self._shared(len(indices))
        made = self._made(self.loader(indices, draw, self._memory), self.loader._kinds)
        # They belong to a run, and a DataLoader has its own.
        made.epoch = made.step = made.state = None
        return made

    def _tensor(self, name, column):
        # The batch is not used again.
        return (self._memory or {}).get(name, self._torch.from_numpy(column))

    def _shared(self, rows):
        """In a worker, memory for all columns of numbers that the other process sees: nothing is copied there."""
        torch = self._torch
        if torch.utils.data.get_worker_info() is None:
            return None
        places, end = {}, 0
        for name, (dtype, shape) in self._arrays.items():
            dtype, shape = getattr(torch, dtype), (rows, *shape)
            begin = -(-end // 64) * 64
            end = begin + math.prod(shape) * dtype.itemsize
            places[name] = (begin, end, dtype, shape)
        if end <= _Part.SMALL:
            return None
        # As torch's own collate does.
        whole = torch.empty(0, dtype=torch.uint8).set_(torch.UntypedStorage._new_shared(end))
        return {name: whole[begin:end].view(dtype).view(shape) for name, (begin, end, dtype, shape) in places.items()}
