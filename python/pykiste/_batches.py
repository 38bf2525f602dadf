"""What `TensorLoader` and `JaxLoader` have in common."""

import numpy as np

from pykiste.errors import InvalidError

# Attributes of a batch that are moved along with its columns: dicts of arrays or tensors by column.
_BY_COLUMN = ("lengths", "cu_seqlens", "packed")


class BatchColumns(dict):
    """The columns of a batch by their names, and as attributes what else is known of it.

    `indices` and `sample_keys` of its samples, in their order; `padding`, how many of them at the end only fill it up;
    `bucket`, the number of its bucket or shape, if batches are planned with some;
    `epoch`, `step` and `state`, where the run is once all ranks have done this step; `failures`, the samples that could not
    be read. By column: `lengths`, how many rows each sample has; `cu_seqlens`, where each begins in rows that lie one after
    another; and `packed`, the `PackedTokens` of packed columns. What trainers make of a batch on their way to a device keeps
    the attributes.
    """

    epoch = step = state = indices = failures = bucket = None
    padding = 0

    def __init__(self, columns=(), like=None):
        super().__init__(columns)
        for name in _BY_COLUMN:
            setattr(self, name, {})
        if like is not None:
            self.__dict__.update(like.__dict__)

    @property
    def sample_keys(self):
        """The keys of the samples, looked up when they are asked for."""
        loader = self.__dict__.get("_loader")
        if loader is None:
            raise InvalidError("expected a batch of this process, found one of a worker: `indices` name its samples")
        return loader._sample_keys(self.indices)

    def mapped(self, function):
        """The same batch, with what the function makes of each of its arrays."""

        def each(value):
            if isinstance(value, dict):
                return {name: each(value) for name, value in value.items()}
            if isinstance(value, tuple):
                return type(value)(*map(each, value))
            if isinstance(value, list):
                return [each(value) for value in value]
            return function(value)

        made = type(self)(((name, each(value)) for name, value in self.items()), self)
        for name in _BY_COLUMN:
            setattr(made, name, each(getattr(self, name)))
        return made

    def __copy__(self):
        return type(self)(self, self)

    def __repr__(self):
        columns = ", ".join(f"{name}: {_shown(value)}" for name, value in self.items())
        return f"{type(self).__name__}({columns}; epoch {self.epoch}, step {self.step})"

    def __reduce__(self):
        kept = {name: value for name, value in self.__dict__.items() if name != "_loader"}
        return _remade, (type(self), dict(self), kept)


def _remade(kind, columns, attributes):
    made = kind(columns)
    made.__dict__.update(attributes)
    return made


def _shown(value):
    shape = getattr(value, "shape", None)
    if shape is None:
        return f"{len(value)} {type(value).__name__}" if hasattr(value, "__len__") else repr(value)
    return f"{str(value.dtype).removeprefix('torch.')}{list(shape)}"


class Batches:
    """Batches of a `pykiste.Loader` with columns as something else than arrays of NumPy."""

    _kind = BatchColumns

    def __init__(self, loader, mask):
        if not loader._kinds:
            raise InvalidError("expected a loader with columns, found one without, whose batches are samples")
        self.loader = loader
        self.mask = mask

    def __len__(self):
        """Batches that this rank has in a whole epoch."""
        return len(self.loader)

    def __iter__(self):
        kinds = self.loader._kinds
        if self.mask in kinds:
            raise InvalidError(f"mask: expected a name of its own, found that of column {self.mask!r}")
        for batch in self.loader:
            made = self._made(batch, kinds)
            # Its memory is free as soon as what was made of it is gone.
            del batch
            yield made
            del made

    def _own(self, array):
        """An array with memory of its own."""
        return array

    def _made(self, batch, kinds):
        made = self._kind({name: self._convert(name, batch[name]) for name in kinds})
        if self.mask is not None:
            made[self.mask] = self._mask(np.arange(len(batch)) < len(batch) - batch.padding)
        made._loader = self.loader
        made.epoch, made.step, made.state = batch.epoch, batch.step, batch.state
        made.indices, made.padding, made.failures = batch.indices, batch.padding, batch.failures
        made.bucket = batch.bucket
        for name, kind in kinds.items():
            if kind == "packed":
                packed = batch.packed(name)
                packed = packed._replace(
                    tokens=made[name],
                    positions=self._own(packed.positions),
                    documents=self._own(packed.documents),
                    cu_seqlens=self._own(packed.cu_seqlens),
                )
                made.packed[name], made.cu_seqlens[name] = packed, packed.cu_seqlens
            elif kind in ("ragged", "padded"):
                lengths = batch.lengths(name)
                ends = np.zeros(len(lengths) + 1, "int32")
                np.cumsum(lengths, out=ends[1:])
                made.lengths[name], made.cu_seqlens[name] = self._own(lengths), self._own(ends)
        return made

    def set_epoch(self, epoch):
        """Makes this epoch the next one: see `pykiste.Loader.set_epoch`."""
        self.loader.set_epoch(epoch)

    @property
    def sampler(self):
        """What trainers tell the epoch: this loader."""
        return self

    def state_dict(self):
        """Where the run is after the batches so far."""
        return self.loader.state_dict()

    def load_state_dict(self, state):
        """Goes on from a saved state."""
        self.loader.load_state_dict(state)

    def __repr__(self):
        return f"{type(self).__name__}({self.loader!r})"
