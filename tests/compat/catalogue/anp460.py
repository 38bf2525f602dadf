"""ANP460 in miniature.

The layout is that which `datadings.sets.ANP460_write` reads; the archives themselves are not public.
Pictures are numbered from 1. Each participant has a folder with `answer.txt`, a head and then one
line for each picture, and one file of fixations for each picture: time, x, y and duration.
"""

import json

from saliency_parts import jpeg, picture, points, rng, write_zip

# It has no other options, and always shuffles.
PYTHON = []
MEND = "writer.random.shuffle = lambda names: None"


def build(indir):
    names = ["001.jpg", "002.jpg", "003.jpg"]
    images = [("images_original/", b"")]
    images += [(f"images_original/{name}", jpeg(picture("anp" + name))) for name in names]
    images += [("images_original/readme.txt", b"not a picture")]
    write_zip(indir / "images_original.zip", images)

    anps = {"001.jpg": ["happy_dog", "test"], "002.jpg": ["dark_night", "control"], "003.jpg": ["grün_wald", "test"]}
    data = [("wrangled_data/image_anp_list.json", json.dumps(anps))]
    for participant in range(3):
        folder = f"wrangled_data/p{participant:02}"
        random = rng(folder)
        end = ["\n", "\r\n", "\n"][participant]
        lines = ["image,answer,delay"]
        lines += [f"{n},{random.choice(['yes', 'no'])},{random.uniform(0.2, 4):.7g}" for n in (1, 2, 3)]
        data.append((f"{folder}/answer.txt", end.join(lines) + end))
        for name in names:
            fixations = points(random, int(random.integers(2, 7)))
            # Numbers that are rounded to single precision, exponents, spaces and comments.
            rows = [f"{at}, {x:.17g},{y:.9e} ,0.25" for at, (x, y) in enumerate(fixations)]
            rows[0] += "  # the first"
            data.append((f"{folder}/{name.replace('.jpg', '.txt')}", end.join(["# time,x,y,duration", "", *rows]) + end))
    write_zip(indir / "wrangled_data.zip", data)
