"""Arrays in other processes: by path and version, packed ones by their bytes."""

import concurrent.futures
import copy
import multiprocessing
import pickle
import shutil

import numpy as np
import pytest

import pykiste as ki

TABLE = np.arange(40, dtype="int32").reshape(10, 4)


@pytest.fixture
def store(tmp_path):
    with ki.ArrayStore.create(tmp_path / "table", (10, 4), "int32", chunks=(3, 4), durable=False) as store:
        store[...] = TABLE
        yield store


def total(array):
    return type(array).__name__, int(np.asarray(array[...]).sum()), array.shape, str(array.dtype)


def write_one(store):
    try:
        store[0] = 1
    except ki.errors.LockedError:
        return "locked"
    finally:
        store.close()
    return "written"


@pytest.mark.parametrize("method", ["spawn"])
def test_in_another_process(store, tmp_path, method):
    packed = ki.PackedArray.pack(TABLE)
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        for array in store, store.array, ki.ChunkedArray(tmp_path / "table"), packed:
            name, *found = pool.submit(total, array).result(timeout=120)
            assert (name, *found) == total(array)
        assert pool.submit(write_one, store).result(timeout=120) == "locked"
        sent = pickle.dumps(store)
        store.close()
        assert pool.submit(write_one, pickle.loads(sent)).result(timeout=120) == "written"
    assert ki.ChunkedArray(tmp_path / "table")[0].tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_version_stays_the_version(store, protocol):
    old = store.at(-1)
    sent = pickle.dumps([old, store.array], protocol)
    store[...] = 7
    again, newest = pickle.loads(sent)
    assert again.version == old.version and again[...].sum() == 0
    assert newest.version == old.version + 1 and (newest[...] == TABLE).all()
    assert copy.deepcopy(old).version == old.version and copy.copy(old).path == old.path


def test_a_store_that_was_pickled_reads_its_version_until_it_writes(store):
    sent = pickle.dumps(store)
    store[0] = 100
    again = pickle.loads(sent)
    assert again.version == 2 and (again[...] == TABLE).all() and again.shape == (10, 4)
    for change in lambda: again.append(TABLE), lambda: again.stage(), lambda: setattr(again, "attrs", {}):
        with pytest.raises(ki.errors.LockedError):
            change()
    store.close()
    assert again.append(TABLE[:1])["number"] == 4, "it is the writer of the newest version now"
    assert again[0].tolist() == [100] * 4 and again.shape == (11, 4)
    with pytest.raises(ki.errors.LockedError):
        ki.ArrayStore.open(again.path)
    again.close()
    with pytest.raises(ki.errors.InvalidError, match="closed"):
        pickle.dumps(again)


def test_columns_are_columns_again(tmp_path):
    kind = np.dtype([("a", "u1"), ("b", [("c", "<f4"), ("d", "<i2")])])
    with ki.ArrayStore.create(tmp_path / "x", (5,), kind) as store:
        store[...] = np.array([(1, (2.5, 3))], kind)
        for column in store["b"], store["b"]["d"], store["b.c"]:
            again = pickle.loads(pickle.dumps(column))
            assert again.dtype == column.dtype and (again[...] == column[...]).all()
        assert pickle.loads(pickle.dumps(store["b"].at(1))).dtype == kind, "another version has all fields"


def test_an_array_that_was_made_anew_is_an_error(store, tmp_path):
    sent = pickle.dumps(store.array)
    store.close()
    shutil.rmtree(tmp_path / "table")
    with pytest.raises(ki.Error):
        pickle.loads(sent)
    with ki.ArrayStore.create(tmp_path / "table", (10, 4), "int32", chunks=(3, 4)) as other:
        other[...] = 5
    with pytest.raises(ki.errors.ReplacedError, match="expected version 2 of the array that was pickled"):
        pickle.loads(sent)


def test_a_version_that_is_gone_is_an_error(store):
    sent = pickle.dumps(store.array)
    store[0] = 1
    store.gc(keep=1)
    with pytest.raises(ki.Error):
        pickle.loads(sent)


def test_packed_arrays_are_their_bytes():
    for array in TABLE, np.float32(3), np.zeros((0, 3)), np.array(["a", "bc"]), np.zeros(3, ">i2"):
        packed = ki.PackedArray.pack(array)
        again = pickle.loads(pickle.dumps(packed))
        assert bytes(again) == bytes(packed) and again.dtype == packed.dtype
        assert np.array_equal(again[...], array) and copy.deepcopy(packed).shape == packed.shape
