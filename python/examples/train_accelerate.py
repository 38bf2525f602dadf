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
    # Not for `prepare`: the loader gives each rank its share, and resumes by itself.
    loader = ki.Loader(
        dataset,
        ki.Sampler.shuffle(len(dataset), seed=1),
        batch_size=arguments.batch_size,
        columns={**COLUMNS, "key": bytes},
        rank=accelerator.process_index,
        world=accelerator.num_processes,
    )
    batches = TensorLoader(loader)
    model = torch.nn.Linear(28 * 28, 10)
    model, optimizer = accelerator.prepare(model, torch.optim.Adam(model.parameters(), 1e-3))
    # Saved and loaded with the model and the optimizer.
    accelerator.register_for_checkpointing(batches)
    if arguments.resume is not None:
        accelerator.load_state(arguments.resume)

    for step, batch in enumerate(batches, 1):
        image = batch["image"].flatten(1).to(accelerator.device, torch.float32) / 255
        loss = torch.nn.functional.cross_entropy(model(image), batch["label"].to(accelerator.device))
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        if arguments.seen is not None:
            with Path(f"{arguments.seen}.{accelerator.process_index}").open("a") as file:
                print(json.dumps([key.decode() for key in batch["key"]]), file=file)
        if step == arguments.steps:
            break
    if arguments.save is not None:
        accelerator.save_state(arguments.save)
    # No process leaves while another one still writes to it.
    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main()
