"""`DirectoryReader`: one sample for each file."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from glob import iglob
from itertools import chain
from pathlib import Path
from typing import Any

from pykiste.datadings.reader.files import (
    LABEL,
    Confined,
    Found,
    as_patterns,
    as_samples,
    check_included,
    label_at,
    yield_file,
)
from pykiste.datadings.reader.list import ListReader, Sample, noop

__all__ = [
    "DirectoryReader",
    "check_included",
    "glob_pattern",
    "yield_directory",
    "yield_file",
]


def glob_pattern(pattern: str, prefix: str) -> Iterator[Found]:
    """The files that a pattern matches, in the order of the file system."""
    label = label_at(pattern, os.sep)
    if label is not None:
        prefix = prefix or pattern[: pattern.index(LABEL)]
        pattern = pattern.replace(LABEL, "*", 1)
    for path in iglob(pattern, recursive=True):
        if os.path.isfile(path):
            name = None if label is None else path.split(os.sep)[label]
            yield Found(path.replace(prefix, ""), path, name, [])


def yield_directory(
    patterns: Sequence[str], separator: str, *, folder: Confined | None = None
) -> Iterator[Found]:
    """The files of all patterns. Each may be a list file, whose rows stay in `folder`, if it is given."""
    prefix = os.path.commonprefix(patterns) if len(patterns) > 1 else ""
    prefix = prefix.partition(LABEL)[0]

    def listed(path: str) -> Iterator[Found]:
        rows = yield_file(path, prefix, separator)
        return rows if folder is None else folder.checked(rows, path)

    return chain.from_iterable(
        listed(pattern) if os.path.isfile(pattern) else glob_pattern(pattern, prefix)
        for pattern in patterns
    )


class DirectoryReader(ListReader):
    """Reads the files that patterns match, for example `"train/{LABEL}/**"`.

    A sample has `"data"`, `"label"`, `"path"` and its key, which is the path from `{LABEL}` on. A pattern
    that is itself a file is a list of files: in each line a path, a label, and additional columns.

    Parameters:
        patterns: one pattern or several
        labels: as for `ListReader`; must be given if there is no `{LABEL}`
        numeric_labels: replace labels by their index
        initfun: called with each sample at the beginning, to change it
        convertfun: called with each sample that is read, to change it
        include: a path must match one of these patterns, if there are any
        exclude: a path must match none of these patterns
        separator: separates the columns of a list file
        root_dir: where relative paths begin when files are read
        allow_outside: whether rows of a list may name files outside of `root_dir` or of the working directory,
            also by a link; by default only if there is no `root_dir`
    """

    def __init__(
        self,
        patterns: str | Path | Sequence[str | Path],
        labels: Iterable[Any] | str | Path | None = None,
        numeric_labels: bool = True,
        initfun: Callable[[Sample], Any] = noop,
        convertfun: Callable[[Sample], Any] = noop,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        separator: str = "\t",
        root_dir: str = "",
        *,
        allow_outside: bool | None = None,
    ) -> None:
        free = not root_dir if allow_outside is None else allow_outside
        folder = None if free else Confined(root_dir, include, exclude)
        found = yield_directory(as_patterns(patterns), separator, folder=folder)
        samples = as_samples(found, include, exclude, root_dir)
        super().__init__(samples, labels, numeric_labels, initfun, self._load_binary)
        self._cust_convertfun = convertfun
        self.bytes_read = 0

    def _load_binary(self, sample: Sample) -> None:
        data = Path(sample["path"]).read_bytes()
        self.bytes_read += len(data)
        sample["data"] = data
        self._cust_convertfun(sample)
