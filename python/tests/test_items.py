"""What is an index, and what is refused as one."""

import fractions
import decimal

import numpy as np
import pytest

import pykiste as ki


class Index:
    """As a tensor without axes has it."""

    def __init__(self, number):
        self.number = number

    def __index__(self):
        return self.number


class Tensor(Index):
    """As PyTorch's: every tensor has `__index__`, which fails for floats and for more than one element."""

    ndim = 0
    dtype = "torch.int64"

    def __index__(self):
        if not isinstance(self.number, int):
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return self.number


INTEGERS = [np.dtype(code).type for code in "bBhHiIlLqQ"] + [np.intp, np.uintp]


@pytest.mark.parametrize("kind", INTEGERS, ids=lambda kind: kind.__name__)
def test_integers_of_numpy(numbers, kind):
    dataset = ki.open(numbers)
    for item in kind(3), np.array(3, kind), np.array(3, np.dtype(kind).newbyteorder(">")):
        assert dataset[item]["label"] == 3
        assert dataset.get(item)["label"] == 3 and dataset.key(item) == "003"
        assert dataset.raw(item) == dataset.raw(3)
    assert [sample["label"] for sample in dataset[np.array([1, 5], kind)]] == [1, 5]
    with pytest.raises(IndexError, match=f"index {np.iinfo(kind).max} is out of range for 100 samples"):
        dataset[kind(np.iinfo(kind).max)]


@pytest.mark.parametrize("item", [Index(3), Tensor(3), Index(-97), Index(np.int64(3).item())])
def test_anything_with_an_index(numbers, item):
    dataset = ki.open(numbers)
    assert dataset[item]["label"] == 3 and dataset.get(item)["label"] == 3
    assert [sample["label"] for sample in dataset[[item, 5]]] == [3, 5]


def test_tensors(numbers):
    torch = pytest.importorskip("torch")
    dataset = ki.open(numbers)
    for kind in torch.int64, torch.int32, torch.int16, torch.uint8:
        assert dataset[torch.tensor(3, dtype=kind)]["label"] == 3
        assert [sample["label"] for sample in dataset[torch.tensor([3, 1], dtype=kind)]] == [3, 1]
    assert len(dataset[torch.arange(100) % 50 == 7]) == 2
    for wrong in torch.tensor(3.0), torch.tensor(True), torch.tensor([1.5]):
        with pytest.raises(ki.errors.WrongTypeError):
            dataset[wrong]


REFUSED = {
    "bool": (True, "found bool"),
    "a bool of NumPy": (np.True_, "found bool"),
    "an array of one bool": (np.array(True), "found ndarray"),
    "float": (3.0, "found float"),
    "a float of NumPy": (np.float32(3), "found float32"),
    "an array of a float": (np.array(3.0), "found ndarray"),
    "complex": (3j, "found complex"),
    "None": (None, "found NoneType"),
    "bytes": (b"003", "found bytes"),
    "bytearray": (bytearray(b"003"), "found bytearray"),
    "memoryview": (memoryview(b"003"), "found memoryview"),
    "bytes of NumPy": (np.bytes_(b"003"), "found bytes_"),
    "a date": (np.datetime64("2020-01-01"), "found datetime64"),
    "decimal": (decimal.Decimal(3), "found Decimal"),
    "fraction": (fractions.Fraction(3), "found Fraction"),
    "object": (object(), "found object"),
    "a tensor of a float": (Tensor(3.5), "found Tensor"),
    "ellipsis": (..., "found ellipsis"),
    "floats": ([1.0], "found float"),
    "a column": (np.array([[1], [2]]), "found list"),
    "an array of floats": (np.array([1.0]), "found float"),
    "a bool among indices": ([0, True], "found both booleans and others"),
    "Nones": ([None], "found NoneType"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_an_index_is_refused_in_words(numbers, name):
    item, found = REFUSED[name]
    dataset = ki.open(numbers)
    with pytest.raises(ki.errors.WrongTypeError, match=f"expected .*{found}"):
        dataset[item]
    if not isinstance(item, (list, np.ndarray)) or np.ndim(item) == 0:
        with pytest.raises(ki.errors.WrongTypeError, match="expected an index or a key, found"):
            dataset.get(item)


@pytest.mark.parametrize("item", [100, -101, 1 << 63, -(1 << 70), np.uint64(2**64 - 1), Index(1 << 80)])
def test_an_index_that_is_not_there(numbers, item):
    with pytest.raises(IndexError, match="is out of range for 100 samples"):
        ki.open(numbers)[item]
    assert ki.open(numbers).get(item, "default") == "default"


def test_an_error_in_an_index_is_not_hidden(numbers):
    class Broken(Index):
        def __index__(self):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ki.open(numbers)[Broken(0)]


def test_keys_of_numpy_and_empty_lists(numbers):
    dataset = ki.open(numbers)
    assert dataset[np.str_("003")]["label"] == 3
    assert dataset[np.array(["003", "004"])][1]["label"] == 4
    for empty in [], (), np.array([], int), np.array([]), range(0), np.array([], bool):
        assert dataset[empty] == []
    assert [sample["label"] for sample in dataset[range(5, 2, -1)]] == [5, 4, 3]
    assert [sample["label"] for sample in dataset[(1, "002")]] == [1, 2]
