"""Are arrays what NumPy and msgpack-numpy make of them?

    cargo build --example arrays
    python tests/compat/python_arrays.py target/debug/examples/arrays [SEED [COUNT]]

Needs the real Python datadings with NumPy and msgpack-numpy; the tests of `kiste` do not run this,
people do. Writes a dataset of random arrays of any type, shape and memory order, has the example
`arrays` read and write them, and compares:

same    the packed array, byte for byte
turned  the elements after a conversion to `ndarray`, in Fortran order and the machine's byte order
npy     the file that `numpy.save` writes, byte for byte
type    `repr` of `dtype.str`, or of `dtype.descr` for structured types

One line per difference, and one at the end. Exit code 0: there are none; 1: there are some.
"""

import io
import random
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import msgpack
import msgpack_numpy
import numpy as np
from datadings.reader import MsgpackReader
from datadings.writer import RawWriter

PLAIN = (
    "?,i1,u1,<i2,>i2,<u2,>u2,<i4,>i4,<u4,>u4,<i8,>i8,<u8,>u8,<f2,>f2,<f4,>f4,<f8,>f8,<f16,>f16,"
    "<c8,>c8,<c16,>c16,<c32,S0,S1,S7,<U0,<U3,>U3,<M8[ns],>M8[25s],<M8,<m8[D],>m8[us]"
).split(",")

# As it is, this fails for times in contiguous memory, which NumPy gives no buffer for.
msgpack_numpy.ndarray_to_bytes = lambda array: array.tobytes()


def any_dtype(rng, levels):
    if levels == 0 or rng.random() < 0.7:
        return np.dtype(rng.choice(PLAIN))
    fields = []
    for at in range(rng.randint(1, 4)):
        field = (rng.choice(["a", "größe", "it's", 'b"', "x y"]) + str(at), any_dtype(rng, levels - 1))
        # NumPy takes no shape for elements without bytes.
        axes = rng.randint(0, 2) if field[1].itemsize else 0
        shape = tuple(rng.randint(1, 3) for _ in range(axes))
        fields.append((*field, shape) if shape else field)
    return np.dtype(fields, align=rng.random() < 0.3)


def any_array(rng):
    dtype = any_dtype(rng, 2)
    shape = tuple(rng.choice([0, 1, 2, 3, 5]) for _ in range(rng.randint(0, 4)))
    size = int(np.prod(shape)) * dtype.itemsize
    if dtype.kind == "U":
        points = rng.choices([0, 0x61, 0xE9, 0x5B57, 0x1F600], k=size // 4)
        data = np.array(points, dtype.byteorder + "u4").tobytes()
    elif dtype.kind == "b":
        data = bytes(rng.choices([0, 1], k=size))
    else:
        data = rng.randbytes(size)
    array = np.ndarray(shape, dtype, data)
    layout = rng.choice("CFTSR")
    if layout == "F":
        array = np.asfortranarray(array)
    elif layout == "T":
        array = array.T
    elif layout == "S" and array.ndim:
        array = array[..., :: 2]
    elif layout == "R" and array.ndim:
        array = array[::-1]
    if dtype.names is not None:
        # NumPy copies padding or does not, as it comes: let it do so once.
        array = np.ndarray(array.shape, dtype, array.tobytes())
    return array


def packed(array):
    return msgpack.packb(array, default=msgpack_numpy.encode)


def saved(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def differences(array, raw):
    sample = msgpack.unpackb(raw)
    plain = array.dtype.names is None
    text = repr(array.dtype.str) if plain else repr(array.dtype.descr)
    expected = np.ascontiguousarray(array).reshape(array.shape)
    if msgpack.packb(sample["same"]) != packed(array):
        yield "same"
    if sample["npy"] != saved(expected):
        yield "npy"
    if sample["type"] != text:
        yield "type"
    turned = sample["turned"]
    if (turned is not None) != (array.dtype.char in "?bBhHiIlLqQefdFD"):
        yield "turned or not"
    elif turned is not None:
        native = expected.astype(array.dtype.newbyteorder("="))
        # Conversions make signalling NaN quiet; a swap of the bytes does not.
        if array.dtype.byteorder == ">":
            native = expected.byteswap().view(array.dtype.newbyteorder("="))
        if msgpack.packb(turned) != packed(native):
            yield "turned"


def main():
    program, *rest = sys.argv[1:]
    seed, count = map(int, (rest + ["0", "2000"][len(rest):])[:2])
    rng = random.Random(seed)
    warnings.simplefilter("ignore")
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="python_arrays-") as folder:
        ours, theirs = Path(folder) / "in.msgpack", Path(folder) / "out.msgpack"
        arrays = [any_array(rng) for _ in range(count)]
        with RawWriter(ours, disable=True) as writer:
            for at, array in enumerate(arrays):
                key = f"{at}"
                start = b"\x82" + msgpack.packb("key") + msgpack.packb(key) + msgpack.packb("array")
                writer.write(key, start + packed(array))
        subprocess.run([program, ours, theirs], check=True)
        with MsgpackReader(theirs) as reader:
            for at, array in enumerate(arrays):
                for what in differences(array, reader.get(at, raw=True)):
                    wrong += 1
                    print(f"FAIL {at} {what}: {array.dtype} {array.shape} {array.strides}")
    print(f"{count} arrays of seed {seed}: {wrong} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
