"""Cityscapes: three zips with the same tree of cities, for pictures, depth and labels."""
import os

import numpy as np

from .pictures import Zip, encode, photo, regions

FRAMES = {"train": [("aachen", 3), ("zurich", 2)], "val": [("munster", 2)], "test": [("berlin", 2)]}


def build(indir):
    def archive(name):
        out = Zip(os.path.join(indir, name))
        out.writestr("README", b"see the homepage\n")
        out.writestr("license.txt", b"see the homepage\n")
        return out

    with archive("leftImg8bit_trainvaltest.zip") as left, \
            archive("disparity_trainvaltest.zip") as disparity, \
            archive("gtFine_trainvaltest.zip") as labels:
        keys = ["%s/%s/%s_%06d_000019" % (split, city, city, number)
                for split, cities in FRAMES.items() for city, count in cities for number in range(count)]
        for seed, key in enumerate(keys):
            left.writestr("leftImg8bit/%s_leftImg8bit.png" % key, encode(photo(seed, 8, 16), "PNG"))
            # The other archives have another order.
            key = keys[-1 - seed]
            classes = regions(seed, 8, 16, range(34)).astype(np.uint8)
            labels.writestr("gtFine/%s_gtFine_color.png" % key, encode(np.stack([classes] * 3, 2), "PNG"))
            labels.writestr("gtFine/%s_gtFine_labelIds.png" % key, encode(classes, "PNG"))
            labels.writestr("gtFine/%s_gtFine_polygons.json" % key, b"{}")
            depth = (regions(seed, 8, 16, range(126)) * 256 + 1).astype(np.int32)
            disparity.writestr("disparity/%s_disparity.png" % key, encode(depth, "PNG"))
