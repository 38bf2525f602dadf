"""Trains a classifier of images with timm and torchrun: mixed precision, cosine schedule, and an exact resume.

    torchrun --standalone --nproc_per_node 8 train.py train.msgpack valid.msgpack --checkpoint last.pt

Samples have an `image` and a `label`, as `kiste convert FOLDER train.msgpack` makes them.
"""

import argparse
import math
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import pykiste as ki
from pykiste.torch import TensorLoader


def made_model(name, classes):
    if name != "small":
        import timm

        return timm.create_model(name, num_classes=classes)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, stride=2),
        torch.nn.GELU(),
        torch.nn.Conv2d(16, 32, 3, stride=2),
        torch.nn.GELU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(32, classes),
    )


def loader_of(path, steps, device, arguments, *, train):
    dataset = ki.open(path)
    columns = {"image": ki.Pipeline(f"{steps} | to(f32, chw) | normalize(imagenet)", seed=1), "label": "int64"}
    sampler = ki.Sampler.shuffle(len(dataset), seed=1) if train else None
    # Its rank is the one of the process group. Rows that only fill up the last step are not "valid".
    loader = ki.Loader(dataset, sampler, batch_size=arguments.batch_size, columns=columns, tail="pad")
    return dataset, TensorLoader(loader, device=device, pin_memory=device.type == "cuda", mask="valid")


def rate_at(state, samples, arguments):
    """A linear warm-up, then a cosine. It depends on the place alone, so it needs no state of its own."""
    epochs = state["epoch"] + state["position"] / samples
    if epochs < arguments.warmup:
        return arguments.rate * epochs / arguments.warmup
    done = (epochs - arguments.warmup) / (arguments.epochs - arguments.warmup)
    return arguments.rate * (1 + math.cos(math.pi * done)) / 2


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    counts = torch.zeros(2, device=device)
    for batch in loader:
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            right = model(batch["image"]).argmax(1) == batch["label"]
        counts += torch.stack([right[batch["valid"]].sum(), batch["valid"].sum()])
    dist.all_reduce(counts)
    model.train()
    return float(counts[0] / counts[1])


def save(path, parts):
    if dist.get_rank() == 0:
        # Written next to it and renamed, so that a killed run leaves the last complete file.
        unfinished = path.with_name("unfinished-" + path.name)
        torch.save({name: part.state_dict() for name, part in parts.items()}, unfinished)
        unfinished.replace(path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("train")
    parser.add_argument("valid")
    parser.add_argument("--checkpoint", type=Path, default="last.pt", help="resumed from if it exists")
    parser.add_argument("--model", default="resnet50", help="a name of timm, or small, which needs no timm")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch-size", type=int, default=256, help="of each process")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--warmup", type=float, default=5, help="epochs")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--save-every", type=int, default=500, help="steps between two checkpoints")
    parser.add_argument("--steps", type=int, help="stop after this many, to continue later")
    arguments = parser.parse_args()

    has_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if has_gpu else torch.device("cpu")
    if has_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if has_gpu else "gloo")
    torch.manual_seed(0)

    size = arguments.size
    dataset, loader = loader_of(arguments.train, f"random_resized_crop({size}) | hflip", device, arguments, train=True)
    steps = f"resize({size * 8 // 7}) | center_crop({size})"
    _, evaluation = loader_of(arguments.valid, steps, device, arguments, train=False)

    model = made_model(arguments.model, len(dataset.labels)).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.05)
    parts = {"model": model, "optimizer": optimizer, "loader": loader}
    if arguments.checkpoint.exists():
        saved = torch.load(arguments.checkpoint, map_location=device)
        for name, part in parts.items():
            part.load_state_dict(saved[name])
    trained = DistributedDataParallel(model)

    steps = 0
    while loader.state_dict()["epoch"] < arguments.epochs and steps != arguments.steps:
        for batch in loader:
            with torch.autocast(device.type, torch.bfloat16, enabled=has_gpu):
                scores = trained(batch["image"])
                loss = torch.nn.functional.cross_entropy(scores, batch["label"], label_smoothing=0.1)
            for group in optimizer.param_groups:
                group["lr"] = rate_at(batch.state, len(dataset), arguments)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
            if steps % arguments.save_every == 0:
                save(arguments.checkpoint, parts)
            if steps == arguments.steps:
                break
        accuracy = evaluate(model, evaluation, device)
        if dist.get_rank() == 0:
            print(f"epoch {batch.epoch}, step {batch.step}: loss {loss:.4f}, accuracy {accuracy:.4f}", flush=True)
        save(arguments.checkpoint, parts)
    # No process leaves while another one still writes.
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
