"""A group-by of DuckDB over a dataset, and the same by polars and over batches alone.

    pip install --config-settings=build-args="--features full" ./python duckdb polars pyarrow
    python benches/arrow.py FOLDER                    # 100 M samples of 64 bytes, 7.2 GB
    python benches/arrow.py FOLDER --samples 5000000 --threads 2

Each sample has a key, a label of ten, a float and 25 bytes. The dataset is written to the folder, unless it is there.
Measured are the wall time and the time of all cores, which tells what is left on a machine that does other work as well,
and the memory of the process that belongs to no file, at most, while it runs.
"""

import argparse
import os
import resource
import sys
import threading
import time
from pathlib import Path

import numpy as np

NAMES = ["cat", "dog", "cow", "hen", "pig", "owl", "fox", "bee", "ant", "elk"]


def write(path, samples):
    """Data and offsets; the other files are not needed to read all samples in order."""
    begin = b"\x84\xa3key\xa9k00000000\xa5label\x00\xa1x\xcb" + bytes(8) + b"\xa3pad\xc4\x19" + bytes(25)
    assert len(begin) == 64
    digits = 10 ** np.arange(7, -1, -1)
    with open(path, "wb") as data, open(f"{path}.offsets", "wb") as offsets:
        offsets.write(bytes(8))
        for first in range(0, samples, 1 << 20):
            numbers = np.arange(first, min(first + (1 << 20), samples))
            block = np.tile(np.frombuffer(begin, "u1"), (len(numbers), 1))
            block[:, 7:15] = (numbers[:, None] // digits) % 10 + ord("0")
            block[:, 21] = numbers * 7919 % 10
            block[:, 25:33] = (numbers / 3).astype(">f8").view("u1").reshape(-1, 8)
            data.write(block)
            offsets.write(((numbers + 1) * 64).astype(">u8").tobytes())
    Path(f"{path}.labels").write_text("".join(f"{name}\n" for name in NAMES))


def private():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))


class Memory(threading.Thread):
    """The most private memory while it runs."""

    def __enter__(self):
        self.most, self.over = private(), threading.Event()
        self.start()
        return self

    def run(self):
        while not self.over.wait(0.02):
            self.most = max(self.most, private())

    def __exit__(self, *_):
        self.over.set()
        self.join()


def measure(name, samples, run):
    before, cpu, begin = private(), os.times(), time.perf_counter()
    with Memory() as memory:
        run()
    wall, after = time.perf_counter() - begin, os.times()
    used = after.user - cpu.user + after.system - cpu.system
    grown = (memory.most - before) / 2**20
    print(
        f"{name}: {samples / wall / 1e6:.1f} M samples/s, {samples / used / 1e6:.1f} M per second of a core, "
        f"{used / wall:.1f} cores, {grown:.0f} MiB more memory",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--samples", type=int, default=100_000_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    os.environ["POLARS_MAX_THREADS"] = str(args.threads)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, list(os.sched_getaffinity(0))[: args.threads])
    import duckdb
    import polars
    import pyarrow

    import pykiste as ki

    path = args.folder / f"samples-{args.samples}.msgpack"
    if not path.exists():
        write(path, args.samples)
    dataset = ki.open(path)
    labels = dataset.to_arrow(["label"])
    con = duckdb.connect(config={"threads": args.threads})

    def batches():
        reader = pyarrow.RecordBatchReader.from_stream(labels)
        assert sum(batch.num_rows for batch in reader) == args.samples

    def group(samples=labels):
        counts = con.sql("select label, count(*) from samples group by label").fetchall()
        assert sum(count for _, count in counts) == args.samples and len(counts) == 10

    for _ in range(args.rounds):
        measure("batches of the labels", args.samples, batches)
        measure("DuckDB, group by label", args.samples, group)
    few = dataset.range(0, min(args.samples, 5_000_000))
    measure("polars, group by label", len(few), lambda: polars.DataFrame(few.to_arrow(["label"])).group_by("label").len())
    measure("DuckDB, over all fields", args.samples, lambda: group(dataset))


if __name__ == "__main__":
    main()
