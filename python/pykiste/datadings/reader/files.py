"""Which files `DirectoryReader` and `ZipFileReader` take, and the samples of them."""

import os
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

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
