"""`.keys`: the keys of samples."""

from collections.abc import Sequence
from pathlib import Path

from pykiste.datadings.index.suffixes import SUFFIX_KEYS
from pykiste.datadings.tools.msgpack import packb, unpackb
from pykiste.datadings.tools.paths import path_append_suffix


def packed_len(path: Path, one: int, two: int) -> int:
    """The number of items that a packed list or map begins with.

    Parameters:
        path: the file
        one: the first byte of a packed list or map without items
        two: the first byte of one whose length takes two bytes; the next code stands for four bytes
    """
    with path.open("rb") as file:
        head = file.read(5)
    if head and one <= head[0] < one + 16:
        return head[0] - one
    width = {two: 2, two + 1: 4}.get(head[0] if head else 0)
    if width is None or len(head) <= width:
        raise ValueError(f"{path}: expected a packed length, found {head.hex() or 'nothing'}")
    return int.from_bytes(head[1 : 1 + width], "big")


def keys_len(path: Path) -> int:
    """How many keys, and so samples, there are."""
    return packed_len(path_append_suffix(path, SUFFIX_KEYS), 0x90, 0xDC)


def load_keys(path: Path) -> list[str]:
    """The keys in the order of the samples."""
    return unpackb(path_append_suffix(path, SUFFIX_KEYS).read_bytes())


def write_keys(keys: Sequence[str], path: Path) -> Path:
    """Writes the keys in the order of the samples. Returns the path of the file."""
    path = path_append_suffix(path, SUFFIX_KEYS)
    path.write_bytes(packb(keys))
    return path
