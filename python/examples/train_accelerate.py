"""Trains on a dataset of digits with Accelerate, and resumes in the middle of an epoch with another number of processes.

    torchrun --standalone --nproc_per_node 2 train_accelerate.py digits.msgpack --steps 20 --save half
    torchrun --standalone --nproc_per_node 1 train_accelerate.py digits.msgpack --resume half

Samples have an `image` of 28 x 28 bytes and a `label`.
"""

import argparse
import json
from pathlib import Path

import torch
from accelerate import Accelerator

import pykiste as ki
from pykiste.torch import TensorLoader

COLUMNS = {"image": ("uint8", (28, 28)), "label": "int64"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dataset")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--save")
    parser.add_argument("--resume")
    parser.add_argument("--seen")
    arguments = parser.parse_args()

    accelerator = Accelerator(cpu=True)
    dataset = ki.open(arguments.dataset)
    # It shares an epoch among the processes by itself.
    sampler = ki.Sampler.shuffle(len(dataset), seed=1)
    loader = ki.Loader(dataset, sampler, batch_size=arguments.batch_size, columns=COLUMNS)
    batches = TensorLoader(loader, device=accelerator.device)
    model = torch.nn.Linear(28 * 28, 10)
    model, optimizer = accelerator.prepare(model, torch.optim.Adam(model.parameters(), 1e-3))
    # Saved and loaded with the model and the optimizer.
    accelerator.register_for_checkpointing(batches)
    if arguments.resume is not None:
        accelerator.load_state(arguments.resume)

    for step, batch in enumerate(batches, 1):
        scores = model(batch["image"].flatten(1) / 255)
        loss = torch.nn.functional.cross_entropy(scores, batch["label"])
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        if arguments.seen is not None:
            with Path(f"{arguments.seen}.{accelerator.process_index}").open("a") as file:
                print(json.dumps(batch.sample_keys), file=file)
        if step == arguments.steps:
            break
    if arguments.save is not None:
        accelerator.save_state(arguments.save)
    # No process leaves while another one still writes to it.
    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main()
