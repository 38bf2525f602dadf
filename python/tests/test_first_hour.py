"""What a new user does in the first hour, as a script: with no class that is only an adapter."""

import numpy as np
import pytest

import pykiste as ki


def test_write_look_and_train(tmp_path):
    torch = pytest.importorskip("torch")
    from pykiste.torch import TensorLoader

    # Write.
    path = tmp_path / "points.msgpack"
    random = np.random.default_rng(0)
    with ki.Writer(path) as writer:
        for number in range(200):
            point = random.normal(size=2).astype("float32")
            writer.write({"key": f"{number:03}", "point": point, "inside": int(np.hypot(*point) < 1)})

    # Look.
    points = ki.open(path)
    assert len(points) == 200 and points["007"]["key"] == "007" and points[np.int64(-1)]["key"] == "199"
    assert points[torch.tensor(3)]["key"] == "003" and "200" not in points

    # Train, stop, and go on.
    columns = {"point": ("float32", 2), "inside": "float32"}
    sampler = ki.Sampler.shuffle(len(points), seed=1)

    def train(epochs, stop=None, saved=None):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        loader = TensorLoader(ki.Loader(points, sampler, batch_size=20, columns=columns))
        parts = {"model": model, "optimizer": optimizer, "loader": loader}
        for name, part in parts.items() if saved else ():
            part.load_state_dict(saved[name])
        steps = 0
        while loader.state_dict()["epoch"] < epochs:
            for batch in loader:
                scores = model(batch["point"])[:, 0]
                loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, batch["inside"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                steps += 1
                if steps == stop:
                    return {name: part.state_dict() for name, part in parts.items()}
        return float(loss.detach())

    whole = train(4)
    half = tmp_path / "half.pt"
    torch.save(train(4, stop=17), half)
    assert train(4, saved=torch.load(half)) == whole < 0.6


def test_tables_of_hugging_face(tmp_path):
    datasets = pytest.importorskip("datasets")
    from pykiste import hf

    table = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [0, 1]})
    path = tmp_path / "table.msgpack"
    hf.from_dataset(table, path, key=lambda row, number: str(number))
    assert [sample["text"] for sample in ki.open(path)] == ["a", "b"]


def test_jax(numbers):
    jax = pytest.importorskip("jax")
    from pykiste.jax import JaxLoader

    loader = JaxLoader(ki.Loader(ki.open(numbers), batch_size=50, columns={"image": ("float32", (4, 3))}))
    step = jax.jit(lambda total, batch: total + batch["image"].sum())
    total = 0.0
    for batch in loader:
        assert len(batch.sample_keys) == 50
        total = step(total, batch)
    assert float(total) == 12 * sum(range(100)) and len(loader) == 2
