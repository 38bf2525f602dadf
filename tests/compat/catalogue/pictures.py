"""What the miniature archives are made of: small pictures, always the same."""
import io
import tarfile
import zipfile

import numpy as np
from PIL import Image
from scipy.io import savemat


def random(seed):
    return np.random.RandomState(seed)


def photo(seed, height, width):
    """A smooth picture in colour, which JPEG keeps well."""
    y, x = np.mgrid[0:height, 0:width]
    waves = random(seed).uniform(0.02, 0.2, (3, 2))
    return np.stack(
        [127 + 100 * np.sin(x * a + y * b) for a, b in waves], axis=2
    ).astype(np.uint8)


def regions(seed, height, width, values):
    """A map of rectangles, each of one of the values."""
    rng, out = random(seed), np.full((height, width), values[0], np.int64)
    for value in list(values) + list(rng.choice(values, 6)):
        top, left = rng.randint(0, height), rng.randint(0, width)
        down, right = rng.randint(1, height + 1), rng.randint(1, width + 1)
        out[top:top + down, left:left + right] = value
    return out


def encode(array, format, mode=None, **options):
    out = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(array), mode).save(out, format, **options)
    return out.getvalue()


def jpeg(seed, height=12, width=17):
    return encode(photo(seed, height, width), "JPEG", quality=90)


def add(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def add_dir(tar, name):
    info = tarfile.TarInfo(name)
    info.type = tarfile.DIRTYPE
    tar.addfile(info)


def mat(variables):
    """A MAT file without the date."""
    out = io.BytesIO()
    savemat(out, variables, do_compression=True)
    return b"MATLAB 5.0 MAT-file".ljust(116) + out.getvalue()[116:]


class Zip(zipfile.ZipFile):
    """A zip archive without dates."""

    def __init__(self, path):
        super().__init__(path, "w", zipfile.ZIP_DEFLATED)

    def writestr(self, name, data):
        info = zipfile.ZipInfo(name)
        info.compress_type = zipfile.ZIP_DEFLATED
        super().writestr(info, data)
