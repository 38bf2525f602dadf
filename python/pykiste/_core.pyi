from typing import final

from pykiste import (
    ArrayStore as ArrayStore,
    ArrowTable as ArrowTable,
    Batch as Batch,
    ChunkedArray as ChunkedArray,
    Dataset as Dataset,
    Loader as Loader,
    Mixture as Mixture,
    Order as Order,
    PackedArray as PackedArray,
    Pipeline as Pipeline,
    Sampler as Sampler,
    StagedVersion as StagedVersion,
    View as View,
    Writer as Writer,
    __version__ as __version__,
    commit as commit,
    concat as concat,
    convert as convert,
    compare as compare,
    diff as diff,
    duplicates as duplicates,
    features as features,
    filter as filter,
    index as index,
    merge as merge,
    pack as pack,
    repair as repair,
    samples_page as samples_page,
    select as select,
    shuffle as shuffle,
    sort as sort,
    split as split,
    stat as stat,
    stat_page as stat_page,
    unpack as unpack,
    verify as verify,
)
from pykiste.types import Path, Sample

@final
class Keys:
    def __iter__(self) -> Keys: ...
    def __next__(self) -> str: ...
    def __length_hint__(self) -> int: ...

@final
class Samples:
    def __iter__(self) -> Samples: ...
    def __next__(self) -> Sample: ...
    def __length_hint__(self) -> int: ...

def _described(
    recipe: str,
    selections: dict[str, bytes],
    sources: dict[str, int],
    copy: bool,
    path: Path | None,
    *,
    verify: bool,
    untrusted: bool,
    allow_outside: bool,
) -> Dataset: ...
def _picture(image: bytes) -> tuple[str, bytes] | None: ...
def _escaped(text: str) -> str: ...
def _shown(packed: bytes, max: int) -> list[tuple[str, str]]: ...
def run_command(arguments: list[str]) -> int: ...
