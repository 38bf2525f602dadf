"""The views of a dataset: what `keys`, `items` and `values` return."""

from collections.abc import Iterator, KeysView
from typing import TYPE_CHECKING, Any

from pykiste.errors import WrongTypeError
from pykiste.types import Sample

if TYPE_CHECKING:
    from pykiste import Dataset


class Keys(KeysView[str]):
    """The keys of a dataset. Operators of sets (`&`, `|`, `-`) make sets, which are in memory."""

    _mapping: "Dataset"

    def __init__(self, dataset: "Dataset") -> None:
        self._mapping = dataset

    def __iter__(self) -> Iterator[str]:
        return self._mapping._keys()

    def __reversed__(self) -> Iterator[str]:
        return map(self._mapping.key, range(len(self) - 1, -1, -1))

    def __repr__(self) -> str:
        return f"{self._mapping!r}.keys()"


class _Samples:
    """What views that read samples have in common."""

    def __init__(self, dataset: "Dataset") -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __contains__(self, item: object) -> bool:
        # It would read all samples, and arrays are not equal or unequal as a whole.
        raise WrongTypeError("expected `key in dataset`, found a search in its samples: compare samples one by one")

    def __repr__(self) -> str:
        return f"{self._dataset!r}.{type(self).__name__.lower()}()"


class Items(_Samples):
    """The keys of a dataset with their samples."""

    def __iter__(self) -> Iterator[tuple[str, Sample]]:
        return zip(self._dataset._keys(), iter(self._dataset), strict=True)

    def __reversed__(self) -> Iterator[tuple[str, Sample]]:
        dataset = self._dataset
        return ((dataset.key(index), dataset[index]) for index in range(len(dataset) - 1, -1, -1))


class Values(_Samples):
    """The samples of a dataset."""

    def __iter__(self) -> Iterator[Sample]:
        return iter(self._dataset)

    def __reversed__(self) -> Iterator[Sample]:
        dataset = self._dataset
        return (dataset[index] for index in range(len(dataset) - 1, -1, -1))
