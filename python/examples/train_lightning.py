"""Trains on a dataset of digits with Lightning, and resumes in the middle of an epoch with another number of processes.

    python train_lightning.py digits.msgpack --devices 2 --steps 20 --save half.ckpt
    python train_lightning.py digits.msgpack --devices 1 --resume half.ckpt

Samples have an `image` of 28 x 28 bytes and a `label`.
"""

import argparse
import json
from pathlib import Path

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

import pykiste as ki

COLUMNS = {"image": ("uint8", (28, 28)), "label": "int64"}


class Batches:
    """Batches of a loader as tensors, each with the state of the run after it.

    Lightning takes a batch ahead, so the state of the loader is ahead of the training.
    """

    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        for batch in self.loader:
            yield {
                "image": torch.tensor(batch["image"], dtype=torch.float32) / 255,
                "label": torch.tensor(batch["label"]),
                "indices": batch.indices.tolist(),
                "state": batch.state,
            }


class Digits(L.LightningDataModule):
    """The batches of a rank, and where the run is: Lightning keeps that in its checkpoints."""

    def __init__(self, path, batch_size):
        super().__init__()
        self.path, self.batch_size = path, batch_size
        self.state = {"epoch": 0, "position": 0}

    def train_dataloader(self):
        dataset = ki.open(self.path)
        loader = ki.Loader(
            dataset,
            ki.Sampler.shuffle(len(dataset), seed=1),
            batch_size=self.batch_size,
            columns=COLUMNS,
            rank=self.trainer.global_rank,
            world=self.trainer.world_size,
        )
        loader.load_state_dict(self.state)
        return Batches(loader)

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


class Classifier(L.LightningModule):
    """A linear model. It can write down which samples each rank saw."""

    def __init__(self, seen=None):
        super().__init__()
        self.layer = torch.nn.Linear(28 * 28, 10)
        self.seen = seen

    def training_step(self, batch, _):
        self.trainer.datamodule.state = batch["state"]
        if self.seen is not None:
            with Path(f"{self.seen}.{self.global_rank}").open("a") as file:
                print(json.dumps(batch["indices"]), file=file)
        return torch.nn.functional.cross_entropy(self.layer(batch["image"].flatten(1)), batch["label"])

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
        # The loader gives each rank its share.
        use_distributed_sampler=False,
        max_epochs=arguments.epochs,
        max_steps=arguments.steps,
        callbacks=callbacks,
        enable_checkpointing=bool(callbacks),
        enable_model_summary=False,
        enable_progress_bar=False,
        logger=False,
    )
    data = Digits(arguments.dataset, arguments.batch_size)
    trainer.fit(Classifier(arguments.seen), datamodule=data, ckpt_path=arguments.resume)


if __name__ == "__main__":
    main()
