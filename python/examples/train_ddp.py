"""Trains on a dataset of digits with PyTorch alone, and resumes in the middle of an epoch with another number of processes.

    torchrun --standalone --nproc_per_node 2 train_ddp.py digits.msgpack --steps 20 --save half.pt
    torchrun --standalone --nproc_per_node 1 train_ddp.py digits.msgpack --resume half.pt

Samples have an `image` of 28 x 28 bytes and a `label`.
"""

import argparse
import json
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import pykiste as ki
from pykiste.torch import TensorLoader

COLUMNS = {"image": ("uint8", (28, 28)), "label": torch.int64}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dataset")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--save")
    parser.add_argument("--resume")
    parser.add_argument("--seen")
    arguments = parser.parse_args()

    dist.init_process_group("gloo")
    dataset = ki.open(arguments.dataset)
    sampler = ki.Sampler.shuffle(len(dataset), seed=1)
    # Its rank is the one of the process group.
    loader = TensorLoader(ki.Loader(dataset, sampler, batch_size=arguments.batch_size, columns=COLUMNS))
    model = DistributedDataParallel(torch.nn.Linear(28 * 28, 10))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    if arguments.resume is not None:
        saved = torch.load(arguments.resume)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])

    steps = 0
    while loader.state_dict()["epoch"] < arguments.epochs and steps != arguments.steps:
        for batch in loader:
            loss = torch.nn.functional.cross_entropy(model(batch["image"].flatten(1) / 255), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if arguments.seen is not None:
                with Path(f"{arguments.seen}.{dist.get_rank()}").open("a") as file:
                    print(json.dumps(batch.sample_keys), file=file)
            steps += 1
            if steps == arguments.steps:
                break
    if arguments.save is not None and dist.get_rank() == 0:
        states = {"model": model, "optimizer": optimizer, "loader": loader}
        torch.save({name: part.state_dict() for name, part in states.items()}, arguments.save)
    # No process leaves while another one still writes.
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
