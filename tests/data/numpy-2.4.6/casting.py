"""Makes casting.json: what NumPy's `can_cast` and `astype` say.

    python casting.py
"""

import json
import warnings
from pathlib import Path

import numpy as np

warnings.simplefilter("ignore")

NUMBERS = "?,i1,u1,<i2,>i2,u2,i4,u4,>u4,i8,u8,f2,>f2,f4,f8,>f8,c8,c16,>c16".split(",")
TIMES = (
    "m8,m8[s],>m8[s],m8[ms],m8[2s],m8[3s],m8[M],m8[Y],m8[D],M8,M8[s],M8[us],M8[D],M8[M],M8[5M],M8[Y],M8[7D],M8[W],M8[h]"
).split(",")
TEXTS = "S3,S5,U3,>U3,U5,V3,V5".split(",")
FIELDS = [
    [("a", "<i4"), ("b", "<f4")],
    [("a", ">i4"), ("b", "<f4")],
    [("a", "<i8"), ("b", "<f8")],
    [("x", "<i4"), ("y", "<f4")],
    [("b", "<f4"), ("a", "<i4")],
    [("a", "<i2"), ("b", "<f4")],
    [("a", "<i4")],
    [("a", "<i4", (2,)), ("b", "<f4")],
    [("a", [("c", "u1")]), ("b", "<f4")],
    [("a", [("c", "<u2")]), ("b", "<f4")],
]
LEVELS = ["no", "equiv", "safe", "same_kind", "unsafe"]


def level(a, b):
    return next((name for name in LEVELS if np.can_cast(a, b, name)), None)


def numbers(dtype):
    """Values at the edges of this type and of others."""
    exact = [0, 1, 2, 3, 7, 100, 127, 128, 255, 256, 2048, 2049, 2051, 32767, 32768, 65519, 65535]
    exact += [65520, 2**24 + 1, 2**31 - 1, 2**31, 2**32 - 1, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1]
    exact += [1025 * 2**42 + 1, (2**24 + 1) * 2**30 + 1]
    exact += [-n for n in exact if n]
    if dtype.kind == "b":
        return np.array([False, True], dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.array([n for n in exact if info.min <= n <= info.max], dtype)
    fractions = [0.5, -0.5, 0.9999, -0.9999, 1.5, 2.5, 1e-7, 6e-8, 2.9e-8, 1e-40, 1e-300, 0.1]
    fractions += [2049.0000001, 65519.99, 65504.5, 3.4028235677973366e38, 1e39, 1e300, -0.0]
    fractions += [1 + 2**-11, 1 + 2**-11 + 2**-40, float("inf"), float("-inf"), float("nan")]
    values = np.array([float(n) for n in exact] + fractions).astype(dtype)
    if dtype.kind == "c":
        values.imag = values.real[::-1]
    return values


def times(dtype):
    counts = [0, 1, -1, 2, 7, -7, 11, 12, 13, 59, 60, 365, 730, 18321, 18322, -719162, 86399, 86400]
    counts += [-86401, 10**9, -(2**40), 2**55, 2**62, -(2**62)]
    return np.array([*counts, -(2**63)], dtype.str[0] + "i8").view(dtype)


def texts(dtype):
    if dtype.kind == "V":
        return np.array([b"\x00\x01\x02", b"\xff\xfe\xfd"]).astype(dtype)
    return np.array(["", "a", "ab", "abc", "abcde", "a\0b"]).astype(dtype)


def is_defined(values, to):
    """Which of the values NumPy converts alike on every machine."""
    ok = np.ones(len(values), bool)
    if values.dtype.kind in "fc" and to.kind in "iu":
        whole = np.trunc(values.real.astype("f8"))
        info = np.iinfo(to)
        ok = (whole >= float(info.min)) & (whole < float(info.max // 2 + 1) * 2)
    if values.dtype.kind in "mM" and values.dtype.kind == to.kind:
        # Wrapped around.
        units = [np.datetime_data(dtype) for dtype in (values.dtype, to)]
        if "generic" not in [unit for unit, _ in units]:
            there = values.astype(to)
            with np.errstate(all="ignore"):
                back = there.astype(values.dtype)
            distance = np.abs(back.view(back.dtype.str[0] + "i8").astype("f8") - values.view(values.dtype.str[0] + "i8").astype("f8"))
            size = {"Y": 31556952.0, "M": 2629746.0, "W": 604800.0, "D": 86400.0, "h": 3600.0, "m": 60.0}
            size |= {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
            a, b = [size[unit] * count for unit, count in units]
            seconds = values.view(values.dtype.str[0] + "i8").astype("f8") * a
            # Years that the calendar of NumPy does not count either.
            ok = (np.isnat(values)) | ((distance * a <= 2.1 * b) & (np.abs(seconds / b) < 2**62) & (np.abs(seconds) < 1e15))
    return ok


def main():
    all_types = [np.dtype(t) for t in NUMBERS + TIMES + TEXTS] + [np.dtype(t) for t in FIELDS]
    spell = lambda dtype: str(dtype.descr) if dtype.names else dtype.str
    levels = [[spell(a), spell(b), level(a, b)] for a in all_types for b in all_types]
    values = []
    groups = [(NUMBERS, numbers, NUMBERS), (TIMES, times, TIMES), (TEXTS, texts, TEXTS)]
    groups += [(["i8", "i4", "?", ">i2"], numbers, TIMES), (TIMES, times, ["i8", ">i8", "i4", "u8", "?"])]
    for sources, make, targets in groups:
        for a in map(np.dtype, sources):
            for b in map(np.dtype, targets):
                # What kiste does not convert, and cuts in a way of their own.
                if a.kind in "mM" and b.kind in "mM" and a.kind != b.kind:
                    continue
                if "V" in a.kind + b.kind and a.kind != b.kind:
                    continue
                if a.kind == b.kind == "m" and (level(a, b) == "unsafe") and b != np.dtype("m8"):
                    continue
                # A point in time is NaT, as long as its unit is not known.
                if a == np.dtype("M8") and b.kind == "M" and b != a:
                    continue
                # NumPy 2.4.6 forgets to turn the bytes around here.
                if a.str[0] == ">" and b == np.dtype("m8"):
                    continue
                given = make(a)
                good = is_defined(given, b)
                bad, given = given[~good], given[good]
                made = given.astype(b)
                entry = [a.str, b.str, given.tobytes().hex(), made.tobytes().hex()]
                # Of times some would not be wrong, only beyond what can be told here.
                values.append(entry + ["" if a.kind in "mM" else bad.tobytes().hex()])
    for a in map(np.dtype, FIELDS):
        for b in map(np.dtype, FIELDS):
            if level(a, b) is None or any(a[i].shape != b[i].shape for i in range(len(a))):
                continue
            if any(bool(a[i].names) != bool(b[i].names) for i in range(len(a))):
                continue
            given = np.frombuffer(bytes([1, 2, 0, 0x40] * 2 * a.itemsize), a).copy()
            if b[0].kind in "iu" and a[0].kind == "f" or len(b) > 1 and b[1].kind in "iu" and a[1].kind == "f":
                continue
            values.append([spell(a), spell(b), given.tobytes().hex(), given.astype(b).tobytes().hex(), ""])
    lines = lambda rows: "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]"
    text = '{"levels": %s,\n"values": %s}\n' % (lines(levels), lines(values))
    Path(__file__).with_name("casting.json").write_text(text)


main()
