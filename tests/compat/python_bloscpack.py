"""Do the real bloscpack and kiste read what the other writes, and append to it?

    python tests/compat/python_bloscpack.py

Needs bloscpack, python-blosc and NumPy, and cargo. The tests of `kiste` do not run this, people do.
One line per question, `FAIL` and the reason where one fails. Exit code 0: all is well; 1: a check
failed.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import bloscpack
import numpy as np
from bloscpack import append
from bloscpack.args import BloscArgs, BloscpackArgs

ROOT = Path(__file__).resolve().parents[2]
CHECKSUMS = ["None", "adler32", "crc32", "md5", "sha1", "sha224", "sha256", "sha384", "sha512"]
DTYPES = ["?", "<i2", ">i4", "<f8", "<c16", "S5", "<U3", "<M8[ns]",
          [("a", "<i4"), ("b", "<f8", (2,)), ("\u00fc", "S3")]]
CODECS = ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]


def digest(data):
    return hashlib.sha256(data).hexdigest()


def spelled(dtype):
    return str(dtype.descr) if dtype.names else dtype.str


def ask_kiste(test, folder):
    command = ["cargo", "test", "--quiet", "--test", "main", f"array::packed::python::{test}",
               "--", "--ignored", "--exact"]
    env = {**os.environ, "KISTE_EXCHANGE": str(folder)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    if done.returncode != 0 or "1 passed" not in done.stdout:
        raise AssertionError((done.stdout + done.stderr)[-2000:])


def read_ours(folder):
    entries = json.loads((folder / "ours.json").read_text())
    for entry in entries:
        array = bloscpack.unpack_ndarray_from_bytes((folder / "ours" / entry["name"]).read_bytes())
        found = {"name": entry["name"], "dtype": spelled(array.dtype), "shape": list(array.shape),
                 "sha256": digest(array.tobytes())}
        assert found == entry, f"expected {entry}, found {found}"
    return f"{len(entries)} arrays of kiste are read by bloscpack"


def write_theirs(folder):
    rng, entries = np.random.RandomState(1), []

    def add(data, raw, **more):
        name = f"{len(entries)}.blp"
        (folder / "theirs" / name).write_bytes(data)
        entries.append({"name": name, "sha256": digest(raw), **more})

    for dtype in map(np.dtype, DTYPES):
        for codec in CODECS:
            for shuffle in (0, 1, 2):
                for i, checksum in enumerate(CHECKSUMS):
                    for count in (0, 1, 10, 1003):
                        raw = rng.randint(0, 2, count * dtype.itemsize).astype("u1").tobytes()
                        if dtype.kind == "U":
                            raw = np.arange(count * 3, dtype="<u4").tobytes()
                        array = np.frombuffer(raw, dtype)
                        array = array.reshape(17, 59) if count == 1003 else array
                        packed = bloscpack.pack_ndarray_to_bytes(
                            array, chunk_size=max(1, min(array.nbytes, 40 * dtype.itemsize)),
                            blosc_args=BloscArgs(cname=codec, shuffle=shuffle, clevel=5),
                            bloscpack_args=BloscpackArgs(checksum=checksum, offsets=i % 2 == 0))
                        add(packed, raw, dtype=spelled(dtype), shape=list(array.shape))
    arrays = len(entries)
    # kiste wrote these, bloscpack appends.
    for ours in sorted((folder / "ours").glob("bytes*.blp")):
        for size in (1, 500, 2345):
            copy, new = folder / "copy.blp", folder / "new.dat"
            data, _ = bloscpack.unpack_bytes_from_bytes(ours.read_bytes())
            copy.write_bytes(ours.read_bytes())
            new.write_bytes(b"\x09" * size)
            append.append(str(copy), str(new))
            add(copy.read_bytes(), data + b"\x09" * size)
    # bloscpack writes these, kiste will append.
    for size in (40, 1000, 2100, 2500):
        raw = rng.randint(0, 9, size).astype("u1").tobytes()
        for more in (0, 1, 100, 900, 3017):
            for checksum in CHECKSUMS:
                args = BloscpackArgs(checksum=checksum, max_app_chunks=100)
                packed = bloscpack.pack_bytes_to_bytes(raw, chunk_size=1000, bloscpack_args=args,
                                                       blosc_args=BloscArgs(cname="lz4"))
                add(packed, raw, append=more)
    (folder / "theirs.json").write_text(json.dumps(entries))
    return f"{arrays} arrays and {len(entries) - arrays} containers of bytes by bloscpack"


def read_appended(folder):
    entries = [e for e in json.loads((folder / "theirs.json").read_text()) if "append" in e]
    for entry in entries:
        packed = (folder / "theirs" / entry["name"]).read_bytes()
        data, _ = bloscpack.unpack_bytes_from_bytes(packed)
        size = len(data) - entry["append"]
        assert digest(data[:size]) == entry["sha256"], f"{entry}: another beginning"
        assert data[size:] == b"\x07" * entry["append"], f"{entry}: another end"
    return f"{len(entries)} containers that kiste appended to are read by bloscpack"


def main():
    steps = [
        lambda folder: ask_kiste("write_for_python", folder) or "kiste has written",
        read_ours,
        write_theirs,
        lambda folder: ask_kiste("read_from_python", folder) or "kiste reads all of them",
        lambda folder: ask_kiste("append_to_python", folder) or "kiste has appended",
        read_appended,
    ]
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for name in ("ours", "theirs"):
            (folder / name).mkdir()
        for step in steps:
            try:
                print("ok  ", step(folder), flush=True)
            except Exception as error:
                print("FAIL", type(error).__name__, error)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
