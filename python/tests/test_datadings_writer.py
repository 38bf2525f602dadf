"""Writers of the drop-in make the files of datadings, and raise its exceptions."""

import builtins
import random

import msgpack
import numpy as np
import pytest
from conftest import same
from differential import alike, outcome
from test_writer import random_value

import pykiste as ki
import pykiste.datadings.writer as own
from pykiste.datadings.reader import MsgpackReader

datadings = pytest.importorskip("datadings.writer")

SIDES = ["", ".offsets", ".keys", ".key_hashes", ".filter", ".md5"]


def files(path):
    """The files of a dataset."""
    found = {suffix: path.with_name(path.name + suffix).read_bytes() for suffix in SIDES}
    # On Windows, datadings ends lines as files of text have them there.
    return found | {".md5": found[".md5"].replace(b"\r\n", b"\n")}


def array_of(data):
    return np.frombuffer(data, np.uint8)


def odd_sample(rng):
    """What no writer takes."""
    return rng.choice(
        [
            {},
            {"v": 1},
            None,
            {"key": "new", "v": {1, 2}},
            {"key": "new", "v": 2**64},
            {"key": "new", "v": "\ud800"},
            {"key": "\ud800"},
            {"key": ["list"]},
            {"key": "new", "v": object()},
        ]
    )


@pytest.mark.parametrize("seed", range(40))
def test_random_samples(seed, tmp_path, capsys):
    rng = random.Random(seed)
    paths = [tmp_path / "theirs" / "x.msgpack", tmp_path / "ours" / "deep" / "x.msgpack"]
    theirs, ours = datadings.FileWriter(paths[0], disable=True), own.FileWriter(paths[1], disable=True)
    for number in range(rng.choice([0, 1, 2, 40])):
        if rng.random() < 0.2:
            sample = odd_sample(rng)
        else:
            key = rng.choice([f"k{number}", f"é{number}", "same", ""])
            sample = {"key": key, "v": random_value(rng)}
            if rng.random() < 0.1:
                sample["v"] = [msgpack.ExtType(5, b"x"), msgpack.Timestamp(seed, number)]
        (_, error), (_, failure) = outcome(lambda: theirs.write(sample)), outcome(
            lambda: ours.write(sample)
        )
        assert alike(error, failure), (sample, error, failure)
        if isinstance(error, ValueError) and "duplicate" in str(error):
            assert type(error) is type(failure) and str(error) == str(failure)
        assert theirs.written == ours.written
    theirs.close(), ours.close()
    assert files(paths[0]) == files(paths[1])
    for writer in theirs, ours:
        with pytest.raises(ValueError):
            writer.close()
        with pytest.raises(ValueError):
            writer.write({"key": "more"})
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("seed", range(20))
def test_raw_samples(seed, tmp_path):
    rng = random.Random(seed)
    paths = [tmp_path / "theirs.d" / "x", tmp_path / "ours.d" / "x"]
    with datadings.RawWriter(paths[0], disable=True) as theirs, own.RawWriter(
        paths[1], disable=True
    ) as ours:
        for number in range(rng.choice([1, 50])):
            key = rng.choice([f"k{number}", "same"])
            data = rng.choice([bytes, bytearray, memoryview, array_of])(rng.randbytes(number))
            calls = [lambda writer=writer: writer.write(key, data) for writer in (theirs, ours)]
            (_, error), (_, failure) = map(outcome, calls)
            assert type(error) is type(failure) and str(error) == str(failure)
    assert files(paths[0]) == files(paths[1])


@pytest.mark.parametrize("answers", [["n"], ["no"], ["a"], ["abort"], ["?", "x", "y"], [""], ["YE"], []])
def test_existing_files(answers, tmp_path, monkeypatch, capsys):
    paths = [tmp_path / "theirs.d" / "x.msgpack", tmp_path / "ours.d" / "x.msgpack"]
    results = []
    for package, path in zip((datadings, own), paths):
        with package.FileWriter(path, disable=True) as writer:
            writer.write({"key": "old"})
        left = iter(answers)

        def answer():
            for line in left:
                return line
            raise EOFError

        monkeypatch.setattr(builtins, "input", answer)
        capsys.readouterr()

        def call():
            with package.FileWriter(path, disable=True) as writer:
                writer.write({"key": "new"})

        try:
            error = outcome(call)[1]
        except KeyboardInterrupt as interrupt:
            error = interrupt
        text = str(error).replace(str(path.parent), "")
        results.append((type(error), text, capsys.readouterr(), files(path)))
    assert results[0] == results[1]
    replaced = answers and answers[-1] in ("y", "", "YE")
    assert MsgpackReader(paths[1]).find_key(0) == ("new" if replaced else "old")


def test_overwriting(tmp_path):
    path = tmp_path / "x.msgpack"
    with ki.Writer(path, lookup=True) as writer:
        writer.write({"key": "old"})
        writer.set_labels(["a"])
    writer = own.FileWriter(path, overwrite=True, disable=True)
    writer.write({"key": "new"})
    # The old one is there until the new one is whole.
    assert MsgpackReader(path).find_key(0) == "old"
    writer.close()
    assert MsgpackReader(path).find_key(0) == "new"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(
        path.name + suffix for suffix in SIDES
    )


def test_an_exception_in_the_block_keeps_what_was_written(tmp_path):
    paths = [tmp_path / "theirs.d" / "x", tmp_path / "ours.d" / "x"]
    for package, path in zip((datadings, own), paths):
        with pytest.raises(ZeroDivisionError), package.FileWriter(path, disable=True) as writer:
            writer.write({"key": "a"})
            1 / 0
    assert files(paths[0]) == files(paths[1])
    assert len(MsgpackReader(paths[1])) == 1


def test_output(tmp_path, capsys):
    for package in datadings, own:
        with package.FileWriter(tmp_path / package.__name__ / "x", total=2) as writer:
            writer.write({"key": "a"})
            writer.write({"key": "b"})
        out, err = capsys.readouterr()
        assert out == "2 samples written\n"
        assert err.startswith("\rx   0%") and err.endswith("\n")
        with pytest.raises(Exception) as caught:
            package.FileWriter(tmp_path / f"not-{package.__name__}", nonsense=1)
        assert type(caught.value).__name__ == "TqdmKeyError"


def test_without_tqdm(tmp_path):
    """In another process, which does not find the package."""
    import subprocess
    import sys

    script = """if True:
        import sys
        sys.modules["tqdm"] = None
        from pykiste.datadings.writer import FileWriter
        with FileWriter(sys.argv[1], total=3, desc="x") as writer:
            writer.write({"key": "a"})
    """
    command = [sys.executable, "-c", script, tmp_path / "x"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("1 samples written\n", "")


def test_writers_of_ones_own(tmp_path):
    """Scripts derive from `Writer`, and write under any key."""
    paths = [tmp_path / "theirs.d" / "x", tmp_path / "ours.d" / "x"]
    for package, path in zip((datadings, own), paths):

        class Squares(package.Writer):
            def write(self, number):
                self._write(f"key of {number}", {"square": number * number})

        with Squares(path, disable=True) as writer:
            for number in range(5):
                writer.write(number)
            with pytest.raises(ValueError, match="duplicate key 'key of 3' not allowed"):
                writer.write(3)
    assert files(paths[0]) == files(paths[1])
    assert list(MsgpackReader(paths[1]).iter(yield_key=True))[2] == ("key of 2", {"square": 4})


def test_what_datadings_does_wrong(tmp_path):
    """The table of docs/from-datadings.md: what datadings does, and what we do."""
    # A key that is no string fails when it is too late.
    theirs = datadings.FileWriter(tmp_path / "theirs", disable=True)
    theirs.write({"key": 5})
    with pytest.raises(AttributeError):
        theirs.close()
    with own.FileWriter(tmp_path / "ours", disable=True) as ours:
        for key in 5, None, b"k", (1,):
            with pytest.raises(TypeError):
                ours.write({"key": key})
        ours.write({"key": "k"})
    assert len(MsgpackReader(tmp_path / "ours")) == 1
    # Data that is no bytes leaves a key without a sample.
    theirs, ours = (
        package.RawWriter(tmp_path / package.__name__ / "x", disable=True) for package in (datadings, own)
    )
    for writer in theirs, ours:
        with pytest.raises(TypeError):
            writer.write("k", "text")
        writer.write("l", b"\xc0")
        writer.close()
    assert (tmp_path / "datadings.writer" / "x.keys").read_bytes() == msgpack.packb(["k", "l"])
    assert (tmp_path / own.__name__ / "x.keys").read_bytes() == msgpack.packb(["l"])
    # A name that ends like a side file: the data is overwritten.
    with datadings.FileWriter(tmp_path / "a.keys", disable=True) as theirs:
        theirs.write({"key": "a"})
    assert (tmp_path / "a.keys").read_bytes() == msgpack.packb(["a"])
    with pytest.raises(ValueError):
        own.FileWriter(tmp_path / "b.keys", disable=True)
    # Times of NumPy.
    times = np.array(["2020-01-01"], "M8[D]")
    with datadings.FileWriter(tmp_path / "t1", disable=True) as theirs, pytest.raises(ValueError):
        theirs.write({"key": "a", "v": times})
    with own.FileWriter(tmp_path / "t2", disable=True) as ours:
        ours.write({"key": "a", "v": times})
        ours.write({"key": "b", "v": times[0]})
    found = MsgpackReader(tmp_path / "t2")
    assert same(found.get(0)["v"], times) and same(found.get(1)["v"], times[0])
    # Python objects are pickled.
    objects = np.array([{}], object)
    with own.FileWriter(tmp_path / "o", disable=True) as ours, pytest.raises(TypeError):
        ours.write({"key": "a", "v": objects})
    # Two at once.
    first = own.FileWriter(tmp_path / "two", disable=True)
    with pytest.raises(ki.errors.LockedError):
        own.FileWriter(tmp_path / "two", disable=True)
    first.close()
