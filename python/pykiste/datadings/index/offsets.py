"""`.offsets`: where samples begin."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pykiste.datadings.index.suffixes import SUFFIX_OFFSETS
from pykiste.datadings.tools.paths import path_append_suffix


def load_offsets(path: Path) -> np.ndarray:
    """Where samples begin, and where the last one ends."""
    return np.fromfile(path_append_suffix(path, SUFFIX_OFFSETS), ">u8").astype(np.uint64)


def write_offsets(offsets: Sequence[int], path: Path) -> Path:
    """Writes where samples begin and where the last one ends. Returns the path of the file."""
    path = path_append_suffix(path, SUFFIX_OFFSETS)
    path.write_bytes(np.array(offsets, ">u8").tobytes())
    return path
