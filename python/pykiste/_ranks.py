"""Which of the data-parallel processes this one is."""

import os
import sys
import warnings

from pykiste.errors import InvalidError

# Dimensions of a mesh whose processes have the same data, as PyTorch and its trainers call them.
_SAME_DATA = {"tp", "pp", "cp", "sp", "ep", "tensor", "tensor_parallel", "pipeline", "context", "model", "expert"}


class Ranks:
    """The rank and the number of ranks: those that are given, of the mesh, or of what is initialised when it is asked."""

    def __init__(self, rank, world, mesh):
        if mesh is not None:
            if rank is not None or world is not None:
                raise InvalidError("expected rank and world or a mesh, found both")
            self._fixed = _of_mesh(mesh)
            return
        if (rank is None) != (world is None):
            given, missing = ("world", "rank") if rank is None else ("rank", "world")
            raise InvalidError(f"{missing}: expected one with {given}, found none")
        if rank is not None and not 0 <= rank < world:
            raise InvalidError(f"expected a rank from 0 to {world - 1}, found {rank}")
        self._fixed = None if rank is None else (rank, world)

    def known(self):
        """What is known so far."""
        return self._fixed or _initialised() or (0, 1)

    def __call__(self):
        """The same for batches, with a warning where they would be another process's too."""
        return self._fixed or _initialised() or _alone()


def _of_mesh(mesh):
    names = mesh.mesh_dim_names or ()
    other = [name for name in names if name.lower() in _SAME_DATA]
    if other:
        raise InvalidError(
            f"mesh: expected dimensions of data-parallel processes, found {other[0]!r} too: give a part of the mesh, "
            "such as mesh['dp']"
        )
    place = mesh.get_coordinate()
    if place is None:
        raise InvalidError("mesh: expected one that has this process, found another")
    rank = 0
    for at, size in zip(place, mesh.shape, strict=True):
        rank = rank * size + at
    return rank, mesh.size()


def _initialised():
    """The processes of `torch.distributed` or `jax.distributed`, if one of them is set up. Neither is imported for it."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    jax = sys.modules.get("jax")
    is_initialised = getattr(getattr(jax, "distributed", None), "is_initialized", None)
    if is_initialised is not None and is_initialised():
        return jax.process_index(), jax.process_count()
    return None


def _alone():
    launched = os.environ.get("WORLD_SIZE", "")
    # As torchrun sets them. Launchers of containers may set one of them for something else.
    if launched.isdigit() and int(launched) > 1 and os.environ.get("RANK", "").isdigit():
        warnings.warn(
            f"this is one of {launched} processes, but torch.distributed is not initialised and no rank was given, so each "
            "of them gets all samples: initialise it before, or give rank and world",
            stacklevel=2,
        )
    return 0, 1
