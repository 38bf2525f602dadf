"""Paths of side files."""

from pathlib import Path


def path_append(path: Path, string: str) -> Path:
    """A path with a string appended to its name.

    >>> path_append(Path("some.file"), ".md5").name
    'some.file.md5'
    """
    return path.with_name(path.name + string)


def path_append_suffix(path: Path, suffix: str) -> Path:
    """A path that ends with a suffix, which is appended unless it is there.

    >>> path_append_suffix(Path("some.keys"), ".keys").name
    'some.keys'
    """
    return path if path.suffix == suffix else path_append(path, suffix)
