"""`.index`: what datadings 3.0 wrote in place of all side files."""

from pathlib import Path

from pykiste.datadings.index.keys import packed_len
from pykiste.datadings.index.suffixes import SUFFIX_LEGACY_INDEX
from pykiste.datadings.tools.msgpack import unpackb
from pykiste.datadings.tools.paths import path_append_suffix


def legacy_index_len(path: Path) -> int:
    """How many samples there are."""
    return packed_len(path_append_suffix(path, SUFFIX_LEGACY_INDEX), 0x80, 0xDE)


def legacy_load_index(path: Path) -> tuple[list[str], list[int]]:
    """The keys, and where samples begin and the last one ends. The path names the data file."""
    index = unpackb(path_append_suffix(path, SUFFIX_LEGACY_INDEX).read_bytes())
    return list(index), [*index.values(), path.stat().st_size]
