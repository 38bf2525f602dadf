"""Trains a small network with JAX on all devices of this machine, and resumes in the middle of an epoch.

    kiste demo .
    python train.py digits.msgpack --checkpoint digits.npz

Samples have an `image`, here a grey PNG of 28 x 28 pixels, and a `label` from 0 to 9.
"""

import argparse
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import pykiste as ki
from pykiste.jax import JaxLoader

COLUMNS = {"image": ki.Pipeline("decode(gray) | center_crop(28) | to(f32, hwc)"), "label": "int32"}


def initial(key):
    """The weights of a network with one hidden layer."""
    first, second = jax.random.split(key)
    return {
        "hidden": jax.random.normal(first, (28 * 28, 128)) / 28,
        "hidden_bias": jnp.zeros(128),
        "output": jax.random.normal(second, (128, 10)) / 128**0.5,
        "output_bias": jnp.zeros(10),
    }


def scores_of(weights, image):
    hidden = jax.nn.relu(image.reshape(len(image), -1) @ weights["hidden"] + weights["hidden_bias"])
    return hidden @ weights["output"] + weights["output_bias"]


def loss_of(weights, batch):
    chances = jax.nn.log_softmax(scores_of(weights, batch["image"]))
    return -jnp.take_along_axis(chances, batch["label"][:, None], axis=1).mean()


@jax.jit
def train_step(weights, batch, rate):
    loss, gradients = jax.value_and_grad(loss_of)(weights, batch)
    return jax.tree.map(lambda weight, gradient: weight - rate * gradient, weights, gradients), loss


@jax.jit
def count_right(weights, batch):
    # Rows that only fill up the last batch do not count.
    right = scores_of(weights, batch["image"]).argmax(axis=1) == batch["label"]
    return (right & batch["valid"]).sum()


def save(path, weights, loader):
    # Written next to it and renamed, so that a killed run leaves the last complete file.
    unfinished = path.with_name("unfinished-" + path.name)
    with unfinished.open("wb") as file:
        np.savez(file, loader=json.dumps(loader.state_dict()), **weights)
    unfinished.replace(path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dataset")
    parser.add_argument("--checkpoint", type=Path, default="last.npz", help="resumed from if it exists")
    parser.add_argument("--batch-size", type=int, default=64, help="on all devices together")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--save-every", type=int, default=100, help="steps between two checkpoints")
    parser.add_argument("--steps", type=int, help="stop after this many, to continue later")
    arguments = parser.parse_args()

    # Each device gets its rows of a batch, and all of the weights.
    mesh = Mesh(np.array(jax.devices()), ("data",))
    rows = NamedSharding(mesh, PartitionSpec("data"))
    everywhere = NamedSharding(mesh, PartitionSpec())

    dataset = ki.open(arguments.dataset)
    options = {"batch_size": arguments.batch_size, "columns": COLUMNS}
    # Full batches only: `jit` compiles one shape, and the devices can share it.
    sampler = ki.Sampler.shuffle(len(dataset), seed=1)
    loader = JaxLoader(ki.Loader(dataset, sampler, tail="pad", **options), rows)
    weights = jax.device_put(initial(jax.random.key(0)), everywhere)
    if arguments.checkpoint.exists():
        with np.load(arguments.checkpoint) as saved:
            weights = {name: jax.device_put(saved[name], everywhere) for name in weights}
            loader.load_state_dict(json.loads(str(saved["loader"])))

    steps = 0
    while loader.state_dict()["epoch"] < arguments.epochs and steps != arguments.steps:
        for batch in loader:
            weights, loss = train_step(weights, batch, arguments.rate)
            steps += 1
            if steps % arguments.save_every == 0:
                save(arguments.checkpoint, weights, loader)
            if steps == arguments.steps:
                break
        print(f"epoch {batch.epoch}, step {batch.step}: loss {loss:.4f}")
    save(arguments.checkpoint, weights, loader)

    # On the same samples, to keep this short: use a dataset of its own.
    evaluation = JaxLoader(ki.Loader(dataset, tail="pad", **options), rows, mask="valid")
    right = sum(int(count_right(weights, batch)) for batch in evaluation)
    print(f"accuracy {right / len(dataset):.4f}")


if __name__ == "__main__":
    main()
