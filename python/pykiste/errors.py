"""What can go wrong. Everything that pykiste raises is an `Error`, and the built-in exception for the same thing where there
is one. What Python itself finds is not, such as an argument that a function does not have.

>>> import pykiste as ki
>>> try:
...     ki.open("no/such.msgpack")
... except ki.Error as error:
...     print(type(error).__name__, error.path, isinstance(error, FileNotFoundError))
NotFoundError no/such.msgpack True
"""

from typing import Any

__all__ = [
    "AlreadyExistsError",
    "BuffersError",
    "CancelledError",
    "DamagedError",
    "DuplicateKeyError",
    "Error",
    "FaultError",
    "ForeignError",
    "InterruptedError",
    "InvalidError",
    "IoError",
    "KeyNotFoundError",
    "LimitError",
    "LockedError",
    "MissingPackageError",
    "NotFoundError",
    "NumberError",
    "OutOfRangeError",
    "ReplacedError",
    "SelectionError",
    "UnsupportedError",
    "WrongTypeError",
]


class Error(Exception):
    """Any error of kiste, with what is known of the place.

    `path` of the file, `index` and `key` of the sample, `field`, the byte `range` as a pair, and `raw`,
    the bytes that are at fault.
    """

    def __init__(
        self,
        message: str,
        *,
        path: Any = None,
        index: int | None = None,
        key: str | None = None,
        field: str | None = None,
        range: tuple[int, int] | None = None,
        raw: bytes | None = None,
    ) -> None:
        super().__init__(message)
        self.path = path
        self.index = index
        self.key = key
        self.field = field
        self.range = range
        self.raw = raw

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        # Keyword arguments are lost by the default.
        return _again, (type(self), self.args[0], dict(self.__dict__))


def _again(kind: type[Error], message: str, fields: dict[str, Any]) -> Error:
    return kind(message, **fields)


class DamagedError(Error, ValueError):
    """A file is truncated, changed, or was never of this format."""


class InterruptedError(Error):
    """A write to this dataset was cut short. `pykiste.repair` finishes or undoes it."""


class ReplacedError(Error):
    """The dataset was replaced by another one while it was open. Open it again."""


class InvalidError(Error, ValueError):
    """Something was asked for that makes no sense."""


class SelectionError(InvalidError, IndexError):
    """An array has no such elements, or what is assigned to them has another shape."""


class DuplicateKeyError(Error, KeyError):
    """A key was written that the dataset has already. The writer is still usable."""


class NotFoundError(Error, FileNotFoundError):
    """There is no such file."""


class AlreadyExistsError(Error, FileExistsError):
    """The output exists, and overwriting was not asked for."""


class LockedError(Error, BlockingIOError):
    """Another writer is at work on this dataset."""


class ForeignError(Error):
    """Something is in the way that kiste did not make. Nothing was touched."""


class LimitError(Error, ValueError):
    """More than the format can hold, or than an untrusted length is believed."""


class UnsupportedError(Error, ValueError):
    """Valid, but nothing that this version reads."""


class IoError(Error, OSError):
    """The operating system refused."""


class CancelledError(Error):
    """The caller stopped it."""


class WrongTypeError(Error, TypeError):
    """A value has a type that does not go here, or that cannot be stored."""


class NumberError(Error, OverflowError):
    """A number does not fit where it should go."""


class KeyNotFoundError(Error, KeyError):
    """There is no sample with this key, or no column of this name."""


class OutOfRangeError(Error, IndexError):
    """There is no sample with this index, or no such position."""


class BuffersError(Error, BufferError):
    """The buffers of a loader are all in use, or belong to another process."""


class FaultError(Error, RuntimeError):
    """An object is used where it cannot be, such as in a process that was forked, or pykiste has a bug, and says so."""


class MissingPackageError(Error, ImportError):
    """A part of pykiste needs a package that is not installed."""
