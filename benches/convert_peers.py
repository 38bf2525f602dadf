#!/usr/bin/env python3
"""How does a conversion compare with cp, tar, md5sum and Python datadings?

    cargo build --profile dist --features full
    pip install datadings webdataset pyarrow        # those that are there take part
    python benches/convert_peers.py target/dist/kiste [--files N] [--times N] [--dir DIR]

N files of 2 to 22 kB in 100 folders (they are not images: no contender decodes them), the same in
ten tar shards, in a stored zip archive and, with pyarrow, in a Parquet file without compression. Each
command is a process of its own and begins with nothing in its place; all input is in the page cache.
kiste and the Python writer sync nothing and make all side files with MD5. One after another, the best
of N, but what takes longer than ten seconds once; what is in brackets is the most memory of its own
(RssAnon, looked at every 10 ms). Before each, as much memory is touched and given back as will be
written: see benches/convert.rs.
"""
import argparse
import importlib.util
import mmap
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile

LABELS = 100
SHARDS = 10
# Anything that takes longer than this many seconds is run once.
PATIENCE = 10

FOLDER = """
import os, sys
from datadings.writer import FileWriter
photos, out = sys.argv[1:]
labels = sorted(os.listdir(photos))
with FileWriter(out, disable=True) as writer:
    for number, label in enumerate(labels):
        for name in sorted(os.listdir(os.path.join(photos, label))):
            with open(os.path.join(photos, label, name), "rb") as f:
                writer.write({"key": f"{label}/{name}", "image": f.read(), "label": number})
"""
TAR = """
import sys, webdataset
from datadings.writer import FileWriter
*shards, out = sys.argv[1:]
with FileWriter(out, disable=True) as writer:
    for sample in webdataset.WebDataset(shards, shardshuffle=False):
        writer.write({"key": sample["__key__"], "jpg": sample["jpg"]})
"""
ZIP = """
import sys, zipfile
from datadings.writer import FileWriter
archive, out = sys.argv[1:]
with FileWriter(out, disable=True) as writer, zipfile.ZipFile(archive) as files:
    for info in files.infolist():
        writer.write({"key": info.filename, "image": files.read(info), "label": int(info.filename[:2])})
"""

PARQUET = """
import sys, pyarrow.parquet
from datadings.writer import FileWriter
table, out = sys.argv[1:]
with FileWriter(out, disable=True) as writer:
    for batch in pyarrow.parquet.ParquetFile(table).iter_batches(1000):
        for row in batch.to_pylist():
            writer.write(row)
"""


def make_parquet(root):
    import pyarrow
    import pyarrow.parquet

    schema = {"key": pyarrow.string(), "image": pyarrow.binary(), "label": pyarrow.int64()}
    schema = pyarrow.schema(schema.items())
    paths = sorted((root / "photos").glob("*/*"))
    with pyarrow.parquet.ParquetWriter(root / "photos.parquet", schema, compression="none") as writer:
        for at in range(0, len(paths), 1000):
            rows = [
                {"key": f"{p.parent.name}/{p.name}", "image": p.read_bytes(), "label": int(p.parent.name)}
                for p in paths[at : at + 1000]
            ]
            writer.write_table(pyarrow.Table.from_pylist(rows, schema))


def make(root, count):
    """The files in their three forms, and how many bytes they are."""
    rng = random.Random(7)
    noise = rng.randbytes(1 << 20)
    names = [f"{n * LABELS // count:02}/{n:06}.jpg" for n in range(count)]
    for label in range(LABELS):
        (root / "photos" / f"{label:02}").mkdir(parents=True)
    total = 0
    with zipfile.ZipFile(root / "photos.zip", "w") as archive:
        for name in names:
            start, size = rng.randrange(900_000), rng.randrange(2_000, 22_000)
            content = noise[start : start + size]
            (root / "photos" / name).write_bytes(content)
            archive.writestr(name, content)
            total += size
    shards = []
    for shard in range(SHARDS):
        part = names[len(names) * shard // SHARDS : len(names) * (shard + 1) // SHARDS]
        (root / "names").write_text("\n".join(part))
        shards.append(root / f"photos-{shard:06}.tar")
        command = ["tar", "-C", root / "photos", "--no-recursion", "-cf", shards[-1], "-T", root / "names"]
        subprocess.run(command, check=True)
    return total, shards


def touch(size):
    memory = mmap.mmap(-1, size)
    for at in range(0, size, 4096):
        memory[at] = 1
    memory.close()


def run(command):
    """Seconds, and the most memory of its own in bytes."""
    start = time.perf_counter()
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL)
    done, most = threading.Event(), 0

    def look():
        nonlocal most
        while not done.wait(0.01):
            try:
                status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            except OSError:
                return
            for line in status.splitlines():
                if line.startswith("RssAnon"):
                    most = max(most, int(line.split()[1]) * 1024)

    watch = threading.Thread(target=look)
    watch.start()
    code = process.wait()
    seconds = time.perf_counter() - start
    done.set()
    watch.join()
    assert code == 0, command
    return seconds, most


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("kiste")
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--dir")
    args = parser.parse_args()
    has = {name: importlib.util.find_spec(name) is not None for name in ("datadings", "webdataset", "pyarrow")}
    kiste = os.path.abspath(args.kiste)
    with tempfile.TemporaryDirectory(dir=args.dir) as name:
        root = pathlib.Path(name)
        total, shards = make(root, args.files)
        photos, archive, out = root / "photos", root / "photos.zip", root / "out"
        made = out / "made.msgpack"
        everything = f'find "{photos}" -type f -print0 | xargs -0 cat | md5sum'
        convert = [kiste, "convert", "--quiet", "--no-sync"]
        braces = root / f"photos-{{000000..{SHARDS - 1:06}}}.tar"
        python = [sys.executable, "-c"]
        runs = {
            "folder": {
                "kiste convert": [*convert, photos, made],
                "read and hashed (find, cat, md5sum)": ["sh", "-c", everything],
                "cp -r": ["cp", "-r", photos, out / "copy"],
                "tar -cf": ["tar", "-C", photos, "-cf", out / "made.tar", "."],
            },
            f"{SHARDS} tar shards": {
                "kiste convert": [*convert, braces, made],
                "md5sum": ["md5sum", *shards],
                "cp": ["cp", *shards, out],
                "tar -xf, one by one": ["sh", "-c", f'for s in "{root}"/*.tar; do tar -C "{out}" -xf $s; done'],
            },
            "zip": {
                "kiste convert": [*convert, archive, made],
                "md5sum": ["md5sum", archive],
                "cp": ["cp", archive, out],
            },
        }
        if has["pyarrow"]:
            make_parquet(root)
            table = root / "photos.parquet"
            runs["parquet"] = {
                "kiste convert": [*convert, table, made],
                "md5sum": ["md5sum", table],
                "cp": ["cp", table, out],
            }
            if has["datadings"]:
                runs["parquet"]["Python pyarrow and datadings"] = [*python, PARQUET, table, made]
        if has["datadings"]:
            runs["folder"]["Python datadings"] = [*python, FOLDER, photos, made]
            runs["zip"]["Python zipfile and datadings"] = [*python, ZIP, archive, made]
            if has["webdataset"]:
                runs[f"{SHARDS} tar shards"]["Python webdataset and datadings"] = [*python, TAR, *shards, made]
        print(f"{args.files} files, {total / 1e6:.0f} MB; the best of {args.times}")
        for what, commands in runs.items():
            best = {name: (float("inf"), 0) for name in commands}
            for _ in range(args.times):
                for name, command in commands.items():
                    if PATIENCE < best[name][0] < float("inf"):
                        continue
                    out.mkdir()
                    touch(total + total // 4)
                    seconds, most = run(command)
                    shutil.rmtree(out)
                    best[name] = (min(best[name][0], seconds), max(best[name][1], most))
            ours = best["kiste convert"][0]
            print(what)
            for name, (seconds, most) in best.items():
                rate = total / 1e6 / seconds
                ratio = f"{seconds / ours:.2f} times as long" if name != "kiste convert" else ""
                print(f"  {name:<36} {seconds:7.2f} s {rate:6.0f} MB/s  ({most / 1e6:4.0f} MB)  {ratio}")


if __name__ == "__main__":
    main()
