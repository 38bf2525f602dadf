"""ADE20k: a zip with an index in MATLAB's format, photos, class and part maps.

Layout after the index and the names that the authors document: `index.filename` and `index.scene`
are 1 x N cells, `X.jpg` goes with `X_seg.png` and `X_parts_1.png` and so on. In the maps class is
`R / 10 * 256 + G`, instance is `B`.
"""
import os

import numpy as np

from .pictures import Zip, encode, jpeg, mat, random, regions

PIXELS = ["label_image", "parts_images"]
COUNTED = ["training"]
# With more threads the order is another each time.
PYTHON = ["-s", "-y", "--shuffle", "no", "-t", "1"]

ROOT = "ADE20K_2016_07_26"
# split, scene, number, how many maps of parts
IMAGES = [
    ("training", "abbey", 1, 0),
    ("training", "zoo", 2, 2),
    ("training", "~not labeled", 3, 1),
    ("training", "abbey", 970, 11),
    ("validation", "youth_hostel", 1, 1),
    ("validation", "", 10, 0),
]


def cells(texts):
    out = np.empty((1, len(texts)), dtype=object)
    out[0, :] = texts
    return out


def class_map(seed, height=12, width=17):
    classes = regions(seed, height, width, random(seed).randint(0, 3148, 5))
    instances = regions(seed + 1, height, width, range(4))
    return encode(np.stack([classes // 256 * 10, classes % 256, instances], 2).astype(np.uint8), "PNG")


def build(indir):
    names = ["ADE_%s_%08d" % ("train" if split == "training" else "val", number)
             for split, _, number, _ in IMAGES]
    index = mat({"index": {
        "filename": cells([name + ".jpg" for name in names]),
        "folder": cells([ROOT + "/images/" + split for split, *_ in IMAGES]),
        "scene": cells([scene for _, scene, *_ in IMAGES]),
        "typeset": np.array([[1 + (image[0] == "validation") for image in IMAGES]]),
    }})
    with Zip(os.path.join(indir, ROOT + ".zip")) as out:
        out.writestr(ROOT + "/", b"")
        out.writestr(ROOT + "/index_ade20k.mat", index)
        for seed, (name, (split, scene, _, parts)) in enumerate(zip(names, IMAGES)):
            folder = "%s/images/%s/%s/%s/" % (ROOT, split, scene[:1] or "_", scene or "_")
            out.writestr(folder + name + ".jpg", jpeg(seed))
            out.writestr(folder + name + "_seg.png", class_map(seed + 20))
            for part in range(parts):
                out.writestr(folder + name + "_parts_%d.png" % (part + 1), class_map(40 + seed * 20 + part))
            out.writestr(folder + name + "_atr.txt", b"001 # 0 # 0 # sky # sky # \"\"\n")


def check(outdir):
    """Names of scenes, as `--scenelabels` would write them: it stops with an error."""
    found = (outdir / "training.msgpack.labels").read_text().split("\n")[:-1]
    assert found == sorted({scene for _, scene, *_ in IMAGES}), found
