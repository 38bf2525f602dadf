"""Which files `DirectoryReader` and `ZipFileReader` take, and the samples of them."""

import os
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from pykiste.errors import InvalidError

LABEL = "{LABEL}"
"""The part of a pattern that stands for the label."""


class Found(NamedTuple):
    """A file that a pattern matches or that a list file names."""

    key: str
    path: str
    label: str | None
    more: list[str]


def as_patterns(patterns: str | Path | Sequence[str | Path]) -> list[str]:
    """One pattern or several as a list of strings."""
    several = (patterns,) if isinstance(patterns, (str, Path)) else patterns
    return [os.fspath(pattern) for pattern in several]


def label_at(pattern: str, separator: str) -> int | None:
    """Which part of a path is its label. `{LABEL}` must be a whole part."""
    parts = pattern.split(separator)
    return parts.index(LABEL) if LABEL in parts else None


def check_included(filename: str, include: Sequence[str], exclude: Sequence[str]) -> bool:
    """Whether a path matches a pattern of `include`, if there are any, and none of `exclude`."""
    if include and not any(fnmatch(filename, pattern) for pattern in include):
        return False
    return not any(fnmatch(filename, pattern) for pattern in exclude)


def yield_file(infile: str | Path, prefix: str, separator: str) -> Iterator[Found]:
    """The files that a list file names: in each line a path, a label, and more."""
    with open(infile) as lines:
        for line in lines:
            name, *columns = line.strip("\n").split(separator)
            label = columns[0] if columns else None
            yield Found(name.replace(prefix, ""), name, label, columns[1:])


class Confined:
    """A folder that the rows of a list do not lead out of, unless they are left out anyway."""

    def __init__(self, root: str, include: Sequence[str], exclude: Sequence[str]) -> None:
        self._root, self._include, self._exclude = root, include, exclude
        self._real = os.path.realpath(root or os.curdir)
        self._folders: dict[str, str] = {}

    def checked(self, rows: Iterable[Found], listed_in: str) -> Iterator[Found]:
        """The same rows. One that leads out is an error."""
        for row in rows:
            if check_included(row.path, self._include, self._exclude) and not self._contains(row.path):
                message = (
                    f"{listed_in}: expected the path of a file in {self._root or os.curdir}, found {row.path!r}, which "
                    "leads out of it; allow_outside=True reads it"
                )
                raise InvalidError(message, path=listed_in)
            yield row

    def _contains(self, name: str) -> bool:
        path = os.path.join(self._root, name)
        folder, last = os.path.split(path)
        if last in ("", os.pardir) or os.path.islink(path):
            return Path(os.path.realpath(path)).is_relative_to(self._real)
        # Links in folders are resolved once for all their files.
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder or os.curdir)
        return Path(self._folders[folder]).is_relative_to(self._real)


def as_samples(
    found: Iterable[Found], include: Sequence[str], exclude: Sequence[str], root: str | None = None
) -> list[dict[str, object]]:
    """The samples of these files."""
    return [
        {
            "key": file.key,
            "label": file.label,
            "path": file.path if root is None else os.path.join(root, file.path),
            "_additional_info": file.more,
        }
        for file in found
        if check_included(file.path, include, exclude)
    ]
