#!/usr/bin/env python3
"""How does a chunked array compare with zarrs, zarr-python, h5py, b2nd and versioned-hdf5?

    cargo bench --features c-blosc --bench arrays --no-run
    (cd benches/zarrs && cargo build --release)
    pip install numpy zarr h5py hdf5plugin blosc2 versioned-hdf5     # those that are there take part
    python benches/arrays_peers.py KISTE ZARRS [--times N] [--dir DIR] [--quick]

KISTE is the program that the first command names (target/release/deps/arrays-…), ZARRS the one that
the second builds (benches/zarrs/target/release/zarrs-peer). All in one run, one after another: the same numbers,
chunk shapes and codec (lz4, level 5, bytes shuffled; h5py without hdf5plugin: not compressed), page
cache warm, nothing synced (but by zarrs, which syncs each file that it writes; on a tmpfs that costs
nothing), the best of N. Put DIR on a disk or a tmpfs, as the question is. In the table is how many
times as long as ours each takes: above 1 is slower than we are.

The programs do not do the same work: a commit of ours is atomic, keeps the version before,
hashes every chunk, and compares its checksums on every read; the peers do neither.

"get a row" is the first thing that is read after opening. "get it again" reads the same row for the third
time by the same handle, when h5py and we have kept what was decoded. (HDF5 shares that among all handles of
a process: so each is closed before the next one is opened.)
"Staged" are changes in memory over chunks in memory, without a codec.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

LAYOUTS = {
    "128 MiB, chunks of 1 MiB": (8192, 4096, 512),
    "4 MiB, chunks of 1 KiB": (1024, 1024, 16),
}
ROW = 300


def best(times, work, setup=lambda: None, done=lambda given: None):
    found = float("inf")
    for _ in range(times):
        given = setup()
        start = time.perf_counter()
        work(given)
        found = min(found, time.perf_counter() - start)
        done(given)
    return found


def content(rows, columns):
    i = np.arange(rows * columns, dtype="u8")
    numbers = np.sin((i // 64).astype("f4")) + (i * 7919 % 13).astype("f4") / np.float32(1e4)
    return numbers.astype("f4").reshape(rows, columns)


def on_disk(times, data, chunk, create, write, open_, resize, close):
    """The operations of a library that has its array in a file or directory."""
    rows, columns = data.shape
    more = data[:chunk]
    seven = iter(range(7, 10**9))

    def write_all(_):
        array = create()
        write(array, data)
        close(array)

    def read_all(_):
        array = open_()
        assert array[:].shape == data.shape
        close(array)

    def set_row(array):
        array[ROW] = np.full(columns, next(seven), "f4")
        close(array)

    def append(array):
        array = resize(array, (rows + chunk, columns))
        array[rows:] = more
        close(array)

    def reset():
        return resize(open_(), (rows, columns))

    def grow(array):
        close(resize(array, (rows * 2, columns)))

    def opened_and_read():
        array = open_()
        for _ in range(2):
            assert array[ROW].shape == (columns,)
        return array

    def get_row(array):
        return array[ROW]

    def get_rows(array):
        return [array[row] for row in range(256, 320)]

    yield "write all", best(times, write_all)
    yield "read all", best(times, read_all)
    yield "get a row", best(times, get_row, open_, close)
    yield "get it again", best(times, get_row, opened_and_read, close)
    yield "get 64 rows", best(times, get_rows, open_, close)
    yield "set a row", best(times, set_row, open_)
    yield "append", best(times, append, reset)
    yield "resize", best(times, grow, reset)


def assign(array, data):
    array[:] = data


def run_zarr(path, data, chunk, times):
    import zarr
    from zarr.codecs import BloscCodec

    codec = BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", typesize=4)

    def create():
        shutil.rmtree(path, ignore_errors=True)
        return zarr.create_array(str(path), shape=data.shape, chunks=(chunk, chunk), dtype="f4",
                                 fill_value=0, compressors=[codec])

    def resize(array, shape):
        array.resize(shape)
        return array

    yield from on_disk(times, data, chunk, create, assign,
                       lambda: zarr.open_array(str(path), mode="r+"), resize, lambda array: None)


def run_h5py(path, data, chunk, times):
    import h5py

    try:
        import hdf5plugin
        codec = dict(hdf5plugin.Blosc(cname="lz4", clevel=5, shuffle=hdf5plugin.Blosc.SHUFFLE))
    except ImportError:
        codec = {}

    def create():
        path.unlink(missing_ok=True)
        return h5py.File(path, "w").create_dataset("a", data.shape, "f4", chunks=(chunk, chunk),
                                                   maxshape=(None, None), **codec)

    def resize(array, shape):
        array.resize(shape)
        return array

    yield from on_disk(times, data, chunk, create, assign, lambda: h5py.File(path, "r+")["a"],
                       resize, lambda array: array.file.close())


def run_b2nd(path, data, chunk, times):
    import blosc2

    params = {"codec": blosc2.Codec.LZ4, "clevel": 5, "filters": [blosc2.Filter.SHUFFLE],
              "filters_meta": [0], "typesize": 4}

    def create():
        shutil.rmtree(path, ignore_errors=True)
        return blosc2.zeros(data.shape, "f4", chunks=(chunk, chunk), cparams=params,
                            urlpath=str(path), contiguous=False)

    def resize(array, shape):
        array.resize(shape)
        return array

    yield from on_disk(times, data, chunk, create, assign,
                       lambda: blosc2.open(str(path), mode="a"), resize, lambda array: None)


def run_versioned_hdf5(path, data, chunk, times):
    from versioned_hdf5.staged_changes import StagedChangesArray

    rows, columns = data.shape
    counts = (rows // chunk, columns // chunk)
    slab = data.reshape(counts[0], chunk, counts[1], chunk).swapaxes(1, 2).reshape(-1, chunk).copy()
    slab.flags.writeable = False
    number = counts[0] * counts[1]

    def make():
        return StagedChangesArray(
            shape=data.shape, chunk_size=(chunk, chunk), base_slabs=[slab],
            slab_indices=np.ones(counts, "u8"),
            slab_offsets=(np.arange(number, dtype="u8") * chunk).reshape(counts))

    def append(array):
        array.resize((rows + chunk, columns))
        array[rows:] = data[:chunk]

    def set_row(array):
        array[ROW] = 7

    base = make()
    yield "read all", best(times, lambda _: base[:, :])
    yield "get a row", best(times, lambda _: base[ROW])
    yield "write all", best(times, lambda array: assign(array, data), make)
    yield "set a row", best(times, set_row, make)
    yield "append", best(times, append, make)
    yield "resize", best(times, lambda array: array.resize((rows * 2, columns)), make)


PYTHON = {"zarr-python": run_zarr, "h5py": run_h5py, "b2nd": run_b2nd,
          "versioned-hdf5, staged": run_versioned_hdf5}


def program(path, directory, name, layout, times):
    arguments = [str(number) for number in (*layout, times)]
    lines = subprocess.run([path, directory, name, *arguments], check=True, stdout=subprocess.PIPE,
                           text=True).stdout.splitlines()
    for line in map(json.loads, lines):
        yield line["who"], line["op"], line["seconds"]


def measure(args, directory, name, layout):
    """All that took part: {(who, operation): seconds}."""
    found = {}
    for path in (args.kiste, args.zarrs):
        for who, op, seconds in program(path, directory, name, layout, args.times):
            found[who, op] = seconds
    rows, columns, chunk = layout
    data = content(rows, columns)
    for who, run in PYTHON.items():
        try:
            for op, seconds in run(pathlib.Path(directory) / who.split(",")[0], data, chunk, args.times):
                found[who, op] = seconds
        except ImportError as error:
            print(f"without {who}: {error}", file=sys.stderr)
    return found


def show(name, found):
    print(f"\n{name}")
    for ours, peers in (("kiste", ["zarrs", "b2nd", "zarr-python", "h5py"]),
                        ("kiste, staged", ["versioned-hdf5, staged"])):
        print(f"  {ours:14} {'':>12}" + "".join(f"{peer:>24}" for peer in peers))
        for (who, op), seconds in found.items():
            if who != ours:
                continue
            ratios = (found.get((peer, op)) for peer in peers)
            cells = (f"{other / seconds:.2f}" if other else "" for other in ratios)
            print(f"  {op:14} {seconds * 1e3:>9.3f} ms" + "".join(f"{cell:>24}" for cell in cells))
    copy, read = found["kiste, staged", "memcpy"], found["kiste, staged", "read all"]
    print(f"  staged: the whole is read at {copy / read:.2f} of the speed of memcpy")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kiste")
    parser.add_argument("zarrs")
    parser.add_argument("--times", type=int, default=7)
    parser.add_argument("--dir")
    parser.add_argument("--quick", action="store_true", help="an eighth of the rows")
    args = parser.parse_args()
    for name, (rows, columns, chunk) in LAYOUTS.items():
        if args.quick:
            name, rows = f"an eighth of {name}", max(rows // 8, 512)
        with tempfile.TemporaryDirectory(dir=args.dir) as directory:
            show(name, measure(args, directory, name, (rows, columns, chunk)))


if __name__ == "__main__":
    main()
