"""The table of the Bloscpack paper (Haenel, EuroSciPy 2013, arXiv 1404.6383), with kiste in it.

    cargo build --profile dist --features c-blosc --example paper
    python benches/paper.py                                   # all of it, some minutes
    python benches/paper.py --sizes small --threads 1         # a part of it
    python benches/paper.py --only kiste,bloscpack-7 --rounds 5

Needs NumPy, bloscpack, python-blosc, blosc2 and zarr. Nothing else should run at the same time.

Arrays of float64: low entropy is `arange`, medium a sine of 1000 points over and over with noise of
1e-8, high a normal distribution. Small has 10^4 numbers, mid 10^6, large 10^7 (80 MB; the paper's
mid). Measured are writing a new file from an array in memory, and reading it into a new array, with
everything in the page cache; the best of several means, as in the paper, and of --rounds rounds in
turns, so that a noisy minute meets all alike. Nobody waits for the disk, except
"kiste synced", which is what kiste does by default. Ratio is raw / stored.

`kiste` and `bloscpack-7` compress alike: blosclz, level 7, bytes shuffled, chunks of 1 MiB, neither
offsets nor checksums, as in the paper.
"""

import argparse
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")

import blosc
import blosc2
import bloscpack
import numcodecs
import numpy as np
import zarr

ROOT = Path(__file__).resolve().parents[1]
SIZES = {"small": 10**4, "mid": 10**6, "large": 10**7}
# Sets and runs in a set.
RUNS = {"small": (10, 10), "mid": (5, 5), "large": (3, 3)}
# Codec, level, chunk size, checksum, offsets, sync: see benches/paper.rs.
KISTE = {
    "kiste": ["blosclz", "7", "1M", "None", "false", "false"],
    "kiste synced": ["blosclz", "7", "1M", "None", "false", "true"],
    "kiste defaults, not synced": ["lz4", "5", "auto", "adler32", "true", "false"],
}


def make(count, entropy):
    rng = np.random.RandomState(1)
    if entropy == "low":
        return np.arange(float(count))
    if entropy == "medium":
        sine = np.sin(np.tile(np.linspace(0, np.pi * 2, 1000), count // 1000))
        return sine + rng.randint(-1, 1, count) / 1e8
    return rng.randn(count)


def paper_bloscpack(array, path):
    bloscpack.pack_ndarray_to_file(
        array, path, blosc_args=bloscpack.BloscArgs(clevel=7, cname="blosclz"),
        bloscpack_args=bloscpack.BloscpackArgs(offsets=False, checksum="None", max_app_chunks=0))


def write_zarr(array, path):
    codec = numcodecs.Blosc("lz4", 5, numcodecs.Blosc.SHUFFLE)
    store = zarr.create_array(store=path, shape=array.shape, dtype=array.dtype, chunks=(131072,),
                              zarr_format=2, compressors=codec, overwrite=True)
    store[:] = array


def write_blosc2(array, path):
    params = {"codec": blosc2.Codec.BLOSCLZ, "clevel": 7, "nthreads": blosc2.nthreads}
    blosc2.save_array(array, path, mode="w", cparams=params)


PEERS = {
    "bloscpack-7": (paper_bloscpack, bloscpack.unpack_ndarray_from_file, ".blp"),
    "bloscpack defaults": (lambda a, p: bloscpack.pack_ndarray_to_file(a, p),
                           bloscpack.unpack_ndarray_from_file, ".blp"),
    "npy": (lambda a, p: np.save(p, a), np.load, ".npy"),
    "npz": (lambda a, p: np.savez_compressed(p, a), lambda p: np.load(p)["arr_0"], ".npz"),
    "zarr lz4": (write_zarr, lambda p: zarr.open_array(p, mode="r")[:], ".zarr"),
    "blosc2": (write_blosc2, blosc2.load_array, ".b2"),
}


def remove(path):
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.remove(path)


def stored(path):
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(folder, name))
               for folder, _, names in os.walk(path) for name in names)


def timed(before, work, sets, runs):
    best = float("inf")
    gc.disable()
    for _ in range(sets):
        spent = 0
        for _ in range(runs):
            before()
            start = time.perf_counter()
            work()
            spent += time.perf_counter() - start
        best = min(best, spent / runs)
    gc.enable()
    return 1e3 * best


def run_peer(name, array, folder, sets, runs):
    write, read, suffix = PEERS[name]
    path = str(folder / ("peer" + suffix))
    remove(path)
    write(array, path)
    assert read(path).tobytes() == array.tobytes(), name
    found = {"bytes": stored(path),
             "write": timed(lambda: remove(path), lambda: write(array, path), sets, runs),
             "read": timed(lambda: None, lambda: read(path), sets, runs)}
    remove(path)
    return found


def run_kiste(name, program, threads, folder, sets, runs):
    path = folder / "kiste.blp"
    command = [program, "array", folder / "in.npy", path, threads, sets, runs, *KISTE[name]]
    done = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True)
    path.unlink()
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="small,mid,large")
    parser.add_argument("--entropies", default="low,medium,high")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="names of storages, with commas between")
    parser.add_argument("--dir", help="where the files are written; not a disk that is slow")
    parser.add_argument("--program", default=ROOT / "target/dist/examples/paper", type=Path)
    args = parser.parse_args()
    names = args.only.split(",") if args.only else [*KISTE, *PEERS]
    print("load", *os.getloadavg(), "| bloscpack", bloscpack.__version__, "blosc", blosc.__version__,
          "blosc2", blosc2.__version__, "zarr", zarr.__version__, "numpy", np.__version__, flush=True)
    slower = 0
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        folder = Path(folder)
        for threads in map(int, args.threads.split(",")):
            blosc.set_nthreads(threads)
            blosc2.set_nthreads(threads)
            numcodecs.blosc.set_nthreads(threads)
            numcodecs.blosc.use_threads = threads > 1
            for size in args.sizes.split(","):
                for entropy in args.entropies.split(","):
                    array = make(SIZES[size], entropy)
                    np.save(folder / "in.npy", array)
                    best = {}
                    for _ in range(args.rounds):
                        for name in names:
                            sets, runs = RUNS[size] if name != "npz" or size == "small" else (1, 1)
                            found = (run_kiste(name, args.program, threads, folder, sets, runs)
                                     if name in KISTE else run_peer(name, array, folder, sets, runs))
                            known = best.setdefault(name, found)
                            best[name] = {key: min(known[key], found[key]) for key in found}
                    slower += table(f"{size}, {entropy} entropy, {threads} threads", array.nbytes, best)
    subprocess.run([str(args.program), "rest"], check=True)
    print("load at the end", *os.getloadavg())
    return min(slower, 1)


def table(title, nbytes, best):
    """Prints the rows; how often kiste is slower or larger than the same by bloscpack."""
    print(f"\n{title}\n\n| storage | bytes | ratio | write ms | read ms |\n| --- | --: | --: | --: | --: |")
    for name, found in best.items():
        print(f"| {name} | {found['bytes']:,} | {nbytes / found['bytes']:.2f} "
              f"| {found['write']:.2f} | {found['read']:.2f} |")
    slower = [key for key in ("bytes", "write", "read")
              if {"kiste", "bloscpack-7"} <= best.keys() and best["kiste"][key] > best["bloscpack-7"][key]]
    if slower:
        print(f"\nkiste loses to bloscpack-7: {', '.join(slower)}")
    sys.stdout.flush()
    return len(slower)


if __name__ == "__main__":
    sys.exit(main())
