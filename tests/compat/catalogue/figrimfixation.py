"""FIGRIM Fixation in miniature.

The layout is the documented one (`README.md` of cvzoya/figrim): `allImages` is a row of records with
`impath`, the name in the archive, and `userdata`, a record for each participant; `fixations` has the
fields `enc`, `rec` and `rec2`, and is empty for whoever did not see the picture. The order of the
fields is that which `datadings.sets.FIGRIMFixation_write` counts on.
"""

import numpy as np

from saliency_parts import jpeg, mat, picture, points, records, rng, write_zip

EMPTY = np.zeros((0, 0))


def participant(random, times):
    fixations = [points(random, int(random.integers(1, 5))) if time < times else EMPTY for time in range(3)]
    fixations = records(["enc", "rec", "rec2"], [fixations], (1, 1))
    return [float(random.integers(1, 99)), 1.0, 0.0, np.array([[1.0, 4.0, 1.0]]), fixations]


def structure(names, times):
    rows = []
    for name in names:
        random = rng(name)
        users = [participant(random, times), [EMPTY] * 5, participant(random, times)]
        users = records(["trial", "counterbalance", "response", "SDT", "fixations"], users, (1, 3))
        rows.append([name.rsplit("/", 1)[1], name.split("/")[1], name, users])
    return records(["filename", "category", "impath", "userdata"], rows, (1, len(rows)))


def build(indir):
    for folder, file, times in [("Targets", "release", 3), ("Fillers", "fillers", 1)]:
        names = [f"{folder}/{name}.jpg" for name in ("airport_terminal/sun_a", "badlands/sun_b", "badlands/sun_c")]
        images = [(name, jpeg(picture(name))) for name in names]
        # A picture of which nothing is known.
        images.insert(1, (f"{folder}/badlands/sun_unknown.jpg", jpeg(picture("unknown"))))
        write_zip(indir / f"{folder}.zip", [(f"{folder}/", b""), *images])
        # Compressed, as MATLAB writes them; and as it did before version 7.
        data = mat(times == 3, allImages=structure(names, times))
        (indir / f"allImages_{file}.mat").write_bytes(data)
