"""Files of Matlab. Needs SciPy."""

import io
from collections.abc import Container, Iterator
from typing import Any

import numpy as np
import scipy.io


def loadmat(mat: Any) -> dict[str, Any]:
    """The contents of a file of Matlab.

    Parameters:
        mat: a path, a file object, or the bytes of a file
    """
    try:
        return scipy.io.loadmat(mat)
    except (ValueError, TypeError, OSError):
        if not isinstance(mat, (bytes, bytearray, memoryview)):
            raise
        return scipy.io.loadmat(io.BytesIO(mat))


def iter_fields(arr: np.ndarray, ignore: Container[str] = ()) -> Iterator[tuple[str, Any]]:
    """The names and values of the fields of a structured array.

    Parameters:
        arr: the array
        ignore: names that are left out
    """
    if arr.dtype.names is None:
        raise TypeError("expected an array with fields, found one without")
    for name in arr.dtype.names:
        if name not in ignore:
            yield name, arr[name]
