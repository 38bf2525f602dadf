from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pykiste import errors as errors
from pykiste.errors import Error as Error
from pykiste.reports import Compared, Converted, Filtered, Made, Merged, Progress, Selected, Verified
from pykiste.types import Extension as Extension
from pykiste.types import Timestamp as Timestamp

Path = str | PathLike[str]
Sample = dict[str, Any]

class Dataset(Sequence[Sample]):
    def __init__(self, path: Path, *, copy: bool = True, verify: bool = False) -> None: ...
    @property
    def path(self) -> PathLike[str]: ...
    @property
    def copy(self) -> bool: ...
    @property
    def data_size(self) -> int: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, item: int | str) -> Sample: ...
    @overload
    def __getitem__(self, item: slice | Sequence[int | str] | NDArray[np.integer]) -> list[Sample]: ...
    def __getitems__(self, items: Sequence[int | str]) -> list[Sample]: ...
    def __contains__(self, key: object) -> bool: ...
    def __iter__(self) -> Iterator[Sample]: ...
    def get_many(self, items: Sequence[int | str] | NDArray[np.integer]) -> list[Sample]: ...
    def get(self, item: int | str, default: Any = None) -> Any: ...
    def find(self, key: str) -> int | None: ...
    def key(self, index: int) -> str: ...
    def keys(self) -> Iterator[str]: ...
    def raw(self, item: int | str, *, copy: bool | None = None) -> bytes | memoryview: ...
    def prefetch(self, indices: Sequence[int]) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *args: object) -> None: ...

open = Dataset

class Writer:
    def __init__(
        self,
        path: Path,
        *,
        append: bool = False,
        overwrite: bool = False,
        digests: bool = True,
        checksums: bool = False,
        lookup: bool = False,
        durable: bool = True,
    ) -> None: ...
    def write(self, sample: Sample) -> None: ...
    def write_packed(self, packed: bytes) -> None: ...
    def __len__(self) -> int: ...
    def __contains__(self, key: str) -> bool: ...
    def set_labels(self, names: list[str] | None) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> dict[str, int] | None: ...
    def abort(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool: ...

class Order(Sequence[int]):
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, item: int) -> int: ...
    @overload
    def __getitem__(self, item: slice) -> NDArray[np.uint64]: ...
    def fill(self, start: int, end: int) -> NDArray[np.uint64]: ...
    def position_of(self, index: int) -> int | None: ...

class Sampler:
    @classmethod
    def sequential(cls, samples: int) -> Sampler: ...
    @classmethod
    def shuffle(cls, samples: int, seed: int = 0) -> Sampler: ...
    @classmethod
    def block_shuffle(cls, samples: int, block: int, window: int, seed: int = 0) -> Sampler: ...
    @classmethod
    def datadings_shuffle(cls, samples: int, seed: int | None = None) -> Sampler: ...
    @classmethod
    def datadings_quasi_shuffle(
        cls, samples: int, buffer: float = 0.01, chunk: int = 16, seed: int | None = None
    ) -> Sampler: ...
    @classmethod
    def repeat(cls, sampler: Sampler, times: int) -> Sampler: ...
    @classmethod
    def cycle(cls, sampler: Sampler) -> Sampler: ...
    def __len__(self) -> int: ...
    def order(self, epoch: int = 0) -> Order: ...

class Batch:
    @property
    def epoch(self) -> int: ...
    @property
    def step(self) -> int: ...
    @property
    def state(self) -> dict[str, int]: ...
    @property
    def indices(self) -> NDArray[np.uint64]: ...
    @property
    def padding(self) -> int: ...
    @property
    def failures(self) -> list[tuple[int, str | None, str]]: ...
    @property
    def samples(self) -> list[Sample]: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, item: int) -> Sample: ...
    @overload
    def __getitem__(self, item: str) -> Any: ...
    def __contains__(self, name: str) -> bool: ...
    def keys(self) -> list[str]: ...

class Loader(Iterator[Batch]):
    def __init__(
        self,
        dataset: Dataset,
        sampler: Sampler | None = None,
        *,
        batch_size: int = 64,
        columns: dict[str, DTypeLike | tuple[DTypeLike, int | Sequence[int]]] | None = None,
        rank: int = 0,
        world: int = 1,
        threads: int | None = None,
        queue: int = 0,
        tail: Literal["pad", "drop", "uneven"] | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        prefetch: bool = False,
        buffers: Sequence[dict[str, Any]] | None = None,
    ) -> None: ...
    @property
    def has_buffers(self) -> bool: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Batch: ...
    def state_dict(self) -> dict[str, int]: ...
    def load_state_dict(self, state: dict[str, int]) -> None: ...
    def close(self) -> None: ...

class View:
    def __len__(self) -> int: ...
    def __bytes__(self) -> bytes: ...
    def __buffer__(self, flags: int) -> memoryview: ...

def convert(
    sources: Path | Sequence[Path],
    output: Path,
    *,
    part: tuple[int, int] | None = None,
    progress: Callable[[Progress], object] | None = None,
    from_format: str | None = None,
    to_format: str | None = None,
    texts: str | list[str] | None = None,
    guess_types: bool = False,
    max_bytes: int | None = None,
    pattern: str | list[str] | None = None,
    include: str | list[str] | None = None,
    exclude: str | list[str] | None = None,
    root: Path | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    labels: Path | None = None,
    text_labels: bool = False,
    fields: str | list[str] | None = None,
    drop: str | list[str] | None = None,
    rename: dict[str, str] | None = None,
    key_field: str | None = None,
    key: str | None = None,
    limit: int | None = None,
    arrays: str | None = None,
    arrays_min: int | None = None,
    arrays_fields: str | list[str] | None = None,
    bad: Literal["stop", "skip", "quarantine"] = "stop",
    skip_duplicates: bool = False,
    append: bool = False,
    overwrite: bool = False,
    digests: bool = True,
    lookup: bool = False,
    checksums: bool = False,
    resume: bool = False,
    durable: bool = True,
) -> Converted: ...
def commit(
    output: Path, *, progress: Callable[[Progress], object] | None = None
) -> Converted: ...
def pack(object: Any) -> bytes: ...
def unpack(packed: bytes) -> Any: ...
def verify(path: Path, *, deep: bool = False) -> Verified: ...
def index(path: Path, *, force: bool = False, lookup: bool = False, checksums: bool = False) -> None: ...
def repair(path: Path, *, undo: bool = False) -> None: ...
def shuffle(
    source: Dataset | Path,
    output: Path,
    *,
    seed: int | None = None,
    sampler: Sampler | None = None,
    epoch: int = 0,
    memory: int | None = None,
    progress: Callable[[Progress], object] | None = None,
    overwrite: bool = False,
    digests: bool = True,
    lookup: bool = False,
    checksums: bool = False,
    durable: bool = True,
) -> Made: ...
def split(
    source: Dataset | Path,
    *,
    at: Sequence[int] | None = None,
    ratios: Sequence[float] | None = None,
    by: str | None = None,
    groups: str | None = None,
    stratify: str | None = None,
    seed: int = 0,
    outputs: Sequence[Path] | None = None,
    progress: Callable[[Progress], object] | None = None,
    overwrite: bool = False,
    digests: bool = True,
    lookup: bool = False,
    checksums: bool = False,
    durable: bool = True,
) -> list[Made]: ...
def merge(
    sources: Iterable[Dataset | Path],
    output: Path,
    *,
    interleave: bool = False,
    weights: Sequence[float] | None = None,
    seed: int = 0,
    skip_duplicates: bool = False,
    labels: Literal["same", "renumber", "drop"] = "same",
    progress: Callable[[Progress], object] | None = None,
    overwrite: bool = False,
    digests: bool = True,
    lookup: bool = False,
    checksums: bool = False,
    durable: bool = True,
) -> Merged: ...
def sort(
    source: Dataset | Path,
    output: Path,
    *,
    by: str = "key",
    natural: bool = False,
    reverse: bool = False,
    progress: Callable[[Progress], object] | None = None,
    overwrite: bool = False,
    digests: bool = True,
    lookup: bool = False,
    checksums: bool = False,
    durable: bool = True,
) -> Made: ...
def select(
    source: Dataset | Path,
    output: Path,
    items: slice | Iterable[int | str],
    *,
    skip_missing: bool = False,
    progress: Callable[[Progress], object] | None = None,
    overwrite: bool = False,
    digests: bool = True,
    lookup: bool = False,
    checksums: bool = False,
    durable: bool = True,
) -> Selected: ...
def filter(
    source: Dataset | Path,
    output: Path,
    condition: Callable[[Sample], object],
    *,
    progress: Callable[[Progress], object] | None = None,
    overwrite: bool = False,
    digests: bool = True,
    lookup: bool = False,
    checksums: bool = False,
    durable: bool = True,
) -> Filtered: ...
def diff(
    left: Dataset | Path,
    right: Dataset | Path,
    *,
    limit: int | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> Compared: ...
def stat(
    source: Dataset | Path,
    *,
    fields: Sequence[str] | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> dict[str, Any]: ...
