"""What the miniature archives of photos are built from."""

import gzip
import io
import tarfile

import numpy as np
from PIL import Image


def pixels(name, width, height):
    """A smooth picture: JPEG keeps it nearly as it is."""
    random = np.random.default_rng(list(name.encode()))
    y, x = np.mgrid[0:height, 0:width]
    waves = random.uniform(0.005, 0.05, (3, 2))
    return np.stack([127 + 110 * np.sin(a * x + b * y) for a, b in waves], -1).astype(np.uint8)


def encode(image, format="JPEG", **options):
    out = io.BytesIO()
    image.save(out, format, **options)
    return out.getvalue()


def photo(name, width=64, height=48, **options):
    return encode(Image.fromarray(pixels(name, width, height)), **{"quality": 90, **options})


def odd(name):
    """Photos that are not what their name says, as there are in ImageNet."""
    image = Image.fromarray(pixels(name, 60, 50))
    return {
        "cmyk": encode(image.convert("CMYK"), quality=95),
        "gray": encode(image.convert("L"), quality=90),
        "png": encode(image, "PNG"),
        "rgba": encode(image.convert("RGBA"), "PNG"),
        "palette": encode(image.convert("P"), "PNG"),
        "bmp": encode(image, "BMP"),
        "gif": encode(image.convert("P"), "GIF"),
        "progressive": encode(image, quality=90, progressive=True),
        "gzip": gzip.compress(photo(name), mtime=0),
    }


def add(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def add_folder(tar, name):
    info = tarfile.TarInfo(name)
    info.type = tarfile.DIRTYPE
    tar.addfile(info)


def archive(files):
    """A tar archive of these names and contents."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files:
            add(tar, name, data)
    return out.getvalue()


# Small ones, which stay; and large ones, which become smaller if they are re-encoded.
SIZES = [(64, 48), (400, 300), (500, 375), (375, 500), (640, 480), (700, 700), (1000, 750), (1300, 500)]
