"""Every kind of array and scalar of NumPy: packed as by datadings and read back, or refused."""

import msgpack
import msgpack_numpy
import numpy as np
import pytest
from conftest import same

import pykiste as ki

PLAIN = [
    "?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "S5", "U3",
]
SWAPPED = [">i2", ">u4", ">i8", ">f2", ">f4", ">f8", ">c8", ">c16", ">U3"]
TIMES = ["M8[s]", "M8[ns]", "M8[25us]", "M8[D]", "M8", "m8[s]", "m8[ns]", "m8", ">M8[s]", ">m8[ms]"]
STRUCTURES = [
    [("a", "u1"), ("b", "<f4")],
    [("a", "u1", (2, 3)), ("b", ">i2"), ("c", [("d", "S3"), ("e", "?")])],
    [("when", "M8[ns]"), ("how long", "m8[s]")],
    [("crab \N{CRAB}", "c16"), ("raw", "V3")],
]


def packed_by_datadings(value):
    return msgpack.packb(value, use_bin_type=True, default=msgpack_numpy.encode)


def example(dtype, count=24):
    """Some elements of this type, with bytes of all values where any are allowed."""
    dtype = np.dtype(dtype)
    raw = np.random.default_rng(1).integers(0, 256, count * max(1, dtype.itemsize), "u1")
    if dtype.kind == "b":
        raw %= 2
    if dtype.kind == "U":
        return np.array(["a", "é", "漢字", ""] * (count // 4)).astype(dtype)
    if dtype.names:
        made = np.zeros(count, dtype)
        made[1::2] = np.frombuffer(bytes(dtype.itemsize), dtype)[0]
        return made
    return raw.view(dtype)[:count] if dtype.itemsize else np.zeros(count, dtype)


def layouts(array):
    """The same elements in every layout of memory, with the names of those."""
    table = array[:24].reshape(4, 6)
    return {
        "contiguous": array, "two axes": table, "Fortran": np.asfortranarray(table), "transposed": table.T,
        "strided": array[::3], "reversed": array[::-1], "both": table[::-1, ::-2], "broadcast": np.broadcast_to(table[0], (3, 6)),
        "no axes": array[3:4].reshape(()), "empty": array[:0], "empty with axes": table[:, :0], "one": array[:1],
        "read-only": np.lib.stride_tricks.as_strided(array, writeable=False),
    }


@pytest.mark.parametrize("dtype", PLAIN + SWAPPED)
def test_plain_arrays_are_those_of_datadings(dtype):
    for name, array in layouts(example(dtype)).items():
        packed = ki.pack(array)
        assert packed == packed_by_datadings(array), name
        assert same(ki.unpack(packed), np.array(array)), name


@pytest.mark.parametrize("dtype", TIMES)
def test_times_come_back(dtype):
    array = np.array([0, 1, -5, 2**62, -(2**63)] * 5, "i8").astype(np.dtype(dtype).newbyteorder("=")).astype(dtype)
    assert np.isnat(array).any()
    for name, layout in layouts(array).items():
        assert same(ki.unpack(ki.pack(layout)), np.array(layout)), name
    strided = np.stack([array, array])[:, ::2]
    # Others datadings cannot pack.
    assert ki.pack(strided) == packed_by_datadings(strided)
    for scalar in array:
        assert same(ki.unpack(ki.pack(scalar)), scalar)


@pytest.mark.parametrize("dtype", STRUCTURES)
def test_structures_are_those_of_datadings(dtype):
    for name, array in layouts(example(dtype)).items():
        packed = ki.pack(array)
        if "M8" not in str(dtype):
            assert packed == packed_by_datadings(array), name
        assert same(ki.unpack(packed), np.array(array)), name


@pytest.mark.parametrize("dtype", ["g", "G"])
def test_long_doubles_come_back_with_bytes_of_no_meaning(dtype):
    array = np.array([1.5, -0.0, np.inf, np.nan], dtype)
    for value in array, array[::2], array[1]:
        back = ki.unpack(ki.pack(value))
        assert back.dtype == np.dtype(dtype) and repr(back) == repr(value)


@pytest.mark.parametrize(
    "dtype",
    [
        np.dtype([("a", "u1"), ("b", "<i4"), ("c", "u1")], align=True),
        np.dtype({"names": ["a", "b"], "formats": ["u1", "f4"], "offsets": [3, 8], "itemsize": 20}),
        np.dtype([("in", np.dtype([("a", "u1"), ("b", "f8")], align=True), (2,)), ("z", "u1")]),
    ],
)
def test_padding_between_fields_comes_back_as_padding(dtype):
    array = np.zeros(5, dtype)
    packed = ki.pack(array)
    assert packed == packed_by_datadings(array)
    back = ki.unpack(packed)
    assert back.dtype == dtype and back.dtype.names == dtype.names and back.tobytes() == array.tobytes()
    assert ki.pack(back) == packed
    assert ki.PackedArray.pack(array)[...].dtype == dtype


@pytest.mark.parametrize("name", ["bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
                                  "float16", "float32", "float64", "complex64", "complex128"])
def test_scalars_are_those_of_datadings(name):
    for number in (0, 1):
        scalar = getattr(np, name)(number)
        packed = ki.pack(scalar)
        assert packed == packed_by_datadings(scalar)
        back = ki.unpack(packed)
        # This one is a float of Python, and stays one.
        assert same(back, float(scalar) if name == "float64" else scalar)


def test_text_and_bytes_of_numpy_are_those_of_python():
    assert ki.unpack(ki.pack(np.str_("a"))) == "a" and ki.unpack(ki.pack(np.bytes_(b"a"))) == b"a"
    for value in np.str_("a"), np.bytes_(b"a"):
        assert ki.pack(value) == packed_by_datadings(value)


def test_scalars_of_structures_come_back():
    for scalar in np.void(b"abc"), np.zeros(3, [("a", "u1"), ("b", "<f4")])[0], np.zeros(3, "u1,u1")[0]:
        assert same(ki.unpack(ki.pack(scalar)), scalar)


def test_subclasses_that_are_views_are_packed_as_arrays(tmp_path):
    table = np.arange(6.0).reshape(2, 3)
    mapped = np.memmap(tmp_path / "map", "f8", "w+", shape=(2, 3))
    mapped[:] = table
    records = np.rec.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")])
    text = np.char.array(["a", "b"])
    for value in np.matrix(table), mapped, records, text:
        plain = np.array(np.asarray(value), dtype=np.asarray(value).dtype)
        assert ki.pack(value) == packed_by_datadings(value)
        back = ki.unpack(ki.pack(value))
        assert type(back) is np.ndarray and back.tobytes() == plain.tobytes() and back.shape == plain.shape


def refused():
    ml = pytest.importorskip("ml_dtypes")
    foreign = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e3m4", "float8_e8m0fnu", "int2", "int4", "uint2", "uint4",
               "float4_e2m1fn", "float6_e2m3fn"]
    for name in foreign:
        kind = getattr(ml, name, None)
        if kind is not None:
            yield name, np.zeros(3, kind)
            yield f"{name} scalar", kind(1)
            yield f"{name} field", np.zeros(3, [("a", "u1"), ("b", kind)])
            yield f"{name} array field", np.zeros(3, [("a", kind, (2,))])
            yield f"{name} inner field", np.zeros(3, [("a", [("b", kind)])])
    yield "masked array", np.ma.masked_array([1, 2, 3], [False, True, False])
    yield "masked array without a mask", np.ma.masked_array([1, 2, 3])
    yield "masked constant", np.ma.masked
    yield "masked record", np.ma.masked_array([(1, 2)], [(True, False)], dtype=[("a", "i4"), ("b", "i4")])[0]
    yield "titles", np.zeros(3, [(("title", "a"), "u1"), ("b", "u1")])
    yield "inner titles", np.zeros(3, [("a", [(("title", "b"), "u1")])])
    yield "titles in an array", np.zeros(3, [("a", [(("title", "b"), "u1")], (2,))])
    yield "overlapping fields", np.zeros(3, {"names": ["a", "b"], "formats": ["u4", "u1"], "offsets": [0, 1]})
    yield "fields out of order", np.zeros(3, {"names": ["a", "b"], "formats": ["u1", "u1"], "offsets": [1, 0]})
    yield "numbers with fields", np.zeros(3, np.dtype(("u2", {"low": ("u1", 0), "high": ("u1", 1)})))
    yield "objects", np.array([None])
    yield "object field", np.zeros(3, [("a", "O")])
    yield "object without axes", np.array(None)
    yield "scalar with titles", np.zeros(3, [(("title", "a"), "u1")])[0]
    if hasattr(np.dtypes, "StringDType"):
        yield "text of any length", np.array(["a"], np.dtypes.StringDType())


def test_what_would_be_changed_is_refused(tmp_path):
    with ki.Writer(tmp_path / "x.msgpack") as writer:
        for name, value in refused():
            with pytest.raises((TypeError, ValueError)) as caught:
                writer.write({"key": name, "value": [value]})
            assert isinstance(caught.value, ki.Error), name
        assert len(writer) == 0


def test_arrays_in_directories_refuse_the_same_but_titles(tmp_path):
    for name, value in refused():
        if not isinstance(value, np.ndarray) or name == "masked array without a mask":
            continue
        carried = "title" in name
        path = tmp_path / name.replace(" ", "-")
        if carried:
            assert ki.PackedArray.pack(value).dtype == value.dtype
            continue
        with pytest.raises((TypeError, ValueError)) as caught:
            ki.PackedArray.pack(value)
        assert isinstance(caught.value, ki.Error), name
        if "masked" in name:
            store = ki.ArrayStore.create(path, value.shape, value.dtype)
            with pytest.raises(ki.errors.WrongTypeError, match="mask"):
                store[...] = value
            store.close()
        else:
            with pytest.raises((TypeError, ValueError)) as caught:
                ki.ArrayStore.create(path, value.shape, value.dtype)
            assert isinstance(caught.value, ki.Error), name


def test_memoryviews_are_their_bytes():
    array = np.arange(6, dtype="i4").reshape(2, 3)
    for view in memoryview(array), memoryview(b"abc"), memoryview(bytearray(b"abc"))[1:]:
        assert ki.pack(view) == packed_by_datadings(view)
