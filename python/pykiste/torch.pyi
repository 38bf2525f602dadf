from collections.abc import Iterator, Mapping
from typing import Any

from pykiste import Loader, Sampler, _Column
from pykiste._batches import Batches

__all__ = ["StatefulSampler", "TensorLoader", "buffers"]

class StatefulSampler:
    sampler: Sampler
    rank: int
    world: int
    drop_last: bool
    epoch: int
    position: int
    def __init__(
        self, sampler: Sampler, *, rank: int = 0, world: int = 1, drop_last: bool = False
    ) -> None: ...
    def __len__(self) -> int: ...
    @property
    def remaining(self) -> int: ...
    def __iter__(self) -> Iterator[int]: ...
    def set_epoch(self, epoch: int) -> None: ...
    def state_dict(self) -> dict[str, int]: ...
    def load_state_dict(self, state: dict[str, int]) -> None: ...

def buffers(
    columns: Mapping[str, _Column],
    batch_size: int,
    count: int = 4,
    *,
    pin_memory: bool = False,
) -> list[dict[str, Any]]: ...

class TensorLoader(Batches):
    pin_memory: bool
    reuse: bool
    def __init__(
        self, loader: Loader, *, pin_memory: bool = False, reuse: bool = False, mask: str | None = None
    ) -> None: ...
