"""`ZipFileReader`: one sample for each file in an archive."""

import os.path
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatch
from itertools import chain
from pathlib import Path
from typing import Any
from zipfile import ZipFile, ZipInfo

from pykiste.datadings.reader.files import (
    LABEL,
    Found,
    as_patterns,
    as_samples,
    label_at,
    yield_file,
)
from pykiste.datadings.reader.list import ListReader, Sample, noop

__all__ = ["ZipFileReader", "glob_pattern", "yield_zipfile"]


def glob_pattern(infos: Iterable[ZipInfo], pattern: str) -> Iterator[Found]:
    """The entries that a pattern matches, in the order of the archive."""
    label, start = label_at(pattern, "/"), 0
    if label is not None:
        start = pattern.index(LABEL)
        pattern = pattern.replace(LABEL, "*", 1)
    for info in infos:
        path = info.filename
        if not info.is_dir() and fnmatch(path, pattern):
            name = None if label is None else path.split("/")[label]
            yield Found(path[start:], path, name, [])


def yield_zipfile(
    zipfile_: ZipFile, patterns: Sequence[str], separator: str
) -> Iterator[Found]:
    """The entries of all patterns. Each may be a list file."""
    return chain.from_iterable(
        yield_file(pattern, "", separator)
        if os.path.isfile(pattern)
        else glob_pattern(zipfile_.infolist(), pattern)
        for pattern in patterns
    )


class ZipFileReader(ListReader):
    """Reads the files in a ZIP archive that patterns match, as `DirectoryReader` does.

    In these patterns `*` also matches `/`.

    Parameters:
        path: the archive
        patterns: one pattern or several
        labels: as for `ListReader`; must be given if there is no `{LABEL}`
        numeric_labels: replace labels by their index
        initfun: called with each sample at the beginning, to change it
        convertfun: called with each sample that is read, to change it
        include: patterns of which a path must match one, if there are any
        exclude: patterns of which a path must match none
        separator: what separates the columns of a list file
    """

    def __init__(
        self,
        path: str | Path,
        patterns: str | Path | Sequence[str | Path] = "{LABEL}/**",
        labels: Iterable[Any] | str | Path | None = None,
        numeric_labels: bool = True,
        initfun: Callable[[Sample], Any] = noop,
        convertfun: Callable[[Sample], Any] = noop,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        separator: str = "\t",
    ) -> None:
        self._path = str(path)
        self._zipfile = ZipFile(path)
        found = yield_zipfile(self._zipfile, as_patterns(patterns), separator)
        samples = as_samples(found, include, exclude)
        super().__init__(samples, labels, numeric_labels, initfun, self._load_binary)
        self._cust_convertfun = convertfun
        self.bytes_read = 0

    def _load_binary(self, sample: Sample) -> None:
        data = self._zipfile.read(sample["path"])
        self.bytes_read += len(data)
        sample["data"] = data
        self._cust_convertfun(sample)

    def __copy__(self) -> "ZipFileReader":
        copy = super().__copy__()
        copy._zipfile = ZipFile(self._path)
        copy._convertfun = copy._load_binary
        return copy

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_zipfile"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _zipfile=ZipFile(state["_path"]))
