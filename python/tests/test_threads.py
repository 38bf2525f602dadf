"""Threads share datasets, and never see what is not theirs: on a Python without its global lock, all at once."""

import sys
import threading

import numpy as np
import pytest

import pykiste as ki

THREADS = 8
ROUNDS = 30


def together(work):
    """Runs work in threads that begin at the same time; raises what one of them raised."""
    begin, failed = threading.Barrier(THREADS), []

    def run(thread):
        try:
            begin.wait()
            work(thread)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(thread,)) for thread in range(THREADS)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    if failed:
        raise failed[0]


@pytest.fixture(params=[True, False], ids=["copies", "views"])
def shared(numbers, request):
    return ki.open(numbers, copy=request.param)


def check(sample, number):
    assert sample["key"] == f"{number:03}" and sample["label"] == number
    assert bytes(sample["data"]) == bytes([number]) * number
    assert sample["image"].tolist() == [[number] * 3] * 4


def test_samples_by_index_key_and_list(shared):
    def work(thread):
        rng = np.random.default_rng(thread)
        for _ in range(ROUNDS):
            indices = rng.integers(0, 100, 10).tolist()
            for number, sample in zip(indices, shared[indices], strict=True):
                check(sample, number)
            number = indices[0]
            check(shared[number], number)
            check(shared[f"{number:03}"], number)
            assert shared.key(number) == f"{number:03}" and "absent" not in shared

    together(work)


def test_iterators_of_one_dataset(shared):
    def work(thread):
        for _ in range(ROUNDS):
            for number, sample in enumerate(shared):
                check(sample, number)

    together(work)


def test_views_are_made_and_released_while_the_dataset_closes(numbers):
    for _ in range(ROUNDS):
        shared = ki.open(numbers, copy=False)

        def work(thread, shared=shared):
            kept = []
            try:
                for number in range(100):
                    kept.append((number, shared[number]))
                    if thread == 0 and number == 50:
                        shared.close()
                    if number % 3 == 0:
                        kept[number][1]["data"].release()
            except ValueError as error:
                assert "closed" in str(error)
            for number, sample in kept:
                if number % 3:
                    check(sample, number)

        together(work)


def test_one_iterator_gives_each_sample_once_or_refuses(shared):
    samples, seen = iter(shared), [[] for _ in range(THREADS)]

    def work(thread):
        while True:
            try:
                seen[thread].append(next(samples)["label"])
            except StopIteration:
                return
            except RuntimeError as error:
                assert "borrowed" in str(error).lower()

    together(work)
    assert sorted(sum(seen, [])) == list(range(100))


def test_messages_are_packed_and_unpacked(numbers):
    def work(thread):
        for number in range(50 * ROUNDS):
            value = {"thread": thread, "list": [number, {"deep": [None] * (number % 7)}], "name": str(number)}
            assert ki.unpack(ki.pack(value)) == value

    together(work)


def test_loaders_of_one_dataset(shared):
    def work(thread):
        sampler = ki.Sampler.shuffle(100, seed=thread)
        loader = ki.Loader(shared, sampler, batch_size=7, columns={"label": "int64"}, threads=2)
        seen = [label for batch in loader for label in batch["label"].tolist()]
        assert seen[:100] == sampler.order(0)[:].tolist()

    together(work)


@pytest.mark.skipif(getattr(sys, "_is_gil_enabled", lambda: True)(), reason="this Python has a global lock")
def test_importing_does_not_bring_the_lock_back():
    assert not sys._is_gil_enabled()
