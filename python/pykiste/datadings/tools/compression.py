"""Files that may be compressed."""

import gzip
import lzma
from pathlib import Path
from typing import Any


def open_comp(
    path: str | Path, mode: str = "rb", level: int | None = None, encoding: str | None = None
) -> Any:
    """Opens a file, which is compressed if its name ends with `.gz` or `.xz`.

    Parameters:
        path: the file
        mode: as for `open`
        level: level of compression; None for the usual one
        encoding: encoding of text
    """
    name = str(path)
    if name.endswith(".gz"):
        level = 9 if level is None else level
        return gzip.open(name, mode, compresslevel=level, encoding=encoding)
    if name.endswith(".xz"):
        return lzma.open(name, mode, preset=level, encoding=encoding)
    return open(name, mode, encoding=encoding)
