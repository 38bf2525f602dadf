"""Trains on a dataset of digits with Lightning, and resumes in the middle of an epoch, also with another number of processes.

    python train_lightning.py digits.msgpack --devices 2 --batch-size 16 --steps 20 --save half.ckpt
    python train_lightning.py digits.msgpack --devices 1 --batch-size 32 --resume half.ckpt

Samples have an `image` of 28 x 28 bytes and a `label`. Lightning counts steps: with another number of processes the batches of a
step should have as many samples together as before.
"""

import argparse
import json
from pathlib import Path

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

import pykiste as ki
from pykiste.torch import TensorLoader

COLUMNS = {"image": ("uint8", (28, 28)), "label": "int64"}


class Classifier(L.LightningModule):
    """A linear model. It can write down which samples each rank saw."""

    def __init__(self, seen=None):
        super().__init__()
        self.layer = torch.nn.Linear(28 * 28, 10)
        self.seen = seen

    def training_step(self, batch, _):
        if self.seen is not None:
            with Path(f"{self.seen}.{self.global_rank}").open("a") as file:
                print(json.dumps(batch.sample_keys), file=file)
        scores = self.layer(batch["image"].flatten(1) / 255)
        return torch.nn.functional.cross_entropy(scores, batch["label"])

    validation_step = training_step

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dataset")
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", type=int, default=-1)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--resume")
    parser.add_argument("--seen")
    arguments = parser.parse_args()
    callbacks = []
    if arguments.save is not None:
        folder, name = arguments.save.absolute().parent, arguments.save.stem
        callbacks.append(ModelCheckpoint(folder, filename=name, every_n_train_steps=arguments.steps))
    trainer = L.Trainer(
        accelerator="cpu",
        devices=arguments.devices,
        strategy="ddp_fork" if arguments.devices > 1 else "auto",
        max_epochs=arguments.epochs,
        max_steps=arguments.steps,
        callbacks=callbacks,
        enable_checkpointing=bool(callbacks),
        enable_model_summary=False,
        enable_progress_bar=False,
        logger=False,
    )
    dataset = ki.open(arguments.dataset)
    # It shares an epoch among the processes, and Lightning keeps its place in checkpoints.
    sampler = ki.Sampler.shuffle(len(dataset), seed=1)
    loader = ki.Loader(dataset, sampler, batch_size=arguments.batch_size, columns=COLUMNS)
    trainer.fit(Classifier(arguments.seen), TensorLoader(loader), ckpt_path=arguments.resume)


if __name__ == "__main__":
    main()
