"""Callbacks: a few times a second, at the end, and an exception in one stops the work."""

import time

import pytest

import pykiste as ki


class Heard(list):
    """What was told, and when."""

    def __init__(self):
        super().__init__()
        self.times = []

    def __call__(self, progress):
        self.times.append(time.monotonic())
        self.append(dict(progress))


@pytest.fixture
def large(tmp_path):
    path = tmp_path / "large.msgpack"
    with ki.Writer(path, checksums=True, durable=False) as writer:
        for number in range(200):
            writer.write({"key": f"{number:03}", "data": bytes(200_000)})
    return path


def test_verify_and_index_tell_bytes(large):
    for call in (
        lambda progress: ki.verify(large, deep=True, progress=progress),
        lambda progress: ki.index(large, force=True, checksums=True, progress=progress),
    ):
        heard = Heard()
        call(heard)
        assert heard and heard[0]["phase"] in ("verifying", "indexing")
        last = heard[-1]
        assert 0 < last["input_bytes"] <= last["total_input_bytes"] and last["total_input_bytes"] > 0
        assert all(0 <= one["input_bytes"] <= one["total_input_bytes"] for one in heard)


def test_filter_with_a_function_tells_samples(numbers, tmp_path):
    heard = Heard()

    def slow(sample):
        time.sleep(0.012)
        return sample["label"] < 50

    made = ki.filter(numbers, tmp_path / "x.msgpack", slow, progress=heard)
    assert made["samples"] == 50
    filtering = [one for one in heard if one["phase"] == "filtering"]
    assert 3 <= len(filtering) <= 9 and filtering[-1]["total_samples"] == 100
    assert [one["samples"] for one in filtering] == sorted(one["samples"] for one in filtering)
    gaps = [b - a for a, b in zip(heard.times, heard.times[1:], strict=False)][: len(filtering) - 1]
    assert min(gaps) > 0.2, "about four times a second"
    assert heard[-1]["phase"] == "finishing"


def test_many_short_phases_are_told_together(numbers, tmp_path):
    heard = Heard()
    begun = time.monotonic()
    ki.split(numbers, by="label", progress=heard)
    # Each of the 100 parts has phases of its own.
    assert 2 <= len(heard) <= 4 * (time.monotonic() - begun) + 3


class Stop(Exception):
    pass


def stop(progress):
    raise Stop


@pytest.mark.parametrize("name", ["verify", "index", "filter", "filter by a function", "shuffle"])
def test_an_exception_in_the_callback_comes_back(large, tmp_path, name):
    out = tmp_path / "out.msgpack"
    calls = {
        "verify": lambda: ki.verify(large, progress=stop),
        "index": lambda: ki.index(large, force=True, progress=stop),
        "filter": lambda: ki.filter(large, out, "key ~ '*'", progress=stop),
        "filter by a function": lambda: ki.filter(large, out, bool, progress=stop),
        "shuffle": lambda: ki.shuffle(large, out, progress=stop),
    }
    with pytest.raises(Stop):
        calls[name]()
    assert ki.verify(large)["good"]
