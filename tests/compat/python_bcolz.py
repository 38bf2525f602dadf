"""Do bcolz and kiste open each other's directories?

    cargo test --features c-blosc --test main --no-run
    python tests/compat/python_bcolz.py [SEED [COUNT]]

Needs the real bcolz 1.2.1, which NumPy left behind: Python 3.7, `numpy<1.20`, `cython<3`,
`setuptools<60`, `setuptools_scm<7`, `pkgconfig`, and a C compiler. `pip install
--no-build-isolation bcolz==1.2.1` fails with a compiler that has a `_xgetbv` of its own: in the
unpacked source, rename that function in c-blosc/blosc/shuffle.c (to anything, at each of its places)
and install from there. The tests of `kiste` do not run this, people do.

First bcolz writes random arrays and tables, of all types, shapes, chunk lengths, codecs, some
appended to, cut or changed afterwards. The test `array::bcolz::exchange::what_python_wrote` compares what is
in them and writes each of them again. bcolz opens what was written, compares values, type and
attributes, and appends rows to some; the test then compares those, once more. There are also some
arrays that bcolz opens and cannot create.

One line per difference, and one at the end. Exit code 0: there are none; 1: there are some.
"""

import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import bcolz
import numpy as np

PLAIN = (
    "?,i1,u1,<i2,>i2,<u4,>u4,<i8,>i8,<u8,<f2,<f4,>f4,<f8,>f8,S1,S7,S300,<U3,>U3,<M8[s],<M8[25ms],<m8[ns]"
).split(",")
CODECS = ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"]


def any_values(rng, dtype, shape):
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    kind = np.dtype(dtype).kind
    if kind == "U":
        points = [rng.choice([0x61, 0xE9, 0x5B57, 0x1F600]) for _ in range(size // 4)]
        data = np.array(points, np.dtype(dtype).byteorder + "u4").tobytes()
    elif kind == "b":
        data = bytes(rng.choice([0, 1]) for _ in range(size))
    else:
        # Something to compress.
        data = bytes(rng.choice([0, 1, 7, 65, rng.randrange(256)]) for _ in range(size))
    return np.ndarray(shape, dtype, data).copy()


def cparams(rng):
    return bcolz.cparams(
        clevel=rng.randrange(10), shuffle=rng.randrange(3), cname=rng.choice(CODECS)
    )


def any_shape(rng):
    rows = rng.choice([0, 1, 2, 7, 64, 65, rng.randrange(3000)])
    return (rows,) + tuple(rng.randint(1, 4) for _ in range(rng.choice([0, 0, 0, 1, 2])))


def make_array(rng, path):
    dtype, shape = rng.choice(PLAIN), any_shape(rng)
    values = any_values(rng, dtype, shape)
    options = {"cparams": cparams(rng)}
    if rng.random() < 0.7:
        options["chunklen"] = rng.choice([1, 7, 64, 1000, 10**6])
    if options.get("chunklen") == 1 and len(values) > 200:
        options["chunklen"] = 50
    array = bcolz.carray(values, rootdir=str(path), mode="w", **options)
    change = rng.choice(["none", "append", "trim", "resize", "set"])
    if change == "append":
        array.append(any_values(rng, dtype, (rng.randrange(1, 200),) + shape[1:]))
    elif change == "trim" and shape[0]:
        array.trim(rng.randrange(shape[0]))
    elif change == "resize":
        array.resize(shape[0] + rng.randrange(1, 100))
    elif change == "set" and shape[0]:
        array[:] = any_values(rng, dtype, shape)
    array.attrs["name"] = "gr\u00fcn %s" % dtype
    array.attrs["shape"] = list(shape)
    array.flush()
    return array


def make_table(rng, path):
    rows = rng.choice([0, 1, 65, rng.randrange(2000)])
    names = ["c%d" % i for i in range(rng.randint(1, 5))]
    shapes = [(rows,) + ((rng.randint(1, 3),) if rng.random() < 0.2 else ()) for _ in names]
    columns = [any_values(rng, rng.choice(PLAIN), shape) for shape in shapes]
    table = bcolz.ctable(columns, names=names, rootdir=str(path), mode="w", cparams=cparams(rng))
    if rows and rng.random() < 0.3:
        table.append([column[:1] for column in columns])
    table.attrs["rows"] = rows
    table.flush()
    return table


# bcolz opens these and cannot create them: JSON has no complex numbers and times for `dflt`.
ONLY_OURS = {
    "complex": np.arange(50) * (1 - 2j),
    "complex64": np.ones((3, 4), ">c8"),
    "spans": np.arange(9).astype("m8[s]"),
    "fortran": np.asfortranarray(np.arange(60).reshape(20, 3)),
    "structures": np.array(
        [(i, [i, i + 1], "n%d" % i) for i in range(99)],
        np.dtype([("id", "i1"), ("x", ">f4", (2,)), ("name", "<U4")]),
    ),
}


def save(path, opened):
    """What bcolz itself reads, for us to compare with."""
    values = opened[:]
    np.save(str(path) + ".npy", np.ascontiguousarray(values))
    return values


def run_kiste(folder):
    (folder / "ours").mkdir()
    command = ["cargo", "test", "--test", "main", "--", "--ignored", "--exact"]
    command.append("array::bcolz::exchange::what_python_wrote")
    done = subprocess.run(
        command,
        cwd=str(Path(__file__).parent),
        env=dict(os.environ, KISTE_BCOLZ=str(folder)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
    )
    if done.returncode or "1 passed" not in done.stdout:
        sys.exit(done.stdout)


def differences(name, path, values, attrs):
    opened = bcolz.open(str(path), mode="r")
    found = opened[:]
    if found.dtype != values.dtype:
        yield "%s: type %s, not %s" % (name, found.dtype, values.dtype)
    if found.shape != values.shape:
        yield "%s: shape %s, not %s" % (name, found.shape, values.shape)
    elif np.ascontiguousarray(found).tobytes() != np.ascontiguousarray(values).tobytes():
        yield "%s: other values" % name
    if opened.attrs.getall() != attrs:
        yield "%s: attributes %s, not %s" % (name, opened.attrs.getall(), attrs)


def main(seed=1, count=200):
    bcolz.set_nthreads(1)
    rng, wrong = random.Random(int(seed)), []
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder) / "first", Path(folder) / "second"
        (first / "theirs").mkdir(parents=True)
        (second / "theirs").mkdir(parents=True)
        expected = {}
        for i in range(int(count)):
            name = "a%d" % i
            path = first / "theirs" / name
            make = make_table if rng.random() < 0.3 else make_array
            opened = make(rng, path)
            expected[name] = save(path, opened), opened.attrs.getall()
        for name, values in ONLY_OURS.items():
            np.save(str(first / "theirs" / name) + ".npy", values)
            expected[name] = values, {}
        run_kiste(first)
        for name, (values, attrs) in sorted(expected.items()):
            path = first / "ours" / name
            wrong.extend(differences(name, path, values, attrs))
            if len(values) and rng.random() < 0.5:
                opened = bcolz.open(str(path), mode="a")
                table = isinstance(opened, bcolz.ctable)
                opened.append([opened[c][:3] for c in opened.names] if table else values[:100])
                opened.flush()
                moved = second / "theirs" / name
                path.rename(moved)
                expected[name] = save(moved, bcolz.open(str(moved), mode="r")), attrs
        run_kiste(second)
        for path in sorted((second / "ours").iterdir()):
            values, attrs = expected[path.name]
            wrong.extend(differences(path.name + " appended to", path, values, attrs))
        appended = len(list((second / "ours").iterdir()))
    for line in wrong:
        print(line)
    print("%s arrays and tables, %d of them appended to: %d differences" % (count, appended, len(wrong)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
