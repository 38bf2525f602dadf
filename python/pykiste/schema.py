"""The fields of samples, as `pykiste.Dataset.schema` describes them.

>>> import pykiste as ki
>>> path = getfixture("tmp_path") / "pets.msgpack"
>>> with ki.Writer(path) as writer:
...     for number in range(200):
...         writer.write({"key": str(number), "label": number, "tokens": np.arange(number, dtype="int32")})
>>> schema = ki.open(path).schema
>>> schema
Schema of the first 100 of 200 samples:
  key     str
  label   int
  tokens  array int32[0 to 99]
>>> schema["tokens"].dtype, schema["tokens"].shape, schema["label"].types
(dtype('int32'), (None,), ('int',))
>>> list(schema), schema.samples, schema.of_samples
(['key', 'label', 'tokens'], 100, 200)
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pykiste import Dataset

__all__ = ["Field", "Schema"]

#: Samples that are looked at.
FIRST = 100
#: Types of one field that are shown.
_TYPES = 6
#: What has another name in Python.
_PYTHON = {"nil": "None", "map": "dict", "ext": "Timestamp or Extension"}


@dataclass(frozen=True)
class Field:
    """A field of samples.

    `types` are the types of its values, the most frequent first: `int`, `float`, `str`, `bytes`, `list`, `dict`,
    `None`, `image jpeg`, `array float32`, `packed array float32`, `scalar float32`, … `dtype` and `shape` are of arrays, where all that were seen have one of
    it; an axis of `shape` is `None` where their lengths differ. The `shape` of images is their height and width.
    `present` is how many of the samples have the field.
    """

    name: str
    types: tuple[str, ...]
    dtype: np.dtype[Any] | None
    shape: tuple[int | None, ...] | None
    present: int
    #: The shortest and the longest of each axis.
    ranges: tuple[tuple[int, int], ...] | None

    def __str__(self) -> str:
        text = " or ".join(self.types[:_TYPES]) + (" or more" if len(self.types) > _TYPES else "")
        if self.ranges is None:
            return text
        axes = [str(low) if low == high else f"{low} to {high}" for low, high in self.ranges]
        return text + (" " + " x ".join(reversed(axes)) if text.startswith("image") else f"[{', '.join(axes)}]")


class Schema(Mapping[str, Field]):
    """Fields by name, in the order in which they occur, of the first `samples` of `of_samples`.

    It is no promise: other samples may have other fields, types and shapes. `pykiste.stat` looks at all of them.
    """

    def __init__(self, fields: Mapping[str, Field], samples: int, of_samples: int) -> None:
        self._fields = dict(fields)
        self.samples = samples
        self.of_samples = of_samples

    @classmethod
    def of(cls, dataset: "Dataset", samples: int = FIRST) -> "Schema":
        """The fields of the first samples of a dataset."""
        found = dataset._first(samples)
        fields = {field["name"]: _field(field) for field in found["fields"]}
        return cls(fields, found["samples"], len(dataset))

    def __getitem__(self, name: str) -> Field:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    @property
    def source(self) -> str:
        """Which samples it is of, in words."""
        if self.samples == self.of_samples:
            return f"all samples ({self.samples:,})"
        return f"the first {self.samples:,} of {self.of_samples:,} samples"

    def rows(self) -> list[tuple[str, str]]:
        """The name of each field, and what it is in words."""
        return [(name, self._words(field)) for name, field in self.items()]

    def _words(self, field: Field) -> str:
        missing = self.samples - field.present
        return f"{field}, not in {missing:,} of them" if missing else str(field)

    def __repr__(self) -> str:
        from pykiste._core import _escaped

        rows = [(_escaped(name), text) for name, text in self.rows()]
        width = max((len(name) for name, _ in rows), default=0)
        return "\n".join([f"Schema of {self.source}:", *(f"  {name:<{width}}  {text}" for name, text in rows)])


def _field(found: dict[str, Any]) -> Field:
    counts: dict[str, int] = found["types"]
    types = tuple(dict.fromkeys(_type(name) for name in sorted(counts, key=lambda name: -counts[name])))
    arrays, images = found.get("arrays"), found.get("images")
    dtype, shapes = None, []
    # What is known of some of the values is not known of the field.
    if arrays is not None and sum(arrays["dtypes"].values()) == found["present"]:
        if len(arrays["dtypes"]) == 1:
            dtype = _dtype(next(iter(arrays["dtypes"])))
        shapes = [shape for shape, _ in arrays["shapes"]]
    elif images is not None and sum(images["formats"].values()) == found["present"] and not images["damaged"]:
        shapes = [(height, width) for (width, height), _ in images["sizes"]]
    ranges = shape = None
    if shapes and len({len(one) for one in shapes}) == 1:
        ranges = tuple((min(axis), max(axis)) for axis in zip(*shapes, strict=True))
        shape = tuple(low if low == high else None for low, high in ranges)
    return Field(found["name"], types, dtype, shape, found["present"], ranges)


def _dtype(text: str) -> np.dtype[Any] | None:
    """A type of NumPy by its text, where that is one word."""
    try:
        return np.dtype(text)
    except (TypeError, ValueError):
        return None


def _type(text: str) -> str:
    """A type in the words of Python and NumPy, without axes: `packed array float32` for `array <f4, 2-d, packed`."""
    kind, _, rest = text.partition(" ")
    if kind not in ("array", "scalar"):
        return _PYTHON.get(text, text)
    name, *more = rest.split(", ")
    kind = f"packed {kind}" if "packed" in more else kind
    dtype = _dtype(name)
    return f"{kind} {name}" if dtype is None or dtype.kind in "VSU" else f"{kind} {dtype}"
