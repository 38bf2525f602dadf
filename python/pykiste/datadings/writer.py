"""Writers of datasets."""

from abc import abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pykiste as ki
from pykiste.datadings.tools.ask import query_user
from pykiste.datadings.tools.progress import make_printer


class Writer:
    """What all writers have in common. Subclasses have a method `write` that calls `_write`.

    The dataset appears under its name when the writer is closed, also after an exception in a `with`
    block. If there is one of this name, the user is asked whether to overwrite it: `no` raises
    `FileExistsError`, and `abort` raises `KeyboardInterrupt`.

    Parameters:
        outfile: the data file
        buffering: has no effect
        overwrite: replace an existing dataset without asking
        durable: wait at the end until the dataset is on disk, so that it survives a power failure. By default
            only if it replaces another one, which would be lost with it. A killed process loses
            nothing that was closed in either case.
        kwargs: arguments of `tools.make_printer`; `disable=True` for no output
    """

    def __init__(
        self,
        outfile: str | Path,
        buffering: int = 0,
        overwrite: bool = False,
        *,
        durable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        self._path = path = Path(outfile)
        replaces = path.exists()
        if replaces and not overwrite:
            answer = query_user(f"{path.name} exists, overwrite?")
            if answer == "no":
                raise FileExistsError(path)
            if answer == "abort":
                raise KeyboardInterrupt(path)
        self._writer = ki.Writer(path, overwrite=True, durable=replaces if durable is None else durable)
        self.written = 0
        self._disable = kwargs.get("disable", False)
        try:
            self._printer = make_printer(**({"desc": path.name} | kwargs))
        except BaseException:
            self._writer.abort()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Writes the side files and publishes the dataset."""
        if self._writer.close() is None:
            raise ValueError("the writer is closed")
        self._printer.close()
        if not self._disable:
            print(f"{self.written} samples written")

    def _write_data(self, key: str, packed: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(f"expected a key that is a str, found {key!r}")
        if not isinstance(packed, bytes):
            packed = bytes(memoryview(packed))
        try:
            self._writer.write_raw(key, packed)
        except ki.errors.DuplicateKeyError:
            raise ValueError(f"duplicate key {key!r} not allowed") from None
        self.written += 1
        self._printer()

    def _write(self, key: str, sample: Any) -> None:
        self._write_data(key, ki.pack(sample))

    @abstractmethod
    def write(self, *args: Any) -> None:
        """Writes a sample."""


class RawWriter(Writer):
    """Writes bytes as they are."""

    def write(self, key: str, data: Any) -> None:
        """Writes a packed sample."""
        self._write_data(key, data)


class FileWriter(Writer):
    """Writes samples: dicts with a `"key"` that no other sample has."""

    def write(self, sample: dict[str, Any]) -> None:
        """Writes a sample."""
        self._write(sample["key"], sample)
