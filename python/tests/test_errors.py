"""Everything that pykiste raises is a `ki.Error`, and the builtin exception for the same thing where there is one."""

import builtins
import pickle
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pykiste as ki

REPOSITORY = Path(__file__).parents[2]
# Exceptions of datadings, which scripts for it expect.
DROP_IN = REPOSITORY / "python" / "pykiste" / "datadings"
BUILTINS = "|".join(
    name for name, item in vars(builtins).items()
    if isinstance(item, type) and issubclass(item, Exception) and not name.endswith("Warning")
)


def sources():
    yield from (REPOSITORY / "python" / "src").glob("*.rs")
    for path in (REPOSITORY / "python" / "pykiste").rglob("*.py"):
        if DROP_IN not in path.parents:
            yield path


@pytest.mark.parametrize("path", list(sources()), ids=lambda path: path.name)
def test_no_file_raises_a_builtin_alone(path):
    made = r"\bPy\w*(?:Error|Exception)::new_err" if path.suffix == ".rs" else rf"\braise (?:{BUILTINS})\b"
    found = re.findall(made, path.read_text())
    # How a module says that it has no such name.
    assert found == (["raise AttributeError"] if path.name == "torch.py" else [])


def test_every_class_is_an_error_and_what_its_name_says():
    for name in ki.errors.__all__:
        kind = getattr(ki.errors, name)
        assert issubclass(kind, ki.Error)
        made = kind("what is wrong", index=3)
        again = pickle.loads(pickle.dumps(made))
        assert type(again) is kind and str(again) == "what is wrong" and again.index == 3


@pytest.fixture
def shop(numbers, tmp_path):
    """What the calls below use."""
    dataset = ki.open(numbers)
    closed = ki.Writer(tmp_path / "closed.msgpack")
    closed.abort()
    shut = ki.open(numbers)
    shut.close()
    columns = ki.Loader(dataset, columns={"label": "int64"}, batch_size=10)
    return {
        "dataset": dataset, "path": numbers, "tmp": tmp_path, "closed": closed, "shut": shut,
        "batch": next(columns), "samples": next(ki.Loader(dataset, batch_size=10)), "sampler": ki.Sampler.sequential(3),
        "store": ki.ArrayStore.create(tmp_path / "store", (4, 4), "u1"),
    }


CALLS = {
    "a file that is not there": (lambda s: ki.open(s["tmp"] / "none.msgpack"), FileNotFoundError),
    "an index": (lambda s: s["dataset"][100], IndexError),
    "a key": (lambda s: s["dataset"]["none"], KeyError),
    "keys": (lambda s: s["dataset"][["000", "none"]], KeyError),
    "an index of another type": (lambda s: s["dataset"][1.5], TypeError),
    "bytes for a key": (lambda s: s["dataset"][b"000"], TypeError),
    "a boolean": (lambda s: s["dataset"][True], TypeError),
    "a mask of another length": (lambda s: s["dataset"][[True, False]], IndexError),
    "a closed dataset": (lambda s: s["shut"][0], ValueError),
    "a closed writer": (lambda s: s["closed"].write({"key": "a"}), ValueError),
    "the length of a closed writer": (lambda s: len(s["closed"]), ValueError),
    "a dataset that exists": (lambda s: ki.Writer(s["path"]), FileExistsError),
    "a set": (lambda s: ki.pack({"key": "a", "value": {1}}), TypeError),
    "a large integer": (lambda s: ki.pack(2**64), OverflowError),
    "deep nesting": (lambda s: ki.unpack(b"\x91" * 2000), ValueError),
    "a damaged message": (lambda s: ki.unpack(b"\xc1"), ValueError),
    "a list as a key": (lambda s: ki.unpack(b"\x81\x91\x01\x02"), ValueError),
    "a map as a key": (lambda s: ki.unpack(b"\x81\x80\x02"), ValueError),
    "a column": (lambda s: s["batch"]["none"], KeyError),
    "a column of samples": (lambda s: s["samples"]["label"], KeyError),
    "samples of columns": (lambda s: s["batch"][0], TypeError),
    "a sample beyond the batch": (lambda s: s["samples"][10], IndexError),
    "a tail": (lambda s: ki.Loader(s["dataset"], tail="x"), ValueError),
    "no columns": (lambda s: ki.Loader(s["dataset"], columns={}), ValueError),
    "a type of columns": (lambda s: ki.Loader(s["dataset"], columns={"label": "U3"}), TypeError),
    "buffers without columns": (lambda s: ki.Loader(s["dataset"], buffers=[]), ValueError),
    "a position": (lambda s: s["sampler"].order()[3], IndexError),
    "a fill": (lambda s: s["sampler"].order().fill(0, 4), ValueError),
    "an endless sampler": (lambda s: len(ki.Sampler.cycle(s["sampler"])), OverflowError),
    "positions of a split": (lambda s: ki.split(s["path"], at=[5, 3]), ValueError),
    "what to split by": (lambda s: ki.split(s["path"]), ValueError),
    "an option": (lambda s: ki.sort(s["path"], s["tmp"] / "o.msgpack", colour=1), TypeError),
    "a condition": (lambda s: ki.filter(s["path"], s["tmp"] / "o.msgpack", "label =="), ValueError),
    "an item of select": (lambda s: ki.select(s["path"], s["tmp"] / "o.msgpack", [1.5]), TypeError),
    "a string of select": (lambda s: ki.select(s["path"], s["tmp"] / "o.msgpack", "000"), TypeError),
    "labels of merge": (lambda s: ki.merge([s["path"]], s["tmp"] / "o.msgpack", labels="x"), ValueError),
    "a delimiter": (lambda s: ki.convert(s["path"], s["tmp"] / "o.jsonl", delimiter="ab"), ValueError),
    "a pipeline": (lambda s: ki.Pipeline("paint(3)"), ValueError),
    "a window": (lambda s: ki.Window("int32", 5, at="end"), ValueError),
    "elements that do not fit": (lambda s: s["store"].put(0, 300), OverflowError),
    "elements of another type": (lambda s: s["store"].put(0, "a"), TypeError),
    "a selection": (lambda s: s["store"][9], IndexError),
    "masked elements": (lambda s: s["store"].put(0, np.ma.masked_array([1, 2, 3, 4], [0, 1, 0, 0])), TypeError),
    "a masked array": (lambda s: ki.PackedArray.pack(np.ma.masked_array([1], [1])), TypeError),
    "a container": (lambda s: ki.PackedArray(b"blpk"), ValueError),
    "nanoseconds": (lambda s: ki.Timestamp(0, 1).to_datetime(), ValueError),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_is_raised_is_an_error_and_the_builtin_one(shop, name):
    call, builtin = CALLS[name]
    with pytest.raises(builtin) as caught:
        call(shop)
    assert isinstance(caught.value, ki.Error), type(caught.value)
    assert str(caught.value) and type(caught.value).__name__ in ki.errors.__all__


@pytest.mark.parametrize("seed", range(20))
def test_damage_is_an_error_of_ours(seed):
    rng = random.Random(seed)
    table = np.zeros(3, [("a", "u1"), ("b", "<f4", (2,))])
    sample = {
        "key": "a", "list": [1, {"x": 2.5}, None, "text"], "array": np.arange(6).reshape(2, 3), "table": table,
        "scalar": np.float32(1), "complex": 1 + 2j, "time": ki.Timestamp(1, 2), "ext": ki.Extension(5, b"x"),
        "when": np.array(["2020-01-01"], "M8[s]"), "names": {5: "five", b"b": "bytes"},
    }
    packed = ki.pack(sample)
    for _ in range(1500):
        damaged = bytearray(packed)
        for _ in range(rng.choice([1, 1, 2, 4])):
            at = rng.randrange(len(damaged))
            damaged[at] = rng.choice([rng.randrange(256), damaged[at] ^ 1 << rng.randrange(8), 0x81, 0x91, 0xC4])
        try:
            ki.unpack(bytes(damaged))
        except ki.Error:
            pass


def test_reading_names_the_file_the_sample_and_the_field(tmp_path):
    path = tmp_path / "keys.msgpack"
    with ki.Writer(path) as writer:
        writer.write({"key": "first"})
        # As version 0.1.0 and datadings pack {"key": "tuple", "map": {(1, 2): 3}}.
        writer.write_packed(b"\x82\xa3key\xa5tuple\xa3map\x81\x92\x01\x02\x03")
    [batch] = ki.Loader(ki.open(path), batch_size=2)
    for read in lambda: ki.open(path)[1], lambda: list(ki.open(path)), lambda: ki.open(path)[:], lambda: batch.samples:
        with pytest.raises(ki.errors.DamagedError, match="a key that a dict of Python can have, found a list") as caught:
            read()
        error = caught.value
        assert (error.path, error.index, error.field) == (path, 1, "map")


@pytest.mark.parametrize("key", [(1, 2), (), ((1,), 2)])
@pytest.mark.parametrize("depth", [0, 1, 30])
def test_a_tuple_as_a_key_is_refused_when_it_is_written(tmp_path, key, depth):
    value = {key: 3}
    for _ in range(depth):
        value = [value]
    with ki.Writer(tmp_path / "x.msgpack") as writer:
        writer.write({"key": "before"})
        with pytest.raises(ki.errors.WrongTypeError, match="a key that can be read back, found .*tuple"):
            writer.write({"key": "a", "value": value})
        writer.write({"key": "after"})
    assert list(ki.open(tmp_path / "x.msgpack").keys()) == ["before", "after"]


def test_a_file_that_is_no_dataset_is_refused_in_the_words_of_the_command(tmp_path):
    files = {
        "rows.csv": (b"a,b\n1,2\n", "found comma-separated values"),
        "rows.jsonl": (b'{"key":"a"}\n', "found JSON lines"),
        "rows.tar": (b"a.txt" + bytes(95) + b"0000644\0", "found "),
        "rows.txt": (b"some text", "found a file that does not begin with a sample"),
        "rows.msgpack": (b"some text", "found a file that does not begin with a sample"),
    }
    for name, (content, found) in files.items():
        path = tmp_path / name
        path.write_bytes(content)
        for call in ki.open, ki.stat, ki.verify, ki.index, lambda path: ki.sort(path, tmp_path / "out.msgpack"):
            with pytest.raises(ki.errors.InvalidError, match="expected a dataset, " + found) as caught:
                call(path)
            assert caught.value.path == path
    bare = tmp_path / "bare.msgpack"
    bare.write_bytes(ki.pack({"key": "a"}))
    assert ki.open(bare)["a"] == {"key": "a"}, "data alone are a dataset"
    (tmp_path / "empty.msgpack").write_bytes(b"")
    assert len(ki.open(tmp_path / "empty.msgpack")) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="files that are open cannot be truncated there")
def test_truncation_by_another_program_is_an_error_if_files_are_untrusted(tmp_path):
    path = tmp_path / "large.msgpack"
    with ki.Writer(path) as writer:
        for number in range(100):
            writer.write({"key": str(number), "data": bytes(10_000)})
    script = """
import os, sys
import pykiste as ki
dataset = ki.open(sys.argv[1], untrusted=True)
loader = ki.Loader(dataset, batch_size=10, threads=1, queue=1)
os.truncate(sys.argv[1], 5000)
for read in lambda: dataset[50], lambda: dataset[:], lambda: dataset.raw(99), lambda: list(loader), lambda: list(dataset):
    try:
        read()
    except ki.Error as error:
        print(type(error).__name__)
"""
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 5, done.stdout


@pytest.mark.skipif(ki.features()["parquet"], reason="this build has Parquet")
def test_what_a_build_lacks_says_how_to_get_it(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(ki.errors.UnsupportedError, match="this build of kiste has no parquet") as caught:
        ki.convert(tmp_path / "a.parquet", tmp_path / "a.msgpack")
    [note] = caught.value.__notes__
    assert "--features parquet" in note
