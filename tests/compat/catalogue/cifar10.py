"""CIFAR-10 in miniature, in the layout that https://www.cs.toronto.edu/~kriz/cifar.html documents:
pickles of Python 2 in a tar compressed with gzip, five batches to train and one to test, each a dict
of `data`, an array with a row an image, `labels`, `filenames` and `batch_label`.
"""

import io
import pickle
import tarfile

import numpy as np

PIXELS = ["image"]


def random(name):
    return np.random.default_rng(list(name.encode()))


def images(name, count):
    """Smooth pictures, the planes of which differ."""
    y, x = np.mgrid[0:32, 0:32]
    waves = random(name).uniform(0.02, 0.6, (count, 3, 2))
    planes = 127 + 120 * np.sin(waves[..., :1, None] * x + waves[..., 1:, None] * y)
    return planes.astype(np.uint8).reshape(count, 3072)


def add(tar, name, value):
    data = pickle.dumps(value, protocol=2)
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def folder(tar, name):
    info = tarfile.TarInfo(name)
    info.type = tarfile.DIRTYPE
    tar.addfile(info)


def build(indir):
    with tarfile.open(indir / "cifar-10-python.tar.gz", "w:gz") as tar:
        folder(tar, "cifar-10-batches-py")
        # Not in the order in which they are read.
        for batch in ["data_batch_4", "test_batch", *(f"data_batch_{n}" for n in (1, 2, 3, 5))]:
            count = 40 if batch == "test_batch" else 7
            add(tar, f"cifar-10-batches-py/{batch}", {
                b"batch_label": b"training batch",
                b"labels": random(batch).integers(0, 10, count).tolist(),
                b"data": images(batch, count),
                b"filenames": [b"%s_s_%06d.png" % (batch.encode(), n) for n in range(count)],
            })
