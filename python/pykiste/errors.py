"""What can go wrong. Everything that pykiste raises is an `Error`, and the built-in exception for the same thing where there
is one. What Python itself finds is not, such as an argument that a function does not have.

>>> import pykiste as ki
>>> try:
...     ki.open("no/such.msgpack")
... except ki.Error as error:
...     print(type(error).__name__, error.path, isinstance(error, FileNotFoundError))
NotFoundError no/such.msgpack True

An error that is an `OSError` has `errno`, `strerror` and `filename`, as Python's own have:

>>> import errno
>>> try:
...     ki.open("no/such.msgpack")
... except OSError as error:
...     print(error.errno == errno.ENOENT, error.filename)
True no/such.msgpack
"""

import errno as numbers
import os
from collections.abc import Sequence
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
    the bytes that are at fault. What is not known is `None`.

    >>> import pykiste as ki
    >>> path = getfixture("tmp_path") / "pets.msgpack"
    >>> with ki.Writer(path) as writer:
    ...     writer.write({"key": "a", "label": 1})
    >>> try:
    ...     ki.open(path)["b"]
    ... except ki.Error as error:
    ...     print(type(error).__name__, isinstance(error, KeyError), error.key)
    KeyNotFoundError True b
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
        errno: int | None = None,
    ) -> None:
        super().__init__(message)
        self.path = path
        self.index = index
        self.key = key
        self.field = field
        self.range = range
        self.raw = raw
        if isinstance(self, OSError):
            _describe(self, _NUMBERS.get(type(self)) if errno is None else errno)

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        # Keyword arguments are lost by the default.
        fields = dict(self.__dict__)
        notes = fields.pop("__notes__", [])
        if isinstance(self, OSError):
            fields["errno"] = self.errno
        return _again, (type(self), self.args[0], fields), {"__notes__": notes} if notes else None


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


#: What the operating system would say, where it was not asked.
_NUMBERS: dict[type, int] = {
    NotFoundError: numbers.ENOENT,
    AlreadyExistsError: numbers.EEXIST,
    LockedError: numbers.EAGAIN,
}


def _describe(error: OSError, number: int | None) -> None:
    """Sets what Python's own errors of the operating system have."""
    error.errno = number
    error.strerror = str(error) if number is None else os.strerror(number)
    path = getattr(error, "path", None)
    error.filename = None if path is None else os.fspath(path)


# Characters of a key or of the name of a field in a message.
_SHOWN = 100


def _place(error: BaseException, key: Any, places: Sequence[Any]) -> None:
    """Adds to an error which value was being packed: the sample with this key, and the way to the value in it."""
    path = ""
    for place in places:
        if isinstance(place, str) and place and not set(place) & set(".[]"):
            path += f".{place}" if path else place
        else:
            path += f"[{place!r}]"
    path = _cut(path)
    words = [f"sample {_cut(key)!r}"] if isinstance(key, str) else []
    words += [f"field {path!r}"] if path else []
    if not words:
        return
    if not isinstance(error, Error):
        if isinstance(error, Exception):
            error.add_note(f"in {', '.join(words)}")
        return
    error.args = (f"{', '.join(words)}: {error.args[0]}",)
    error.key = key if isinstance(key, str) else None
    error.field = path or None


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
