"""Images as arrays."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np


def split_array(
    img: np.ndarray, v_pixels: int, h_pixels: int, indices: tuple[int, int] = (1, 2)
) -> Iterator[np.ndarray]:
    """Tiles of an image whose axes are channels, rows and columns.

    Parameters:
        img: the image
        v_pixels: rows of a tile
        h_pixels: columns of a tile
        indices: the axes that tell how many rows and columns there are
    """
    rows, columns = (
        np.arange(img.shape[axis]) // pixels for axis, pixels in zip(indices, (v_pixels, h_pixels))
    )
    for row in np.unique(rows):
        for column in np.unique(columns):
            yield img[:, rows == row][:, :, columns == column]


def tiff_to_nd_array(file_path: str | Path, type: Any = np.uint8) -> np.ndarray:
    """The images in a TIFF file, along the first axis. Needs GDAL.

    Parameters:
        file_path: the file
        type: element type of the result
    """
    from osgeo import gdal

    dataset = gdal.Open(file_path, gdal.GA_ReadOnly)
    bands = range(1, dataset.RasterCount + 1)
    return np.array([dataset.GetRasterBand(band).ReadAsArray() for band in bands]).astype(type)
