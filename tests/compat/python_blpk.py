"""Do `blpk` of bloscpack and `kiste blpk` make the same files, and read each other's?

    python tests/compat/python_blpk.py target/debug/kiste

Needs bloscpack, python-blosc and NumPy. The tests of `kiste` do not run this, people do. One line per
question, `FAIL` and the reason where one fails. Exit code 0: all is well; 1: a check failed.
"""

import itertools
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import bloscpack
import numpy as np

KISTE = [Path(sys.argv[1]).resolve(), "blpk"]
BLPK = [sys.executable, "-c", "import sys; from bloscpack.cli import main; sys.exit(main())"]
CODECS = ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]
CHECKSUMS = ["None", "adler32", "crc32", "md5", "sha1", "sha224", "sha256", "sha384", "sha512"]
METADATA = [None, '{"dtype": "float64",\n "shape": [10]}', "[1, 2.5, null, \"\u00fc\U0001f600\"]", "null"]


def run(program, *args):
    done = subprocess.run([*map(str, program), *map(str, args)], capture_output=True, text=True)
    assert done.returncode == 0, f"{args}: {done.stdout}{done.stderr}"


def sizes(data):
    for size in (0, 1, 127, 65536, 65537, len(data)):
        yield data[:size]


def same_files(data):
    """Every option, sizes and metadata in turn: the same container, byte for byte, and back."""
    choices = itertools.product(CODECS, ([], ["-s"]), ([], ["-o"]), ("64K", "max", "1000"))
    checksums, metadata = itertools.cycle(CHECKSUMS), itertools.cycle(METADATA)
    parts, typesizes, levels = (itertools.cycle(x) for x in (list(sizes(data)), (1, 4, 8), (0, 1, 7, 9)))
    count = 0
    for codec, shuffle, offsets, chunk in choices:
        Path("in").write_bytes(next(parts))
        meta = next(metadata)
        options = ["c", "-c", codec, *shuffle, *offsets, "-z", chunk, "-k", next(checksums),
                   "-t", next(typesizes), "-l", next(levels)]
        if meta is not None:
            Path("meta.json").write_text(meta)
            options += ["-m", "meta.json"]
        run(BLPK, "-f", "-n", 1, *options, "in", "theirs.blp")
        run(KISTE, "-f", *options, "in", "ours.blp")
        assert Path("theirs.blp").read_bytes() == Path("ours.blp").read_bytes(), f"{options}"
        run(KISTE, "-f", "d", "theirs.blp", "back")
        assert Path("back").read_bytes() == Path("in").read_bytes(), f"{options}"
        run(BLPK, "-f", "-n", 2, "d", "ours.blp", "back")
        assert Path("back").read_bytes() == Path("in").read_bytes(), f"{options}"
        count += 1
    return f"{count} files are the same by both, and read by both"


def appended(data):
    count = 0
    for codec, chunk, more in itertools.product(CODECS, ("1000", "64K"), (1, 999, 5000)):
        for first, second in ((BLPK, KISTE), (KISTE, BLPK)):
            Path("in").write_bytes(data[:5500])
            Path("new").write_bytes(data[-more:])
            run(first, "-f", "c", "-c", codec, "-z", chunk, "in", "grow.blp")
            for program in (second, first):
                run(program, "a", "-c", codec, "grow.blp", "new")
            for program in (first, second):
                run(program, "-f", "d", "grow.blp", "back")
                assert Path("back").read_bytes() == data[:5500] + 2 * data[-more:], (codec, chunk, more)
            count += 1
    return f"{count} containers were appended to by both in turns"


def arrays(_):
    rng = np.random.RandomState(1)
    made = [np.arange(100_000.0).reshape(1000, 100), np.asfortranarray(rng.rand(30, 40)),
            np.array(7, ">i4"), np.zeros((0, 3), "f4"), np.array(["a", "bcd"]),
            np.arange(5).astype("M8[ms]"), rng.rand(300_000) > 0.5,
            np.array([(1, 2.5), (3, 4.5)], [("a", "<i4"), ("b", "<f8")])]
    for array in made:
        np.save("in.npy", array)
        run(KISTE, "-f", "c", "--npy", "in.npy")
        back = bloscpack.unpack_ndarray_from_file("in.npy.blp")
        bloscpack.pack_ndarray_to_file(array, "theirs.blp")
        run(KISTE, "-f", "d", "--npy", "theirs.blp", "back.npy")
        for found in (back, np.load("back.npy")):
            assert found.dtype == array.dtype and found.shape == array.shape, array
            assert found.tobytes() == array.tobytes(), array
    return f"{len(made)} arrays go both ways"


def main():
    data = random.Random(1).randbytes(100_000) + np.arange(50_000.0).tobytes()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for check in (same_files, appended, arrays):
            try:
                print("ok  ", check(data), flush=True)
            except Exception as error:
                print("FAIL", type(error).__name__, error)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
