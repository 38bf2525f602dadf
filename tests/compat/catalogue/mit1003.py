"""MIT1003 in miniature.

The layout is the documented one (the example code that comes with the data): `ALLSTIMULI/NAME.jpeg`,
and `DATA/PARTICIPANT/NAME.mat` with one variable, in which `DATA(1).eyeData` are the places that the
eye tracker saw. Where in the records these stand is what `datadings.sets.MIT1003_write` counts on;
names of other fields are made up.
"""

import numpy as np

from saliency_parts import jpeg, mat, picture, points, records, rng, write_zip


def gaze(random):
    locations = points(random, int(random.integers(3, 12)))
    # A blink.
    locations[1] = [-1, -1]
    return locations


def build(indir):
    names = ["i05june05_static_street_boston_p1010764", "istatic_submitted_b", "istatic_submitted_c"]
    images = [(f"ALLSTIMULI/{name}.jpeg", jpeg(picture(name))) for name in names]
    write_zip(indir / "ALLSTIMULI.zip", [("ALLSTIMULI/", b""), *images, ("ALLSTIMULI/Thumbs.db", b"")])
    data = [("DATA/", b""), ("DATA/readme.mat", b"not read")]
    for user in ("CNG", "ajs", "hp"):
        for name in names:
            random = rng(user + name)
            inner = records(["time", "button", "eyeData"], [[0.0, 0.0, gaze(random)]], (1, 1))
            fields = ["name", "width", "height", "date", "DATA"]
            row = [name, 40.0, 30.0, "2008", inner]
            if user == "hp":
                # Some files have only this.
                fields, row = ["DATA"], [inner]
            data.append((f"DATA/{user}/{name}.mat", mat(**{name: records(fields, [row], (1, 1))})))
    write_zip(indir / "DATA.zip", data)
