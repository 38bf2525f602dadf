"""PyTorch: datasets under `DataLoader`, samplers that resume, tensors from our threads."""

import pickle

import numpy as np
import pytest

import pykiste as ki

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader  # noqa: E402

from pykiste.torch import (  # noqa: E402
    ColumnDataset,
    ResumableDataLoader,
    StatefulSampler,
    TensorBatch,
    TensorLoader,
    buffers,
)

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
        assert sampler.remaining == -(-74 // world) and len(sampler) == -(-100 // world)
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


def test_every_epoch_after_a_resume_is_whole(numbers):
    """Trainers ask a loader for its length once, and end later epochs after as many batches."""
    sampler = StatefulSampler(ki.Sampler.shuffle(100, 4))
    sampler.load_state_dict({"epoch": 3, "position": 80})
    loader = DataLoader(ki.open(numbers), batch_size=10, sampler=sampler, collate_fn=labels)
    assert len(loader) == 10
    for limit, expected in [(len(loader), 20), (len(loader), 100)]:
        seen = [label for _, batch in zip(range(limit), loader) for label in batch.tolist()]
        assert len(seen) == expected
        # Trainers leave the loop at their limit, before the sampler is at its end.
        sampler.set_epoch(4)


@pytest.mark.parametrize("options", [{}, {"verify": True}, {"untrusted": True}, {"copy": False}])
def test_workers_open_a_dataset_as_it_was_opened(tmp_path, options):
    path = tmp_path / "x.msgpack"
    with ki.Writer(path, checksums=True) as writer:
        for number in range(4):
            writer.write({"key": str(number), "text": "x" * 100})
    dataset = ki.open(path, **options)
    loader = DataLoader(dataset, num_workers=1, multiprocessing_context="spawn", collate_fn=seen_by_worker)
    for copy, verify, untrusted in loader:
        assert {"copy": copy, "verify": verify, "untrusted": untrusted} == {
            "copy": True, "verify": False, "untrusted": False, **options
        }


def seen_by_worker(samples):
    """How the dataset of a worker was opened."""
    dataset = torch.utils.data.get_worker_info().dataset
    return dataset.copy, dataset.verify, dataset.untrusted


@pytest.mark.parametrize("world", [1, 3, 7])
def test_an_evaluation_knows_which_rows_only_fill_up(numbers, world):
    seen = []
    for rank in range(world):
        loader = ki.Loader(ki.open(numbers), batch_size=8, rank=rank, world=world, columns=COLUMNS)
        tensors = TensorLoader(loader, mask="valid")
        for batch in tensors:
            assert batch["valid"].dtype == torch.bool and len(batch["valid"]) == len(batch["label"])
            assert int((~batch["valid"]).sum()) == batch.padding
            seen += batch["label"][batch["valid"]].tolist()
    assert sorted(seen) == list(range(100))


def test_a_loader_of_samples_has_no_tensors(numbers):
    loader = ki.Loader(ki.open(numbers))
    with pytest.raises(ki.errors.InvalidError, match="expected a loader with columns"):
        TensorLoader(loader)
    named = ki.Loader(ki.open(numbers), columns={"label": "int64"})
    with pytest.raises(ki.errors.InvalidError, match="a name of its own"):
        next(iter(TensorLoader(named, mask="label")))


def test_a_tensor_that_gets_other_memory_leaves_its_own_to_the_loader(numbers):
    given = buffers(COLUMNS, 10, count=4)
    loader = ki.Loader(ki.open(numbers), batch_size=10, columns=COLUMNS, buffers=given)
    for one in given:
        with pytest.raises(RuntimeError, match="resiz"):
            one["label"].resize_(100_000)
        one["label"].set_(torch.zeros(1, dtype=torch.int64))
        one["image"].data = torch.zeros(1)
    seen = [number for batch in loader for number in batch["label"].tolist()]
    assert seen == list(range(100))


def test_a_mask_is_a_tensor_too(numbers):
    dataset = ki.open(numbers)
    found = [sample["label"] for sample in dataset[torch.arange(100) % 10 == 3]]
    assert found == list(range(3, 100, 10))
    assert dataset[torch.tensor(7)]["label"] == 7
    assert [sample["label"] for sample in dataset[torch.tensor([7, 8])]] == [7, 8]
    for truth in torch.tensor(True), torch.tensor([True]), [torch.tensor(True)]:
        with pytest.raises(ki.Error):
            dataset[truth]


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


def test_a_batch_keeps_what_is_known_of_it(tmp_path):
    path = tmp_path / "texts.msgpack"
    with ki.Writer(path) as writer:
        for number, length in enumerate([3, 0, 5, 2]):
            writer.write({"key": f"k{number}", "tokens": list(range(length)), "packed": list(range(length))})
    columns = {
        "tokens": ki.Ragged("int64", pad=ki.Pad(fill=-1)),
        "rows": (ki.Ragged("int64"), "tokens"),
        "packed": ki.Packed("int64", 4, fill=-9),
        "key": str,
    }
    [batch] = TensorLoader(ki.Loader(ki.open(path), columns=columns), mask="valid")
    for batch in batch, batch.to("cpu"), batch.to(torch.device("cpu"), non_blocking=True), pickle.loads(pickle.dumps(batch)):
        assert isinstance(batch, dict) and set(batch) == {*columns, "valid"}
        assert batch.indices.tolist() == [0, 1, 2, 3] and (batch.epoch, batch.step, batch.padding) == (0, 0, 0)
        assert batch.state["epoch"] == 1 and batch.failures == [] and batch["key"] == ["k0", "k1", "k2", "k3"]
        assert batch.lengths["tokens"].tolist() == batch.lengths["rows"].tolist() == [3, 0, 5, 2]
        assert batch.cu_seqlens["tokens"].tolist() == [0, 3, 3, 8, 10]
        assert batch.cu_seqlens["rows"].dtype == torch.int32
        assert batch.packed["packed"].positions.tolist() == [[0, 1, 2, 0], [0, 1, 2, 3], [0, 1, 0, 0]]
        assert batch.cu_seqlens["packed"].tolist() == [0, 3, 4, 8, 10, 12] and batch.packed["packed"].max_seqlen == 4
        assert "tokens: int64[4, 5]" in repr(batch)
    half = batch.to(torch.float16)
    assert half["tokens"].dtype == torch.float16 and half.lengths["tokens"].tolist() == [3, 0, 5, 2]


def test_a_tensor_loader_is_what_a_trainer_needs(numbers):
    loader = TensorLoader(ki.Loader(ki.open(numbers), ki.Sampler.shuffle(100, 2), batch_size=32, columns=COLUMNS), device="cpu")
    assert len(loader) == 4 and loader.sampler is loader
    # A look at the data before the training, as Lightning takes one.
    for batch in loader:
        assert batch.sample_keys[0] == f"{int(batch['label'][0]):03}"
        break
    loader.set_epoch(0)
    assert sum(len(batch["label"]) for batch in loader) == 100
    loader.sampler.set_epoch(5)
    assert next(iter(loader)).epoch == 5


@pytest.mark.parametrize("workers", [0, 2])
def test_what_workers_have_fetched_is_not_lost(numbers, workers):
    dataset = ki.open(numbers)
    order = [ki.Sampler.shuffle(100, 1).order(epoch)[:].tolist() for epoch in range(2)]

    def make():
        sampler = StatefulSampler(ki.Sampler.shuffle(100, 1))
        return ResumableDataLoader(
            dataset, sampler=sampler, batch_size=8, collate_fn=labels, num_workers=workers, prefetch_factor=workers or None
        )

    loader = make()
    seen = []
    for batch in loader:
        seen += batch.tolist()
        if len(seen) == 24:
            break
    state = loader.state_dict()
    assert state == {"epoch": 0, "position": 24}
    # It begins again, although its workers had taken all indices.
    assert torch.cat(list(loader)).tolist() == order[0]
    assert loader.state_dict() == {"epoch": 1, "position": 0}
    again = make()
    again.load_state_dict(state)
    assert again.state_dict() == state
    assert torch.cat(list(again)).tolist() == order[0][24:]
    assert torch.cat(list(again)).tolist() == order[1]
    for _ in again:
        break
    again.sampler.set_epoch(1)
    assert torch.cat(list(again)).tolist() == order[1]
    with pytest.raises(TypeError, match="expected a StatefulSampler, found RandomSampler"):
        ResumableDataLoader(dataset, sampler=torch.utils.data.RandomSampler(dataset))


@pytest.mark.parametrize("method", [None, "fork", "spawn"])
def test_workers_collate_columns(numbers, method):
    workers = {} if method is None else {"num_workers": 2, "multiprocessing_context": method}
    train = ColumnDataset(ki.open(numbers), {**COLUMNS, "name": ("key", str)})
    sampler = StatefulSampler(ki.Sampler.shuffle(100, 1))
    loader = DataLoader(train, batch_size=8, sampler=sampler, collate_fn=train.collate, **workers)
    seen = []
    for batch in loader:
        assert batch["image"].shape == (len(batch["label"]), 4, 3) and isinstance(batch, TensorBatch)
        assert (batch["image"][:, 1, 1] == batch["label"]).all()
        assert batch["name"] == [f"{label:03}" for label in batch["label"].tolist()]
        assert batch["data"][0] == bytes([batch["label"][0]]) * int(batch["label"][0])
        assert batch.indices.tolist() == batch["label"].tolist()
        seen += batch["label"].tolist()
    assert seen == ki.Sampler.shuffle(100, 1).order(0)[:].tolist()
    assert len(train) == 100 and train[-1]["label"].tolist() == [99] and train[-1].sample_keys == ["099"]
    with pytest.raises(IndexError):
        train[100]
    for beyond in 100, 2**64 - 1:
        with pytest.raises(ki.Error):
            train.__getitems__([beyond])


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_batch_of_a_worker_is_one_piece_of_shared_memory(tmp_path, method):
    path = tmp_path / "large.msgpack"
    with ki.Writer(path) as writer:
        for number in range(24):
            image = np.full((3, 40, 40), number, "uint8")
            writer.write({"key": str(number), "label": number, "image": image, "mask": image[0] % 2 == 1, "words": [number] * (number % 3)})
        writer.set_labels([f"class {number}" for number in range(24)])
    train = ki.open(path)
    columns = {
        "image": ("uint8", (3, 40, 40)),
        "scaled": ("image", "float32", (3, 40, 40)),
        "mask": ("bool", (40, 40)),
        "label": torch.int64,
        "name": (ki.LabelNames(train.labels), "label"),
        "words": ki.Ragged("int32", pad=ki.Pad(multiple=4)),
    }
    dataset = ColumnDataset(train, columns)
    loader = DataLoader(
        dataset, batch_size=8, num_workers=2, collate_fn=dataset.collate, multiprocessing_context=method
    )
    for at, (found, expected) in enumerate(zip(loader, (dataset.__getitems__(range(n, n + 8)) for n in (0, 8, 16)), strict=True)):
        assert isinstance(found, TensorBatch) and found.indices.tolist() == list(range(8 * at, 8 * at + 8))
        for name, values in expected.items():
            assert torch.equal(found[name], values) if name != "name" else found[name] == values
        assert torch.equal(found.lengths["words"], expected.lengths["words"])
        assert found["label"].dtype == torch.int64 and found["mask"].dtype == torch.bool
        large = {found[name].untyped_storage().data_ptr() for name in ("image", "scaled", "mask")}
        assert len(large) == 1 and found["image"].is_shared()
        # It is memory like any other.
        found["image"] += 1
        assert torch.equal(found["image"], expected["image"] + 1) and torch.equal(found["scaled"], expected["scaled"])


def test_a_batch_pickles_whatever_it_has(numbers):
    loader = ki.Loader(ki.open(numbers), batch_size=8, columns=COLUMNS)
    batch = next(iter(TensorLoader(loader)))
    batch["strided"] = torch.arange(100_000).reshape(100, 1000).T[::3]
    batch["half"] = torch.ones(3, dtype=torch.bfloat16)
    batch["conjugate"] = torch.ones(3, dtype=torch.complex64).conj()
    batch["sparse"] = torch.eye(3).to_sparse()
    batch["learnt"] = torch.ones(2, requires_grad=True)
    batch["none"] = torch.empty(0, 3)
    copy = pickle.loads(pickle.dumps(batch))
    assert list(copy) == list(batch) and copy.state == batch.state
    assert copy.pop("data") == batch.pop("data")
    for name, value in batch.items():
        assert torch.equal(copy[name].to_dense(), value.to_dense()), name
        assert (copy[name].dtype, copy[name].layout) == (value.dtype, value.layout)
    assert copy["strided"].stride() == batch["strided"].stride() and copy["learnt"].requires_grad


def test_draws_under_a_data_loader_are_those_of_torch(tmp_path):
    path = tmp_path / "images.msgpack"
    with ki.Writer(path) as writer:
        for number in range(8):
            image = b"P6 32 32 255\n" + np.random.default_rng(number).bytes(32 * 32 * 3)
            writer.write({"key": str(number), "image": image})
    dataset = ColumnDataset(ki.open(path), {"image": ki.Pipeline("random_crop(16) | to(u8, chw)", seed=1)})

    def epochs(workers):
        torch.manual_seed(5)
        loader = DataLoader(dataset, batch_size=4, num_workers=workers, collate_fn=dataset.collate)
        return [torch.cat([batch["image"] for batch in loader]) for _ in range(3)]

    for workers in 0, 2:
        first, second, third = epochs(workers)
        assert not torch.equal(first, second) and not torch.equal(second, third)
        assert all(torch.equal(a, b) for a, b in zip(epochs(workers), (first, second, third), strict=True))
