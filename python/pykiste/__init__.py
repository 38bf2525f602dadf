"""Keyed ML sample datasets, compatible with datadings.

>>> import pykiste as ki
>>> path = getfixture("tmp_path") / "words.msgpack"
>>> with ki.Writer(path) as writer:
...     writer.write({"key": "en", "word": "crate"})
...     writer.write({"key": "de", "word": "Kiste"})
>>> words = ki.open(path)
>>> len(words), words[0], words["de"]["word"]
(2, {'key': 'en', 'word': 'crate'}, 'Kiste')

Order and threads come from a sampler and a loader, whose state is two integers, and what tells another dataset or order:

>>> loader = ki.Loader(words, ki.Sampler.shuffle(len(words), seed=7), batch_size=2)
>>> for batch in loader:
...     print(sorted(sample["key"] for sample in batch.samples))
['de', 'en']
>>> state = loader.state_dict()
>>> state["epoch"], state["position"]
(1, 0)
"""

import atexit as _atexit
import os as _os

from pykiste import batching, columns, errors
from pykiste._core import (
    ArrayStore,
    ArrowTable,
    Batch,
    ChunkedArray,
    Dataset,
    Loader,
    Mixture,
    Order,
    PackedArray,
    Pipeline,
    Sampler,
    StagedVersion,
    View,
    Writer,
    __version__,
    _ending,
    _forked,
    commit,
    compare,
    concat,
    convert,
    diff,
    duplicates,
    features,
    filter,
    index,
    merge,
    pack,
    repair,
    samples_page,
    select,
    shuffle,
    sort,
    split,
    stat,
    stat_page,
    unpack,
    verify,
)
from pykiste.columns import Boxes, Kept, LabelNames, Labels, Map, Mask, Packed, Pad, Ragged, Window
from pykiste.errors import Error
from pykiste.types import Extension, Timestamp

open = Dataset

# Threads of loaders that call functions have to leave Python before it ends.
_atexit.register(_ending)
if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_forked)

# Without `open` and `filter`: `from pykiste import *` leaves Python's own alone.
__all__ = [
    "ArrayStore",
    "ArrowTable",
    "Batch",
    "Boxes",
    "ChunkedArray",
    "Dataset",
    "Error",
    "Extension",
    "Kept",
    "LabelNames",
    "Labels",
    "Loader",
    "Map",
    "Mask",
    "Mixture",
    "Order",
    "Packed",
    "PackedArray",
    "Pad",
    "Pipeline",
    "Ragged",
    "Sampler",
    "StagedVersion",
    "Timestamp",
    "View",
    "Window",
    "Writer",
    "batching",
    "columns",
    "commit",
    "compare",
    "concat",
    "convert",
    "diff",
    "duplicates",
    "errors",
    "features",
    "index",
    "merge",
    "pack",
    "repair",
    "samples_page",
    "select",
    "shuffle",
    "sort",
    "split",
    "stat",
    "stat_page",
    "unpack",
    "verify",
]
