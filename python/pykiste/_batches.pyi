from collections.abc import Callable, Iterator
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from pykiste import Loader
from pykiste.columns import PackedTokens

class BatchColumns(dict[str, Any]):
    epoch: int
    step: int
    state: dict[str, Any]
    indices: NDArray[np.uint64]
    padding: int
    bucket: int | None
    failures: list[tuple[int, str | None, str]]
    lengths: dict[str, Any]
    cu_seqlens: dict[str, Any]
    packed: dict[str, PackedTokens]
    @property
    def sample_keys(self) -> list[str]: ...
    def mapped(self, function: Callable[[Any], Any]) -> Self: ...

_Kind = TypeVar("_Kind", bound=BatchColumns)

class Batches(Generic[_Kind]):
    loader: Loader
    mask: str | None
    def __init__(self, loader: Loader, mask: str | None) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[_Kind]: ...
    def set_epoch(self, epoch: int) -> None: ...
    @property
    def sampler(self) -> Self: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...
