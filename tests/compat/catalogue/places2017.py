"""Places2017: four tars with the same tree, for photos, class maps, instances and boundaries.

After the instructions of the challenge: in `annotations_boundary` the field `bdry` of the struct
`gt` is a 150 x 1 cell array of sparse logical matrices.
"""
import os
import tarfile

import numpy as np
from scipy import ndimage
from scipy.sparse import csc_matrix

from .pictures import add, add_dir, encode, jpeg, mat, random, regions

# Needs OpenCV 3.4: opencv-python-headless 3.4.18.65 runs with NumPy 1.23.
# Scene and class map are passed to each other's places, and findContours gives three things in
# OpenCV 3 only.
MEND = """
def sample(key, image, label_image, label, *rest, right=writer.Places2017Data):
    return right(key, image, label, label_image, *rest)
writer.Places2017Data = sample
"""
COUNTED, COUNT = ["training"], "--class-counts"

IMAGES = [("training", "train", n) for n in (1, 2, 3, 20210)] + [("validation", "val", n) for n in (1, 2000)]


def outline(mask):
    return mask & ~ndimage.binary_erosion(mask)


def boundaries(seed, classes):
    """One matrix a class: outlines as the real ones, and noise, which has all kinds of corners."""
    out = np.empty((150, 1), dtype=object)
    for index in range(150):
        edge = outline(classes == index + 1)
        if index % 50 == seed % 50:
            edge = random(seed * 150 + index).rand(*classes.shape) < 0.5
        out[index, 0] = csc_matrix(edge)
    return out


def build(indir):
    def archive(name):
        return tarfile.open(os.path.join(indir, name), "w")

    for name in ["objectInfo150.txt", "color150.mat"]:
        with open(os.path.join(indir, name), "wb") as out:
            out.write(b"not read for this\n")
    with archive("images.tar") as images, archive("sceneparsing.tar") as classes, \
            archive("annotations_instance.tar") as instances, archive("boundaries.tar") as bounds:
        for tar, root in [(images, "images"), (classes, "annotations_sceneparsing"),
                          (instances, "annotations_instance"), (bounds, "annotations_boundary")]:
            for folder in ["", "/training", "/validation"]:
                add_dir(tar, root + folder)
        for seed, (split, short, number) in enumerate(IMAGES):
            name = "%s/ADE_%s_%08d" % (split, short, number)
            height, width = 24 + seed, 31 - seed
            labels = regions(seed, height, width, list(range(1, 151, 7)) + [0])
            add(images, "images/%s.jpg" % name, jpeg(seed, height, width))
            add(classes, "annotations_sceneparsing/%s.png" % name, encode(labels.astype(np.uint8), "PNG"))
        # The other archives have another order.
        for seed, (split, short, number) in reversed(list(enumerate(IMAGES))):
            name = "%s/ADE_%s_%08d" % (split, short, number)
            height, width = 24 + seed, 31 - seed
            labels = regions(seed, height, width, list(range(1, 151, 7)) + [0])
            objects = np.stack([labels, regions(seed, height, width, range(9)), labels * 0], 2)
            add(instances, "annotations_instance/%s.png" % name, encode(objects.astype(np.uint8), "PNG"))
            gt = {"seg": objects.astype(np.uint8), "bdry": boundaries(seed, labels)}
            add(bounds, "annotations_boundary/%s.mat" % name, mat({"gt": gt}))
