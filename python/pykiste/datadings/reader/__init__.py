"""Readers, and augments that change their order.

>>> from pykiste.datadings.reader import Cycler, ListReader, Range
>>> reader = ListReader([{"v": 0}, {"v": 1}, {"v": 2}])
>>> [sample["key"] for sample in Range(reader, 1)]
[1, 2]
"""

from pykiste.datadings.reader.augment import Cycler, QuasiShuffler, Range, Repeater, Shuffler
from pykiste.datadings.reader.directory import DirectoryReader
from pykiste.datadings.reader.list import ListReader
from pykiste.datadings.reader.msgpack import MsgpackReader
from pykiste.datadings.reader.reader import Reader
from pykiste.datadings.reader.sharded import ShardedReader
from pykiste.datadings.reader.zipfile import ZipFileReader

__all__ = [
    "Cycler",
    "DirectoryReader",
    "ListReader",
    "MsgpackReader",
    "QuasiShuffler",
    "Range",
    "Reader",
    "Repeater",
    "ShardedReader",
    "Shuffler",
    "ZipFileReader",
]
