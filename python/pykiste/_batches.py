"""What `TensorLoader` and `JaxLoader` have in common."""

import numpy as np

from pykiste.errors import InvalidError
from pykiste.types import BatchInfo


class Batches:
    """Batches of a `pykiste.Loader` with columns as dicts of something else than arrays of NumPy."""

    def __init__(self, loader, mask):
        if not loader.has_columns:
            raise InvalidError("expected a loader with columns, found one without, whose batches are samples")
        self.loader = loader
        self.mask = mask
        self.last = None

    def __iter__(self):
        for batch in self.loader:
            made = {name: self._convert(name, batch[name]) for name in batch.keys()}
            if self.mask is not None:
                if self.mask in made:
                    raise InvalidError(f"mask: expected a name of its own, found that of column {self.mask!r}")
                made[self.mask] = self._mask(np.arange(len(batch)) < len(batch) - batch.padding)
            self.last = BatchInfo(
                batch.epoch, batch.step, batch.state, batch.indices, batch.padding, batch.failures
            )
            # Its memory is free as soon as what was made of it is gone.
            del batch
            yield made
            del made

    def state_dict(self):
        """Where the run is after the batches so far."""
        return self.loader.state_dict()

    def load_state_dict(self, state):
        """Goes on from a saved state."""
        self.loader.load_state_dict(state)
