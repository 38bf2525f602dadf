"""Files are those of datadings, byte for byte."""

import gc
import random
import warnings

import msgpack
import msgpack_numpy
import numpy as np
import pytest
from conftest import GOLDEN, same

import pykiste as ki

writers = pytest.importorskip("datadings.writer")


def random_value(rng, depth=0):
    """Any value that datadings packs."""
    kinds = ["nil", "bool", "int", "float", "str", "bytes", "array", "scalar", "complex"]
    kind = rng.choice(kinds + (["list", "tuple", "dict"] if depth < 4 else []))
    if kind == "nil":
        return None
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "int":
        bits = rng.randrange(64)
        return rng.choice([1, -1]) * rng.getrandbits(bits) if bits < 63 else rng.getrandbits(64)
    if kind == "float":
        return rng.choice([0.0, -0.0, float("inf"), float("nan"), rng.uniform(-1e9, 1e9)])
    if kind == "str":
        return "".join(rng.choices("aé漢\N{CRAB}\0\n", k=rng.choice([0, 1, 31, 32, 300])))
    if kind == "bytes":
        return rng.choice([bytes, bytearray])(rng.randbytes(rng.choice([0, 1, 255, 256, 70_000])))
    if kind == "complex":
        return complex(rng.uniform(-9, 9), rng.choice([0.0, -0.0, 1e300]))
    if kind in ("array", "scalar"):
        types = ["?", "<i1", "<i2", ">i4", "<i8", "<u8", "<f2", "<f4", ">f8", "<c8", "|S5"]
        array = np.frombuffer(rng.randbytes(16 * 6), np.uint8).copy()
        dtype = np.dtype(rng.choice(types))
        if dtype == "?":
            array %= 2
        array = array[: dtype.itemsize * 6].view(dtype)
        if kind == "scalar":
            return array[0]
        array = array.reshape(rng.choice([(6,), (2, 3), (3, 2, 1), (6, 1)]))
        return rng.choice([array, array.T, array[:0], array[::2], array.reshape(-1)[2]])
    if kind in ("list", "tuple"):
        items = [random_value(rng, depth + 1) for _ in range(rng.choice([0, 1, 3, 15, 16]))]
        return items if kind == "list" else tuple(items)
    keys = [rng.choice(["a", "b" * 40, 1, -5, 2.5, None, b"x", "é"]) for _ in range(rng.randrange(4))]
    return {key: random_value(rng, depth + 1) for key in keys}


@pytest.mark.parametrize("seed", range(300))
def test_random_values_are_packed_as_by_datadings(seed):
    value = random_value(random.Random(seed))
    expected = msgpack.packb(value, use_bin_type=True, default=msgpack_numpy.encode)
    packed = ki.pack(value)
    assert packed == expected, value
    hook = msgpack_numpy.decode
    theirs = msgpack.unpackb(packed, strict_map_key=False, object_hook=hook)
    assert same(theirs, ki.unpack(packed))


@pytest.mark.parametrize("dtype", ["<M8[s]", "<M8[25us]", ">m8[D]", "<m8"])
def test_times_survive_which_datadings_cannot_pack(dtype):
    array = np.array([0, 1, -5, 2**62], "<i8").view(np.dtype(dtype).newbyteorder("<")).astype(dtype)
    assert same(ki.unpack(ki.pack(array)), array)
    assert same(ki.unpack(ki.pack(array[2])), array[2])


def test_a_dataset_has_the_files_of_datadings(tmp_path):
    rng = random.Random(1)
    samples = [{"key": f"k{n}", "value": random_value(rng), "n": n} for n in range(200)]
    (tmp_path / "ours").mkdir()
    (tmp_path / "theirs").mkdir()
    with ki.Writer(tmp_path / "ours" / "x.msgpack") as writer:
        for sample in samples:
            writer.write(sample)
        assert len(writer) == 200 and "k7" in writer and "x" not in writer
    with writers.FileWriter(tmp_path / "theirs" / "x.msgpack", disable=True) as writer:
        for sample in samples:
            writer.write(sample)
    names = sorted(path.name for path in (tmp_path / "theirs").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "ours").iterdir())
    for name in names:
        assert (tmp_path / "ours" / name).read_bytes() == (tmp_path / "theirs" / name).read_bytes()


def test_an_exception_discards_what_was_written(tmp_path):
    path = tmp_path / "x.msgpack"
    with pytest.raises(RuntimeError, match="stop"):
        with ki.Writer(path) as writer:
            writer.write({"key": "a"})
            raise RuntimeError("stop")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="closed"):
        writer.write({"key": "b"})


def test_a_writer_that_is_forgotten_warns(tmp_path):
    path = tmp_path / "x.msgpack"
    with pytest.warns(ResourceWarning, match="x.msgpack: a writer was not closed, so nothing was published"):
        ki.Writer(path).write({"key": "a"})
        gc.collect()
    assert not path.exists()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ki.Writer(tmp_path / "y.msgpack") as writer:
            writer.write({"key": "a"})
        del writer
        aborted = ki.Writer(tmp_path / "z.msgpack")
        aborted.abort()
        del aborted
        gc.collect()


def test_a_warning_leaves_the_exception_that_is_on_its_way(tmp_path):
    def write():
        writer = ki.Writer(tmp_path / "x.msgpack")
        writer.write({"key": "a"})
        raise KeyError("first")

    with pytest.warns(ResourceWarning), pytest.raises(KeyError, match="first"):
        write()
    gc.collect()


def test_append_overwrite_and_what_is_refused(tmp_path):
    path = tmp_path / "x.msgpack"
    with ki.Writer(path) as writer:
        writer.write({"key": "a"})
        with pytest.raises(ki.errors.DuplicateKeyError) as caught:
            writer.write({"key": "a"})
        assert caught.value.key == "a"
        with pytest.raises(ValueError, match="key"):
            writer.write({"name": "a"})
        with pytest.raises(TypeError, match="set"):
            writer.write({"key": "b", "value": {1}})
        with pytest.raises(OverflowError):
            writer.write({"key": "b", "value": 2**64})
        with pytest.raises(TypeError, match="pickle"):
            writer.write({"key": "b", "value": np.array([None])})
        with pytest.raises(ki.errors.LockedError):
            ki.Writer(path)
    with pytest.raises(FileExistsError):
        ki.Writer(path)
    with ki.Writer(path, append=True) as writer:
        writer.write({"key": "b"})
    assert list(ki.open(path).keys()) == ["a", "b"]
    with ki.Writer(path, overwrite=True) as writer:
        writer.write_packed(ki.pack({"key": "c"}))
    assert list(ki.open(path).keys()) == ["c"]
    assert ki.verify(path, deep=True)["good"]


def test_a_damaged_dataset_is_reported(tmp_path):
    path = tmp_path / "x.msgpack"
    with ki.Writer(path) as writer:
        for number in range(10):
            writer.write({"key": str(number), "text": "x" * 100})
    data = bytearray(path.read_bytes())
    data[500] ^= 1
    path.write_bytes(data)
    report = ki.verify(path)
    assert not report["good"] and report["problems"][0]["file"] == path


def test_values_of_the_package_msgpack_are_packed_as_such():
    # Its ExtType is a tuple, which would be a list.
    for value in msgpack.ExtType(5, b"x"), msgpack.Timestamp(1, 2), [msgpack.ExtType(7, b"")]:
        assert ki.pack(value) == msgpack.packb(value)
    assert ki.unpack(ki.pack((1, 2))) == [1, 2]
