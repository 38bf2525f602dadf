"""Golden files of NumPy: the texts of types, and .npy files.

    python generate.py --out .

Needs NumPy only; a second run gives the same files.
"""

import argparse
import json
from pathlib import Path

import numpy as np

PLAIN = (
    "?,i1,u1,<i2,>i2,<i4,>i4,<i8,>i8,<u2,>u2,<u4,<u8,>u8,<f2,>f2,<f4,>f4,<f8,>f8,<f16,>f16,"
    "<c8,>c8,<c16,>c16,<c32,S0,S1,S7,<U0,<U5,>U5,V1,V3,<M8,<M8[s],>M8[s],<M8[25us],<m8,<m8[ns],"
    "<m8[Y],<M8[as],O"
)

STRUCTURED = {
    "two": [("a", "<i4"), ("b", "<f8", (2,))],
    "aligned": np.dtype([("a", "i1"), ("b", "<i4"), ("c", "<f8", (2, 3))], align=True),
    "nested": [("n", [("x", "u1"), ("y", [("z", ">f4", (1, 2))])]), ("s", "S3"), ("u", ">U2")],
    "times": [("at", "<M8[ns]"), ("for", ">m8[2D]")],
    "titles": [(("a title", "a"), "<i4"), (("it's", "b"), "<u2", (2,))],
    "names": [("größe", "<f4"), ("it's", "u1"), ('a"b', "u1"), ("a'b\"c", "u1"), ("\\n\n\t\x7f\u200b", "u1")],
    "wide": [("字段", "<i8"), ("😀", "?")],
    "none": [],
}

SPELLINGS = """
=i4 |i4 i4 int32 intc i float32 single f float64 float d double half e g longdouble complex64 F D
bool ? bool_ b B h H I l L q Q int8 uint8 int16 uint16 uint32 int64 uint64 int uint intp
<i1 >u1 S5 |S5 U3 =U3 V2 >f4 =f8 datetime64 datetime64[s] >datetime64[ms] timedelta64[10ns] M8 m8[h]
M8[1s] str bytes void object O |O8 i4,u1 3i4,f4 (2,3)f8,S5 >i4,<M8[s] u1,
""".split()


def text(dtype):
    return [dtype.str, repr(dtype.descr) if dtype.names is not None else repr(dtype.str), dtype.itemsize]


def arrays():
    numbers = np.arange(6, dtype="<i4").reshape(2, 3)
    yield "c", numbers
    yield "fortran", np.asfortranarray(numbers)
    yield "column", np.asfortranarray(numbers[:, :1])
    yield "big", numbers.astype(">f8")
    yield "scalar", np.array(7, "<u2")
    yield "empty", np.zeros((0, 3), "<f4")
    yield "long", np.zeros((12345, 0), "S3")
    yield "bool", np.array([True, False])
    yield "half", np.array([1, 0.5, -0.0], "<f2")
    yield "complex", np.array([1 + 2j], "<c8")
    yield "text", np.array(["é", "字", ""], "<U2")
    yield "bytes", np.array([b"a", b"b\0c"], "S4")
    yield "dates", np.array(["2020-01-01", "NaT"], "<M8[D]")
    yield "void", np.frombuffer(bytes(range(6)), "V3")
    for name, dtype in STRUCTURED.items():
        dtype = np.dtype(dtype)
        size = dtype.itemsize
        yield name, np.frombuffer(bytes(i % 2 for i in range(3 * size)), dtype) if size else np.zeros(3, dtype)
    many = np.dtype([(f"a long name of a field, number {i}", "u1") for i in range(1700)])
    yield "version2", np.zeros(1, many)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    plain = [[*text(np.dtype(spelling)), str(np.dtype(spelling))] for spelling in PLAIN.split(",")]
    structured = [text(np.dtype(dtype)) for dtype in STRUCTURED.values()]
    spellings = [[spelling, text(np.dtype(spelling))[1]] for spelling in SPELLINGS]
    lists = {"plain": plain, "structured": structured, "spellings": spellings}
    (out / "types.json").write_text(json.dumps(lists, indent=0) + "\n")
    for name, array in arrays():
        np.save(out / f"{name}.npy", array)
    np.save(out / "objects.npy", np.array([1, None], object), allow_pickle=True)


if __name__ == "__main__":
    main()
