"""Readers of the drop-in do what those of datadings do: results, positions and exceptions."""

import copy
import multiprocessing
import pickle
import random
import shutil
import threading
import warnings

import numpy as np
import pytest
from conftest import GOLDEN, same
from differential import Pair, an_int, equal, flags, odd, outcome
from test_writer import random_value

import pykiste as ki
from pykiste.datadings.reader import ListReader, MsgpackReader, ShardedReader

datadings = pytest.importorskip("datadings.reader")
from datadings.reader.sharded import ShardedReader as TheirShardedReader  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*not found, some functionality")

DATASETS = sorted(GOLDEN.glob("*.msgpack")) + sorted(GOLDEN.glob("legacy/*.msgpack"))
# Its samples are pickles, which datadings executes, and one crashes it.
RAW_ONLY = {"objects"}


def random_dataset(path, rng, samples):
    """A dataset of random samples, of which some are large."""
    with ki.Writer(path, durable=False) as writer:
        for number in range(samples):
            key = f"{rng.choice(['a', 'é', '漢/'])}{number}"
            writer.write({"key": key, "v": random_value(rng), "n": number})
    return path


def steps(pair, rng, count, raw_only=False, can_find=True, negative=False):
    """Random calls, each to both readers."""
    samples = len(pair.ours)

    def index():
        if rng.random() < 0.1:
            return odd(rng)
        if negative and rng.random() < 0.3:
            return -1 - rng.randrange(samples + 2)
        return an_int(rng, samples)

    def keyword():
        chosen = flags(rng)
        return chosen | {"raw": True} if raw_only else chosen

    def bounds():
        start = rng.choice([None, index(), index(), -rng.randrange(1, samples + 2)])
        stop = rng.choice([None, None, index(), -rng.randrange(1, samples + 2)])
        return start, stop

    for _ in range(count):
        kind = rng.choice(
            "seek seek_index get get iter iter iter slice item range next rawnext find contains key"
            " rawiter plain advance advance advance close".split()
        )
        if kind in ("seek", "seek_index"):
            to = rng.choice([index(), -rng.randrange(1, samples + 2)])
            if isinstance(to, (float, np.floating)):
                # The position would be no integer.
                continue
            pair.same(lambda reader: getattr(reader, kind)(to), (kind, to))
        elif kind == "get":
            at, options = index(), keyword()
            pair.same(lambda reader: reader.get(at, **options), (kind, at, options))
        elif kind == "item":
            at = index()
            if not raw_only:
                pair.same(lambda reader: reader[at], (kind, at))
        elif kind == "next" and not raw_only:
            pair.same(lambda reader: reader.next(), kind)
        elif kind == "rawnext":
            pair.same(lambda reader: reader.rawnext(), kind)
        elif kind == "key":
            at = rng.choice([index(), -rng.randrange(1, samples + 2)])
            pair.same(lambda reader: reader.find_key(at), (kind, at))
        elif kind == "find" and can_find:
            at = rng.randrange(samples)
            key = rng.choice([pair.ours.find_key(at), "absent", "", "\ud800", 5, None, b"k"])
            pair.same(lambda reader: reader.find_index(key), (kind, key))
            pair.same(lambda reader: reader.seek_key(key), (kind, key))
        elif kind == "contains" and can_find:
            key = rng.choice([pair.ours.find_key(rng.randrange(samples)), "absent", "", 5, None])
            pair.same(lambda reader: key in reader, (kind, key))
        elif kind in ("slice", "range"):
            start, stop = bounds()
            found, _ = outcome(lambda: slice(start, stop).indices(samples))
            if found and found[0] > found[1]:
                # datadings fails.
                continue
            if kind == "slice":
                options = keyword()
                pair.begin(
                    lambda reader: reader.slice(start, stop, **options), (kind, start, stop, options)
                )
            elif not raw_only:
                step = rng.choice([None, 1, 1, 2, -1, 0])
                pair.begin(lambda reader: reader[start:stop:step], (kind, start, stop, step))
        elif kind == "iter":
            (start, stop), options = bounds(), keyword()
            if start is None and pair.ours._i > samples:
                # datadings yields nothing.
                pair.same(lambda reader: reader.seek(0), "seek")
            if rng.random() < 0.5:
                # With chunks of -1, datadings fails in a range that ends before its beginning.
                sizes = [1, 2, 3, 16, 1000, 0] + [-1] * (stop is None)
                options["chunk_size"] = rng.choice(sizes)
            pair.begin(
                lambda reader: reader.iter(start, stop, **options), (kind, start, stop, options)
            )
        elif kind == "rawiter":
            if pair.ours._i > samples:
                pair.same(lambda reader: reader.seek(0), "seek")
            pair.begin(lambda reader: reader.rawiter(yield_key=True), kind)
        elif kind == "plain" and not raw_only:
            if pair.ours._i > samples:
                pair.same(lambda reader: reader.seek(0), "seek")
            pair.begin(iter, kind)
        elif kind == "advance" and pair.iterators:
            # A generator that begins behind the end would begin again in ours.
            if pair.ours._i <= samples:
                pair.advance(rng.choice(pair.iterators), rng.choice([1, 2, 5, 40]))
        elif kind == "close" and rng.random() < 0.3:
            with pair.theirs, pair.ours:
                pass


@pytest.mark.parametrize("path", DATASETS, ids=lambda path: path.stem)
def test_random_calls_on_golden_datasets(path):
    if not len(MsgpackReader(path)):
        pytest.skip("datadings cannot iterate without samples")
    is_legacy = path.parent.name == "legacy"
    for seed in range(3):
        pair = Pair(datadings.MsgpackReader(path), MsgpackReader(path))
        assert len(pair.theirs) == len(pair.ours)
        rng = random.Random(f"{path.stem} {seed}")
        if is_legacy:
            # Without a filter datadings cannot look up keys, and a list takes other indices than an array.
            for index in range(len(pair.ours)):
                pair.same(lambda reader: reader.get(index, yield_key=True), index)
                pair.same(lambda reader: reader.find_index(reader.find_key(index)), index)
            continue
        steps(pair, rng, 150, raw_only=path.stem in RAW_ONLY)


@pytest.mark.parametrize("seed", range(30))
def test_random_calls_on_random_datasets(seed, tmp_path):
    rng = random.Random(seed)
    samples = rng.choice([1, 2, 15, 16, 17, 40, 600])
    path = random_dataset(tmp_path / "random.msgpack", rng, samples)
    pair = Pair(datadings.MsgpackReader(path), MsgpackReader(path))
    steps(pair, rng, 150)


@pytest.mark.parametrize("seed", range(20))
def test_random_calls_on_shards(seed, tmp_path):
    rng = random.Random(seed)
    for number in range(rng.choice([1, 2, 3, 7])):
        random_dataset(tmp_path / f"shard-{number}.msgpack", rng, rng.choice([1, 2, 9, 20]))
    pattern = str(tmp_path / "shard-*.msgpack")
    pair = Pair(TheirShardedReader(pattern), ShardedReader(pattern))
    samples = len(pair.ours)
    assert samples == len(pair.theirs)
    for index in range(samples):
        pair.same(lambda reader: reader.get(index, True, True), index)
        pair.same(lambda reader: reader.find_key(index), index)
        pair.same(lambda reader: reader.find_index(reader.find_key(index)), index)
    for _ in range(60):
        start = rng.choice([None, rng.randrange(samples), -rng.randrange(1, samples + 2)])
        stop = rng.choice([None, rng.randrange(samples + 2), -rng.randrange(1, samples + 2)])
        if start is None and pair.ours._i > samples:
            pair.same(lambda reader: reader.seek(0), "seek")
        options = flags(rng) | {"chunk_size": rng.choice([1, 3, 16])}
        pair.begin(lambda reader: reader.iter(start, stop, **options), (start, stop, options))
        pair.advance(pair.iterators[-1], rng.choice([1, 5, 1000]))
        if rng.random() < 0.3 and (start is None or -samples <= start < samples):
            # A slice moves the position too.
            pair.same(lambda reader: reader.seek(0), "seek")
            pair.begin(lambda reader: reader.slice(start or 0, stop), ("slice", start, stop))
            pair.advance(pair.iterators[-1], 1000)
        to = rng.randrange(samples)
        pair.same(lambda reader: reader.seek(to), ("seek", to))


def a_list(rng, samples):
    """Samples for a ListReader, of which some have keys and labels of mixed types."""
    made = []
    labels = rng.choice([["b", "a10", "a2", "a"], [3, 1, 10], ["x", 7, 2.5], ["é1", "é02", "²", "٣"]])
    for number in range(samples):
        sample = {"v": number}
        if rng.random() < 0.5:
            sample["key"] = rng.choice([f"k{number}", (number, "t"), b"%d" % number])
        if rng.random() < 0.8:
            sample["label"] = rng.choice(labels)
        made.append(sample)
    return made


@pytest.mark.parametrize("seed", range(40))
def test_random_calls_on_lists(seed):
    rng = random.Random(seed)
    samples = a_list(rng, rng.choice([1, 3, 20, 600]))
    options = {"numeric_labels": rng.random() < 0.8}
    if rng.random() < 0.3:
        options["convertfun"] = lambda sample: sample.update(w=sample["v"] * 2)
    if rng.random() < 0.3:
        options["initfun"] = lambda sample: sample.pop("key", None)
    pair = Pair(
        datadings.ListReader(copy.deepcopy(samples), **options),
        ListReader(copy.deepcopy(samples), **options),
    )
    assert pair.theirs.labels == pair.ours.labels
    assert pair.theirs._samples == pair.ours._samples
    # Keys are of any type.
    for sample in pair.ours._samples:
        pair.same(lambda reader: reader.find_index(sample["key"]), sample)
        pair.same(lambda reader: sample["key"] in reader, sample)
    steps(pair, rng, 150, can_find=False, negative=True)


@pytest.mark.parametrize(
    "samples, options",
    [
        ([], {}),
        ([{"key": 1}, {"key": 1}], {}),
        ([{"key": 1}, {}], {}),
        ([{"label": None}], {}),
        ([{"label": None}], {"labels": [None]}),
        ([{"label": "x"}], {"labels": ["y"]}),
        ([{"label": "1"}, {"label": 1}], {"labels": ["0", 1]}),
        ([{"label": "x"}], {"labels": iter("xyz")}),
        ([{"label": "x"}], {"labels": "no-such-file"}),
        ([{"label": [1]}], {}),
        ([{"label": "x"}, {"label": 1}, {"label": (1, "a")}], {}),
        ([5], {}),
    ],
)
def test_lists_are_refused_as_by_datadings(samples, options):
    def call(kind):
        given = {name: copy.copy(value) for name, value in options.items()}
        reader = kind(copy.deepcopy(samples), **given)
        return [outcome(lambda: reader.get(i))[0] for i in range(len(reader))], reader.find_key(0)

    (result, error), (found, failure) = outcome(lambda: call(datadings.ListReader)), outcome(
        lambda: call(ListReader)
    )
    assert type(error) is type(failure)
    # Sorting a set compares in any order.
    assert isinstance(error, TypeError) or str(error) == str(failure)
    assert result == found


def test_labels_of_a_file(tmp_path):
    path = tmp_path / "labels.txt"
    path.write_text("b \na\n\n c\n", encoding="utf-8")
    for labels in path, str(path):
        theirs, ours = (
            kind([{"label": "c"}, {"label": ""}], labels=labels)
            for kind in (datadings.ListReader, ListReader)
        )
        assert theirs.labels == ours.labels == ["b", "a", "", "c"]
        assert list(theirs) == list(ours)


@pytest.mark.parametrize("suffix", ["", ".offsets", ".keys", ".key_hashes", ".filter"])
def test_missing_files(tmp_path, suffix):
    path = random_dataset(tmp_path / "x.msgpack", random.Random(1), 4)
    (tmp_path / f"x.msgpack{suffix}").unlink()

    def call(kind):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            reader = kind(path)
        found = [reader.get(1), reader.find_key(2)]
        return found, [str(warning.message) for warning in caught]

    (result, error), (found, failure) = outcome(lambda: call(datadings.MsgpackReader)), outcome(
        lambda: call(MsgpackReader)
    )
    if suffix == ".keys":
        # The keys are in the samples too.
        assert isinstance(error, FileNotFoundError) and found[1] == [
            f"{path}.keys not found, some functionality may not be available"
        ]
        return
    assert type(error) is type(failure) and str(error) == str(failure)
    assert (result is None) == (found is None)
    if result:
        assert same(result[0], found[0]) and result[1] == found[1]


def test_verification(tmp_path):
    path = random_dataset(tmp_path / "x.msgpack", random.Random(1), 4)
    for kind in datadings.MsgpackReader, MsgpackReader:
        assert kind(path).verify_data() is True
    assert MsgpackReader(path).verify_index() is True
    for legacy in sorted(GOLDEN.glob("legacy/*.msgpack")):
        theirs, ours = datadings.MsgpackReader(legacy), MsgpackReader(legacy)
        assert theirs.verify_index() == ours.verify_index()
        assert theirs.verify_data() == ours.verify_data()
    md5 = tmp_path / "x.msgpack.md5"
    lines = md5.read_text().splitlines(keepends=True)
    for at in range(len(lines)):
        changed = lines.copy()
        changed[at] = "0" * 32 + changed[at][32:]
        md5.write_text("".join(changed))
        assert datadings.MsgpackReader(path).verify_data() == MsgpackReader(path).verify_data()
        assert MsgpackReader(path).verify_data() == (at != 0)
        assert MsgpackReader(path).verify_index() == (at == 0)
    md5.unlink()
    for kind in datadings.MsgpackReader, MsgpackReader:
        with pytest.raises(FileNotFoundError):
            kind(path).verify_data()


def test_a_damaged_sample_is_an_error_after_the_good_ones(tmp_path):
    path = tmp_path / "x.msgpack"
    with ki.Writer(path, durable=False) as writer:
        for number in range(5):
            writer.write_raw(f"k{number}", b"\xc1" if number == 3 else ki.pack({"key": f"k{number}"}))
    pair = Pair(datadings.MsgpackReader(path), MsgpackReader(path))
    pair.begin(iter, "iter")
    pair.advance(pair.iterators[0], 5)
    pair.same(lambda reader: reader.get(3), "get")
    pair.same(lambda reader: reader.get(3, raw=True), "raw")
    with pytest.raises(ValueError):
        MsgpackReader(path).get(3)


def test_what_datadings_does_wrong(numbers, tmp_path):
    """The table of docs/from-datadings.md: what datadings does, and what we do."""
    theirs, ours = datadings.MsgpackReader(numbers), MsgpackReader(numbers)
    # Negative indices.
    with pytest.raises(OverflowError):
        theirs.get(-1)
    assert theirs.get(-2)["label"] == 99 and ours.get(-1)["label"] == 99 and ours.get(-2)["label"] == 98
    assert ours.get(-1, yield_key=True)[0] == "099"
    with pytest.raises(IndexError):
        ours.get(-101)
    # A slice that ends before its beginning.
    with pytest.raises(OverflowError):
        list(theirs.slice(5, 2))
    assert list(ours.slice(5, 2)) == []
    # Iterators with a start move the position beyond the end.
    for reader, expected in (theirs, 0), (ours, 100):
        reader.seek(50)
        assert len(list(reader.iter(0))) == 100 and len(list(reader)) == expected
    # Copies.
    theirs.seek(7), ours.seek(7)
    with pytest.raises(AttributeError):
        copy.copy(theirs).next()
    twin = copy.copy(ours)
    assert twin.next()["label"] == 7 and ours._i == 7 and ours.next()["label"] == 7
    # Arrays.
    assert not theirs.get(3)["image"].flags.writeable and ours.get(3)["image"].flags.writeable
    # Pickles of a reader that was read from.
    with pytest.raises(TypeError):
        pickle.dumps(theirs)
    ours.seek(9)
    assert len(pickle.dumps(ours)) < 1000
    assert pickle.loads(pickle.dumps(ours)).next()["label"] == 9
    # Side files are not verified.
    with pytest.raises(FileNotFoundError):
        theirs.verify_index()
    assert ours.verify_index()


def test_what_datadings_does_wrong_with_shards(numbers):
    theirs, ours = TheirShardedReader([numbers] * 2), ShardedReader([numbers] * 2)
    assert outcome(lambda: theirs.get(-2)["label"])[0] != 98
    assert ours.get(-2)["label"] == 98 and ours.find_key(-200) == "000"
    with pytest.raises(IndexError):
        list(theirs.slice(200, 200))
    assert list(ours.slice(200, 200)) == []
    with pytest.raises(IndexError):
        ours.get(-201)


def test_pickles_in_samples_are_never_executed():
    reader = MsgpackReader(GOLDEN / "objects.msgpack")
    for index in 0, 2:
        with pytest.raises(ki.errors.UnsupportedError):
            reader.get(index)
        assert isinstance(reader.get(index, raw=True), bytes)


def test_no_samples(tmp_path):
    path = tmp_path / "empty.msgpack"
    with ki.Writer(path, durable=False):
        pass
    full = random_dataset(tmp_path / "full.msgpack", random.Random(2), 3)
    for make in (
        lambda package, sharded: package.MsgpackReader(path),
        lambda package, sharded: package.ListReader([]),
        lambda package, sharded: sharded([full, path, full]),
    ):
        import pykiste.datadings.reader as own

        theirs, ours = make(datadings, TheirShardedReader), make(own, ShardedReader)
        with pytest.raises(IndexError):
            list(theirs)
        assert len(list(ours)) == len(list(ours.iter(0))) == len(theirs)
        for reader in theirs, ours:
            with pytest.raises(IndexError):
                reader.seek(len(reader))
            with pytest.raises(IndexError):
                reader.get(len(reader))


def test_missing_filter(tmp_path):
    path = random_dataset(tmp_path / "x.msgpack", random.Random(1), 4)
    (tmp_path / "x.msgpack.filter").unlink()
    theirs, ours = datadings.MsgpackReader(path), MsgpackReader(path)
    key = ours.find_key(2)
    with pytest.raises(FileNotFoundError):
        key in theirs
    assert key in ours and "absent" not in ours


def test_a_dataset_that_was_replaced_is_not_taken_for_the_old_one(tmp_path):
    path = random_dataset(tmp_path / "x.msgpack", random.Random(1), 4)
    with MsgpackReader(path) as reader:
        assert reader.next()
    path.unlink()
    random_dataset(path, random.Random(2), 5)
    with pytest.raises(ki.errors.ReplacedError):
        reader.next()


def test_other_labels_make_another_dataset(tmp_path):
    path = tmp_path / "x.msgpack"

    def write(label):
        with ki.Writer(path, overwrite=True) as writer:
            writer.write({"key": "a", "label": label})

    write(1)
    with MsgpackReader(path) as reader:
        assert reader.get(0)["label"] == 1
    pickled = pickle.dumps(reader)
    assert reader.get(0)["label"] == 1
    reader._close()
    write(2)
    for old in reader, pickle.loads(pickled):
        with pytest.raises(ki.errors.ReplacedError):
            old.get(0)


def read_all(reader, numbers):
    for number in numbers:
        assert reader.get(number)["label"] == number


def test_threads_and_forked_processes_share_a_reader(numbers):
    reader = MsgpackReader(numbers)
    reader.get(0)
    orders = [random.Random(seed).choices(range(100), k=300) for seed in range(4)]
    threads = [threading.Thread(target=read_all, args=(reader, order)) for order in orders]
    failed = []
    threading.excepthook, hook = failed.append, threading.excepthook
    try:
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    finally:
        threading.excepthook = hook
    assert not failed
    for method in multiprocessing.get_all_start_methods():
        context = multiprocessing.get_context(method)
        workers = [context.Process(target=read_all, args=(reader, order)) for order in orders[:2]]
        [worker.start() for worker in workers]
        [worker.join(60) for worker in workers]
        assert [worker.exitcode for worker in workers] == [0, 0], method


def test_shards_stay_open_without_file_descriptors(tmp_path):
    import os

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc")
    for number in range(30):
        random_dataset(tmp_path / f"{number}.msgpack", random.Random(number), 2)
    before = len(os.listdir("/proc/self/fd"))
    reader = ShardedReader(tmp_path / "*.msgpack")
    assert len(list(reader)) == 60
    assert reader.find_index(reader.find_key(0)) == 0
    # What earlier tests left open may be closed in the meantime.
    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_reader_of_ones_own():
    """Scripts derive from `Reader`."""

    def of(package):
        class Squares(package.Reader):
            def __len__(self):
                return 10

            def __contains__(self, key):
                return key in range(10)

            def __exit__(self, *args):
                pass

            def find_key(self, index):
                return index

            def find_index(self, key):
                return key

            def get(self, index, yield_key=False, raw=False, copy=True):
                if not 0 <= index < 10:
                    raise IndexError(index)
                return index * index

            def slice(self, start, stop=None, yield_key=False, raw=False, copy=True):
                for index in range(*slice(start, stop).indices(10)):
                    yield self.get(index)

        return Squares()

    import pykiste.datadings.reader as own

    pair = Pair(of(datadings), of(own))
    steps(pair, random.Random(1), 300, can_find=False)
    with pytest.raises(TypeError):
        own.Reader()


def test_no_damage_is_unnoticed(tmp_path):
    """A truncated file is an error, or what it held is found elsewhere: never another answer."""

    def everything(reader):
        keys = [reader.find_key(index) for index in range(len(reader))]
        found = [reader.find_index(key) for key in keys], [key in reader for key in keys]
        return keys, list(reader.iter(raw=True)), found, "absent" in reader

    path = random_dataset(tmp_path / "x.msgpack", random.Random(5), 6)
    expected = everything(MsgpackReader(path))
    refused = 0
    for suffix in "", ".offsets", ".keys", ".key_hashes", ".filter":
        whole = (tmp_path / f"x.msgpack{suffix}").read_bytes()
        for length in {0, 1, 8, 9, len(whole) // 2, len(whole) - 8, len(whole) - 1}:
            # A copy: nothing may change a file that a reader has mapped.
            twin = tmp_path / f"{suffix}-{length}"
            twin.mkdir()
            for file in tmp_path.glob("x.msgpack*"):
                shutil.copy(file, twin)
            (twin / f"x.msgpack{suffix}").write_bytes(whole[:length])
            result, error = outcome(lambda: everything(MsgpackReader(twin / "x.msgpack")))
            assert isinstance(error, ki.Error) or result == expected, (suffix, length, error)
            refused += error is not None
    assert refused > 20
