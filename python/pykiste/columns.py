"""Columns of a `Loader` that are more than a field of one type and shape.

Each is a value: it compares, hashes and pickles. `(column, "field")` takes a field of another name, for `Window`, `Mask`,
`Boxes`, `Labels`, `Ragged`, `Packed` and `LabelNames`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pykiste.errors import InvalidError, WrongTypeError

__all__ = ["Boxes", "Kept", "LabelNames", "Labels", "Map", "Mask", "Pad", "Packed", "PackedTokens", "Ragged", "Window"]


def _type(given: Any) -> np.dtype[Any]:
    """A type of NumPy, which may be given as the one of torch."""
    return np.dtype(str(given).removeprefix("torch.") if type(given).__module__ == "torch" else given)


def _settle(column: Any, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(column, name, value)


@final
@dataclass(frozen=True)
class LabelNames:
    """A column of the names of labels, which are integers: a list of `str`. `names` are those of 0, 1, … such as
    `pykiste.Dataset.labels`. A label without a name is an `InvalidError` where the column is read.

    >>> import pykiste as ki
    >>> path = getfixture("tmp_path") / "pets.msgpack"
    >>> with ki.Writer(path) as writer:
    ...     for number in range(3):
    ...         writer.write({"key": str(number), "label": number % 2})
    ...     writer.set_labels(["cat", "dog"])
    >>> pets = ki.open(path)
    >>> columns = {"label": "int64", "name": (ki.LabelNames(pets.labels), "label")}
    >>> [batch] = ki.Loader(pets, columns=columns)
    >>> batch["label"].tolist(), batch["name"]
    ([0, 1, 0], ['cat', 'dog', 'cat'])
    """

    names: Sequence[str]

    def __post_init__(self) -> None:
        if isinstance(self.names, str | None) or not self.names:
            raise InvalidError(f"names: expected at least one in a list, found {self.names!r}")
        if wrong := [name for name in self.names if not isinstance(name, str)]:
            raise WrongTypeError(f"names: expected texts, found {wrong[0]!r}")
        _settle(self, names=tuple(self.names))


@final
@dataclass(frozen=True)
class Window:
    """A column of some rows of an array: `rows` of them, each of the shape `row`, from the start, the center
    or at random.

    Of a packed array only the blocks with these rows are decoded. Where a random window begins depends on the
    seed, the epoch and the position of the sample alone: not on threads, ranks or a resume. An array with
    fewer rows is an error.

    >>> import numpy as np
    >>> import pykiste as ki
    >>> path = getfixture("tmp_path") / "texts.msgpack"
    >>> with ki.Writer(path) as writer:
    ...     for number in range(6):
    ...         writer.write({"key": str(number), "tokens": np.arange(100, dtype="int32")})
    >>> columns = {"tokens": ki.Window("int32", 8, at="random", seed=3)}
    >>> for batch in ki.Loader(ki.open(path), batch_size=3, columns=columns):
    ...     print(batch["tokens"].shape, (np.diff(batch["tokens"]) == 1).all())
    (3, 8) True
    (3, 8) True
    """

    dtype: DTypeLike
    rows: int
    row: Sequence[int] = ()
    at: Literal["start", "center", "random"] = field(default="start", kw_only=True)
    seed: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.at not in ("start", "center", "random"):
            raise InvalidError(f"at: expected 'start', 'center' or 'random', found {self.at!r}")
        if self.at == "random" and self.seed is None:
            raise InvalidError("seed: expected one for random windows, found none")
        if self.at != "random" and self.seed is not None:
            raise InvalidError(f"seed: expected none for windows at the {self.at}, found one")
        _settle(self, dtype=_type(self.dtype), row=tuple(self.row))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a window."""
        return (self.rows, *self.row)


@final
@dataclass(frozen=True)
class Pad:
    """To which length the samples of a batch are padded.

    That of the longest, rounded up to a `multiple`; or the first of `buckets` that the longest fits into. A
    sample longer than the last bucket is an error, or with `longer="cut"` its first rows are taken. What is added is `fill`.

    >>> import pykiste as ki
    >>> path = getfixture("tmp_path") / "texts.msgpack"
    >>> with ki.Writer(path) as writer:
    ...     for number in range(3):
    ...         writer.write({"key": str(number), "tokens": [7] * number})
    >>> columns = {"tokens": ki.Ragged("int32", pad=ki.Pad(buckets=[3, 8], fill=-1))}
    >>> [batch] = ki.Loader(ki.open(path), columns=columns)
    >>> batch["tokens"].tolist(), batch.lengths("tokens").tolist()
    ([[-1, -1, -1], [7, -1, -1], [7, 7, -1]], [0, 1, 2])
    """

    multiple: int = field(default=1, kw_only=True)
    buckets: Sequence[int] | None = field(default=None, kw_only=True)
    fill: float = field(default=0, kw_only=True)
    longer: Literal["error", "cut"] = field(default="error", kw_only=True)

    def __post_init__(self) -> None:
        if self.longer not in ("error", "cut"):
            raise InvalidError(f"longer: expected 'error' or 'cut', found {self.longer!r}")
        if self.buckets is not None:
            if self.multiple != 1:
                raise InvalidError("expected buckets or a multiple, found both")
            _settle(self, buckets=tuple(self.buckets))
        elif self.longer == "cut":
            raise InvalidError("longer: expected buckets for samples to be cut, found none")


@final
@dataclass(frozen=True)
class Ragged:
    """A column of arrays with any number of rows, each of the shape `row`.

    A batch has a list of arrays, and `Batch.ragged` all rows with the offsets between samples. With `pad` it
    has one array of shape `(samples, length, …)`, and `Batch.lengths` says how many rows belong to a sample.

    >>> import pykiste as ki
    >>> path = getfixture("tmp_path") / "texts.msgpack"
    >>> with ki.Writer(path) as writer:
    ...     writer.write({"key": "a", "tokens": [1, 2, 3]})
    ...     writer.write({"key": "b", "tokens": [4]})
    >>> columns = {"tokens": ki.Ragged("int64", pad=ki.Pad(buckets=[4, 8], fill=-1))}
    >>> [batch] = ki.Loader(ki.open(path), columns=columns)
    >>> batch["tokens"].tolist(), batch.lengths("tokens").tolist()
    ([[1, 2, 3, -1], [4, -1, -1, -1]], [3, 1])
    """

    dtype: DTypeLike
    row: Sequence[int] = ()
    pad: Pad | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _settle(self, dtype=_type(self.dtype), row=tuple(self.row))


@final
@dataclass(frozen=True)
class Packed:
    """A column of tokens: the samples of a batch one after another in rows of `length`.

    A sample that does not fit into the rest of a row continues in the next one; with `split=False` it begins the
    next row, and one longer than a row is an error, or cut with `longer="cut"`. With `rows` each batch has
    this many rows, and a sample that is longer than all of them is an error, or cut.

    A batch is packed by itself: its size counts samples as ever, and so does the state of a run.
    `Batch.packed` says what is where.

    >>> import pykiste as ki
    >>> path = getfixture("tmp_path") / "texts.msgpack"
    >>> with ki.Writer(path) as writer:
    ...     for key, length in [("a", 3), ("b", 2), ("c", 1)]:
    ...         writer.write({"key": key, "tokens": list(range(length))})
    >>> columns = {"tokens": ki.Packed("int32", 4, split=False, fill=-1)}
    >>> [batch] = ki.Loader(ki.open(path), columns=columns)
    >>> batch["tokens"].tolist()
    [[0, 1, 2, -1], [0, 1, 0, -1]]
    >>> packed = batch.packed("tokens")
    >>> packed.documents.tolist(), packed.cu_seqlens.tolist()
    ([[0, 0, 0, -1], [1, 1, 2, -1]], [0, 3, 4, 6, 7, 8])
    """

    dtype: DTypeLike
    length: int
    split: bool = field(default=True, kw_only=True)
    rows: int | None = field(default=None, kw_only=True)
    fill: float = field(default=0, kw_only=True)
    longer: Literal["error", "cut"] = field(default="error", kw_only=True)

    def __post_init__(self) -> None:
        if self.longer not in ("error", "cut"):
            raise InvalidError(f"longer: expected 'error' or 'cut', found {self.longer!r}")
        if self.split and self.longer == "cut" and self.rows is None:
            raise InvalidError("longer: expected split=False or rows for samples to be cut, found neither")
        _settle(self, dtype=_type(self.dtype))


class PackedTokens(NamedTuple):
    """A column of packed tokens: arrays of shape `(rows, length)`, and where the pieces are."""

    #: The tokens.
    tokens: NDArray[Any]
    #: For each token its place in its piece of a sample; 0 for padding.
    positions: NDArray[np.int32]
    #: For each token the sample of the batch that it is of; -1 for padding.
    documents: NDArray[np.int32]
    #: Where each piece begins, in tokens of all rows, and the end of the last. A piece ends with its row, and
    #: the padding of a row is a piece of its own.
    cu_seqlens: NDArray[np.int32]
    #: The length of the longest piece.
    max_seqlen: int


@final
@dataclass(frozen=True)
class Map:
    """A column that a function makes of each sample: a number or an array of `shape`, which is converted to `dtype` as NumPy
    assigns it, if the value stays the same kind.

    The function gets a `Record`: `record["field"]` is a value, `record.key` and `record.index` say which sample it is,
    and `record.rng` is a generator of NumPy whose numbers depend on `seed`, the epoch and the position of the sample alone:
    the same for any number of threads and ranks, and after a resume. It runs on the threads of the loader, one call at a
    time, as Python does. What it raises is an error of the sample.

    >>> import pykiste as ki
    >>> path = getfixture("tmp_path") / "words.msgpack"
    >>> with ki.Writer(path) as writer:
    ...     for word in ["one", "three", "eleven"]:
    ...         writer.write({"key": word})
    >>> columns = {"length": ki.Map(lambda record: len(record.key), "int64")}
    >>> [batch["length"].tolist() for batch in ki.Loader(ki.open(path), columns=columns)]
    [[3, 5, 6]]
    """

    function: Callable[[Any], Any]
    dtype: DTypeLike
    shape: Sequence[int] = ()
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise WrongTypeError(f"function: expected a function, found {type(self.function).__name__}")
        shape = (self.shape,) if isinstance(self.shape, int) else tuple(self.shape)
        _settle(self, dtype=_type(self.dtype), shape=shape)


@final
@dataclass(frozen=True)
class Mask:
    """A column of masks for the images of another column: `(height, width)`.

    A mask is cropped, flipped, padded and turned as its image, and resized to the nearest pixel. It is an image of
    grey, a PNG with a palette, whose numbers are taken, or an array, with the size of its image. `fill` stands around
    what is padded. With `upright=True` masks are not turned by the EXIF orientation of the image: they
    were made for upright images.
    """

    dtype: DTypeLike = "uint8"
    of: str = field(default="image", kw_only=True)
    fill: float = field(default=0, kw_only=True)
    upright: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        _settle(self, dtype=_type(self.dtype))


@final
@dataclass(frozen=True)
class Boxes:
    """A column of boxes in the images of another column: `float32`, four for each box.

    They are cropped, flipped, scaled and clipped with their image. `format` is as in torchvision: "xyxy", "xywh"
    or "cxcywh", in pixels, of the stored image before and of the result after.

    A box that has left the image is kept, without width or height, as by `ClampBoundingBoxes`. With
    `min_size` or `min_area` those below are removed, as by `SanitizeBoundingBoxes`: `Labels` and `Kept` say
    which are left. With `upright=True` boxes are not turned by the EXIF orientation of the image.

    >>> import pykiste as ki
    >>> path = getfixture("tmp_path") / "boxes.msgpack"
    >>> with ki.Writer(path) as writer:
    ...     image = b"P5 8 4 255\\n" + bytes(32)
    ...     boxes = [[0, 0, 2, 2], [4, 1, 6, 3]]
    ...     writer.write({"key": "a", "image": image, "boxes": boxes, "labels": [7, 8]})
    >>> columns = {
    ...     "image": ki.Pipeline("center_crop(4) | hflip(1)"),
    ...     "boxes": ki.Boxes(min_size=1),
    ...     "labels": ki.Labels("int64"),
    ... }
    >>> [batch] = ki.Loader(ki.open(path), columns=columns)
    >>> [boxes], [labels] = batch["boxes"], batch["labels"]
    >>> boxes.tolist(), labels.tolist()
    ([[0.0, 1.0, 2.0, 3.0]], [8])
    """

    of: str = field(default="image", kw_only=True)
    format: Literal["xyxy", "xywh", "cxcywh"] = field(default="xyxy", kw_only=True)
    min_size: float | None = field(default=None, kw_only=True)
    min_area: float | None = field(default=None, kw_only=True)
    upright: bool = field(default=False, kw_only=True)
    pad: Pad | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.format not in ("xyxy", "xywh", "cxcywh"):
            message = f"format: expected 'xyxy', 'xywh' or 'cxcywh', found {self.format!r}"
            raise InvalidError(message)


@final
@dataclass(frozen=True)
class Labels:
    """A column of data about the boxes of another column, such as their classes: an array with a row for
    each box. Rows of boxes that are left out are left out too."""

    dtype: DTypeLike
    row: Sequence[int] = ()
    of: str = field(default="boxes", kw_only=True)
    pad: Pad | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _settle(self, dtype=_type(self.dtype), row=tuple(self.row))


@final
@dataclass(frozen=True)
class Kept:
    """A column of the boxes of another column that are left: their numbers in the field, as `int64`."""

    of: str = field(default="boxes", kw_only=True)
