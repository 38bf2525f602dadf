"""Coutrot 1 in miniature: `ERB3_Stimuli/clip_N.avi`, and a MAT file in which `Coutrot_Database1` has a
record for each condition (what could be heard), with one for each clip; `data` are x and y by frame
and participant, NaN where the eye was not found.

The layout of the MAT file is that which published code reads; the names of the clips are real. Needs
`pip install opencv-python`, as the real writer does, and ffmpeg, as ours does.
"""

import tempfile
from pathlib import Path

import numpy as np

from saliency_parts import mat, records, rng, write_zip

PYTHON = ["-s", "-y"]
# What OpenCV decodes is blue, green and red.
MEND = """
encode = writer.encode_jpeg
writer.encode_jpeg = lambda frame, quality: encode(frame, quality, "BGR")
"""
LOSSY = {"image": 2}
# Sums in single precision, in another order.
CLOSE = {"experiments": 0.02}

WIDTH, HEIGHT, FRAMES = 80, 60, 46


def frame(clip, at):
    """A picture that moves to the right and a little downwards, red above, blue below."""
    x, y = np.meshgrid(np.arange(WIDTH) - 1.3 * at, np.arange(HEIGHT) - 0.4 * at)
    wave = np.sin(0.21 * x + clip) + np.cos(0.19 * y) + np.sin(0.1 * (x + y))
    grey = 110 + 35 * wave
    red = np.linspace(40, -40, HEIGHT)[:, None]
    return np.clip(np.stack([grey - red, grey, grey + red], -1), 0, 255).astype(np.uint8)


def video(clip, folder):
    import cv2

    path = folder / f"clip_{clip}.avi"
    # One in MPEG-4, one that is JPEG all along.
    codec = cv2.VideoWriter_fourcc(*("XVID" if clip == 1 else "MJPG"))
    out = cv2.VideoWriter(str(path), codec, 25, (WIDTH, HEIGHT))
    for at in range(FRAMES):
        out.write(frame(clip, at))
    out.release()
    return path.read_bytes()


def gaze(name, participants, frames):
    random = rng(name)
    start = random.uniform([0.3 * WIDTH, 0.3 * HEIGHT], [0.7 * WIDTH, 0.7 * HEIGHT], (participants, 1, 2))
    walk = np.cumsum(random.normal(0, 0.8, (participants, frames, 2)), 1)
    data = (start + walk).transpose(2, 1, 0)
    data[:, 5:8, 0] = np.nan
    # Somebody who looked away most of the time.
    data[:, 10:, -1] = np.nan
    return data


def build(indir):
    def clips(condition, numbers):
        names = [f"clip_{n}" for n in numbers]
        row = []
        for name in names:
            info = records(["nframe"], [[float(FRAMES)]], (1, 1))
            # The eye tracker stopped a little earlier.
            row.append(records(["data", "info"], [[gaze(condition + name, 3, FRAMES - 4), info]], (1, 1)))
        return records(names, [row], (1, 1))

    conditions = {"OriginalSounds": (1, 20), "FacesSounds": (20,)}
    row = [clips(condition, numbers) for condition, numbers in conditions.items()]
    database = records([*conditions, "Header"], [[*row, "made up"]], (1, 1))
    (indir / "coutrot_database1.mat").write_bytes(mat(Coutrot_Database1=database))
    with tempfile.TemporaryDirectory() as folder:
        entries = [(f"ERB3_Stimuli/clip_{n}.avi", video(n, Path(folder))) for n in (1, 20)]
    write_zip(indir / "ERB3_Stimuli.zip", [("ERB3_Stimuli/", b""), *entries])

