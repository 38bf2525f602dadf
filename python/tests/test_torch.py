"""PyTorch: datasets under `DataLoader`, samplers that resume, tensors from our threads."""

import pytest

import pykiste as ki

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader  # noqa: E402

from pykiste.torch import StatefulSampler, TensorLoader, buffers  # noqa: E402

COLUMNS = {"label": "int64", "image": ("float32", (4, 3)), "data": bytes}


def labels(samples):
    """A collate function, which workers import by its name."""
    return torch.tensor([sample["label"] for sample in samples])


@pytest.mark.parametrize("method", [None, "fork", "spawn", "forkserver"])
def test_a_dataset_under_a_data_loader(numbers, method):
    workers = {} if method is None else {"num_workers": 2, "multiprocessing_context": method}
    dataset = ki.open(numbers)
    sampler = StatefulSampler(ki.Sampler.shuffle(100, 1))
    loader = DataLoader(dataset, batch_size=8, sampler=sampler, collate_fn=labels, **workers)
    for epoch in range(2):
        seen = torch.cat(list(loader)).tolist()
        assert seen == ki.Sampler.shuffle(100, 1).order(epoch)[:].tolist()


@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_ranks_share_an_epoch_and_another_number_of_them_goes_on(world):
    def make(rank, of):
        return StatefulSampler(ki.Sampler.shuffle(100, 4), rank=rank, world=of)

    first = [make(rank, 2) for rank in range(2)]
    seen = []
    for indices in map(iter, first):
        seen += [next(indices) for _ in range(13)]
    assert first[0].state_dict() == first[1].state_dict() == {"epoch": 0, "position": 26}
    rest = []
    for rank in range(world):
        sampler = make(rank, world)
        sampler.load_state_dict(first[0].state_dict())
        assert len(sampler) == -(-74 // world)
        indices = list(sampler)
        assert len(indices) == -(-74 // world)
        rest += indices
        assert sampler.state_dict() == {"epoch": 1, "position": 0}
    assert set(seen + rest) == set(range(100)) and len(rest) < 74 + world
    dropping = [StatefulSampler(ki.Sampler.sequential(100), rank=rank, world=7, drop_last=True)
                for rank in range(7)]
    assert sorted(sum(map(list, dropping), [])) == list(range(98))


@pytest.mark.parametrize("reuse", [False, True])
def test_tensors_own_their_memory(numbers, reuse):
    loader = ki.Loader(ki.open(numbers), ki.Sampler.shuffle(100, 2), batch_size=32, columns=COLUMNS)
    seen, places = [], set()
    for batch in TensorLoader(loader, reuse=reuse):
        assert batch["image"].shape == (len(batch["label"]), 4, 3)
        assert (batch["image"][:, 1, 1] == batch["label"]).all()
        assert batch["data"][0] == bytes([batch["label"][0]]) * int(batch["label"][0])
        seen += batch["label"].tolist()
        places.add(batch["image"].data_ptr())
        batch["image"].mul_(0)
    assert seen == ki.Sampler.shuffle(100, 2).order(0)[:].tolist()
    assert len(places) == 1 or not reuse


def test_tensors_are_in_the_buffers_of_the_loader(numbers):
    given = buffers(COLUMNS, 32, count=4)
    places = {one["image"].data_ptr() for one in given}
    loader = ki.Loader(
        ki.open(numbers), ki.Sampler.shuffle(100, 2), batch_size=32, columns=COLUMNS, buffers=given
    )
    with pytest.raises(ValueError, match="pin_memory"):
        TensorLoader(loader, pin_memory=True)
    for epoch in range(3):
        seen = []
        for batch in TensorLoader(loader):
            assert batch["image"].data_ptr() in places
            assert (batch["image"][:, 1, 1] == batch["label"]).all()
            seen += batch["label"].tolist()
            batch["image"].mul_(0)
        assert seen == ki.Sampler.shuffle(100, 2).order(epoch)[:].tolist()


def test_training_resumes_in_the_middle_of_an_epoch(numbers):
    """The same weights, whether a run was cut off or not."""

    def train(stop=None, saved=None):
        torch.manual_seed(0)
        model = torch.nn.Linear(12, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
        sampler = ki.Sampler.shuffle(100, 3)
        loader = TensorLoader(ki.Loader(ki.open(numbers), sampler, batch_size=8, columns=COLUMNS))
        if saved:
            model.load_state_dict(saved["model"])
            loader.load_state_dict(saved["loader"])
        steps = 0
        while loader.state_dict()["epoch"] < 2:
            for batch in loader:
                loss = ((model(batch["image"].flatten(1))[:, 0] - batch["label"]) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                steps += 1
                if steps == stop:
                    return {"model": model.state_dict(), "loader": loader.state_dict()}
        return model.state_dict()

    whole, resumed = train(), train(saved=train(stop=17))
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
