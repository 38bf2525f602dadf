"""`.filter`: a Bloom filter of the keys, in the format of the package simplebloom."""

import math
import struct
from collections.abc import Sequence
from hashlib import blake2s
from pathlib import Path
from typing import IO, Self

from pykiste.datadings.index.suffixes import SUFFIX_FILTER
from pykiste.datadings.tools.paths import path_append_suffix

_MAGIC = b"SIMPBLOO"
# Magic, size of the whole file, elements, probability of a false positive.
_HEADER = struct.Struct(">8sQQd")
_PAIR = struct.Struct(">QQ")
_LN2 = math.log(2)


class BloomFilter:
    """A set of strings that may report one that is not in it.

    >>> words = BloomFilter(10)
    >>> words += "crate"
    >>> "crate" in words
    True

    Parameters:
        num_elements: how many strings there will be
        false_positive_p: how often one is reported that is not in it; None for 1 / `num_elements`
    """

    def __init__(self, num_elements: int, false_positive_p: float | None = None) -> None:
        self._set_up(num_elements, false_positive_p)
        self._bytes = bytearray(self.num_bits // 8)

    def _set_up(self, num_elements: int, false_positive_p: float | None) -> None:
        if num_elements < 2:
            raise ValueError(f"num_elements must be >= 2, found {num_elements}")
        share = 1.0 / num_elements if false_positive_p is None else false_positive_p
        if not 0 < share < 1:
            raise ValueError(f"false_positive_p must be between 0 and 1, found {share}")
        self.num_elements = num_elements
        self.false_positive_p = share
        self.num_bits = 8 * math.ceil(num_elements * math.log(share) / -0.4804530139182015 / 8)
        self.num_hashes = round(self.num_bits / num_elements * _LN2)

    def _places(self, s: str) -> list[int]:
        first, second = _PAIR.unpack_from(blake2s(s.encode("utf-8")).digest())
        return [
            (first + number * second & 0xFFFF_FFFF_FFFF_FFFF) % self.num_bits
            for number in range(self.num_hashes)
        ]

    def __iadd__(self, s: str) -> Self:
        for place in self._places(s):
            self._bytes[place >> 3] |= 1 << (place & 7)
        return self

    def __contains__(self, s: str) -> bool:
        return all(self._bytes[place >> 3] >> (place & 7) & 1 for place in self._places(s))

    def dump(self, fp: IO[bytes]) -> None:
        """Writes the filter into a file."""
        size = _HEADER.size + len(self._bytes)
        fp.write(_HEADER.pack(_MAGIC, size, self.num_elements, self.false_positive_p))
        fp.write(self._bytes)

    @classmethod
    def load(cls, fp: IO[bytes]) -> Self:
        """Reads a filter from a file."""
        magic, size, elements, share = _HEADER.unpack(fp.read(_HEADER.size))
        if magic != _MAGIC:
            raise ValueError("not a simplebloom file")
        # Nothing is allocated by the header alone.
        body = fp.read()
        if size != _HEADER.size + len(body):
            raise ValueError(f"expected a filter of {size} bytes, found {_HEADER.size + len(body)}")
        found = cls.__new__(cls)
        found._set_up(elements, share)
        if len(body) * 8 != found.num_bits:
            raise ValueError(f"expected a filter of {found.num_bits} bits, found {len(body) * 8}")
        found._bytes = bytearray(body)
        return found


def load_filter(path: Path) -> BloomFilter:
    """The filter of a dataset."""
    with path_append_suffix(path, SUFFIX_FILTER).open("rb") as file:
        return BloomFilter.load(file)


def write_filter(keys: Sequence[str], path: Path) -> Path:
    """Writes a filter of these keys. Returns the path of the file."""
    bloom = BloomFilter(max(2, len(keys)))
    for key in keys:
        bloom += key
    path = path_append_suffix(path, SUFFIX_FILTER)
    with path.open("wb") as file:
        bloom.dump(file)
    return path
