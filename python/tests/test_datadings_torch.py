"""The datasets and transforms for PyTorch are those of datadings."""

import io
import warnings
from itertools import islice

import numpy as np
import pytest
from differential import alike, outcome

import pykiste.datadings.reader as own_reader

torch = pytest.importorskip("torch")
theirs = pytest.importorskip("datadings.torch")

import datadings.reader as their_reader  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

import pykiste.datadings.torch as ours  # noqa: E402


def collated(samples):
    """A collate function, which workers import by its name."""
    return [sample["v"] for sample in samples]


def numbers_from(package, samples):
    return package.ListReader([{"v": number} for number in range(samples)])


def add(value, number):
    return value + number


def sub(x, value, more=0):
    return x - value - more


class Scale:
    def __call__(self, value, factor):
        return value * factor


class Odd:
    @staticmethod
    def __call__(value, factor):
        return value * factor


def anything(*values):
    return values[0]


def nothing():
    return 0


def both(value, *more, number=0):
    return value + number


@pytest.mark.parametrize(
    "transforms",
    [
        (add,), (add, sub), ([add, sub],), (Scale(), add), (anything,), (nothing,), (both,), (5,), (),
        (lambda x: -x,), (np.abs,), ((add, Scale()),),
    ],
)
def test_composed_transforms(transforms):
    results = []
    for package in theirs, ours:
        for params in {}, {"number": 2, "value": 3, "factor": 4}, {"number": 1}:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                made, error = outcome(lambda: package.Compose(*transforms))
            found, failure = outcome(lambda: made(10, params))
            messages = [str(each.message) for each in caught if each.category is UserWarning]
            names = made.param_names if made else None
            errors = [(type(each), str(each)) for each in (error, failure)]
            results.append((names, messages, found, errors))
    assert results[:3] == results[3:]


def test_datasets_with_transforms():
    results = []
    for package, readers in (theirs, their_reader), (ours, own_reader):
        reader = readers.ListReader([{"a": number, "b": number} for number in range(6)])
        transforms = {"a": package.Compose(add), "b": package.Compose(sub, add)}
        rng = lambda sample: {"number": sample["a"], "value": 2}
        dataset = package.Dataset(reader, transforms, rng)
        assert isinstance(dataset, torch.utils.data.Dataset) and len(dataset) == 6
        plain = package.Dataset(reader)
        changed = package.Dataset(reader, lambda sample: sample["a"])
        stream = package.IterableDataset(reader, transforms, rng)
        found = [[of[index] for index in range(6)] for of in (dataset, plain, changed)]
        results.append((found, list(stream), list(stream), stream.epoch))
    assert results[0] == results[1]


def test_parts():
    for samples in 1, 7, 10, 100:
        for workers in 1, 2, 3, 7:
            for world in 1, 2, 5:
                for epoch in 0, 1, 5:
                    for batch_size in None, 1, 3, 4:
                        compare_parts(samples, workers, world, epoch, batch_size)


def compare_parts(samples, workers, world, epoch, batch_size):
    from torch.utils.data import _utils

    for rank in range(world):
        for worker in range(workers):
            info = _utils.worker.WorkerInfo(id=worker, num_workers=workers, seed=0, dataset=None)
            _utils.worker._worker_info = info
            try:
                results = []
                for package, readers in (theirs, their_reader), (ours, own_reader):
                    reader = numbers_from(readers, samples)
                    dataset = package.IterableDataset(reader, batch_size=batch_size, epoch=epoch)
                    dataset.rank, dataset.world_size = rank, world
                    results.append((outcome(dataset._start_stop), outcome(lambda: len(dataset))))
                    if results[-1][0][0] and results[-1][0][0][0] < samples:
                        results[-1] += ([sample["v"] for sample in dataset],)
            finally:
                _utils.worker._worker_info = None
            (one, *_), (other, *_) = results
            assert alike(one[1], other[1]) and one[0] == other[0]
            assert results[0][2:] == results[1][2:]


@pytest.mark.parametrize("persistent", [False, True])
def test_under_a_data_loader(numbers, persistent):
    results = []
    for package, readers in (theirs, their_reader), (ours, own_reader):
        reader = readers.MsgpackReader(numbers)
        label = lambda sample: {"v": sample["label"]}
        dataset = package.IterableDataset(reader, transforms=label, batch_size=10)
        loader = DataLoader(
            dataset, batch_size=10, num_workers=2, persistent_workers=persistent, collate_fn=collated
        )
        results.append([sorted(sum(loader, [])) for _ in range(2)])
    assert results[0] == results[1] == [list(range(100))] * 2


def test_images():
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("simplejpeg")
    gradient = image.fromarray(np.arange(12 * 16 * 3, dtype=np.uint8).reshape(12, 16, 3))
    for kind in "JPEG", "PNG", "GIF":
        file = io.BytesIO()
        gradient.save(file, kind)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected, error = outcome(lambda: theirs.CompressedToPIL()(file.getvalue()))
        found = ours.CompressedToPIL()(file.getvalue())
        assert found.mode == "RGB" and found.size == (16, 12)
        if error is None:
            assert np.array_equal(np.asarray(found), np.asarray(expected))
    assert repr(ours.CompressedToPIL()) == repr(theirs.CompressedToPIL())
    for package in theirs, ours:
        with pytest.raises(Exception) as caught:
            package.CompressedToPIL()(b"no image")
        assert type(caught.value).__name__ == "UnidentifiedImageError"


def test_tuples():
    samples = [{"image": 1, "label": 2, "x": 3}]
    for arguments in (samples,), (samples, ("x",)), (iter(samples), "x"), ([],):
        assert list(ours.dict2tuple(*arguments)) in ([], [(1, 2)], [(3,)])
    assert list(ours.dict2tuple(samples)) == list(theirs.dict2tuple(samples))
    with pytest.raises(KeyError):
        list(ours.dict2tuple(samples, ("no",)))


def test_what_datadings_does_wrong():
    """The table of docs/from-datadings.md: what datadings does, and what we do."""
    # Augments.
    shuffled = [sample["v"] for sample in own_reader.Shuffler(numbers_from(own_reader, 10), 1)]
    for make in (
        lambda package, reader: package.Shuffler(reader, 1),
        lambda package, reader: package.QuasiShuffler(reader, 4, 2, 1),
        lambda package, reader: package.Cycler(reader),
        lambda package, reader: package.Range(reader, 2, 7),
    ):
        reader = make(their_reader, numbers_from(their_reader, 10))
        wrong, error = outcome(lambda: list(islice(theirs.IterableDataset(reader), 20)))
        assert error is not None or all(isinstance(sample, (bytes, tuple)) for sample in wrong)
        found = []
        for rank in range(3):
            dataset = ours.IterableDataset(make(own_reader, numbers_from(own_reader, 10)))
            dataset.rank, dataset.world_size = rank, 3
            found += [sample["v"] for sample in dataset]
        assert sorted(found) == (list(range(10)) if len(found) == 10 else list(range(2, 7)))
    # Each epoch of a shuffler has its own order.
    dataset = ours.IterableDataset(own_reader.Shuffler(numbers_from(own_reader, 10), 1))
    epochs = [[sample["v"] for sample in dataset] for _ in range(3)]
    assert epochs[0] == shuffled and len(set(map(tuple, epochs))) == 3
    shuffler = own_reader.Shuffler(numbers_from(own_reader, 10), 1)
    assert epochs == [[sample["v"] for sample in shuffler] for _ in range(3)]
    # A part without samples.
    for package, readers in (theirs, their_reader), (ours, own_reader):
        dataset = package.IterableDataset(numbers_from(readers, 1))
        dataset.rank, dataset.world_size = 3, 4
        found, error = outcome(lambda: list(dataset))
        assert (found, type(error)) == ((None, IndexError) if package is theirs else ([], type(None)))
    # Names of parameters with a prefix.
    for package in theirs, ours:
        compose = package.Compose(add, prefix="mask_")
        assert compose.param_names == [("mask_number",)]
        found, error = outcome(lambda: compose(1, {"mask_number": 2}))
        assert (found, type(error)) == ((None, KeyError) if package is theirs else (3, type(None)))
