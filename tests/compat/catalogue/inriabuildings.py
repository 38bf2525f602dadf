"""Inria Aerial Image Labeling: unpacked folders of GeoTIFFs, pictures and maps of 0 and 255.

The real pictures have 5000 pixels a side. Of these, some are large enough for a few crops of 384,
most for none.
"""
import os

import numpy as np

from . import geotiff
from .pictures import photo, regions

PYTHON = ["-y"]
LOSSY = {"image": 1.5}
PIXELS = ["label_image"]
# Pillow takes each byte of a bool array for eight pixels if it is told that the mode is "1".
MEND = geotiff.STAND_IN + """
from types import SimpleNamespace
def fromarray(array, mode):
    return Image.fromarray(array.astype("uint8"))
from PIL import Image
writer.Image = SimpleNamespace(fromarray=fromarray)
"""

TRAIN = ["vienna", "kitsap", "tyrol-w", "chicago", "austin"]
TEST = ["bellingham", "bloomington", "innsbruck", "sfo", "tyrol-e"]
LARGE = {("austin", 2): (400, 790), ("vienna", 5): (384, 384), ("sfo", 3): (770, 390)}


def build(indir):
    root = os.path.join(indir, "AerialImageDataset")
    for folder in ["train/images", "train/gt", "test/images"]:
        os.makedirs(os.path.join(root, folder))
    for split, places in [("train", TRAIN), ("test", TEST)]:
        for seed, (place, number) in enumerate((p, n) for p in places for n in range(1, 37)):
            height, width = LARGE.get((place, number), (9, 10 + number % 5))
            name = "%s%d.tif" % (place, number)
            # All that GDAL does by default, and what it is often told to do.
            options = [{}, {"compress": "lzw"}, {"compress": "deflate", "predictor": 2}][number % 3]
            if max(height, width) > 300:
                options = {"compress": "deflate", "tiled": True}
            geotiff.write(os.path.join(root, split, "images", name),
                          photo(seed, height, width).transpose(2, 0, 1), **options)
            if split == "train":
                labels = regions(seed, height, width, [0, 255]).astype(np.uint8)
                geotiff.write(os.path.join(root, split, "gt", name), labels[None], compress="lzw")
