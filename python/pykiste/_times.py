"""Times of Python and pandas as what stands for them in samples."""

from datetime import date, datetime, timedelta
from typing import Any

import numpy as np

from pykiste.errors import InvalidError, NumberError
from pykiste.types import Timestamp

# `date.toordinal` of the first day of 1970.
_EPOCH = date(1970, 1, 1).toordinal()


def stored(value: Any) -> Timestamp | np.datetime64 | np.timedelta64:
    """A time with a zone as `Timestamp`, all others as NumPy's types, which have no zone either.

    >>> from datetime import timezone
    >>> stored(datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=timezone.utc))
    Timestamp(seconds=1, nanoseconds=5000)
    >>> stored(datetime(1970, 1, 1)), stored(date(1970, 1, 1)), stored(timedelta(seconds=1))
    (np.datetime64('1970-01-01T00:00:00.000000'), np.datetime64('1970-01-01'), np.timedelta64(1000000,'us'))
    """
    if isinstance(value, timedelta):
        return value.to_timedelta64() if hasattr(value, "to_timedelta64") else _timedelta(value)
    if not isinstance(value, datetime):
        return np.datetime64(value, "D")
    if value != value:
        # `pandas.NaT`, which is a time and a time span that is missing.
        return np.datetime64("NaT", "ns")
    offset = value.utcoffset()
    if offset is not None:
        return _timestamp(value, offset)
    if value.fold:
        raise InvalidError(f"expected a time without `fold`, or with a time zone, found {value!r}")
    return value.to_datetime64() if hasattr(value, "to_datetime64") else np.datetime64(value, "us")


def _timestamp(value: datetime, offset: timedelta) -> Timestamp:
    days = value.toordinal() - _EPOCH
    seconds = days * 86_400 + value.hour * 3600 + value.minute * 60 + value.second
    seconds -= offset.days * 86_400 + offset.seconds
    # Times of pandas have nanoseconds, too.
    nanoseconds = (value.microsecond - offset.microseconds) * 1000 + getattr(value, "nanosecond", 0)
    more, nanoseconds = divmod(nanoseconds, 1_000_000_000)
    return Timestamp(seconds + more, nanoseconds)


def _timedelta(value: timedelta) -> np.timedelta64:
    microseconds = value // timedelta(microseconds=1)
    if abs(microseconds) >= 1 << 63:
        raise NumberError(f"expected a time span that 64 bits of microseconds have, found {value}")
    return np.timedelta64(microseconds, "us")
