"""Features of Hugging Face `datasets` for samples, and values on their way between the two.

Arrow has no arrays of one axis, no scalars of NumPy, and no fields that a sample lacks. Features that stand for these say
so in their `id`, which `datasets` keeps and does not look at: `numpy:<f4`, `numpy:<f4:2` and `optional`. It does not keep that
of a list, so a list says it in the feature of its values.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pykiste.errors import InvalidError, WrongTypeError
from pykiste.types import Extension, Timestamp

_INT64 = 1 << 63
# Units of time that Arrow has.
_UNITS = ("s", "ms", "us", "ns")
_TIMESTAMP = "timestamp[ns, tz=UTC]"
_ARRAYS = {"Array2D": 2, "Array3D": 3, "Array4D": 4, "Array5D": 5}


def infer(samples: Iterable[Mapping[str, Any]], names: list[str] | None = None, label: str = "label") -> Any:
    """The features of these samples. `names` are of the numbers in the field `label`."""
    import datasets

    kind: Any = ("struct", {}, set())
    for number, sample in enumerate(samples):
        found = _kind(sample, "")
        kind = found if number == 0 else _merge(kind, found, "")
    features = datasets.Features(_feature(datasets, kind, ""))
    if names is not None and kind[1].get(label, (None,))[0] in ("int", "null"):
        features[label] = datasets.ClassLabel(names=names, id=features[label].id)
    return features


def _wrong(place: str, expected: str, found: Any) -> WrongTypeError:
    place = place.removeprefix(".")
    return WrongTypeError(f"field {place!r}: expected {expected}, found {found}: give the features of all samples (`features`)")


def _kind(value: Any, place: str) -> Any:
    """What a value is, as a tuple that begins with a word."""
    if value is None:
        return ("null",)
    if isinstance(value, bool):
        return ("value", "bool", None)
    if isinstance(value, int):
        return ("int", value, value)
    if isinstance(value, float) and not isinstance(value, np.generic):
        return ("value", "float64", None)
    if isinstance(value, np.generic):
        return ("value", _arrow(value.dtype, place), value.dtype.str)
    if isinstance(value, str):
        return ("value", "string", None)
    if isinstance(value, (bytes, memoryview)):
        return ("value", "binary", None)
    if isinstance(value, np.ndarray):
        _arrow(value.dtype, place)
        if value.ndim == 0 or (value.ndim > 1 and value.size == 0):
            raise _wrong(place, "an array with axes and elements", f"one of shape {value.shape}")
        return ("array", value.dtype.str, value.shape)
    if isinstance(value, Timestamp):
        return ("value", _TIMESTAMP, None)
    if isinstance(value, list):
        kind: Any = ("null",)
        for item in value:
            kind = _merge(kind, _kind(item, f"{place}[]"), f"{place}[]")
        return ("list", kind)
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str):
                raise _wrong(place, "names of fields that are text", repr(name))
        return ("struct", {name: _kind(item, f"{place}.{name}") for name, item in value.items()}, set())
    raise _wrong(place, "a value that `datasets` has a type for", type(value).__name__)


def _merge(one: Any, other: Any, place: str) -> Any:
    """What stands for both."""
    if one[0] == "null" or one == other:
        return other
    if other[0] == "null":
        return one
    if one[0] == other[0] == "int":
        return ("int", min(one[1], other[1]), max(one[2], other[2]))
    if one[0] == other[0] == "list":
        return ("list", _merge(one[1], other[1], f"{place}[]"))
    if one[0] == other[0] == "array" and one[1] == other[1] and len(one[2]) == len(other[2]):
        pairs = zip(one[2], other[2], strict=True)
        return ("array", one[1], tuple(a if a == b else None for a, b in pairs))
    if one[0] == other[0] == "struct":
        fields, optional = dict(one[1]), one[2] | other[2] | (one[1].keys() ^ other[1].keys())
        for name, kind in other[1].items():
            fields[name] = _merge(fields[name], kind, f"{place}.{name}") if name in fields else kind
        return ("struct", fields, optional)
    raise _wrong(place, "values of one type", f"{_words(one)} and {_words(other)}")


def _words(kind: Any) -> str:
    if kind[0] == "value":
        return f"{kind[1]} of NumPy" if kind[2] else str(kind[1])
    if kind[0] == "array":
        return f"arrays of {np.dtype(kind[1])} with {len(kind[2])} axes"
    return {"int": "integers", "list": "lists", "struct": "dicts"}[kind[0]]


def _arrow(dtype: np.dtype[Any], place: str) -> str:
    """The type of Arrow for elements."""
    unit = np.datetime_data(dtype)[0] if dtype.kind in "mM" else ""
    whole = dtype.kind not in "mM" or np.datetime_data(dtype)[1] == 1
    if dtype.kind in "biu" or (dtype.kind == "f" and dtype.itemsize <= 8):
        return dtype.name
    if dtype.kind in "US":
        return "string" if dtype.kind == "U" else "binary"
    if dtype.kind == "M" and whole and unit in (*_UNITS, "D"):
        return "date32" if unit == "D" else f"timestamp[{unit}]"
    if dtype.kind == "m" and whole and unit in _UNITS:
        return f"duration[{unit}]"
    raise _wrong(place, "elements that `datasets` has a type for", dtype)


def _feature(datasets: Any, kind: Any, place: str, optional: bool = False) -> Any:
    """The feature for a kind of values."""
    mark = "optional" if optional else None
    if kind[0] == "null":
        return datasets.Value("null", id=mark)
    if kind[0] == "int":
        if kind[2] >= _INT64:
            # `datasets` fails for larger ones.
            raise _wrong(place, "integers from -2**63 to 2**63 - 1", kind[2])
        return datasets.Value("int64", id=mark)
    if kind[0] == "value":
        return datasets.Value(kind[1], id=_mark(kind[2], optional))
    if kind[0] == "list":
        return datasets.List(_feature(datasets, kind[1], f"{place}[]", optional))
    if kind[0] == "array":
        return _array(datasets, kind, place, optional)
    if optional:
        raise _wrong(place, "dicts that all samples have, or none", "samples without")
    return {
        name: _feature(datasets, field, f"{place}.{name}", optional=name in kind[2]) for name, field in kind[1].items()
    }


def _array(datasets: Any, kind: Any, place: str, optional: bool) -> Any:
    dtype, shape = np.dtype(kind[1]), kind[2]
    arrow = _arrow(dtype, place)
    if 2 <= len(shape) <= 5 and None not in shape[1:] and dtype.kind in "biuf":
        made = getattr(datasets, f"Array{len(shape)}D")
        return made(shape=shape, dtype=arrow, id=_mark(None if dtype.isnative else dtype.str, optional))
    feature = datasets.Value(arrow, id=_mark(f"{dtype.str}:{len(shape)}", optional))
    for _ in shape:
        feature = datasets.List(feature)
    return feature


def _mark(numpy: str | None, optional: bool) -> str | None:
    marks = [f"numpy:{numpy}"] if numpy else []
    return ";".join(marks + ["optional"] * optional) or None


def numpy_type(feature: Any) -> np.dtype[Any] | None:
    """The type of the arrays or scalars of NumPy that a feature stands for, if it does."""
    leaf, lists = _leaf(feature)
    for mark in _marks(leaf):
        kind, _, rest = mark.partition(":")
        dtype, _, axes = rest.partition(":")
        if kind == "numpy" and int(axes or 0) == lists:
            return np.dtype(dtype)
    return np.dtype(leaf.dtype) if lists == 0 and type(leaf).__name__ in _ARRAYS else None


def is_optional(feature: Any) -> bool:
    """Whether samples may lack the field. Then it is never `None`."""
    return "optional" in _marks(_leaf(feature)[0])


def _leaf(feature: Any) -> tuple[Any, int]:
    """What is in lists, and how many they are in one another."""
    lists = 0
    while is_list(feature):
        feature, lists = inner(feature), lists + 1
    return feature, lists


def _marks(feature: Any) -> list[str]:
    return (getattr(feature, "id", None) or "").split(";")


def is_list(feature: Any) -> bool:
    return isinstance(feature, (list, tuple)) or type(feature).__name__ in ("List", "LargeList", "Sequence")


def inner(feature: Any) -> Any:
    """The feature of the items of a list."""
    return feature[0] if isinstance(feature, (list, tuple)) else feature.feature


def to_row(sample: Mapping[str, Any], features: Any) -> dict[str, Any]:
    """A sample as `datasets` takes it, if it is what the features of the first samples say.

    Without this, `datasets` would take 1.5 for an integer and make 1 of it.
    """
    try:
        made: dict[str, Any] = _to(features, dict(sample), "")
    except (InvalidError, WrongTypeError) as error:
        key = sample.get("key")
        error.args = (f"sample {key!r}, {error.args[0]}",)
        error.key = key if isinstance(key, str) else None
        raise
    return made


def _to(feature: Any, value: Any, place: str) -> Any:
    if value is None:
        return None
    if isinstance(feature, Mapping):
        return _to_struct(feature, value, place)
    dtype = numpy_type(feature)
    name = type(feature).__name__
    if is_list(feature) and dtype is None:
        _expect(isinstance(value, list), feature, value, place)
        return [_to(inner(feature), item, f"{place}[{at}]") for at, item in enumerate(value)]
    if dtype is not None and (is_list(feature) or name in _ARRAYS):
        return _to_array(feature, dtype, value, place)
    if name == "ClassLabel":
        _expect(type(value) is int and -1 <= value < len(feature.names), feature, value, place)
        return value
    if dtype is not None:
        fits = isinstance(value, np.generic) and value.dtype == dtype and not (dtype.kind in "mM" and np.isnat(value))
        _expect(fits, feature, value, place)
        return _time(value) if dtype.kind in "mM" else value.item()
    if feature.dtype == _TIMESTAMP:
        _expect(isinstance(value, Timestamp), feature, value, place)
        nanoseconds = value.seconds * 1_000_000_000 + value.nanoseconds
        _expect(-_INT64 < nanoseconds < _INT64, feature, value, place)
        return nanoseconds
    value = bytes(value) if feature.dtype == "binary" and isinstance(value, memoryview) else value
    _expect(_fits(feature.dtype, value), feature, value, place)
    return value


def _fits(dtype: str, value: Any) -> bool:
    """Whether a value is of this type of Arrow, and nothing that would be converted to it."""
    if dtype == "int64":
        return type(value) is int and -_INT64 <= value < _INT64
    return type(value) is {"bool": bool, "float64": float, "string": str, "binary": bytes}.get(dtype)


def _to_struct(features: Mapping[str, Any], value: Any, place: str) -> dict[str, Any]:
    _expect(isinstance(value, dict), "a dict", value, place)
    more = [name for name in value if name not in features]
    if more:
        raise _wrong(f"{place}.{more[0]}", "the fields of the first samples", "another one")
    made = {}
    for name, feature in features.items():
        if name in value:
            if value[name] is None and is_optional(feature):
                raise _wrong(f"{place}.{name}", "a value, or no such field, as in the first samples", "None")
            made[name] = _to(feature, value[name], f"{place}.{name}")
        elif is_optional(feature):
            made[name] = None
        else:
            raise _wrong(f"{place}.{name}", "a field, as all of the first samples have it", "none")
    return made


def _to_array(feature: Any, dtype: np.dtype[Any], value: Any, place: str) -> Any:
    shape = getattr(feature, "shape", None)
    axes = _leaf(feature)[1] if shape is None else len(shape)
    fits = isinstance(value, np.ndarray) and value.dtype == dtype and value.ndim == axes
    fits = fits and (axes == 1 or value.size > 0)
    fits = fits and (shape is None or all(a in (None, b) for a, b in zip(shape, value.shape, strict=True)))
    _expect(fits, feature, value, place)
    if dtype.kind in "mM":
        return _times(value)
    is_taken = shape is not None or (axes == 1 and dtype.kind in "biuf")
    return value.astype(dtype.newbyteorder("="), copy=False) if is_taken else value.tolist()


def _times(value: Any) -> Any:
    """Times as integers, which Arrow takes, and `None` for what is no time."""
    if value.ndim:
        return [_times(item) for item in value]
    return None if np.isnat(value) else _time(value)


def _time(value: Any) -> Any:
    """A time as Arrow takes it: days as a date, all others as an integer."""
    return value.item() if np.datetime_data(value.dtype)[0] == "D" else int(value.astype("i8"))


def _expect(fits: bool, feature: Any, value: Any, place: str) -> None:
    if not fits:
        found = f"{type(value).__name__} {value!r:.60}" if not isinstance(value, np.ndarray) else (
            f"an array of {value.dtype} with the shape {value.shape}"
        )
        raise _wrong(place, f"{feature}, as in the first samples", found)


def from_row(row: Mapping[str, Any], features: Any) -> dict[str, Any]:
    """A row of `datasets`, whose images are not decoded, as a sample."""
    made: dict[str, Any] = _from(features, dict(row)) if features else dict(row)
    return made


def _from(feature: Any, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(feature, Mapping):
        # Columns that were added to the rows have no feature.
        return {
            name: _from(feature[name], item) if name in feature else item
            for name, item in value.items()
            if item is not None or name not in feature or not is_optional(feature[name])
        }
    dtype = numpy_type(feature)
    if dtype is not None:
        made = _numpy(value, dtype)
        return made if is_list(feature) or type(feature).__name__ in _ARRAYS else made[()]
    if is_list(feature):
        if isinstance(value, Mapping):
            return {field: [_from(inner(feature)[field], item) for item in items] for field, items in value.items()}
        return [_from(inner(feature), item) for item in value]
    if _is_file(feature) and isinstance(value, Mapping):
        return _encoded(value)
    return value


def _numpy(value: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.kind in "mM" and np.datetime_data(dtype)[0] == "ns":
        # Times of pandas, which NumPy would cut to microseconds.
        flat = np.vectorize(lambda item: -_INT64 if item is None else item.value, otypes=["i8"])
        found = np.array(value, object)
        return flat(found).view(dtype.newbyteorder("=")).astype(dtype) if found.size else np.empty(0, dtype)
    return np.array(value, dtype)


def _encoded(file: Mapping[str, Any]) -> bytes | None:
    """The bytes of an image or a recording, which may be in a file elsewhere."""
    if file["bytes"] is not None or file.get("path") is None:
        found: bytes | None = file["bytes"]
        return found
    with open(file["path"], "rb") as opened:
        return opened.read()


def _is_file(feature: Any) -> bool:
    """Whether it is an image, a recording or the like. JSON is decoded too, and is no file."""
    return hasattr(feature, "decode") and type(feature).__name__ != "Json"


def undecoded(feature: Any) -> Any:
    """The same features, but images and recordings as the bytes that they are stored as."""
    if isinstance(feature, dict):
        return type(feature)({name: undecoded(item) for name, item in feature.items()})
    if isinstance(feature, (list, tuple)):
        return [undecoded(feature[0])]
    if is_list(feature):
        return replace(feature, feature=undecoded(feature.feature))
    return replace(feature, decode=False) if _is_file(feature) else feature


def labels(features: Any, place: str = "") -> dict[str, list[str]]:
    """The names of each column of class labels, by the way to it."""
    if isinstance(features, Mapping):
        found = (labels(item, f"{place}.{name}" if place else str(name)) for name, item in features.items())
        return {name: names for one in found for name, names in one.items()}
    if is_list(features):
        return labels(inner(features), f"{place}[]")
    return {place: list(features.names)} if type(features).__name__ == "ClassLabel" else {}
