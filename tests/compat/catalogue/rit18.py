"""RIT-18: one file of MATLAB with seven-channel pictures, of which the last is the mask."""
import os

import numpy as np

from .pictures import mat, random, regions

PYTHON = ["-s", "-y"]


def channels(seed, height, width):
    data = np.stack([regions(seed + n, height, width, random(n).randint(0, 65536, 9)) for n in range(7)])
    data[-1] = np.where(regions(seed, height, width, [0, 1]), 65535, 0)
    return data.astype(np.uint16)


def build(indir):
    data = mat({
        "train_data": channels(1, 40, 30),
        "train_labels": regions(2, 40, 30, range(19)).astype(np.uint8),
        # Four crops of 384, three of which are smaller.
        "val_data": channels(3, 400, 390),
        "val_labels": regions(4, 400, 390, range(19)).astype(np.uint8),
        "test_data": channels(5, 10, 12),
        "classes": np.array([["Road Markings"], ["Tree"]], dtype=object),
    })
    with open(os.path.join(indir, "rit18_data.mat"), "wb") as out:
        out.write(data)
