"""PyTorch: samplers with state, and batches as tensors.

`pykiste.Dataset` is a map-style dataset as it is: it has `__len__`, `__getitem__` and `__getitems__`, and
pickles to its path. A `DataLoader` takes it, with workers of any start method::

    import pykiste as ki
    from pykiste.torch import StatefulSampler
    from torch.utils.data import DataLoader

    train = ki.open("train.msgpack")
    sampler = StatefulSampler(ki.Sampler.shuffle(len(train), seed=1), rank=rank, world=world)
    loader = DataLoader(train, batch_size=64, sampler=sampler, num_workers=4, collate_fn=collate)

`TensorLoader` needs no workers: its threads are those of `pykiste.Loader`, which need no lock of Python.
"""

import numpy as np

import pykiste as ki
from pykiste._batches import Batches

__all__ = ["StatefulSampler", "TensorLoader", "buffers"]


class StatefulSampler:
    """The indices of an epoch for one rank, for `DataLoader(sampler=…)`.

    Ranks take turns: rank `r` of `w` has the positions `r`, `r + w`, … of the order. Ranks have equally
    many, so that none waits for another: a few samples come twice, or with `drop_last` are left out.
    `state_dict()` counts the positions of all ranks, so that a run goes on with another number of them.
    `len` is that of a whole epoch, also in the middle of one, as trainers ask for it once and use it for all epochs;
    `remaining` is what is left.

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

    def __init__(self, sampler, *, rank=0, world=1, drop_last=False):
        if not 0 <= rank < world:
            raise ki.errors.InvalidError(f"expected a rank from 0 to {world - 1}, found {rank}")
        self.sampler = sampler
        self.rank = rank
        self.world = world
        self.drop_last = drop_last
        self.epoch = 0
        self.position = 0

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
        order, samples = self.sampler.order(self.epoch), len(self.sampler)
        start, steps = self.position, self.remaining
        for step in range(steps):
            position = start + step * self.world + self.rank
            self.position = start + (step + 1) * self.world
            # Beyond the end of the epoch its beginning fills up the last step.
            yield order[position % samples]
        self.epoch += 1
        self.position = 0

    def set_epoch(self, epoch):
        """Begins an epoch, as `DistributedSampler.set_epoch` does."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.position = 0

    def state_dict(self):
        """Where the run is after the indices so far.

        A `DataLoader` takes indices ahead of its batches: save the state of a `StatefulDataLoader`, which
        knows of that, or the positions of the batches that were trained on.
        """
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state):
        """Goes on from a saved state."""
        self.epoch = state["epoch"]
        self.position = state["position"]


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

    def what_of(form):
        described = (ki.Pipeline, ki.Window, ki.Mask, *_UNSIZED)
        is_named = isinstance(form, tuple) and len(form) == 2 and isinstance(form[0], described)
        return form[0] if is_named else form

    def sized(name, pipeline):
        if pipeline.shape is None:
            raise ki.errors.InvalidError(
                f"column {name!r}: expected a pipeline with a step that gives all images one size, such as "
                f"center_crop(224), found {str(pipeline)!r}"
            )
        return pipeline

    def empty(name, form):
        what = what_of(form)
        if isinstance(what, ki.Mask):
            images = what_of(columns.get(what.of))
            if not isinstance(images, ki.Pipeline):
                message = f"column {name!r}: expected a column of images, found none of {what.of!r}"
                raise ki.errors.InvalidError(message)
            dtype, shape = what.dtype, sized(what.of, images).size
        elif isinstance(what, ki.Pipeline):
            dtype, shape = what.dtype, sized(name, what).shape
        elif isinstance(what, ki.Window):
            dtype, shape = what.dtype, what.shape
        else:
            dtype, shape = form if isinstance(form, tuple) and len(form) == 2 else (form, ())
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        dtype = torch.from_numpy(np.empty(0, dtype)).dtype
        return torch.empty((batch_size, *shape), dtype=dtype, pin_memory=pin_memory)

    names = [name for name, form in columns.items() if not _is_unsized(what_of(form))]
    return [{name: empty(name, columns[name]) for name in names} for _ in range(count)]


# The loader has the memory of columns whose samples have any length.
_UNSIZED = (ki.Ragged, ki.Packed, ki.Boxes, ki.Labels, ki.Kept)


def _is_unsized(column):
    return column is bytes or isinstance(column, _UNSIZED)


class TensorLoader(Batches):
    """Batches of tensors from the threads of a `pykiste.Loader` with columns.

    If the loader has `buffers`, tensors share their memory, and keep it until they are gone. Otherwise
    they are copies: in pinned memory with `pin_memory=True`, in memory that each batch uses again with
    `reuse=True`, for loops that are done with a batch before they take the next one.

    With several ranks the last batch of an epoch is filled up with samples that come twice, so that all ranks have
    equally many batches. `mask="valid"` adds a tensor of booleans, false where a row only fills up; `last` says how
    many such rows the last batch has, and which samples could not be read.
    """

    def __init__(self, loader, *, pin_memory=False, reuse=False, mask=None):
        import torch

        super().__init__(loader, mask)
        if loader.has_buffers and (pin_memory or reuse):
            message = "expected neither pin_memory nor reuse: the loader has buffers, which decide both"
            raise ki.errors.InvalidError(message)
        self._torch = torch
        self.pin_memory = pin_memory
        self.reuse = reuse
        self._kept = {}

    def _convert(self, name, column):
        return self._tensor(name, column)

    def _mask(self, valid):
        return self._torch.from_numpy(valid)

    def _tensor(self, name, column):
        if isinstance(column, list) and column and isinstance(column[0], np.ndarray):
            # Their memory is that of a batch, which a later one uses again.
            return [self._torch.from_numpy(rows.copy()) for rows in column]
        if not isinstance(column, np.ndarray):
            return column
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
