import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Protocol, Self, SupportsIndex, final, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from typing_extensions import Buffer

from pykiste import batching as batching
from pykiste import columns as columns
from pykiste import errors as errors
from pykiste.batching import ByLength, ByShape, Rows, TokenBudget
from pykiste.columns import Boxes as Boxes
from pykiste.columns import Kept as Kept
from pykiste.columns import LabelNames as LabelNames
from pykiste.columns import Labels as Labels
from pykiste.columns import Map as Map
from pykiste.columns import Mask as Mask
from pykiste.columns import Packed as Packed
from pykiste.columns import PackedTokens
from pykiste.columns import Pad as Pad
from pykiste.columns import Ragged as Ragged
from pykiste.columns import Window as Window
from pykiste.errors import Error as Error
from pykiste._views import Items, Keys, Values
from pykiste.reports import Compared, Converted, Filtered, Indexed, Info, LeftOut, Loading, Made, Merged, Progress, Removed, Seen, Selected, Verified, Version
from pykiste.schema import Schema
from pykiste.types import Extension as Extension
from pykiste.types import Path, Sample, Selection
from pykiste.types import Timestamp as Timestamp
from pykiste.types import TorchType
from pykiste.types import Which

# What a `DataLoader` of PyTorch takes, to type checkers: without PyTorch it has any type. At run time a dataset needs none.
from torch.utils.data import Dataset as _TorchDataset

class _Array(Protocol):
    """An array or a tensor of any package: one index, or several, or a mask."""

    @property
    def dtype(self) -> Any: ...
    def tolist(self) -> Any: ...

class _ArrowStream(Protocol):
    """A table of any package, by Arrow's C stream."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

# What a column is made of: numbers, numbers of a shape, bytes, an image, or one of `pykiste.columns`; the last two
# also with the name of another field.
_Described = Pipeline | Window | Ragged | Packed | Map | Mask | Boxes | Labels | LabelNames | Kept
# Indices and keys, or a mask with a boolean for each sample.
_Items = Sequence[int | str] | Sequence[bool] | NDArray[np.integer[Any]] | NDArray[np.bool_]
# A type of NumPy or torch.
_Type = DTypeLike | TorchType
_Column = (
    _Type
    | tuple[_Type, int | Sequence[int]]
    | tuple[str, _Type]
    | tuple[str, _Type, int | Sequence[int]]
    | _Described
    | tuple[_Described, str]
)

__all__ = [
    "ArrayStore",
    "ArrowTable",
    "Batch",
    "Boxes",
    "ChunkedArray",
    "Dataset",
    "Error",
    "Extension",
    "Kept",
    "LabelNames",
    "Labels",
    "Loader",
    "Map",
    "Mask",
    "Mixture",
    "Order",
    "Packed",
    "PackedArray",
    "Pad",
    "Pipeline",
    "Ragged",
    "Sampler",
    "StagedVersion",
    "Timestamp",
    "View",
    "Window",
    "Writer",
    "batching",
    "columns",
    "commit",
    "compare",
    "concat",
    "convert",
    "diff",
    "duplicates",
    "errors",
    "features",
    "index",
    "merge",
    "pack",
    "repair",
    "samples_page",
    "select",
    "shuffle",
    "sort",
    "split",
    "stat",
    "stat_page",
    "unpack",
    "verify",
]

__version__: str

@final
class ArrowTable:
    @property
    def schema(self) -> str: ...
    @property
    def columns(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...
    def __arrow_c_schema__(self) -> Any: ...

@final
class Dataset(_TorchDataset[Sample]):
    def __new__(
        cls,
        path: Path | Sequence[Dataset | Path],
        *,
        copy: bool = True,
        verify: bool = False,
        untrusted: bool = False,
        allow_outside: bool = False,
        progress: Callable[[Progress], object] | None = None,
    ) -> Self: ...
    @property
    def path(self) -> pathlib.Path | None: ...
    @property
    def copy(self) -> bool: ...
    @property
    def verify(self) -> bool: ...
    @property
    def untrusted(self) -> bool: ...
    @property
    def allow_outside(self) -> bool: ...
    @property
    def data_size(self) -> int: ...
    @property
    def labels(self) -> list[str] | None: ...
    @property
    def schema(self) -> Schema: ...
    def to_arrow(
        self,
        fields: Sequence[str] | None = None,
        *,
        batch_size: int = 65536,
        views: bool = True,
        infer: int | Literal["all"] | None = None,
    ) -> ArrowTable: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...
    def info(self) -> Info: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, item: int | str | np.integer[Any], /) -> Sample: ...  # type: ignore[overload-overlap]
    @overload
    def __getitem__(self, item: slice | _Items, /) -> list[Sample]: ...  # type: ignore[overload-overlap]
    @overload
    def __getitem__(self, item: _Array, /) -> Any: ...
    @overload
    def __getitem__(self, item: SupportsIndex, /) -> Sample: ...
    def __getitems__(self, items: _Items) -> list[Sample]: ...
    def __contains__(self, key: object, /) -> bool: ...
    def __iter__(self) -> Iterator[Sample]: ...
    def get_many(self, items: _Items) -> list[Sample]: ...
    def get(self, item: SupportsIndex | str, default: Any = None) -> Any: ...
    def find(self, key: str) -> int | None: ...
    def key(self, index: SupportsIndex | str) -> str: ...
    def keys(self) -> Keys: ...
    def items(self) -> Items: ...
    def values(self) -> Values: ...
    def raw(self, item: SupportsIndex | str, *, copy: bool | None = None) -> bytes | memoryview: ...
    def prefetch(self, indices: _Items) -> None: ...
    def range(self, start: int, stop: int) -> Dataset: ...
    def select(
        self,
        *,
        keys: Iterable[str] | None = None,
        indices: Iterable[int] | NDArray[np.integer[Any]] | None = None,
        mask: Iterable[bool] | NDArray[np.bool_] | _Array | None = None,
    ) -> Dataset: ...
    def without(self, keys: Iterable[str]) -> Dataset: ...
    def where(
        self, condition: str, *, progress: Callable[[Progress], object] | None = None
    ) -> Dataset: ...
    def with_fields(
        self,
        *,
        keep: Iterable[str] | None = None,
        drop: Iterable[str] | None = None,
        rename: dict[str, str] | None = None,
        progress: Callable[[Progress], object] | None = None,
    ) -> Dataset: ...
    def join(
        self,
        other: Dataset | Path,
        how: Literal["inner", "left"] = "inner",
        *,
        fields: Iterable[str] | None = None,
        prefix: str | None = None,
        missing: dict[str, Any] | None = None,
        progress: Callable[[Progress], object] | None = None,
    ) -> Dataset: ...
    def dedupe(
        self, *, by: str | None = None, progress: Callable[[Progress], object] | None = None
    ) -> Dataset: ...
    def duplicates(
        self, *, progress: Callable[[Progress], object] | None = None
    ) -> list[tuple[int, int]]: ...
    @property
    def left_out(self) -> list[LeftOut]: ...
    @property
    def sources(self) -> dict[str, Dataset] | None: ...
    def sampler(self) -> Sampler: ...
    def where_is(
        self, key: str, epochs: int | Iterable[int] | None = None
    ) -> list[tuple[int, int]]: ...
    def save(self, path: Path, *, overwrite: bool = False) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *args: object) -> None: ...
    def _first(self, samples: int) -> dict[str, Any]: ...
    def _is_remote(self) -> bool: ...
    def _keys(self) -> Iterator[str]: ...
    def _repr_html_(self) -> str: ...
    def _ipython_key_completions_(self) -> list[str]: ...

open = Dataset

def concat(datasets: Iterable[Dataset | Path]) -> Dataset: ...
def Mixture(
    sources: Mapping[str, tuple[Dataset | Path, float]],
    *,
    samples: int | None = None,
    seed: int = 0,
    max_passes: Mapping[str, int] | None = None,
    exhausted: Literal["error", "others"] = "error",
    phases: Mapping[int, Mapping[str, float]] | Iterable[tuple[int, Mapping[str, float]]] | None = None,
    tokens: str | None = None,
) -> Dataset: ...

@final
class Writer:
    def __new__(
        cls,
        path: Path,
        *,
        append: bool = False,
        overwrite: bool = False,
        digests: bool = True,
        checksums: bool = False,
        lookup: bool | None = None,
        lengths: Sequence[str] | None = None,
        durable: bool = True,
    ) -> Self: ...
    def write(self, sample: Sample) -> None: ...
    def write_packed(self, packed: bytes) -> None: ...
    def write_raw(self, key: str, packed: bytes) -> None: ...
    def __len__(self) -> int: ...
    def __contains__(self, key: str, /) -> bool: ...
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

@final
class Order:
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[int]: ...
    @overload
    def __getitem__(self, item: int, /) -> int: ...
    @overload
    def __getitem__(self, item: slice, /) -> NDArray[np.uint64]: ...
    def fill(self, start: int, end: int) -> NDArray[np.uint64]: ...
    def position_of(self, index: int) -> int | None: ...
    def positions_of(self, index: int) -> list[int]: ...

@final
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
    @classmethod
    def mixture(
        cls,
        sizes: Sequence[int],
        weights: Sequence[float],
        samples: int | None = None,
        seed: int = 0,
        max_passes: Sequence[int | None] | None = None,
        exhausted: Literal["error", "others"] = "error",
        phases: Iterable[tuple[int, Sequence[float]]] | Mapping[int, Sequence[float]] | None = None,
    ) -> Sampler: ...
    def __len__(self) -> int: ...
    def order(self, epoch: int = 0) -> Order: ...

@final
class Batch:
    @property
    def epoch(self) -> int: ...
    @property
    def step(self) -> int: ...
    @property
    def state(self) -> dict[str, Any]: ...
    @property
    def indices(self) -> NDArray[np.uint64]: ...
    @property
    def sample_keys(self) -> list[str]: ...
    @property
    def padding(self) -> int: ...
    @property
    def bucket(self) -> int | None: ...
    @property
    def failures(self) -> list[tuple[int, str | None, str]]: ...
    def ragged(self, name: str) -> tuple[NDArray[Any], NDArray[np.int64]]: ...
    def lengths(self, name: str) -> NDArray[np.int64]: ...
    def packed(self, name: str) -> PackedTokens: ...
    @property
    def samples(self) -> list[Sample]: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, item: int, /) -> Sample: ...
    @overload
    def __getitem__(self, item: str, /) -> Any: ...
    def __contains__(self, name: str, /) -> bool: ...
    def keys(self) -> list[str]: ...

@final
class Pipeline:
    def __new__(cls, steps: str | Sequence[str], *, seed: int | None = None) -> Self: ...
    def __call__(
        self, image: Buffer, *, epoch: int = 0, position: int = 0
    ) -> NDArray[Any]: ...
    def plan(self, image: Buffer, *, epoch: int = 0, position: int = 0) -> str: ...
    @property
    def shape(self) -> tuple[int, int, int] | None: ...
    @property
    def size(self) -> tuple[int, int] | None: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def seed(self) -> int: ...
    @property
    def steps(self) -> tuple[str, ...]: ...

@final
class Loader:
    def __new__(
        cls,
        dataset: Dataset,
        sampler: Sampler | None = None,
        *,
        batch_size: int | None = None,
        columns: Mapping[str, _Column] | None = None,
        rank: int | None = None,
        world: int | None = None,
        mesh: Any = None,
        threads: int | None = None,
        queue: int = 0,
        tail: Literal["pad", "even", "drop", "uneven"] | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        resume: Literal["epoch", "position"] = "epoch",
        prefetch: bool = False,
        buffers: Iterable[dict[str, Any]] | None = None,
        batching: TokenBudget | ByLength | ByShape | Rows | None = None,
    ) -> Self: ...
    @property
    def has_buffers(self) -> bool: ...
    @property
    def has_columns(self) -> bool: ...
    @property
    def batch_size(self) -> int | None: ...
    @property
    def rank(self) -> int: ...
    @property
    def world(self) -> int: ...
    @property
    def remaining(self) -> int: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Batch]: ...
    def __next__(self) -> Batch: ...
    def set_epoch(self, epoch: int) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...
    def report(self) -> Loading: ...
    def keys_at(self, step: int, rank: int | None = None, *, epoch: int | None = None) -> list[Seen]: ...
    def where_is(self, key: str, *, epoch: int | None = None) -> list[tuple[int, int]]: ...
    def close(self) -> None: ...

@final
class ChunkedArray:
    def __new__(cls, path: Path, version: Which | None = None) -> Self: ...
    @property
    def path(self) -> pathlib.Path: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def chunks(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def cbytes(self) -> int: ...
    @property
    def version(self) -> int: ...
    @property
    def attrs(self) -> dict[str, Any]: ...
    def versions(self) -> list[Version]: ...
    def at(self, version: Which) -> ChunkedArray: ...
    def verify(self) -> list[str]: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, item: str, /) -> ChunkedArray: ...
    @overload
    def __getitem__(self, item: Selection, /) -> Any: ...
    def __array__(
        self, dtype: np.dtype[Any] | None = None, copy: bool | None = None
    ) -> NDArray[Any]: ...

@final
class ArrayStore:
    @classmethod
    def open(cls, path: Path, *, durable: bool = True) -> ArrayStore: ...
    @classmethod
    def create(
        cls,
        path: Path,
        shape: int | Sequence[int],
        dtype: DTypeLike,
        chunks: int | Sequence[int] | None = None,
        *,
        fill: Any = None,
        codec: Literal["lz4", "zlib"] = "lz4",
        level: int = 5,
        shuffle: Literal["byte", "bit", "none"] = "byte",
        versioned: bool = True,
        attrs: Mapping[str, Any] | None = None,
        durable: bool = True,
    ) -> ArrayStore: ...
    @property
    def path(self) -> pathlib.Path: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def chunks(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def version(self) -> int: ...
    @property
    def attrs(self) -> dict[str, Any]: ...
    @attrs.setter
    def attrs(self, attrs: Mapping[str, Any]) -> None: ...
    @property
    def array(self) -> ChunkedArray: ...
    def at(self, version: Which) -> ChunkedArray: ...
    def versions(self) -> list[Version]: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, item: str, /) -> ChunkedArray: ...
    @overload
    def __getitem__(self, item: Selection, /) -> Any: ...
    def __setitem__(self, item: Selection, value: ArrayLike, /) -> None: ...
    def __array__(
        self, dtype: np.dtype[Any] | None = None, copy: bool | None = None
    ) -> NDArray[Any]: ...
    def put(self, selection: Selection, value: ArrayLike, message: str = "put") -> Version: ...
    def append(self, rows: ArrayLike, message: str = "append") -> Version: ...
    def resize(self, shape: Sequence[int], message: str = "resize") -> Version: ...
    def stage(self, message: str = "", *, version: Which | None = None) -> StagedVersion: ...
    def commit(self, staged: StagedVersion, message: str | None = None) -> Version: ...
    def checkout(self, version: Which, message: str | None = None) -> Version: ...
    @overload
    def gc(self, keep: int, *, since: None = None) -> Removed: ...
    @overload
    def gc(self, keep: None = None, *, since: datetime | str) -> Removed: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_args: object) -> None: ...

@final
class StagedVersion:
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def chunks(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def has_changes(self) -> bool: ...
    @property
    def attrs(self) -> dict[str, Any]: ...
    @attrs.setter
    def attrs(self, attrs: Mapping[str, Any]) -> None: ...
    def __len__(self) -> int: ...
    def __getitem__(self, item: Selection, /) -> Any: ...
    def __setitem__(self, item: Selection, value: ArrayLike, /) -> None: ...
    def __array__(
        self, dtype: np.dtype[Any] | None = None, copy: bool | None = None
    ) -> NDArray[Any]: ...
    def append(self, rows: ArrayLike) -> None: ...
    def resize(self, shape: Sequence[int]) -> None: ...
    def load(self) -> None: ...
    def plan_get(self, item: Selection) -> str: ...
    def plan_set(self, item: Selection) -> str: ...
    def plan_resize(self, shape: Sequence[int]) -> str: ...
    def plan_load(self) -> str: ...
    def plan_changes(self) -> str: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool: ...

@final
class PackedArray:
    def __new__(cls, container: bytes | bytearray | memoryview) -> Self: ...
    @classmethod
    def open(cls, path: Path) -> PackedArray: ...
    @classmethod
    def pack(
        cls, array: ArrayLike, *, codec: Literal["lz4", "zlib"] = "lz4", level: int = 5
    ) -> PackedArray: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def cbytes(self) -> int: ...
    def __bytes__(self) -> bytes: ...
    def __len__(self) -> int: ...
    def __getitem__(self, item: Selection, /) -> Any: ...
    def __array__(
        self, dtype: np.dtype[Any] | None = None, copy: bool | None = None
    ) -> NDArray[Any]: ...

@final
class View:
    def __len__(self) -> int: ...
    def __bytes__(self) -> bytes: ...
    def __dlpack__(self, **options: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __buffer__(self, flags: int) -> memoryview: ...

def convert(
    sources: Path | Sequence[Path] | _ArrowStream,
    output: Path,
    *,
    part: tuple[int, int] | None = None,
    progress: Callable[[Progress], object] | None = None,
    from_format: str | None = None,
    to_format: str | None = None,
    texts: str | list[str] | None = None,
    lists: str | list[str] | None = None,
    load: str | list[str] | None = None,
    masks: str | None = None,
    guess_types: bool = False,
    quotes: bool = True,
    plain_json: bool = False,
    encoding: str | None = None,
    max_bytes: int | None = None,
    splits: str | list[str] | None = None,
    merge_splits: bool = False,
    pattern: str | list[str] | None = None,
    include: str | list[str] | None = None,
    exclude: str | list[str] | None = None,
    root: Path | None = None,
    allow_outside: bool = False,
    delimiter: str | None = None,
    header: bool | None = None,
    labels: Path | None = None,
    text_labels: bool = False,
    resize: str | None = None,
    upscale: bool = False,
    image_format: Literal["jpeg", "png", "webp", "keep"] | None = None,
    quality: int | None = None,
    subsampling: str | None = None,
    verify_images: bool = False,
    image_fields: str | list[str] | None = None,
    max_pixels: int | None = None,
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
    split: Mapping[str, float | Path] | None = None,
    split_salt: str = "",
    shards: int | None = None,
    shard_size: int | None = None,
    shard_samples: int | None = None,
    append: bool = False,
    overwrite: bool = False,
    digests: bool = True,
    lookup: bool | None = None,
    checksums: bool = False,
    lengths: str | list[str] | None = None,
    resume: bool = False,
    durable: bool = True,
    untrusted: bool = False,
) -> Converted: ...
def commit(
    output: Path, *, progress: Callable[[Progress], object] | None = None
) -> Converted: ...
def pack(object: Any) -> bytes: ...
def unpack(packed: bytes) -> Any: ...
def features() -> dict[str, bool]: ...
def verify(
    path: Path,
    *,
    deep: bool = False,
    untrusted: bool = False,
    allow_outside: bool = False,
    progress: Callable[[Progress], object] | None = None,
) -> Verified: ...
def index(
    path: Path | Sequence[Path],
    *,
    force: bool = False,
    trust_data: bool = False,
    lookup: bool | None = None,
    checksums: bool = False,
    lengths: Sequence[str] | None = None,
    progress: Callable[[Progress], object] | None = None,
    output: Path | None = None,
    key: str | None = None,
    key_field: str | None = None,
    from_format: str | None = None,
    texts: Sequence[str] | None = None,
    lists: Sequence[str] | None = None,
    plain_json: bool = False,
    max_bytes: int | None = None,
    skip_bad: bool = False,
    overwrite: bool = False,
    refresh: bool = False,
    append: bool = False,
) -> Indexed: ...
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
    lookup: bool | None = None,
    checksums: bool = False,
    lengths: Sequence[str] = (),
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
    lookup: bool | None = None,
    checksums: bool = False,
    lengths: Sequence[str] = (),
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
    lookup: bool | None = None,
    checksums: bool = False,
    lengths: Sequence[str] = (),
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
    lookup: bool | None = None,
    checksums: bool = False,
    lengths: Sequence[str] = (),
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
    lookup: bool | None = None,
    checksums: bool = False,
    lengths: Sequence[str] = (),
    durable: bool = True,
) -> Selected: ...
def filter(
    source: Dataset | Path,
    output: Path,
    condition: str | Callable[[Sample], object],
    *,
    progress: Callable[[Progress], object] | None = None,
    overwrite: bool = False,
    digests: bool = True,
    lookup: bool | None = None,
    checksums: bool = False,
    lengths: Sequence[str] = (),
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
    by: str | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> dict[str, Any]: ...
def stat_page(
    source: Dataset | Path,
    *,
    fields: Sequence[str] | None = None,
    by: str | None = None,
    show: int = 48,
    progress: Callable[[Progress], object] | None = None,
) -> str: ...
def compare(
    left: Dataset | Path,
    right: Dataset | Path,
    *,
    fields: Sequence[str] | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> dict[str, Any]: ...
def duplicates(
    source: Dataset | Path,
    *,
    by: str | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> list[list[str]]: ...
def samples_page(
    source: Dataset | Path, indices: Sequence[int], *, title: str = "samples", note: str = ""
) -> str: ...
