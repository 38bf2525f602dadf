"""MNIST in miniature: idx files, in the layout that Yann LeCun's page documents: a magic number, the
length of each axis, and bytes. Python datadings has no writer for it, so what is made is compared with
what went in.
"""

import gzip
import io
import struct

import msgpack
import numpy as np
from PIL import Image

MODULE = None

COUNTS = {"train": 23, "test": 11}


def content(split):
    random = np.random.default_rng(len(split))
    images = random.integers(0, 256, (COUNTS[split], 28, 28), np.uint8)
    images[:, ::3] = 0
    return images, random.integers(0, 10, COUNTS[split], np.uint8)


def idx(array):
    head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return gzip.compress(head + array.tobytes(), mtime=0)


def build(indir):
    for split, prefix in [("train", "train"), ("test", "t10k")]:
        images, labels = content(split)
        (indir / f"{prefix}-images-idx3-ubyte.gz").write_bytes(idx(images))
        (indir / f"{prefix}-labels-idx1-ubyte.gz").write_bytes(idx(labels))


def check(outdir):
    for split, count in COUNTS.items():
        found = list(msgpack.Unpacker((outdir / f"{split}.msgpack").open("rb")))
        assert len(found) == count, f"{split}: {len(found)} samples"
        for number, (sample, image, label) in enumerate(zip(found, *content(split))):
            assert list(sample) == ["key", "image", "label"], sample
            assert (sample["key"], sample["label"]) == (f"{number:05}", label), sample
            decoded = Image.open(io.BytesIO(sample["image"]))
            assert decoded.mode == "L" and (np.asarray(decoded) == image).all(), sample["key"]
