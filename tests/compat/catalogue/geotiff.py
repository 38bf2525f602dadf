"""TIFF files as GDAL writes them, through rasterio, which is GDAL."""
import warnings
from pathlib import Path

import numpy as np
import rasterio

warnings.filterwarnings("ignore", category=rasterio.errors.NotGeoreferencedWarning)


# The writers import GDAL by a package that must be compiled for it.
STAND_IN = f"sys.path.insert(0, {str(Path(__file__).parent / 'stand_in')!r})\n"


def write(path, bands, **options):
    bands = np.asarray(bands)
    count, height, width = bands.shape
    with rasterio.open(path, "w", driver="GTiff", count=count, height=height, width=width,
                       dtype=bands.dtype, **options) as out:
        out.write(bands)
