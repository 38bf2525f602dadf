"""JAX: batches on a device, and what it has no type for."""

import pytest
from conftest import place

import pykiste as ki

jax = pytest.importorskip("jax")

from pykiste.jax import JaxLoader  # noqa: E402

COLUMNS = {"label": "int32", "image": ("float32", (4, 3)), "data": bytes}


def make(path, **options):
    return ki.Loader(ki.open(path), ki.Sampler.shuffle(100, 2), batch_size=10, columns=COLUMNS, **options)


@pytest.mark.parametrize("device", [None, "cpu"])
def test_batches_are_arrays_of_jax(numbers, device):
    loader = JaxLoader(make(numbers), jax.devices("cpu")[0] if device else None)
    kept = list(loader)
    seen = []
    for batch in kept:
        assert isinstance(batch["label"], jax.Array) and batch["image"].shape == (10, 4, 3)
        assert bool((batch["image"][:, 1, 1] == batch["label"]).all())
        assert batch["data"][0] == bytes([int(batch["label"][0])]) * int(batch["label"][0])
        seen += batch["label"].tolist()
    assert seen == ki.Sampler.shuffle(100, 2).order(0)[:].tolist(), "memory was used again too early"
    assert place(loader.state_dict()) == (1, 0)


@pytest.mark.parametrize("world", [1, 3])
def test_an_evaluation_knows_which_rows_only_fill_up(numbers, world):
    seen = []
    for rank in range(world):
        loader = ki.Loader(ki.open(numbers), batch_size=8, rank=rank, world=world, columns=COLUMNS)
        arrays = JaxLoader(loader, mask="valid")
        for batch in arrays:
            assert int((~batch["valid"]).sum()) == batch.padding
            seen += batch["label"][batch["valid"]].tolist()
    assert sorted(seen) == list(range(100))


def test_a_loader_of_samples_has_no_arrays(numbers):
    with pytest.raises(ki.errors.InvalidError, match="expected a loader with columns"):
        JaxLoader(ki.Loader(ki.open(numbers)))


def test_a_type_that_jax_would_change_is_refused(numbers):
    loader = ki.Loader(ki.open(numbers), columns={"label": "int64"})
    with pytest.raises(TypeError, match="'label': expected a type that JAX has, found int64"):
        next(iter(JaxLoader(loader)))


def test_training_resumes_in_the_middle_of_an_epoch(numbers):
    @jax.jit
    def step(weight, image, label):
        loss = lambda weight: ((image.reshape(len(label), -1) @ weight - label) ** 2).mean()
        return weight - 1e-5 * jax.grad(loss)(weight)

    def train(stop=None, saved=None):
        loader = JaxLoader(make(numbers))
        weight = jax.numpy.zeros(12)
        if saved:
            weight, state = saved
            loader.load_state_dict(state)
        steps = 0
        while loader.state_dict()["epoch"] < 2:
            for batch in loader:
                weight = step(weight, batch["image"], batch["label"])
                steps += 1
                if steps == stop:
                    return weight, loader.state_dict()
        return weight

    assert train().tolist() == train(saved=train(stop=13)).tolist()
