from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from torch.utils.data import DataLoader

from pykiste import Dataset, Loader, Sampler, _Column
from pykiste._batches import BatchColumns, Batches

__all__ = ["ColumnDataset", "ResumableDataLoader", "StatefulSampler", "TensorBatch", "TensorLoader", "buffers"]

class StatefulSampler:
    sampler: Sampler
    drop_last: bool
    epoch: int
    position: int
    def __init__(
        self,
        sampler: Sampler | Dataset,
        *,
        rank: int | None = None,
        world: int | None = None,
        mesh: Any = None,
        drop_last: bool = False,
    ) -> None: ...
    @property
    def rank(self) -> int: ...
    @property
    def world(self) -> int: ...
    def __len__(self) -> int: ...
    @property
    def remaining(self) -> int: ...
    def __iter__(self) -> Iterator[int]: ...
    def set_epoch(self, epoch: int) -> None: ...
    def state_dict(self) -> dict[str, int]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...

class _Resumable(DataLoader[Any]):
    def state_dict(self) -> dict[str, int]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...

def ResumableDataLoader(dataset: Any, *, sampler: StatefulSampler, **options: Any) -> _Resumable: ...
def buffers(
    columns: Mapping[str, _Column],
    batch_size: int,
    count: int = 4,
    *,
    pin_memory: bool = False,
) -> list[dict[str, Any]]: ...

class ColumnDataset:
    dataset: Dataset
    columns: dict[str, _Column]
    def __init__(self, dataset: Dataset, columns: Mapping[str, _Column]) -> None: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> TensorBatch: ...
    def __getitems__(self, indices: Sequence[int]) -> TensorBatch: ...
    @staticmethod
    def collate(batch: TensorBatch) -> TensorBatch: ...

class TensorBatch(BatchColumns):
    def to(self, *arguments: Any, **options: Any) -> Self: ...
    def pin_memory(self) -> Self: ...

class TensorLoader(Batches[TensorBatch]):
    device: Any
    pin_memory: bool
    reuse: bool
    def __init__(
        self,
        loader: Loader,
        *,
        device: Any = None,
        pin_memory: bool = False,
        reuse: bool = False,
        mask: str | None = None,
    ) -> None: ...
