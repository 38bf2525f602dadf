"""A process that was forked, spawned or served goes on with datasets and loaders of its parent."""

import multiprocessing
import sys

import pytest

import pykiste as ki

METHODS = [m for m in ("fork", "spawn", "forkserver") if m in multiprocessing.get_all_start_methods()]


def labels(dataset):
    return [sample["label"] for sample in dataset]


def of_loader(loader):
    return [label for batch in loader for label in batch["label"].tolist()]


def good(path):
    return ki.verify(path, deep=True)["good"]


@pytest.mark.parametrize("method", METHODS)
def test_a_dataset_in_other_processes(numbers, method):
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(labels, [ki.open(numbers)] * 4) == [list(range(100))] * 4


@pytest.mark.skipif("fork" not in METHODS, reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_live_loader_goes_on_in_a_fork(numbers):
    dataset = ki.open(numbers)
    loader = ki.Loader(dataset, batch_size=10, columns={"label": "int64"}, threads=2)
    assert next(iter(loader))["label"].tolist() == list(range(10))
    assert good(numbers), "the pool has threads now"
    context = multiprocessing.get_context("fork")
    for _ in range(20):
        ours, theirs = context.Pipe()

        def child():
            # The loader of the parent, from where it is; the pool; and a loader of its own.
            rest = of_loader(loader)
            own = of_loader(ki.Loader(dataset, columns={"label": "int64"}))
            theirs.send((rest, own, good(numbers)))

        process = context.Process(target=child)
        process.start()
        assert ours.poll(60), "the forked process hangs"
        rest, own, whole = ours.recv()
        process.join(60)
        assert process.exitcode == 0
        assert rest == list(range(10, 100)) and own == list(range(100)) and whole
    # The parent is where it was.
    assert of_loader(loader) == list(range(10, 100))
