"""CIFAR-100 in miniature, in the layout that https://www.cs.toronto.edu/~kriz/cifar.html documents: as
CIFAR-10, with the pickles `train` and `test`, and labels that are fine and coarse. Some file names
come several times, as in the real one.
"""

import tarfile

from cifar10 import add, folder, images, random

PIXELS = ["image"]


def build(indir):
    with tarfile.open(indir / "cifar-100-python.tar.gz", "w:gz") as tar:
        folder(tar, "cifar-100-python")
        add(tar, "cifar-100-python/meta", {b"fine_label_names": [b"apple"]})
        for split, count in [("test", 12), ("train", 30)]:
            names = [b"%s_s_%06d.png" % (split.encode(), n) for n in range(count)]
            names[5] = names[9] = names[2]
            add(tar, f"cifar-100-python/{split}", {
                b"filenames": names,
                b"batch_label": b"testing batch 1 of 1",
                b"fine_labels": random(split).integers(0, 100, count).tolist(),
                b"coarse_labels": random(split).integers(0, 20, count).tolist(),
                b"data": images(split, count),
            })
