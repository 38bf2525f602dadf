"""Batches of a `Loader` that are planned by the lengths of samples: `ki.Loader(dataset, order, batching=...)`.

Each is a value that pickles. `lengths` is the name of a column of lengths that the dataset has
(`kiste index --lengths 'len(tokens)'`, `ki.index(path, lengths=[...])`), or an array of one number for each sample. A
`window` of positions is planned at once; `seed` is that of the order of batches. All ranks make equally many steps.
`longer` says what happens to a sample that no batch has room for: "error", "cut" (the column cuts it) or
"leave-out".
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

from pykiste.errors import InvalidError

__all__ = ["ByLength", "ByShape", "Rows", "TokenBudget"]


@final
@dataclass(frozen=True, eq=False)
class TokenBudget:
    """As many samples as fit into `tokens`, at most `most`. Padding counts, so that samples of a batch are about equally
    long; with `packed=True` it does not, and long and short samples are combined.

    >>> import pykiste as ki
    >>> path = getfixture("tmp_path") / "texts.msgpack"
    >>> with ki.Writer(path) as writer:
    ...     for number in range(100):
    ...         writer.write({"key": str(number), "tokens": list(range(number % 10))})
    >>> lengths = [number % 10 for number in range(100)]
    >>> texts = ki.open(path)
    >>> loader = ki.Loader(
    ...     texts, ki.Sampler.shuffle(100, seed=1), batching=ki.batching.TokenBudget(64, lengths=lengths),
    ...     columns={"tokens": ki.Ragged("int64", pad=ki.Pad())})
    >>> batches = [batch["tokens"] for batch in loader]
    >>> sum(map(len, batches)), all(batch.size <= 64 for batch in batches)
    (100, True)
    """

    tokens: int
    lengths: Any
    packed: bool = False
    most: int | None = None
    longer: Literal["error", "cut", "leave-out"] = "error"
    window: int = 65536
    seed: int = 0

    def _text(self) -> str:
        packed = ":packed" if self.packed else ""
        most = "" if self.most is None else f":most={self.most}"
        return f"budget:{self.tokens}{packed}{most}:longer={self.longer}"


@final
@dataclass(frozen=True, eq=False)
class ByLength:
    """Batches of one bucket. `buckets` has the longest length of each and the samples of a batch, such as `{512: 64, 2048:
    16}`; or it is a number of buckets of equally many samples, with batches of `batch_size`.

    `batch.bucket` is the number of the bucket, from the shortest on.
    """

    buckets: Mapping[int, int] | int
    lengths: Any
    batch_size: int | None = None
    longer: Literal["error", "cut", "leave-out"] = "error"
    window: int = 65536
    seed: int = 0

    def _text(self) -> str:
        if isinstance(self.buckets, int):
            if self.batch_size is None:
                raise InvalidError("expected a batch_size with a number of buckets, found none")
            return f"equal:{self.buckets}x{self.batch_size}:longer={self.longer}"
        if self.batch_size is not None:
            raise InvalidError("expected no batch_size, as each bucket has its own, found one")
        buckets = ",".join(f"{most}={batch}" for most, batch in sorted(self.buckets.items()))
        return f"buckets:{buckets}:longer={self.longer}"


@final
@dataclass(frozen=True, eq=False)
class ByShape:
    """Batches of images of one shape: each image goes to the shape (width and height) whose ratio is nearest to its own.
    `batch_size` is one number, or one for each shape. `lengths` are the names of two columns, or two arrays.

    `batch.bucket` is the number of the shape.
    """

    shapes: Sequence[tuple[int, int]]
    batch_size: int | Sequence[int]
    lengths: Any = ("width(image)", "height(image)")
    window: int = 65536
    seed: int = 0

    def _text(self) -> str:
        sizes: Iterable[int]
        if isinstance(self.batch_size, int):
            sizes = [self.batch_size] * len(self.shapes)
        else:
            sizes = list(self.batch_size)
            if len(self.batch_size) != len(self.shapes):
                found = f"{len(self.batch_size)} for {len(self.shapes)} shapes"
                raise InvalidError(f"expected a batch_size for each shape, found {found}")
        shapes = zip(self.shapes, sizes, strict=True)
        return "shapes:" + ",".join(f"{width}x{height}={size}" for (width, height), size in shapes)


@final
@dataclass(frozen=True, eq=False)
class Rows:
    """Batches of `rows` rows of exactly `length` tokens, which samples are packed into: whole ones, chosen so that little
    is left of a row, or with `split=True` one behind the other through all rows. `ki.columns.Packed(length)` is the
    column for it, whose batches have `cu_seqlens`, `positions` and `documents`.
    """

    length: int
    rows: int
    lengths: Any
    split: bool = False
    longer: Literal["error", "cut", "leave-out"] = "error"
    window: int = 65536
    seed: int = 0

    def _text(self) -> str:
        split = ":split" if self.split else ""
        return f"rows:{self.length}x{self.rows}{split}:longer={self.longer}"
