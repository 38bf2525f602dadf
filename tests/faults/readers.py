#!/usr/bin/env python3
"""Readers of Python datadings that stay open while kiste writes to their dataset.

    VENV/bin/python tests/faults/readers.py target/debug/kiste

Run it with an interpreter that has datadings. A reader that has read its side files goes on with
the dataset that it opened, whatever is done to the name.
"""

import os
import subprocess
import sys
import tempfile
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import dataset
from scenarios import jsonl, samples

warnings.simplefilter("ignore")


def open_and_load(path):
    """A reader that has everything but the samples: datadings loads each file when it needs it."""
    from datadings.reader import MsgpackReader
    reader = MsgpackReader(path)
    key = reader.find_key(0)
    assert reader.find_index(key) == 0 and key in reader
    reader.get(0)
    return reader


def content(reader):
    return [(key, bytes(data)) for key, data in reader.iter(yield_key=True, raw=True)]


def main():
    binary, failed = os.path.abspath(sys.argv[1]), 0
    old = samples("old", 50)
    commands = ["convert --force in.jsonl x.msgpack", "convert --append in.jsonl x.msgpack",
                "convert --force --lookup in.jsonl x.msgpack", "index --force x.msgpack",
                "shuffle a.msgpack x.msgpack --force"]
    for command in commands:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.msgpack")
            dataset.write(path, old)
            dataset.write(os.path.join(folder, "a.msgpack"), samples("a", 9))
            with open(os.path.join(folder, "in.jsonl"), "wb") as file:
                file.write(jsonl(20))
            reader = open_and_load(path)
            subprocess.run([binary, "-q"] + command.split(), cwd=folder, check=True)
            stayed = content(reader) == old
            later = content(open_and_load(path))
            good = stayed and (later == old) == command.startswith("index")
            failed += not good
            print(f"{command:45} {'good' if good else 'FAILED'}")
    print(f"readers: {len(commands)} checked, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
