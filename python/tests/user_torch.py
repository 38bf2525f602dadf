"""A program of a user of PyTorch, which type checkers read: see test_typing.py. It is never run."""

import torch

import pykiste as ki


def train(dataset: ki.Dataset) -> None:
    loader = torch.utils.data.DataLoader(dataset, batch_size=4, shuffle=True)
    for batch in loader:
        print(len(loader), batch["label"])
    print(dataset[torch.tensor(3)]["label"])
