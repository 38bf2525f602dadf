"""Pascal VOC 2012: a tar with lists of names, photos, and class maps as PNGs with a palette."""
import io
import os
import tarfile

import numpy as np
from PIL import Image

from .pictures import add, add_dir, jpeg, regions

PIXELS = ["label_image"]
COUNTED = ["train", "val"]

NAMES = {"train": ["2007_000032", "2011_003276", "2007_000039"], "val": ["2007_000033", "2009_005302"]}


def palette():
    """The colour of each of 256 classes, as the development kit counts them out."""
    out = np.zeros((256, 3), np.uint8)
    for index in range(256):
        for bit in range(8):
            for channel in range(3):
                out[index, channel] |= (index >> (3 * bit + channel) & 1) << (7 - bit)
    return out


def class_map(seed):
    # 255 is the void around objects.
    image = Image.fromarray(regions(seed, 12, 17, list(range(21)) + [255]).astype(np.uint8), "P")
    image.putpalette(palette().tobytes())
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def build(indir):
    root = "VOCdevkit/VOC2012"
    with tarfile.open(os.path.join(indir, "VOCtrainval_11-May-2012.tar"), "w") as out:
        add_dir(out, root)
        names = sorted(name for split in NAMES.values() for name in split)
        for name in names:
            add(out, "%s/Annotations/%s.xml" % (root, name), b"<annotation/>\n")
        for split, listed in NAMES.items():
            add(out, "%s/ImageSets/Segmentation/%s.txt" % (root, split), ("\n".join(listed) + "\n").encode())
        for seed, name in enumerate(names + ["2008_000001"]):
            add(out, "%s/JPEGImages/%s.jpg" % (root, name), jpeg(seed))
        for seed, name in enumerate(names):
            add(out, "%s/SegmentationClass/%s.png" % (root, name), class_map(seed))
            add(out, "%s/SegmentationObject/%s.png" % (root, name), class_map(seed + 10))
