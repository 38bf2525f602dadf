"""JAX: batches as arrays of JAX, for one device or a sharding.

>>> import pytest
>>> jax = pytest.importorskip("jax")
>>> import pykiste as ki
>>> from pykiste.jax import JaxLoader
>>> path = getfixture("tmp_path") / "train.msgpack"
>>> with ki.Writer(path) as writer:
...     for number in range(100):
...         writer.write({"key": str(number), "label": number})
>>> loader = ki.Loader(ki.open(path), batch_size=50, columns={"label": "int32"})
>>> [int(batch["label"].sum()) for batch in JaxLoader(loader)]
[1225, 3725]
"""

import numpy as np

from pykiste._batches import BatchColumns, Batches
from pykiste.errors import WrongTypeError

__all__ = ["JaxBatch", "JaxLoader"]


class JaxBatch(BatchColumns):
    """Arrays of JAX by the names of columns. What else is known of the batch are its attributes: see
    `pykiste._batches.BatchColumns`.

    JAX takes it as a dict of its columns: `jax.jit` and `jax.tree.map` see no attributes."""


def _registered(jax):
    """Tells JAX what a batch is made of, once."""
    if not getattr(_registered, "is_done", False):
        _registered.is_done = True

        def flat(batch):
            names = tuple(sorted(batch))
            return [(jax.tree_util.DictKey(name), batch[name]) for name in names], names

        jax.tree_util.register_pytree_with_keys(JaxBatch, flat, lambda names, values: dict(zip(names, values, strict=True)))


class JaxLoader(Batches):
    """Batches of arrays of JAX from the threads of a `pykiste.Loader` with columns.

    `device` is a device or a sharding, as `jax.device_put` takes it. On a CPU arrays share the memory of
    the batch where JAX can, and keep it until they are gone; do not change batches that were handed to
    JAX. Columns of `bytes` stay lists, and so do ragged columns, whose arrays are those of NumPy.

    JAX has no 64-bit numbers unless `jax_enable_x64` is set. Columns of such types are an error then,
    because JAX would convert them to 32 bits.

    `mask` is as for `pykiste.torch.TensorLoader`: which rows only fill up the last batch of an epoch.
    """

    _kind = JaxBatch

    def __init__(self, loader, device=None, *, mask=None):
        import jax

        super().__init__(loader, mask)
        _registered(jax)
        self._jax = jax
        self.device = device

    def _mask(self, valid):
        return self._jax.device_put(valid, self.device)

    def _convert(self, name, column):
        if not isinstance(column, np.ndarray):
            return column
        kept = self._jax.dtypes.canonicalize_dtype(column.dtype)
        if kept != column.dtype:
            message = (
                f"column {name!r}: expected a type that JAX has, found {column.dtype}, which would "
                f"become {kept}: load it as that type, or set jax_enable_x64"
            )
            raise WrongTypeError(message)
        return self._jax.device_put(column, self.device, may_alias=True)
