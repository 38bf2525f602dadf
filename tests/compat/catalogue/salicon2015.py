"""SALICON (2015) in miniature: `images/SPLIT/NAME.jpg`, and `SPLIT/NAME.mat` with a row of records
`gaze`: location, timestamp and fixations of each participant. The files of the test set have none."""

import numpy as np

from saliency_parts import jpeg, mat, picture, points, records, rng, write_zip

FIELDS = ["location", "timestamp", "fixations"]


def participant(random, dtype):
    count = int(random.integers(4, 12))
    location = points(random, count).astype(dtype)
    timestamp = np.cumsum(random.integers(1, 40, count)).astype(np.int32)
    fixations = points(random, int(random.integers(1, 4))).astype(np.uint8)
    return [location, timestamp[:, None], fixations]


def build(indir, dtype=np.float64):
    images, data = [], []
    for split, letter in (("train", "train"), ("val", "val"), ("test", "test")):
        for number in (9, 25):
            name = f"{split}/COCO_{letter}2014_{number:012}"
            random = rng(f"{name} {np.dtype(dtype)}")
            images.append((f"images/{name}.jpg", jpeg(picture(name))))
            variables = {"image": name.split("/")[1], "resolution": np.array([[30, 40]], np.uint16)}
            if split != "test":
                rows = [participant(random, dtype) for _ in range(3)]
                # Somebody who did not look.
                rows[1] = [np.zeros((0, 2)), np.zeros((0, 0)), np.zeros((0, 0))]
                variables["gaze"] = records(FIELDS, rows, (1, 3))
            data.append((f"{name}.mat", mat(**variables)))
    write_zip(indir / "image.zip", images)
    write_zip(indir / "fixations.zip", data)
