"""Samples that are the same on every machine: a key, a number (the index) and a payload of bytes or one array."""

import argparse
import json
import mmap
from pathlib import Path

import numpy as np

# Samples by default; the sizes of their payloads.
WORKLOADS = {
    "records": (30_000, "64 to 1,024 bytes"),
    "10kB": (10_000, "8 to 12 kB, incompressible"),
    "110kB": (1_500, "30 to 300 kB, 110 kB on average, incompressible as JPEG is"),
    "arrays": (300, "arrays of 224 × 224 × 3 float32 with the values of pixels, compressible"),
}
SHAPE = (224, 224, 3)
ACCESSES = 2_000
SEED = 1234


def sizes_of(name, count, rng):
    if name == "records":
        return rng.integers(64, 1025, count)
    if name == "10kB":
        return rng.integers(8192, 12289, count)
    if name == "110kB":
        return np.clip(rng.lognormal(np.log(105_000), 0.3, count), 30_000, 300_000).astype(np.int64)
    return np.full(count, int(np.prod(SHAPE)) * 4)


def picture(rng):
    """A smooth picture with the noise of a sensor: whole numbers from 0 to 255, as float32."""
    rows, columns, channels = SHAPE
    found = np.full(SHAPE, 120.0, np.float32)
    for amplitude in (50, 25, 12):
        phase, speed = rng.random((2, channels)) * 6.3, rng.random((2, channels)) * 600 / amplitude
        y = np.arange(rows)[:, None, None] / rows * speed[0] + phase[0]
        x = np.arange(columns)[None, :, None] / columns * speed[1] + phase[1]
        found += amplitude * np.sin(y) * np.cos(x)
    found += rng.standard_normal(SHAPE, dtype=np.float32) * 1.5
    return np.clip(np.rint(found), 0, 255).astype(np.float32)


def generate(name, folder, scale):
    """Does nothing if the folder has it already."""
    count = max(64, int(WORKLOADS[name][0] * scale))
    meta = {"name": name, "n": count, "seed": SEED, "version": 1}
    if name == "arrays":
        meta["shape"] = SHAPE
    noted = folder / "meta.json"
    if noted.exists() and noted.read_text() == json.dumps(meta):
        return
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng([SEED, list(WORKLOADS).index(name)])
    offsets = np.zeros(count + 1, np.uint64)
    np.cumsum(sizes_of(name, count, rng), out=offsets[1:])
    with open(folder / "payload.bin", "wb") as file:
        left = int(offsets[-1])
        while left:
            part = picture(rng).tobytes() if name == "arrays" else rng.bytes(min(left, 1 << 24))
            file.write(part)
            left -= len(part)
    offsets.astype("<u8").tofile(folder / "offsets.u64")
    keys = [f"n{label:08}_{index}" for index, label in enumerate(rng.integers(0, 1000, count))]
    (folder / "keys.txt").write_text("\n".join(keys) + "\n")
    rng.integers(0, count, ACCESSES).astype("<u8").tofile(folder / "indices.u64")
    noted.write_text(json.dumps(meta))


class Source:
    """What was generated, mapped."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.meta = json.loads((self.folder / "meta.json").read_text())
        self.n = self.meta["n"]
        self.shape = tuple(self.meta["shape"]) if "shape" in self.meta else None
        self.offsets = np.fromfile(self.folder / "offsets.u64", "<u8").astype(np.int64)
        self.nbytes = int(self.offsets[-1])
        with open(self.folder / "payload.bin", "rb") as file:
            self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.keys = (self.folder / "keys.txt").read_text().split()
        self.indices = np.fromfile(self.folder / "indices.u64", "<u8").astype(np.int64).tolist()

    def payload(self, index):
        begin, end = int(self.offsets[index]), int(self.offsets[index + 1])
        if self.shape:
            return np.frombuffer(self.map, "<f4", (end - begin) // 4, begin).reshape(self.shape)
        return self.map[begin:end]

    def __iter__(self):
        """(key, number, payload) of each sample."""
        for index, key in enumerate(self.keys):
            yield key, index, self.payload(index)

    def ends(self, indices):
        """The first and the last element of each payload."""
        kind = np.dtype("<f4" if self.shape else "u1")
        flat = np.frombuffer(self.map, kind)
        indices = np.asarray(indices, np.int64)
        begin, end = (self.offsets[indices + at] // kind.itemsize for at in (0, 1))
        return flat[begin].astype(np.float64), flat[end - 1].astype(np.float64)

    def checksum(self, indices):
        """Of samples: their numbers, and the first and the last element of each payload."""
        first, last = self.ends(indices)
        return float(np.sum(indices) + first.sum() + last.sum())

    def nbytes_of(self, indices):
        indices = np.asarray(indices, np.int64)
        return int((self.offsets[indices + 1] - self.offsets[indices]).sum())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=float, required=True)
    parser.add_argument("workloads", nargs="+", choices=WORKLOADS)
    options = parser.parse_args()
    for name in options.workloads:
        generate(name, options.folder / name, options.scale)


if __name__ == "__main__":
    main()
