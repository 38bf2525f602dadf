"""What the tests share: golden datasets, and a dataset of numbers."""

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

import pykiste as ki

GOLDEN = Path(__file__).parents[2] / "tests" / "data" / "datadings-3.4.7"


def pytest_generate_tests(metafunc):
    """Runs a test with each golden dataset that has all its files."""
    if "golden" in metafunc.fixturenames:
        paths = sorted(GOLDEN.glob("*.msgpack"))
        metafunc.parametrize("golden", paths, ids=lambda path: path.stem)


def same(one, other):
    """Whether two decoded values are equal in type and value, NaN and array memory included."""
    if type(one) is not type(other):
        # Ours have the fields of those of the package msgpack.
        pairs = {("ExtType", "Extension"), ("Timestamp", "Timestamp")}
        if (type(one).__name__, type(other).__name__) not in pairs:
            return False
        if isinstance(one, tuple):
            return tuple(one) == tuple(other)
        return (one.seconds, one.nanoseconds) == tuple(other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[name], other[name]) for name in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        if one.dtype.names == ("f0",) and other.dtype.kind == "V" and other.dtype.names is None:
            # datadings makes a structure of one field of what was written as plain bytes.
            other = other.view([("f0", other.dtype)])
        if one.dtype.names and other.dtype.names and one.dtype.itemsize == other.dtype.itemsize:
            # It makes fields of what is padding between fields.
            padding = set(one.dtype.names) - set(other.dtype.names)
            if padding and all(one.dtype[name].kind == "V" for name in padding):
                one = one.view(other.dtype)
        return (
            one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
        )
    if isinstance(one, np.generic):
        return one.dtype == other.dtype and one.tobytes() == other.tobytes()
    if isinstance(one, (float, complex)):
        return repr(one) == repr(other)
    return one == other


def place(state):
    """The two integers of a state."""
    return state["epoch"], state["position"]


@pytest.fixture
def numbers(tmp_path):
    """100 samples with a number, an array and bytes that follow from it."""
    path = tmp_path / "numbers.msgpack"
    with ki.Writer(path) as writer:
        for number in range(100):
            image = np.full((4, 3), number, np.float32)
            data = bytes([number]) * number
            writer.write({"key": f"{number:03}", "label": number, "image": image, "data": data})
    return path


def pytest_collection_modifyitems(items):
    """Leaves out examples of modules whose packages are not installed. Most import them in functions."""
    needed = {"hf": "datasets", "jax": "jax", "torch": "torch", "torchcodec": "torchcodec"}
    for module, package in needed.items():
        module = f"pykiste.{module}"
        if importlib.util.find_spec(package) is None:
            for item in items:
                if isinstance(item, pytest.DoctestItem) and f"{item.name}.".startswith(f"{module}."):
                    item.add_marker(pytest.mark.skip(reason=f"{package} is not installed"))
