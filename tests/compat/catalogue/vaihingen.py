"""ISPRS Vaihingen: unpacked folders of TIFFs: infrared pictures, heights as floats, colour maps.

The authors call the heights `dsm_09cm_matching_areaN.tif`, Python's writer looks for
`dsm_mosaic_09cm_areaN.tif`; here are both.
"""
import os
import shutil

import numpy as np

from . import geotiff
from .pictures import photo, regions

PYTHON = ["-y"]
MEND = geotiff.STAND_IN

TRAIN = [1, 3, 5, 7, 13, 17, 21, 23, 26, 32, 37]
VAL = [11, 15, 28, 30, 34]
COLORS = [(255, 255, 255), (0, 0, 255), (0, 255, 255), (0, 255, 0), (255, 255, 0), (255, 0, 0),
          (0, 0, 0), (1, 2, 3)]


def build(indir):
    root = os.path.join(indir, "ISPRS_semantic_labeling_Vaihingen")
    for folder in ["top", "dsm", "gts_for_participants"]:
        os.makedirs(os.path.join(root, folder))
    for area in TRAIN + VAL:
        height, width = (390, 400) if area == 15 else (12, 14 + area % 7)
        name = "top_mosaic_09cm_area%d.tif" % area
        options = {"compress": ["lzw", "deflate", "packbits"][area % 3]}
        if area == 15:
            options = {"compress": "deflate", "tiled": True}
        geotiff.write(os.path.join(root, "top", name), photo(area, height, width).transpose(2, 0, 1), **options)
        colors = np.array(COLORS, np.uint8)[regions(area, height, width, range(len(COLORS)))]
        geotiff.write(os.path.join(root, "gts_for_participants", name), colors.transpose(2, 0, 1), **options)
        heights = regions(area, height, width, range(240, 360)) + photo(area, height, width)[..., 0] / 256
        if area == 3:
            heights -= 300  # below zero, too
        path = os.path.join(root, "dsm", "dsm_09cm_matching_area%d.tif" % area)
        options.pop("compress") if area % 3 == 2 else None
        if area % 2:
            options["predictor"] = 3 if options.get("compress") in ("lzw", "deflate") else 1
        geotiff.write(path, heights.astype(np.float32)[None], **options)
        shutil.copy(path, os.path.join(root, "dsm", "dsm_mosaic_09cm_area%d.tif" % area))
