"""What is wrong with a sample that is written: its key and the way to the value; and errors of the operating system."""

import errno
import os
import pickle

import numpy as np
import pytest

import pykiste as ki

WRONG = {
    "a field": ({"a": {1}}, "a", ki.errors.WrongTypeError),
    "an item of a list": ({"meta": {"a": [0, 1, 2, {3}]}}, "meta.a[3]", ki.errors.WrongTypeError),
    "an item of a tuple": ({"a": ((), (1, object()))}, "a[1][1]", ki.errors.WrongTypeError),
    "lists of dicts": ({"a": [{"b": 1}, {"c": 2, "b": {"d": {1}}}]}, "a[1].b.d", ki.errors.WrongTypeError),
    "an integer": ({"a": 2**64}, "a", ki.errors.NumberError),
    "an array of objects": ({"a": [np.array([None])]}, "a[0]", ki.errors.WrongTypeError),
    "a masked array": ({"a": np.ma.masked_array([1], [1])}, "a", ki.errors.WrongTypeError),
    "a timestamp": ({"a": ki.Timestamp(0, 10**9)}, "a", ki.errors.InvalidError),
    "a timestamp of text": ({"a": ki.Timestamp("x")}, "a", ki.errors.InvalidError),
    "an extension": ({"a": ki.Extension(500, b"")}, "a", ki.errors.WrongTypeError),
    "a name with a dot": ({"a.b": {"": {1}}}, "['a.b']['']", ki.errors.WrongTypeError),
    "a name that is a number": ({"a": {5: {1}}}, "a[5]", ki.errors.WrongTypeError),
    "a key of a dict": ({"a": {"b": {(1, 2): 3}}}, "a.b", ki.errors.WrongTypeError),
    "an unhashable thing as a key": ({"a": {frozenset(): 3}}, "a", ki.errors.WrongTypeError),
    "after containers that are whole": ({"x": [[], {}, [1]], "y": {}, "z": {1}}, "z", ki.errors.WrongTypeError),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_key_and_the_field_are_named(tmp_path, name):
    wrong, field, kind = WRONG[name]
    with ki.Writer(tmp_path / "x.msgpack") as writer:
        writer.write({"key": "before"})
        with pytest.raises(kind) as caught:
            writer.write({"key": "x", **wrong})
        assert str(caught.value).startswith(f"sample 'x', field {field!r}: ")
        assert (caught.value.key, caught.value.field) == ("x", field)
        again = pickle.loads(pickle.dumps(caught.value))
        assert (str(again), again.key, again.field) == (str(caught.value), "x", field)
        writer.write({"key": "after"})
    assert list(ki.open(tmp_path / "x.msgpack").keys()) == ["before", "after"]


def test_deep_nesting_is_named_in_short():
    value = {1}
    for _ in range(300):
        value = {"name": [value]}
    with pytest.raises(ki.errors.WrongTypeError) as caught:
        ki.pack({"key": "k" * 500, "a": value})
    assert str(caught.value).startswith("sample 'kkk") and len(str(caught.value)) < 400
    too_deep = []
    for _ in range(2000):
        too_deep = [too_deep]
    with pytest.raises(ki.errors.InvalidError, match="nested containers"):
        ki.pack({"key": "a", "b": too_deep})


def test_what_is_no_sample_is_named_by_its_place():
    with pytest.raises(ki.errors.WrongTypeError, match=r"^field '\[1\]\.a': an object of type set"):
        ki.pack([0, {"a": {1}}])
    with pytest.raises(ki.errors.WrongTypeError, match="^an object of type set cannot"):
        ki.pack({1})
    with pytest.raises(ki.errors.WrongTypeError, match=r"^field 'a': "):
        ki.pack({"key": 5, "a": {1}})


def test_an_error_of_python_gets_a_note():
    class Odd(np.ndarray):
        def tobytes(self, *_):
            raise ZeroDivisionError("odd")

    with pytest.raises(ZeroDivisionError) as caught:
        ki.pack({"key": "x", "a": [np.zeros(3).view(Odd)]})
    assert caught.value.__notes__ == ["in sample 'x', field 'a[0]'"]
    with pytest.raises(UnicodeEncodeError) as caught:
        ki.pack({"key": "x", "a": "\ud800"})
    assert caught.value.__notes__ == ["in sample 'x', field 'a'"]


def test_what_the_writer_finds_names_the_key(tmp_path):
    with ki.Writer(tmp_path / "x.msgpack") as writer:
        writer.write({"key": "x"})
        with pytest.raises(ki.errors.DuplicateKeyError) as caught:
            writer.write({"key": "x"})
        assert caught.value.key == "x"
        for wrong in {"a": 1}, {"key": 5}, {"key": b"x"}:
            with pytest.raises(ki.errors.InvalidError, match='expected (text as the|a map with a) "key"'):
                writer.write(wrong)


def test_errors_of_the_operating_system_have_its_attributes(tmp_path, numbers):
    missing = tmp_path / "none.msgpack"
    with pytest.raises(FileNotFoundError) as caught:
        ki.open(missing)
    error = caught.value
    assert (error.errno, error.filename, error.path) == (errno.ENOENT, str(missing), missing)
    assert error.strerror == os.strerror(errno.ENOENT) and str(missing) in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (again.errno, again.filename, str(again)) == (error.errno, error.filename, str(error))
    with pytest.raises(FileExistsError) as caught:
        ki.Writer(numbers)
    assert (caught.value.errno, caught.value.filename) == (errno.EEXIST, str(numbers))
    with ki.Writer(tmp_path / "x.msgpack"), pytest.raises(BlockingIOError) as caught:
        ki.Writer(tmp_path / "x.msgpack")
    assert caught.value.errno == errno.EAGAIN and caught.value.filename
    with pytest.raises(ki.errors.InvalidError) as caught:
        ki.Sampler.sequential(3).order().fill(5, 2)
    assert not hasattr(caught.value, "errno"), "it is no error of the operating system"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may do everything")
def test_a_folder_that_may_not_be_written(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(OSError) as caught:
        ki.Writer(tmp_path / "x.msgpack")
    assert caught.value.errno == errno.EACCES


def test_a_folder_that_is_a_file(numbers):
    with pytest.raises(OSError) as caught:
        ki.Writer(numbers / "x.msgpack")
    assert caught.value.errno in (errno.ENOTDIR, errno.ENOENT) and caught.value.filename
