"""Trains a small transformer to predict the next token of documents of any length, and resumes at the exact document.

    python train.py texts.msgpack --checkpoint texts.pt

Samples have `tokens`, an array of integers. README.md says how to make them.
"""

import argparse
from pathlib import Path

import torch
from torch.nn import functional as F

import pykiste as ki
from pykiste.torch import TensorLoader


class Block(torch.nn.Module):
    """Attention within each document, and a network for each token."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.attention_norm = torch.nn.LayerNorm(width)
        self.attention_in = torch.nn.Linear(width, 3 * width)
        self.attention_out = torch.nn.Linear(width, width)
        self.token_norm = torch.nn.LayerNorm(width)
        self.token = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)
        )

    def forward(self, x, mask):
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.attention_in(self.attention_norm(x)).chunk(3, dim=-1)
        )
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None])
        x = x + self.attention_out(attended.transpose(1, 2).flatten(2))
        return x + self.token(self.token_norm(x))


class Transformer(torch.nn.Module):
    def __init__(self, vocabulary, length, width=64, heads=4, depth=2):
        super().__init__()
        self.tokens = torch.nn.Embedding(vocabulary, width)
        self.positions = torch.nn.Embedding(length, width)
        self.blocks = torch.nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = torch.nn.LayerNorm(width)
        self.scores = torch.nn.Linear(width, vocabulary)

    def forward(self, tokens, positions, documents):
        # A token sees those before it in its row that are of the same document.
        mask = (documents[:, :, None] == documents[:, None, :]).tril()
        x = self.tokens(tokens) + self.positions(positions)
        for block in self.blocks:
            x = block(x, mask)
        return self.scores(self.norm(x))


def loss_of(model, packed):
    scores = model(packed.tokens, packed.positions, packed.documents)
    # The next token, unless it begins another document. Padding is document -1.
    documents = packed.documents
    is_next = (documents[:, 1:] == documents[:, :-1]) & (documents[:, 1:] >= 0)
    return F.cross_entropy(scores[:, :-1][is_next], packed.tokens[:, 1:][is_next])


def save(path, parts):
    # Written next to it and renamed, so that a killed run leaves the last complete file.
    unfinished = path.with_name("unfinished-" + path.name)
    torch.save({name: part.state_dict() for name, part in parts.items()}, unfinished)
    unfinished.replace(path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dataset")
    parser.add_argument("--checkpoint", type=Path, default="last.pt", help="resumed from if it exists")
    parser.add_argument("--vocabulary", type=int, default=256)
    parser.add_argument("--length", type=int, default=256, help="tokens in a row")
    parser.add_argument("--batch-size", type=int, default=16, help="documents in a step")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--save-every", type=int, default=100, help="steps between two checkpoints")
    parser.add_argument("--steps", type=int, help="stop after this many, to continue later")
    arguments = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    dataset = ki.open(arguments.dataset)
    columns = {"tokens": ki.Packed("int64", arguments.length)}
    sampler = ki.Sampler.shuffle(len(dataset), seed=1)
    loader = ki.Loader(dataset, sampler, batch_size=arguments.batch_size, columns=columns)
    batches = TensorLoader(loader, device=device)
    model = Transformer(arguments.vocabulary, arguments.length).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), arguments.rate)
    parts = {"model": model, "optimizer": optimizer, "loader": batches}
    if arguments.checkpoint.exists():
        saved = torch.load(arguments.checkpoint, map_location=device)
        for name, part in parts.items():
            part.load_state_dict(saved[name])

    steps = 0
    while batches.state_dict()["epoch"] < arguments.epochs and steps != arguments.steps:
        for batch in batches:
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                loss = loss_of(model, batch.packed["tokens"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
            if steps % 10 == 0 or steps == 1:
                print(f"epoch {batch.epoch}, step {batch.step}: loss {loss:.4f}", flush=True)
            if steps % arguments.save_every == 0:
                save(arguments.checkpoint, parts)
            if steps == arguments.steps:
                break
    save(arguments.checkpoint, parts)


if __name__ == "__main__":
    main()
