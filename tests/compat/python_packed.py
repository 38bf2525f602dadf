"""Do Python and kiste understand each other's packed arrays?

    cargo build --features c-blosc
    python tests/compat/python_packed.py target/debug/kiste [SEED [COUNT]]

Needs the real Python datadings and bloscpack; the tests of `kiste` do not run this, people do.
Random arrays of any type, shape and memory order go both ways:

ours    Python writes a plain dataset, `kiste convert --arrays blpk:...` packs its arrays, and
        `bloscpack.unpack_ndarray_from_bytes` gives the same type, shape and elements
back    `kiste convert --arrays plain` of that is the first dataset again, byte for byte
theirs  Python writes a dataset of containers that bloscpack made, `kiste convert --arrays plain`
        unpacks them, and datadings reads the same arrays
deep    `kiste verify --deep` finds nothing wrong with any of these

One line per difference, and one at the end. Exit code 0: there are none; 1: there are some.
"""

import filecmp
import random
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import bloscpack
import msgpack_numpy
import numpy as np
from datadings.reader import MsgpackReader
from datadings.writer import FileWriter

PLAIN = (
    "?,i1,u1,<i2,>i2,<u2,>u2,<i4,>i4,<u4,>u4,<i8,>i8,<u8,>u8,<f2,>f2,<f4,>f4,<f8,>f8,<f16,"
    "<c8,>c8,<c16,>c16,S1,S7,<U3,>U3,<M8[ns],>M8[25s],<m8[D],>m8[us]"
).split(",")
STRUCTS = [
    [("a", "<i4"), ("b", ">f8", (2,))],
    [("größe", "|u1"), ("it's", [("x", "<f4"), ("y", "<U2")])],
]
FORMS = [
    f"blpk:{codec}:{level}:{shuffle}"
    for codec in ("blosclz", "lz4", "lz4hc", "zlib", "zstd")
    for level in (0, 1, 5, 9)
    for shuffle in ("noshuffle", "shuffle", "bitshuffle")
]

# As it is, this fails for times in contiguous memory, which NumPy gives no buffer for.
msgpack_numpy.ndarray_to_bytes = lambda array: array.tobytes()


def any_array(rng):
    dtype = np.dtype(rng.choice(PLAIN) if rng.random() < 0.9 else rng.choice(STRUCTS))
    shape = tuple(rng.choice([0, 1, 2, 5, 40]) for _ in range(rng.randint(0, 3)))
    size = int(np.prod(shape)) * dtype.itemsize
    if dtype.names or dtype.kind == "U":
        data = bytes(size)
    elif dtype.kind == "b":
        data = bytes(rng.choices([0, 1], k=size))
    elif rng.random() < 0.5:
        data = (bytes(range(7)) * (size // 7 + 1))[:size]
    else:
        data = rng.randbytes(size)
    array = np.ndarray(shape, dtype, data)
    return np.asfortranarray(array) if rng.random() < 0.3 else array


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def write(path, arrays):
    with FileWriter(path, disable=True) as writer:
        for at, array in enumerate(arrays):
            writer.write({"key": f"{at}", "x": array, "nested": [{"x": array}]})


def fields(path):
    with MsgpackReader(path) as reader:
        for at in range(len(reader)):
            sample = reader.get(at)
            yield at, sample["x"], sample["nested"][0]["x"]


def main():
    program, *rest = sys.argv[1:]
    seed, count = map(int, (rest + ["0", "1000"][len(rest):])[:2])
    rng = random.Random(seed)
    warnings.simplefilter("ignore")
    wrong = []

    def kiste(*args):
        done = subprocess.run([program, *map(str, args)], capture_output=True, text=True)
        if done.returncode:
            wrong.append(f"kiste {' '.join(map(str, args))}: {done.stdout}{done.stderr}")

    with tempfile.TemporaryDirectory(prefix="python_packed-") as folder:
        folder = Path(folder)
        arrays = [any_array(rng) for _ in range(count)]
        plain, back = folder / "plain.msgpack", folder / "back.msgpack"
        write(plain, arrays)
        for form in rng.sample(FORMS, 6):
            ours = folder / "ours.msgpack"
            kiste("convert", plain, ours, "--arrays", form, "--arrays-min", 0, "--force")
            kiste("verify", "--deep", ours)
            for at, x, nested in fields(ours):
                for found in x, nested:
                    if not isinstance(found, bytes):
                        wrong.append(f"ours {form} {at}: not packed: {found.dtype} {found.shape}")
                    elif not same(bloscpack.unpack_ndarray_from_bytes(found), arrays[at]):
                        wrong.append(f"ours {form} {at}: {arrays[at].dtype} {arrays[at].shape}")
            kiste("convert", ours, back, "--arrays", "plain", "--force")
            for suffix in "", ".offsets", ".keys", ".key_hashes", ".filter":
                if not filecmp.cmp(f"{plain}{suffix}", f"{back}{suffix}", shallow=False):
                    wrong.append(f"back {form} {suffix}: other bytes")
        theirs = folder / "theirs.msgpack"
        # At bloscpack fails whatever type NumPy gives no buffer for.
        packable = [array for array in arrays if array.dtype.kind not in "mM" or array.size]
        write(theirs, [bloscpack.pack_ndarray_to_bytes(array) for array in packable])
        kiste("verify", "--deep", theirs)
        kiste("convert", theirs, back, "--arrays", "plain", "--force")
        for at, x, nested in fields(back):
            for found in x, nested:
                if not same(found, packable[at]):
                    wrong.append(f"theirs {at}: {packable[at].dtype} {packable[at].shape}")
    for line in wrong:
        print(f"FAIL {line}")
    print(f"{count} arrays of seed {seed}: {len(wrong)} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
