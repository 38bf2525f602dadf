"""What the miniature archives of the saliency data sets are built from."""

import io
import zipfile

import numpy as np
import scipy.io
from PIL import Image


def rng(name):
    """Numbers that depend on nothing but the name."""
    return np.random.default_rng(list(name.encode()))


def picture(name, width=40, height=30, slower=1):
    """A smooth picture: JPEG keeps it nearly as it is."""
    random = rng(name)
    y, x = np.mgrid[0:height, 0:width]
    planes = []
    for _ in range(3):
        fx, fy, phase = (random.uniform(0.02, 0.2, 2) / slower).tolist() + [random.uniform(0, 6)]
        planes.append(127 + 120 * np.sin(fx * x + fy * y + phase))
    return np.stack(planes, -1).astype(np.uint8)


def jpeg(pixels, quality=90):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=quality)
    return out.getvalue()


def write_zip(path, entries):
    """The entries in this order, with one date, so that the bytes are the same in every run."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            info = zipfile.ZipInfo(name, (2015, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)


def mat(compressed=True, **variables):
    """The bytes of a MAT file, without the date in front."""
    out = io.BytesIO()
    scipy.io.savemat(out, variables, do_compression=compressed, long_field_names=True)
    data = bytearray(out.getvalue())
    text = b"MATLAB 5.0 MAT-file, a miniature"
    data[:116] = text.ljust(116)
    return bytes(data)


def records(fields, rows, shape):
    """A struct array with these fields, a row of values for each of its elements."""
    array = np.empty(len(rows), [(field, object) for field in fields])
    for at, row in enumerate(rows):
        for field, value in zip(fields, row):
            array[at][field] = value
    return array.reshape(shape)


def points(random, count, width=40, height=30):
    """Points on a picture, which are never integers."""
    return random.uniform([0, 0], [width, height], (count, 2))
