"""A drop-in for Python datadings 3.4.7.

Modules, classes, functions and arguments are datadings' own; reading, key search and writing are
kiste's. `docs/from-datadings.md` lists the differences.

>>> import pykiste.datadings as datadings
>>> from pykiste.datadings.reader import MsgpackReader, Shuffler
>>> from pykiste.datadings.writer import FileWriter
>>> path = getfixture("tmp_path") / "words.msgpack"
>>> with FileWriter(path, disable=True) as writer:
...     for key, word in ("en", "crate"), ("de", "Kiste"), ("fr", "caisse"):
...         writer.write({"key": key, "word": word})
>>> with MsgpackReader(path) as reader:
...     reader.seek_key("de")
...     print([sample["word"] for sample in reader])
...     print([sample["word"] for sample in Shuffler(reader, seed=1)])
['Kiste', 'caisse']
['Kiste', 'caisse', 'crate']
"""

__version__ = "3.4.7"
"""The version of datadings whose behaviour this is."""

__version_info__ = __version__.split(".")
