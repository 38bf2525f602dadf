"""Values of msgpack that Python has no type for, and names for types in annotations."""

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from os import PathLike
from types import EllipsisType
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pykiste.errors import InvalidError

__all__ = ["Extension", "Path", "Sample", "Selection", "Timestamp", "TorchType", "Which"]

Path = str | PathLike[str]
"""Where a dataset or an array is."""
Sample = dict[str, Any]
"""A sample: its fields by name."""
_Part = int | slice | EllipsisType | Sequence[int] | Sequence[bool] | NDArray[Any] | np.integer[Any] | None
Which = int | str | datetime
"""A version of an array: its number, -1 for the one before the newest, or a time for the newest of it: a `datetime`
with a time zone, or text in UTC such as "2026-01-31" or "2026-01-31T12:00:00Z".
"""
Selection = _Part | tuple[_Part, ...]
"""What stands between the brackets of an array."""


class TorchType(Protocol):
    """A type of torch, such as `torch.int64`."""

    @property
    def is_floating_point(self) -> bool:
        """Whether its values are floats."""

    @property
    def itemsize(self) -> int:
        """Bytes of a value."""

    def to_complex(self) -> Any:
        """The complex type whose parts are of this type."""


class Extension(NamedTuple):
    """Bytes with a type code.

    >>> import pykiste as ki
    >>> ki.unpack(ki.pack(Extension(5, b"abc")))
    Extension(code=5, data=b'abc')
    """

    code: int
    data: bytes


class Timestamp(NamedTuple):
    """A point in time: seconds since 1970 in UTC, and nanoseconds after them.

    >>> import pykiste as ki
    >>> ki.unpack(ki.pack(Timestamp(1, 500)))
    Timestamp(seconds=1, nanoseconds=500)

    Times of Python and pandas are stored, and read, as follows. Nothing of them is lost but the name of a time zone:

    - a `datetime` or `pandas.Timestamp` with a time zone as a `Timestamp`;
    - one without, which is no point in time, as `numpy.datetime64` with its resolution: `us`, of pandas also another;
    - a `date` as `numpy.datetime64` of days, and `pandas.NaT` as `numpy.datetime64("NaT", "ns")`;
    - a `timedelta` or `pandas.Timedelta` as `numpy.timedelta64`.

    >>> from datetime import datetime, timedelta, timezone
    >>> moment = datetime(2024, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    >>> ki.unpack(ki.pack(moment)), ki.unpack(ki.pack(moment)).to_datetime() == moment
    (Timestamp(seconds=1704103200, nanoseconds=0), True)
    >>> ki.unpack(ki.pack(datetime(2024, 1, 1))), ki.unpack(ki.pack(datetime(2024, 1, 1).date()))
    (np.datetime64('2024-01-01T00:00:00.000000'), np.datetime64('2024-01-01'))
    """

    seconds: int
    nanoseconds: int = 0

    def to_datetime(self) -> datetime:
        """The same with a resolution of microseconds.

        >>> Timestamp(0, 1_000_000).to_datetime()
        datetime.datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=datetime.timezone.utc)

        Raises `ValueError` if that would lose nanoseconds.
        """
        if self.nanoseconds % 1000:
            raise InvalidError(f"{self.nanoseconds} nanoseconds are no whole microseconds")
        since = timedelta(seconds=self.seconds, microseconds=self.nanoseconds // 1000)
        return datetime(1970, 1, 1, tzinfo=timezone.utc) + since
