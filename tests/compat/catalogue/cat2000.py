"""CAT2000 in miniature, in the layout of the archives: `trainSet/Stimuli/CATEGORY/NUMBER.jpg`, and a
MAT file with the map `fixLocs` beside it under FIXATIONLOCS; the test set has only pictures.

The pictures are smaller than there, and have a grey frame of various thickness as there.
"""

import numpy as np

from saliency_parts import jpeg, mat, picture, rng, write_zip

LOSSY = {"image": 2}
# Pillow 10 no longer has this name. And places left of the frame or above it are kept, if they are
# not both, and the corner of the picture is not.
MEND = """
writer.Image.ANTIALIAS = writer.Image.LANCZOS
writer.filter_invalid_fixpoints = lambda points, size: points[((points >= 0) & (points < size)).all(1)]
"""


def framed(name, left, top, right, bottom, width=320, height=180):
    pixels = np.full((height, width, 3), 126, np.uint8)
    inner = picture(name, width - left - right, height - top - bottom, slower=6)
    pixels[top : height - bottom, left : width - right] = inner
    return pixels


def fixations(name, width=320, height=180):
    random = rng(name)
    locations = np.zeros((height, width), np.uint8)
    for x, y in random.integers([0, 0], [width, height], (40, 2)):
        locations[y, x] = 1
    # The corners: outside of the frame on all sides.
    locations[0, 0] = locations[-1, -1] = locations[0, -1] = locations[-1, 0] = 1
    return locations


def build(indir):
    frames = [("Action", "001", 0, 0, 0, 0), ("Action", "002", 60, 0, 60, 0), ("Social", "001", 0, 17, 0, 23)]
    train = []
    for category, number, *frame in frames:
        stem = f"{category}/{number}"
        image = jpeg(framed("cat" + stem, *frame))
        train.append((f"trainSet/Stimuli/{stem}.jpg", image))
        train.append((f"trainSet/Stimuli/{category}/Output/{number}_SaliencyMap.jpg", b"not read"))
        train.append((f"trainSet/FIXATIONLOCS/{stem}.mat", mat(fixLocs=fixations(stem))))
        train.append((f"trainSet/FIXATIONMAPS/{stem}.jpg", b"not read"))
    # One that becomes smaller, as all of the real ones do.
    train.append(("trainSet/Stimuli/Social/002.jpg", jpeg(framed("large", 100, 40, 100, 40, 1400, 700), 70)))
    train.append(("trainSet/FIXATIONLOCS/Social/002.mat", mat(fixLocs=fixations("large", 1400, 700))))
    write_zip(indir / "trainSet.zip", train)
    test = [(f"testSet/Stimuli/Art/{n:03}.jpg", jpeg(framed(f"test{n}", 10 * n, 0, 20, 5))) for n in (1, 2)]
    write_zip(indir / "testSet.zip", test)
