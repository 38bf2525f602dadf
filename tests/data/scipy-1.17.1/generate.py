"""Copies the MAT files out of SciPy's wheel and writes what `scipy.io.loadmat` makes of each.

    pip install scipy==1.17.1
    python generate.py
"""

import json
import pathlib
import shutil
import warnings

import numpy as np
import scipy
import scipy.io
import scipy.io.matlab
import scipy.sparse

HERE = pathlib.Path(__file__).parent
SOURCE = pathlib.Path(scipy.io.matlab.__file__).parent / "tests" / "data"


def numbers(array):
    """Type, shape, and the bytes of each element in C order, the low byte first."""
    array = np.asarray(array)
    array = array.astype(array.dtype.newbyteorder("<"))
    return {"numbers": array.dtype.str, "shape": array.shape, "data": array.tobytes().hex()}


def value(plain, typed):
    """The two are the same array: with the types that are stored, and with those of the classes.

    The latter are wanted, but of complex numbers they lose the imaginary parts.
    """
    if scipy.sparse.issparse(plain):
        # They are doubles, complex or truth values; SciPy keeps the type that they are stored in.
        dense = plain.toarray()
        dense = dense if dense.dtype.kind in "bc" else dense.astype("f8")
        return {"sparse": numbers(dense), "stored": int(plain.nnz)}
    if isinstance(plain, scipy.io.matlab.MatlabOpaque):
        return {"opaque": None}
    if isinstance(plain, scipy.io.matlab.MatlabFunction):
        return {"function": value(plain.view(np.ndarray), typed.view(np.ndarray))}
    if plain.dtype.names is not None:
        out = {"struct": plain.dtype.names, "shape": plain.shape, "values": [
            [value(p[n], t[n]) for n in plain.dtype.names]
            for p, t in zip(plain.ravel(order="F"), typed.ravel(order="F"))
        ]}
        if isinstance(plain, scipy.io.matlab.MatlabObject):
            out["class"] = plain.classname
        return out
    if plain.dtype == object:
        cells = zip(plain.ravel(order="F"), typed.ravel(order="F"))
        if all(cell is None for cell in plain.flat) and plain.size:
            # A struct without fields cannot be told from this.
            return {"struct": [], "shape": plain.shape, "values": [[]] * plain.size}
        return {"cells": [value(p, t) for p, t in cells], "shape": plain.shape}
    if plain.dtype.kind == "U":
        rows = plain.reshape(-1, plain.shape[-1]) if plain.size else []
        return {"chars": ["".join(c or " " for c in row) for row in rows], "shape": plain.shape}
    if plain.dtype.kind == "c":
        width = {"f4": "c8"}.get(typed.dtype.str[1:], "c16")
        return numbers(plain.astype(width))
    return numbers(typed)


def file(path):
    def load(mat_dtype):
        return scipy.io.loadmat(
            path, mat_dtype=mat_dtype, chars_as_strings=False, spmatrix=False
        )

    try:
        plain, typed = load(False), load(True)
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error)}
    names = [n for n in plain if n not in ("__header__", "__version__", "__globals__")]
    return {
        "version": plain.get("__version__"),
        "globals": plain.get("__globals__"),
        "variables": {name: value(plain[name], typed[name]) for name in names},
    }


def main():
    warnings.simplefilter("ignore")
    assert scipy.__version__ == "1.17.1"
    manifest = {}
    for source in sorted(SOURCE.glob("*.mat")):
        shutil.copyfile(source, HERE / source.name)
        manifest[source.name] = file(source)
    lines = [f"{json.dumps(n)}: {json.dumps(f, separators=(',', ':'))}" for n, f in manifest.items()]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    (HERE / "manifest.json").write_text(text)


main()
