"""Grain: a dataset is a random-access source as it is."""

import pytest

import pykiste as ki

grain = pytest.importorskip("grain.python")


def test_a_map_dataset(numbers):
    dataset = ki.open(numbers)
    pipeline = grain.MapDataset.source(dataset).shuffle(seed=1).map(lambda sample: sample["label"])
    batches = pipeline.batch(10)
    seen = [label for batch in batches for label in batch.tolist()]
    assert sorted(seen) == list(range(100)) and seen != sorted(seen)


@pytest.fixture(autouse=True)
def flags():
    # Where JAX is installed, Grain reads a flag of absl, which programs parse when they start.
    pytest.importorskip("absl.flags").FLAGS.mark_as_parsed()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_loader_resumes(numbers, workers):
    def make():
        return grain.DataLoader(
            data_source=ki.open(numbers),
            sampler=grain.IndexSampler(100, grain.NoSharding(), shuffle=True, num_epochs=1, seed=2),
            worker_count=workers,
        )

    iterator = iter(make())
    seen = [next(iterator)["label"] for _ in range(37)]
    state = iterator.get_state()
    rest = [sample["label"] for sample in iterator]
    again = iter(make())
    again.set_state(state)
    assert [sample["label"] for sample in again] == rest
    assert sorted(seen + rest) == list(range(100))
