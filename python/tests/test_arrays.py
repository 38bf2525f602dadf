"""Arrays on disk do what NumPy does with the same array in memory."""

import copy
import multiprocessing
import os
import time
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest

import pykiste as ki

DTYPES = [
    "?", "i1", "u2", "<i4", ">i4", "u8", "<f2", ">f2", "f4", ">f8", "c8", ">c16", "S5", "<U3", ">U3",
    "V4", "M8[s]", ">M8[25us]", "m8[D]", [("a", "<i2"), ("b", "S3", (2,)), ("c", [("d", ">f4")])],
]


def random_array(rng, shape, dtype):
    """Elements of any type that NumPy would write to a file."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    if dtype.kind == "?" or dtype == "?":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind == "U":
        return rng.choice(np.array(["", "a", "漢字", "xyz"], dtype), shape)
    if dtype.kind in "fc":
        return rng.normal(size=shape).astype(dtype)
    return np.frombuffer(rng.bytes(size), dtype).reshape(shape)


def random_part(rng, size):
    """What selects on one axis."""
    kind = rng.integers(6)
    if kind == 0 and size:
        return int(rng.integers(-size, size))
    if kind == 1 and size:
        return rng.integers(-size, size, rng.integers(4)).tolist()
    if kind == 2:
        return rng.integers(0, 2, size).astype(bool)
    bounds = [None if rng.integers(3) == 0 else int(rng.integers(-size - 2, size + 3)) for _ in range(2)]
    return slice(*bounds, int(rng.choice([1, 1, 2, 3, -1, -2])))


def random_selection(rng, shape, with_lists=True):
    parts = [random_part(rng, size) for size in shape[: rng.integers(len(shape) + 1)]]
    arrays = [at for at, part in enumerate(parts) if not isinstance(part, (int, slice))]
    # Arrays of one length are taken point by point; here one of them is enough.
    for at in arrays[1:] if with_lists else arrays:
        parts[at] = slice(None)
    if rng.integers(4) == 0:
        parts.append(Ellipsis)
    if rng.integers(6) == 0:
        parts.insert(0, None)
    return parts[0] if len(parts) == 1 and rng.integers(2) else tuple(parts)


def same(one, other):
    assert type(one) is type(other)
    assert one.dtype == other.dtype and one.shape == other.shape
    assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_type_comes_back(tmp_path, dtype):
    rng = np.random.default_rng(1)
    data = random_array(rng, (7, 5), dtype)
    with ki.ArrayStore.create(tmp_path / "x", (0, 5), dtype, chunks=(3, 2)) as store:
        store.append(data)
        assert store.dtype == data.dtype and store.dtype.byteorder == data.dtype.byteorder
        for selection in [..., 3, (slice(None, None, -2), 1), ([4, 0, 4],), (2, 3)]:
            same(store[selection], data[selection])
    array = ki.ChunkedArray(tmp_path / "x")
    same(np.asarray(array), data)
    assert array[...].flags.writeable and array[...].flags.aligned
    packed = ki.PackedArray(bytes(ki.PackedArray.pack(data)))
    assert packed.dtype == data.dtype
    for selection in [..., 3, -1, (slice(None, None, -2), 1), [4, 0, -3], (2, 3), slice(2, 4), np.arange(7) > 3]:
        same(packed[selection], data[selection])


@pytest.mark.parametrize("dtype", ["O", [("a", "O")], np.dtypes.StringDType(), "no type"], ids=str)
def test_types_without_a_fixed_size_are_refused(tmp_path, dtype):
    with pytest.raises(TypeError):
        ki.ArrayStore.create(tmp_path / "x", (3,), dtype)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(TypeError):
        ki.PackedArray.pack(np.array(["a", None], object))


# `KISTE_SEEDS=0..20000 pytest -k those_of_numpy` tries that many.
SEEDS = range(*map(int, os.environ.get("KISTE_SEEDS", "0..40").split("..")))


@pytest.mark.parametrize("seed", SEEDS)
def test_random_operations_are_those_of_numpy(tmp_path, seed):
    rng = np.random.default_rng(seed)
    shape = tuple(int(size) for size in rng.integers(0, 9, rng.integers(1, 5)))
    dtype = np.dtype(DTYPES[seed % len(DTYPES)])
    chunks = tuple(int(size) for size in rng.integers(1, 5, len(shape)))
    versioned = rng.integers(4) > 0
    model = np.zeros(shape, dtype)
    path = tmp_path / "x"
    store = ki.ArrayStore.create(path, shape, dtype, chunks=chunks, versioned=bool(versioned), durable=False)
    history = {store.version: model.copy()}
    target = store
    for step in range(25):
        kind = rng.integers(9)
        if kind == 0:
            rows = random_array(rng, (int(rng.integers(3)), *model.shape[1:]), dtype)
            target.append(rows)
            model = np.concatenate([model, rows]).astype(dtype)
        elif kind in (1, 2):
            # Any number of axes at once; the elements of four axes are kept few.
            most = 12 if len(shape) < 4 else 7
            axes = rng.integers(0, 2, model.ndim)
            changed = tuple(int(np.clip(n + a * rng.integers(-4, 7), 0, most)) for n, a in zip(model.shape, axes))
            target.resize(changed)
            grown = np.zeros(changed, dtype)
            common = tuple(slice(min(a, b)) for a, b in zip(model.shape, changed))
            grown[common] = model[common]
            model = grown
        elif kind in (3, 4):
            selection = random_selection(rng, model.shape)
            value = random_array(rng, model[selection].shape if rng.integers(2) else (), dtype)
            target[selection] = value
            model[selection] = value
        elif kind == 5 and target is store:
            target = store.stage(f"step {step}")
        elif kind == 6 and target is not store:
            store.commit(target)
            target = store
        elif kind == 7 and target is store:
            # The writer ends; another one opens the array under another name.
            store.close()
            path = path.rename(tmp_path / f"x{step}")
            target = store = ki.ArrayStore.open(path, durable=False)
        elif kind == 8 and target is store and versioned:
            if rng.integers(2):
                keep = int(rng.integers(1, 5))
                store.gc(keep)
                history = {version: history[version] for version in sorted(history)[-keep:]}
            else:
                version = int(rng.choice(sorted(history)))
                store.checkout(version)
                model = history[version].copy()
        assert target.shape == model.shape
        for _ in range(3):
            selection = random_selection(rng, model.shape)
            same(target[selection], copy.copy(model[selection]))
        if target is store:
            if not versioned:
                history.clear()
            history[store.version] = model.copy()
    for version, expected in history.items():
        same(store.at(version)[...], expected)
    assert store.array.verify() == []
    assert [info["number"] for info in store.versions()] == sorted(history)
    packed = ki.PackedArray.pack(model)
    for _ in range(20):
        selection = random_selection(rng, model.shape)
        same(packed[selection], copy.copy(model[selection]))


def test_an_integer_and_a_list_apart_put_the_axis_of_the_list_first(tmp_path):
    model = np.arange(3 * 4 * 5).reshape(3, 4, 5)
    store = ki.ArrayStore.create(tmp_path / "x", model.shape, model.dtype, chunks=(2, 2, 2))
    for selection in [(1, slice(None), [0, 1]), (1, slice(1, 3), [3, 4]), ([0, 1], slice(None, None, -1), 2)]:
        store[...] = model
        expected, value = model.copy(), -np.arange(model[selection].size).reshape(model[selection].shape)
        expected[selection] = value
        store[selection] = value
        same(store[...], expected)
        same(store[selection], value)


def test_selections_that_do_not_exist_are_index_errors(tmp_path):
    store = ki.ArrayStore.create(tmp_path / "x", (4, 3), "i4", chunks=(2, 2))
    packed = ki.PackedArray.pack(np.zeros((4, 3)))
    for array in [store, store.array, store.stage(), packed]:
        for wrong in [4, -5, (0, 3), (0, 0, 0), ([0, 4],), (..., ...), np.ones(3, bool)]:
            with pytest.raises(IndexError):
                array[wrong]
        for wrong in ["x", 1.5, [1.5], (0, {}), b"x"]:
            with pytest.raises((TypeError, IndexError, ValueError)):
                array[wrong]
        assert [len(row) for row in array] == [3, 3, 3, 3]
    with pytest.raises(ki.errors.SelectionError, match="broadcast|shape"):
        store[:2] = np.zeros((3, 3), "i4")
    assert store.version == 1


def test_values_that_do_not_fit_are_refused(tmp_path):
    store = ki.ArrayStore.create(tmp_path / "x", (4,), "u1", fill=7)
    assert store[...].tolist() == [7] * 4
    for wrong in [300, -1, [0, 256, 0, 0], np.int64(256), np.array([0, -1, 0, 0])]:
        with pytest.raises(OverflowError):
            store[:] = wrong
    for wrong in [1.5, np.zeros(4), "x", 1j, None, [2**70], {}]:
        with pytest.raises(TypeError):
            store[:] = wrong
    store[:] = np.array([1, 2, 3, 255], ">i8")
    store[1] = np.uint8(9)
    store[2] = True
    assert store[...].tolist() == [1, 9, 1, 255]
    with pytest.raises((ValueError, OverflowError)):
        ki.ArrayStore.create(tmp_path / "y", (4,), "u1", fill=256)
    with pytest.raises(ValueError, match="one element"):
        ki.ArrayStore.create(tmp_path / "y", (4,), "u1", fill=[1, 2])
    for wrong in [{"codec": "x"}, {"shuffle": "x"}, {"attrs": {"a": float("nan")}}, {"chunks": (0,)}]:
        with pytest.raises(ValueError):
            ki.ArrayStore.create(tmp_path / "y", (4,), "u1", **wrong)


@pytest.mark.parametrize(
    ("dtype", "good", "wrong"),
    [
        ("f4", [1, 0.1, np.inf, np.nan], 1e300),
        ("f2", np.float64([0, 1, 2, 3]), 70_000),
        ("c8", [1, 1j, 0.5, 2], 1e300 + 1j),
        ("S3", [b"a", b"abc", b"", b"x"], b"abcd"),
        ("U2", ["a", "\u00e9b", "", "x"], "abc"),
        ("M8[s]", np.array(["2026-01-01", "NaT", "1970-01-01", "2026"], "M8[D]"), np.datetime64(1, "us")),
    ],
)
def test_nothing_is_cut_off(tmp_path, dtype, good, wrong):
    store = ki.ArrayStore.create(tmp_path / "x", (4,), dtype)
    store[:] = good
    same(store[...], np.asarray(good).astype(dtype))
    with pytest.raises(OverflowError):
        store[1] = wrong
    with store.stage() as staged, pytest.raises(OverflowError):
        staged.append([wrong])
    same(store[...], np.asarray(good).astype(dtype))


def test_versions_are_kept_and_go_back(tmp_path):
    store = ki.ArrayStore.create(tmp_path / "x", (3,), "i4", attrs={"unit": "m"})
    assert store.attrs == {"unit": "m"}
    info = store.put(slice(None), [1, 2, 3], "numbers")
    assert info["message"] == "numbers" and info["shape"] == (3,)
    with store.stage("more") as staged:
        staged[0] = 10
        staged.attrs = {**staged.attrs, "n": 1}
        assert staged.has_changes and store[0] == 1
    assert store[0] == 10 and store.attrs == {"unit": "m", "n": 1}
    with pytest.raises(ZeroDivisionError):
        with store.stage("lost") as staged:
            staged[0] = 1 / 0
    assert store.versions()[-1]["message"] == "more"
    stale = store.stage("late")
    stale[1] = 5
    store.append([4])
    with pytest.raises(ki.errors.ReplacedError):
        store.commit(stale)
    reader = ki.ChunkedArray(tmp_path / "x", -1)
    assert reader[...].tolist() == [10, 2, 3] and len(reader) == 3
    store.checkout(info["number"])
    assert store[...].tolist() == [1, 2, 3] and reader[...].tolist() == [10, 2, 3]
    removed = store.gc(keep=1)
    assert len(removed["versions"]) == len(stale.shape) + 4 and len(store.versions()) == 1
    for wrong in (0, 99, -9, "yesterday"):
        with pytest.raises((ValueError, FileNotFoundError)):
            store.at(wrong)


def test_a_time_names_the_newest_version_of_it(tmp_path):
    store = ki.ArrayStore.create(tmp_path / "x", (1,), "i4")
    for number in range(1, 4):
        # Times are in milliseconds, and no two versions have the same.
        time.sleep(0.002)
        store[0] = number
    times = [version["time"] for version in store.versions()]
    for number, moment in enumerate(times):
        aware = datetime.fromisoformat(moment)
        # The same time elsewhere.
        elsewhere = aware.astimezone(timezone(timedelta(hours=9)))
        for named in (moment, aware, elsewhere, aware + timedelta(microseconds=500)):
            assert store.at(named)[0] == ki.ChunkedArray(tmp_path / "x", named)[0] == number
    with pytest.raises(FileNotFoundError, match="found only later ones"):
        store.at("2020-01-31")
    with pytest.raises(ValueError, match="expected a time with a time zone, found"):
        store.at(datetime(2026, 1, 31))
    with store.stage(version=times[1]) as staged:
        staged[0] += 10
    assert store[0] == 11
    store.checkout(datetime.fromisoformat(times[2]))
    assert store[0] == 2
    for wrong in ({}, {"keep": 1, "since": times[2]}):
        with pytest.raises(TypeError, match="expected either `keep` or `since`"):
            store.gc(**wrong)
    with pytest.raises(ValueError, match="expected a time"):
        store.gc(since="3")
    assert store.gc(since=times[2])["versions"] == [1, 2]


def test_one_writer_at_a_time_and_closing(tmp_path):
    store = ki.ArrayStore.create(tmp_path / "x", (3,), "i4")
    with pytest.raises(ki.errors.LockedError):
        ki.ArrayStore.open(tmp_path / "x")
    with pytest.raises(FileExistsError):
        ki.ArrayStore.create(tmp_path / "x", (3,), "i4")
    array = store.array
    store.close()
    store.close()
    assert array[...].tolist() == [0, 0, 0]
    for work in [lambda: store[0], lambda: store.append([1]), lambda: store.shape]:
        with pytest.raises(ValueError, match="closed"):
            work()
    with ki.ArrayStore.open(tmp_path / "x") as again:
        again[0] = 1
    with pytest.raises(FileNotFoundError):
        ki.ArrayStore.open(tmp_path / "none")


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_fork_reads_and_leaves_the_lock_alone(tmp_path):
    store = ki.ArrayStore.create(tmp_path / "x", (300_000,), "i4", chunks=(1000,))
    store[:] = np.arange(300_000)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def child():
        nonlocal store
        total = int(store.array[...].sum())
        try:
            store[0] = 1
        except ValueError as error:
            store = None
            theirs.send((total, str(error)))

    process = context.Process(target=child)
    process.start()
    assert ours.poll(60), "the forked process hangs"
    total, message = ours.recv()
    process.join(60)
    assert process.exitcode == 0 and total == sum(range(300_000)) and "forked" in message
    with pytest.raises(ki.errors.LockedError):
        ki.ArrayStore.open(tmp_path / "x")
    store[0] = 5
    assert store[0] == 5


def test_columns_of_a_structure(tmp_path):
    data = np.zeros(100, [("id", "<i8"), ("box", "<f4", (4,)), ("inner", [("x", "u1")])])
    data["id"] = np.arange(100)
    data["box"] = np.arange(400).reshape(100, 4)
    with ki.ArrayStore.create(tmp_path / "x", (0,), data.dtype) as store:
        store.append(data)
        store[3] = (7, (1, 2, 3, 4), (9,))
    array = ki.ChunkedArray(tmp_path / "x")
    assert array["id"].shape == (100,) and array["id"][5] == 5 and array["inner.x"][3] == 9
    assert array[3].tolist()[0] == 7
    with pytest.raises(IndexError):
        array["none"]


def test_a_packed_array_of_a_sample(tmp_path):
    data = np.arange(60_000, dtype="f4").reshape(1000, 60)
    ki_path, small = tmp_path / "x.msgpack", tmp_path / "small.msgpack"
    with ki.Writer(ki_path) as writer:
        writer.write({"key": "a", "image": data})
    ki.convert(ki_path, small, arrays="blpk:lz4:5")
    for dataset in [ki.open(small), ki.open(small, copy=False)]:
        packed = ki.PackedArray(dataset["a"]["image"])
        assert packed.shape == data.shape and packed.cbytes < packed.nbytes == data.nbytes
        same(packed[10:20], data[10:20])
        same(np.asarray(packed, "f8"), data.astype("f8"))
    (tmp_path / "x.blp").write_bytes(bytes(packed))
    same(ki.PackedArray.open(tmp_path / "x.blp")[[5, -1]], data[[5, -1]])
    damaged = bytearray(bytes(packed))
    damaged[len(damaged) // 2] ^= 1
    with pytest.raises(ki.errors.DamagedError):
        ki.PackedArray(damaged)[...]
    for wrong in [b"", b"blpk", b"x" * 100]:
        with pytest.raises(ki.Error):
            ki.PackedArray(wrong)
    with pytest.raises(TypeError):
        ki.PackedArray([1, 2])


def test_staged_changes_describe_themselves(tmp_path):
    """A staged version has what other arrays have, and says what it would move."""
    with ki.ArrayStore.create(tmp_path / "x", (5, 4), "int16", chunks=(2, 4)) as store:
        store[...] = np.arange(20).reshape(5, 4)
        staged = store.stage()
        assert (staged.ndim, staged.size, staged.nbytes, staged.chunks) == (2, 20, 40, (2, 4))
        assert "out = np.empty((2, 4))" in staged.plan_get(np.s_[1:3])
        assert staged.plan_set(0).startswith("SetItemPlan") and not staged.has_changes
        staged[0] = 7
        staged.resize((7, 4))
        assert (staged.size, staged.nbytes) == (28, 56)
        assert staged.plan_resize((9, 4)).startswith("ResizePlan")
        assert "# changed" in staged.plan_changes()
        assert "transfers" in staged.plan_load()
        staged.load()
        assert "transfers" not in staged.plan_load()
        with pytest.raises(IndexError):
            staged.plan_get(99)
        store.commit(staged, "sevens")
        assert store[0].tolist() == [7] * 4 and store.shape == (7, 4)


def test_one_commit_resizes_axes_both_ways(tmp_path):
    """Chunks are lost along one axis, and outgrow their numbers along another."""
    with ki.ArrayStore.create(tmp_path / "x", (5, 4), "i4", chunks=(1, 5)) as store:
        store[:] = 93
        with store.stage("two") as staged:
            staged.resize((2, 11))
            staged[:] = 69
        assert (store[...] == 69).all() and store.array.verify() == []


def test_urls_are_refused(tmp_path, monkeypatch):
    """The local file system would take a URL for a directory."""
    monkeypatch.chdir(tmp_path)
    url = "s3://bucket/x"
    for make in [
        lambda: ki.ArrayStore.create(url, 3, "i4"),
        lambda: ki.ArrayStore.open(url),
        lambda: ki.ChunkedArray(url),
        lambda: ki.PackedArray.open(url),
    ]:
        with pytest.raises(ki.Error, match="found a URL"):
            make()
    assert list(tmp_path.iterdir()) == []
