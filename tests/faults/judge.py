"""Asks a reader of Python what it sees in a dataset.

Run as a program it is the server of such questions: a path a line on standard input, a line of JSON
for each on standard output. The harness starts it with the interpreter of --python, which has
datadings; without that option the reader of dataset.py takes the place of datadings.
"""

import hashlib
import json
import os
import subprocess
import sys
import threading


def look(path, read):
    """The keys with the digests of their samples, or why there is no opening it."""
    try:
        return {"samples": [[key, hashlib.sha1(data).hexdigest()] for key, data in read(path)]}
    except Exception as error:  # Whatever it raises: the user sees a traceback, and no sample.
        return {"refused": f"{type(error).__name__}: {error}"}


def read_with_datadings(path):
    from datadings.reader import MsgpackReader
    with MsgpackReader(path) as reader:
        # An iterator over nothing is an IndexError there.
        samples = list(reader.iter(yield_key=True, raw=True)) if len(reader) else []
        if len(samples) != len(reader):
            raise AssertionError("mixture: the length is not that of what it yields")
        for index, (key, _) in enumerate(samples):
            if key not in reader or reader.find_index(key) != index:
                raise AssertionError("mixture: a key is not found where it is")
    return [(key, bytes(data)) for key, data in samples]


class Judge:
    """Python's view of datasets."""

    def __init__(self, python=None):
        self.lock = threading.Lock()
        self.server = None
        if python:
            command = [python, "-W", "ignore", os.path.abspath(__file__)]
            self.server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def look(self, path):
        if self.server is None:
            import dataset
            return look(path, dataset.read)
        with self.lock:
            self.server.stdin.write(path + "\n")
            self.server.stdin.flush()
            return json.loads(self.server.stdout.readline())


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(look(line.rstrip("\n"), read_with_datadings)), flush=True)
