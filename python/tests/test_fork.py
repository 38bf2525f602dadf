"""A process that was forked, spawned or served goes on with datasets and loaders of its parent."""

import multiprocessing
import sys

import numpy as np
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


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore:This process")
def test_facts_of_many_classes_in_other_processes(tmp_path, method):
    """Work on several threads is done in the pool, which a forked process makes anew, and nowhere else."""
    path = tmp_path / "many.msgpack"
    with ki.Writer(path) as writer:
        for number in range(20_000):
            writer.write({"key": str(number), "name": f"name {number % 5000}"})
    assert ki.stat(path)["samples"] == 20_000
    with multiprocessing.get_context(method).Pool(1) as pool:
        found = pool.apply_async(ki.stat, (path,)).get(60)
    assert [len(field.get("classes", [])) for field in found["fields"]] == [0, 5000]


@pytest.mark.skipif("fork" not in METHODS, reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_live_loader_goes_on_in_a_fork(numbers):
    dataset = ki.open(numbers)
    columns = {"label": "int64"}
    loader = ki.Loader(dataset, batch_size=10, columns=columns, threads=2, resume="position")
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


@pytest.mark.skipif("fork" not in METHODS, reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_loader_with_buffers_does_not_go_on_in_a_fork(numbers):
    given = [{"label": np.empty(10, np.int64)} for _ in range(4)]
    columns = {"label": "int64"}
    loader = ki.Loader(ki.open(numbers), batch_size=10, columns=columns, threads=2, buffers=given)
    batch = next(loader)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def child():
        nonlocal batch
        try:
            next(loader)
        except BufferError as error:
            # Nothing waits for the threads of the parent, nor for their locks.
            del batch
            loader.close()
            with pytest.raises(BufferError):
                loader.load_state_dict(loader.state_dict())
            theirs.send(str(error))

    process = context.Process(target=child)
    process.start()
    assert ours.poll(60), "the forked process hangs"
    assert "forked" in ours.recv()
    process.join(60)
    assert process.exitcode == 0
    assert batch["label"].tolist() == list(range(10))
