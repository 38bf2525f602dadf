"""What is assigned to an array, as elements of its type."""

import numpy as np

from pykiste.errors import NumberError, WrongTypeError


def elements(value, dtype):
    """`value` as an array of this type, if nothing is lost but digits of floats.

    >>> elements([1, 2], np.dtype("u1"))
    array([1, 2], dtype=uint8)
    >>> elements(300, np.dtype("u1"))
    Traceback (most recent call last):
        ...
    pykiste.errors.NumberError: expected elements that fit uint8, found some of int64 that do not
    """
    if isinstance(value, np.ma.MaskedArray):
        message = "expected elements without a mask, found a masked array: fill it (`filled`), and store its mask too"
        raise WrongTypeError(message)
    is_typed = hasattr(value, "dtype")
    # A tuple is a structure only to those who know that it should be one.
    array = np.asarray(value, None if is_typed or dtype.kind != "V" else dtype)
    found = array.dtype
    if found == dtype:
        return array
    are_integers = found.kind in "iu" and dtype.kind in "iu"
    casting = "safe" if dtype.kind == "V" else "same_kind"
    if not are_integers and not np.can_cast(found, dtype, casting):
        raise WrongTypeError(f"expected elements that can be converted to {dtype}, found {found}")
    with np.errstate(all="ignore"):
        made = array.astype(dtype)
    if dtype.kind in "fc":
        fits = np.array_equal(np.isfinite(array), np.isfinite(made))
    else:
        fits = dtype.kind == "V" or np.array_equal(array, made, equal_nan=found.kind in "mM")
    if not fits:
        raise NumberError(f"expected elements that fit {dtype}, found some of {found} that do not")
    return made
