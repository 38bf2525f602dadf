"""Datasets are what datadings reads, by index, key, slice and list."""

import copy
import gc
import inspect
import multiprocessing
import os
import pickle
import threading
import tracemalloc
import weakref

import numpy as np
import pytest
from conftest import GOLDEN, same

import pykiste as ki

datadings = pytest.importorskip("datadings.reader")


@pytest.mark.filterwarnings("ignore")
def test_every_golden_sample_is_what_datadings_decodes(golden):
    theirs, ours = datadings.MsgpackReader(golden), ki.open(golden)
    assert len(ours) == len(theirs)
    assert list(ours.keys()) == [theirs.find_key(index) for index in range(len(theirs))]
    refused = 0
    for index in range(len(theirs)):
        theirs.seek_index(index)
        try:
            expected = theirs.next()
        except Exception:
            with pytest.raises(Exception):
                ours[index]
            continue
        if golden.stem == "objects" and index in (0, 2):
            # Pickles, which datadings executes.
            with pytest.raises(ki.errors.UnsupportedError):
                ours[index]
            refused += 1
            continue
        assert same(expected, ours[index]), (index, expected, ours[index])
        theirs.seek_index(index)
        assert ours.raw(index) == theirs.rawnext()
    assert refused == (2 if golden.stem == "objects" else 0)


def test_views_are_equal_to_copies_and_cannot_be_written(golden):
    copies, views = ki.open(golden), ki.open(golden, copy=False)
    for index in range(len(copies)):
        assert views.raw(index) == copies.raw(index)
        try:
            copy = copies[index]
        except ki.Error:
            continue
        view = views[index]
        for name, value in copy.items():
            if isinstance(value, np.ndarray):
                assert same(value, view[name])
                assert value.flags.writeable
                assert value.nbytes == 0 or not view[name].flags.writeable
            elif isinstance(value, bytes):
                assert isinstance(view[name], memoryview) and view[name] == value
                assert view[name].readonly


def test_a_view_outlives_its_dataset(numbers):
    dataset = ki.open(numbers, copy=False)
    sample, raw = dataset[50], dataset.raw(51)
    expected = bytes(raw)
    dataset.close()
    with pytest.raises(ValueError, match="closed"):
        dataset[0]
    del dataset
    gc.collect()
    assert (sample["image"] == 50).all() and bytes(sample["data"]) == bytes([50]) * 50
    assert bytes(raw) == expected


def test_items_by_index_key_slice_and_list(numbers):
    dataset = ki.open(numbers)
    labels = lambda samples: [sample["label"] for sample in samples]
    assert dataset[0]["label"] == 0 and dataset[-1]["label"] == 99
    assert dataset[np.int64(7)]["label"] == 7 and dataset["042"]["label"] == 42
    assert labels(dataset[10:13]) == [10, 11, 12] and labels(dataset[3::-2]) == [3, 1]
    assert labels(dataset[[5, "006", -1]]) == [5, 6, 99]
    assert labels(dataset[np.array([1, 2])]) == [1, 2]
    assert labels(dataset.__getitems__([4, 3])) == [4, 3]
    assert labels(dataset) == list(range(100))
    assert "042" in dataset and "42" not in dataset and 42 not in dataset
    assert dataset.find("010") == 10 and dataset.find("x") is None
    assert dataset.key(3) == "003" and dataset.get("x") is None and dataset.get(1000, 5) == 5


MASK = [number % 7 == 3 for number in range(100)]


class Column:
    """An array of another package: what it has is asked by `dtype` and `tolist`."""

    dtype = "their.bool"

    def tolist(self):
        return MASK


@pytest.mark.parametrize(
    "mask",
    [MASK, tuple(MASK), np.array(MASK), [np.bool_(one) for one in MASK], np.array(MASK, object), Column(), iter(MASK)],
    ids=["list", "tuple", "array", "scalars", "objects", "column", "iterator"],
)
@pytest.mark.parametrize("entry", ["[]", "get_many", "__getitems__", "prefetch", "select"])
def test_a_mask_is_one_at_every_entry(numbers, tmp_path, mask, entry):
    dataset, expected = ki.open(numbers), list(range(3, 100, 7))
    if entry == "select":
        made = ki.select(numbers, tmp_path / "some.msgpack", list(mask) if hasattr(mask, "__next__") else mask)
        found = list(ki.open(made["path"]))
    elif entry == "prefetch":
        return dataset.prefetch(mask)
    else:
        found = dataset[mask] if entry == "[]" else getattr(dataset, entry)(mask)
    if hasattr(mask, "__next__"):
        # It is one parameter for all entries.
        return
    assert [sample["label"] for sample in found] == expected


@pytest.mark.parametrize(
    "item",
    [True, False, np.True_, np.array(True), [True, False], [False] * 99, [True] * 101, [True, 2], [0, False], ["000", True],
     np.ones(3, bool), np.ones((100, 1), bool), np.ones((10, 10), bool)],
    ids=lambda item: np.array2string(np.array(item, object), threshold=4).replace('\n', ''),
)
def test_truth_values_that_are_no_mask_are_refused_at_every_entry(numbers, tmp_path, item):
    dataset, batch = ki.open(numbers), next(ki.Loader(ki.open(numbers)))
    order = ki.Sampler.sequential(100).order()
    entries = [dataset.__getitem__, dataset.get_many, dataset.__getitems__, dataset.prefetch, dataset.key, dataset.raw,
               batch.__getitem__, order.__getitem__, order.position_of, lambda item: order.fill(item, 3),
               lambda item: order.fill(0, item), lambda item: ki.split(numbers, at=[item] if np.ndim(item) == 0 else item),
               lambda item: ki.select(numbers, tmp_path / "o.msgpack", item)]
    for entry in entries:
        # Some entries take one number, and no list at all.
        with pytest.raises((TypeError, IndexError, ValueError)):
            entry(item)
    with pytest.raises(ki.Error):
        dataset[item]


@pytest.mark.parametrize("index", [100, -101, 2**62, -(2**62)])
def test_an_index_beyond_the_end_is_an_index_error(numbers, index):
    with pytest.raises(IndexError, match="out of range for 100 samples"):
        ki.open(numbers)[index]


def test_a_key_that_is_not_there_is_a_key_error(numbers):
    with pytest.raises(KeyError, match="x"):
        ki.open(numbers)["x"]


@pytest.mark.parametrize("item", [None, 1.5, b"001"])
def test_what_is_no_index_is_a_type_error(numbers, item):
    with pytest.raises((TypeError)):
        ki.open(numbers)[item]


def test_errors_say_where(tmp_path, numbers):
    with pytest.raises(FileNotFoundError) as caught:
        ki.open(tmp_path / "none.msgpack")
    assert isinstance(caught.value, ki.Error) and caught.value.path == tmp_path / "none.msgpack"
    data = bytearray(numbers.read_bytes())
    start = ki.open(numbers).raw(3, copy=False)
    at = data.find(bytes(start))
    data[at + 1] = 0xC1
    numbers.write_bytes(data)
    with pytest.raises(ki.errors.DamagedError) as caught:
        ki.open(numbers)[3]
    assert caught.value.index == 3
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and again.index == 3


def test_pickles_are_small_and_refuse_another_dataset(numbers):
    dataset = ki.open(numbers)
    pickled = pickle.dumps(dataset)
    assert len(pickled) < 1000
    assert pickle.loads(pickled)[5]["label"] == 5
    with ki.Writer(numbers, append=True) as writer:
        writer.write({"key": "more"})
    with pytest.raises(ki.errors.ReplacedError):
        pickle.loads(pickled)


@pytest.mark.parametrize("digests", [True, False])
def test_pickles_refuse_a_dataset_of_the_same_size(tmp_path, digests):
    path = tmp_path / "x.msgpack"

    def write(label):
        with ki.Writer(path, overwrite=True, digests=digests) as writer:
            for key in "abc":
                writer.write({"key": key, "label": label})

    write(1)
    pickled = pickle.dumps(ki.open(path))
    write(1)
    assert pickle.loads(pickled)["b"]["label"] == 1
    write(2)
    with pytest.raises(ki.errors.ReplacedError, match="another one of the same size"):
        pickle.loads(pickled)


def test_a_dataset_without_offsets_warns(numbers):
    numbers.with_name(numbers.name + ".offsets").unlink()
    with pytest.warns(UserWarning, match="offsets not found") as warned:
        assert len(ki.open(numbers)) > 0
    assert len(warned) == 1


@pytest.mark.parametrize("field", [{b"nd": True, b"data": b""}, {b"complex": True, b"data": "1j"}])
def test_a_sample_that_reads_back_as_an_array_is_refused(tmp_path, field):
    with ki.Writer(tmp_path / "x.msgpack") as writer:
        with pytest.raises(ValueError, match="expected a sample, found an array or a number"):
            writer.write({"key": "a", **field})
        writer.write({"key": "a", "field": field})


# Something else than the default for each option of `ki.open`.
OPTIONS = {"copy": False, "verify": True, "untrusted": True, "allow_outside": True}


def test_every_option_has_a_line_here():
    options = inspect.signature(ki.open).parameters.values()
    # `progress` is for the moment of opening alone.
    assert {one.name for one in options if one.kind is one.KEYWORD_ONLY} == {*OPTIONS, "progress"}


def opened_as(dataset):
    return {name: getattr(dataset, name) for name in OPTIONS}


@pytest.mark.parametrize("again", ["pickle", "copy", "deepcopy", "spawn"])
@pytest.mark.parametrize("name", OPTIONS)
def test_a_dataset_is_opened_again_as_it_was(tmp_path, name, again):
    path = tmp_path / "x.msgpack"
    with ki.Writer(path, checksums=True) as writer:
        writer.write({"key": "a", "data": b"x" * 100})
    dataset = ki.open(path, **{name: OPTIONS[name]})
    assert opened_as(dataset)[name] == OPTIONS[name]
    if again == "spawn":
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found = pool.apply(opened_as, (dataset,))
    else:
        ways = {"pickle": lambda one: pickle.loads(pickle.dumps(one)), "copy": copy.copy, "deepcopy": copy.deepcopy}
        found = opened_as(ways[again](dataset))
    assert found == opened_as(dataset)


@pytest.mark.skipif(os.name != "posix", reason="links need a privilege there")
def test_shards_outside_of_the_folder_of_their_manifest_are_asked_for(tmp_path):
    (tmp_path / "in.jsonl").write_text('{"key": "a"}\n')
    (tmp_path / "set").mkdir()
    many = tmp_path / "set" / "many.shards.json"
    ki.convert(tmp_path / "in.jsonl", many)
    for path in (tmp_path / "set").iterdir():
        if path != many:
            far = path.rename(tmp_path / path.name)
            path.symlink_to(far)
    for read in lambda **given: ki.open(many, **given)["a"], lambda **given: ki.verify(many, **given)["good"]:
        with pytest.raises(ki.errors.InvalidError, match="a link that leads out of it"):
            read()
        assert read(allow_outside=True)
        assert read(allow_outside=True, untrusted=True)
    dataset = pickle.loads(pickle.dumps(ki.open(many, allow_outside=True)))
    assert dataset.allow_outside and dataset["a"] == {"key": "a"}
    assert ki.stat(dataset)


def test_a_copy_of_a_dataset_that_verifies_finds_damage(tmp_path):
    path = tmp_path / "x.msgpack"
    with ki.Writer(path, checksums=True) as writer:
        writer.write({"key": "a", "data": b"x" * 100})
    dataset = ki.open(path, verify=True)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ki.errors.DamagedError):
        pickle.loads(pickle.dumps(dataset))[0]
    # As version 0.1.0 pickled one.
    from pykiste._pickle import reopen

    assert reopen(path, True, 1, len(data))["a"]["data"][:99] == b"x" * 99


def test_threads_share_a_dataset(numbers):
    dataset, failed = ki.open(numbers), []

    def read():
        try:
            for _ in range(20):
                assert [sample["label"] for sample in dataset[:]] == list(range(100))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failed


@pytest.mark.parametrize("depth", [1, 15, 16, 17, 18, 1024])
def test_containers_are_nested_down_to_a_limit(depth):
    array = {b"nd": True, b"type": "<f4", b"kind": b"", b"shape": [2], b"data": b"\0" * 8}
    for inner in [None, [], {}, [1, "two"], {"one": 1, 2: b"three", b"nda": [4]}, array]:
        containers = depth if inner is None else depth - 1
        if isinstance(inner, dict) and inner and depth == 1024:
            continue  # it has containers of its own
        packed = msgpack_of(inner)
        for level in range(containers):
            number, text = msgpack_of(level), msgpack_of(str(level))
            if level % 3 == 0:
                packed = b"\x82\xa2in" + packed + b"\xa5level" + number
            else:
                packed = b"\x93" + number + packed + text
        found = ki.unpack(packed)
        for level in reversed(range(containers)):
            if level % 3 == 0:
                assert list(found) == ["in", "level"] and found["level"] == level
                found = found["in"]
            else:
                assert len(found) == 3 and found[::2] == [level, str(level)]
                found = found[1]
        if inner is array:
            assert found.dtype == np.float32 and found.tolist() == [0, 0]
        else:
            assert found == inner
    too_deep = b"\x91" * 1025 + b"\xc0"
    with pytest.raises(ki.errors.DamagedError, match="at most 1024 nested"):
        ki.unpack(too_deep)


def msgpack_of(value):
    """A value packed by hand, as keys of bytes have a meaning of their own for `pykiste.pack`."""
    if value is None:
        return b"\xc0"
    if value is True:
        return b"\xc3"
    if isinstance(value, int):
        return b"\xcd" + value.to_bytes(2, "big")
    if isinstance(value, str):
        return b"\xd9" + len(value).to_bytes(1, "big") + value.encode()
    if isinstance(value, bytes):
        return b"\xc4" + len(value).to_bytes(1, "big") + value
    if isinstance(value, list):
        return b"\xdc" + len(value).to_bytes(2, "big") + b"".join(map(msgpack_of, value))
    pairs = b"".join(msgpack_of(key) + msgpack_of(item) for key, item in value.items())
    return b"\xde" + len(value).to_bytes(2, "big") + pairs


@pytest.mark.parametrize("length", [0, 1, 1023, 1024, 1025, 5000])
def test_a_list_of_any_length_is_seen_by_the_garbage_collector(length):
    made = ki.unpack(ki.pack(list(range(length))))
    assert made == list(range(length)) and gc.is_tracked(made)
    made.append(made)
    seen = weakref.ref(type("Seen", (), {})())
    made.append(seen)
    del made
    gc.collect()


def test_a_list_that_ends_early_is_an_error_and_leaves_nothing():
    packed = ki.pack([{"a": [1.5] * 10}] * 10)
    before = len(gc.get_objects())
    for end in range(len(packed)):
        with pytest.raises(ki.errors.DamagedError):
            ki.unpack(packed[:end])
    # Thousands of lists and dicts were begun.
    assert len(gc.get_objects()) < before + 100


def test_lists_that_claim_many_items_take_no_memory_for_them():
    # A thousand lists in one another, each of which says that all bytes are items of it.
    count = 1 << 22
    packed = (b"\xdd" + count.to_bytes(4, "big")) * 1000 + b"\xc0" * count
    tracemalloc.start()
    try:
        with pytest.raises(ki.errors.DamagedError):
            ki.unpack(packed)
        assert tracemalloc.get_traced_memory()[1] < 100 * count
    finally:
        tracemalloc.stop()


def test_views_are_slices_of_one_map(tmp_path):
    path = tmp_path / "views.msgpack"
    with ki.Writer(path) as writer:
        for number in range(20):
            writer.write({"key": str(number), "data": bytes(range(number)), "image": np.full(number, number)})
    views = ki.open(path, copy=False)
    kept = [sample["data"] for sample in views] + [views[number]["data"] for number in range(20)]
    arrays = [sample["image"] for sample in views]
    raw = views.raw(7)
    assert ki.unpack(bytes(raw))["data"] == bytes(range(7))
    assert bytes(ki.open(path).raw(7, copy=False)) == bytes(raw)
    views.close()
    del views
    gc.collect()
    for number, view in enumerate(kept):
        expected = bytes(range(number % 20))
        assert type(view) is memoryview and view.readonly and view.c_contiguous and view.ndim == 1
        assert view == expected and view.nbytes == len(view) == len(expected) == view.shape[0]
        assert view[1:] == expected[1:] and hash(view) == hash(expected) and view.tobytes() == expected
        assert np.frombuffer(view, np.uint8).tolist() == list(expected) or number % 20 == 0
        view.release()
    assert [array.tolist() for array in arrays] == [[number] * number for number in range(20)]
    assert not any(array.flags.writeable for array in arrays if array.size)


def test_deep_nesting_is_an_error_and_no_crash():
    with pytest.raises(ki.errors.DamagedError):
        ki.unpack(b"\x91" * 5000 + b"\xc0")
    nested = []
    for _ in range(5000):
        nested = [nested]
    with pytest.raises(ValueError):
        ki.pack(nested)
