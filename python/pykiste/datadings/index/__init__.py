"""The side files of a dataset, one by one.

Readers and writers do not need this module. A function takes the path of the data file or of the side
file.
"""

from pykiste.datadings.index.filter import BloomFilter, load_filter, write_filter
from pykiste.datadings.index.hashes import hash_keys, load_key_hashes, write_key_hashes
from pykiste.datadings.index.keys import keys_len, load_keys, write_keys
from pykiste.datadings.index.legacy import legacy_index_len, legacy_load_index
from pykiste.datadings.index.offsets import load_offsets, write_offsets
from pykiste.datadings.index.suffixes import (
    SUFFIX_FILTER,
    SUFFIX_KEY_HASHES,
    SUFFIX_KEYS,
    SUFFIX_LEGACY_INDEX,
    SUFFIX_OFFSETS,
)

__all__ = [
    "SUFFIX_FILTER",
    "SUFFIX_KEYS",
    "SUFFIX_KEY_HASHES",
    "SUFFIX_LEGACY_INDEX",
    "SUFFIX_OFFSETS",
    "BloomFilter",
    "hash_keys",
    "keys_len",
    "legacy_index_len",
    "legacy_load_index",
    "load_filter",
    "load_key_hashes",
    "load_keys",
    "load_offsets",
    "write_filter",
    "write_key_hashes",
    "write_keys",
    "write_offsets",
]
