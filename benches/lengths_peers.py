#!/usr/bin/env python3
"""How much padding do batches of real lengths have: ours, in random order, sorted, Grain's and lhotse's?

    cargo build --release --features full
    pip install grain lhotse torch
    python benches/lengths_peers.py target/release/kiste --texts DIR --audio DIR --images DIR

Lengths are of the files in these folders: texts by bytes / 4, as a tokenizer makes of them; WAV files by milliseconds;
images (JPEG and PNG, by their headers) by patches of 16 × 16 pixels. A sample that is longer than a row counts as a row, for
all. Each batch takes as many samples as fit if all are padded to the longest (TOKENS), or rows of LENGTH are packed with whole
samples. In the table is which share of the room has no tokens, and how much more the rank with the most tokens of an epoch
has than the one with the least, of four.

"sorted" is what cannot be better, and no training order: all samples by length. lhotse has its default buffer, and as
many buckets. Grain packs into that many rows at a time.
"""
import argparse
import json
import pathlib
import random
import struct
import subprocess
import tempfile
import warnings
import wave

WORLD = 4
TEXTS = {".py", ".pyi", ".md", ".rst", ".txt"}


def texts(folder):
    for path in folder.rglob("*"):
        if path.suffix in TEXTS and path.is_file() and path.stat().st_size:
            yield max(1, path.stat().st_size // 4)


def audio(folder):
    for path in folder.rglob("*.wav"):
        try:
            with wave.open(str(path)) as opened:
                yield max(1, 1000 * opened.getnframes() // opened.getframerate())
        except (wave.Error, EOFError):
            pass


def size_of(data):
    """Width and height of a PNG or a JPEG."""
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        return struct.unpack(">II", data[16:24])
    at = 2
    while data[:2] == b"\xff\xd8" and at + 9 <= len(data):
        marker, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + length
    raise ValueError("no image")


def images(folder):
    for path in folder.rglob("*"):
        if path.suffix.lower() in {".jpg", ".jpeg", ".png"} and path.is_file():
            try:
                width, height = size_of(path.read_bytes())
            except (ValueError, struct.error, OSError):
                continue
            yield -(-width // 16) * -(-height // 16)


def spread(tokens):
    return max(tokens) / max(1, min(tokens)) - 1


def padded(batches):
    """Waste and spread of batches that are padded to the longest, dealt out in turn."""
    used = [sum(batch) for batch in batches]
    room = sum(max(batch) * len(batch) for batch in batches)
    whole = used[: len(used) // WORLD * WORLD]
    return 1 - sum(used) / room, spread([sum(whole[rank::WORLD]) for rank in range(WORLD)])


def greedy(lengths, budget):
    batches, batch, longest = [], [], 0
    for length in lengths:
        longest = max(longest, length)
        if batch and longest * (len(batch) + 1) > budget:
            batches.append(batch)
            batch, longest = [], length
        batch.append(length)
    return [*batches, batch]


def lhotse(lengths, budget):
    from lhotse import CutSet
    from lhotse.dataset import DynamicBucketingSampler
    from lhotse.testing.dummies import dummy_cut

    cuts = CutSet.from_cuts(dummy_cut(at, duration=float(length)) for at, length in enumerate(lengths))
    tokens, used, room = [], 0, 0
    for rank in range(WORLD):
        sampler = DynamicBucketingSampler(
            cuts, max_duration=float(budget), num_buckets=30, shuffle=True, seed=1, world_size=WORLD, rank=rank
        )
        tokens.append(0)
        for batch in sampler:
            found = [cut.duration for cut in batch]
            tokens[-1] += sum(found)
            used, room = used + sum(found), room + max(found) * len(found)
    return 1 - used / room, spread(tokens)


def grain(lengths, row, kind, bins):
    import grain
    import numpy as np

    source = grain.MapDataset.source([np.ones(length, "int8") for length in lengths])
    samples = source.map(lambda x: {"x": x}).to_iter_dataset()
    pack = getattr(grain.experimental, f"{kind}FitPackIterDataset")
    rows = [int(found["x"].sum()) for found in pack(samples, length_struct={"x": row}, num_packing_bins=bins)]
    whole = rows[: len(rows) // WORLD * WORLD]
    return 1 - sum(rows) / (row * len(rows)), spread([sum(whole[rank::WORLD]) for rank in range(WORLD)])


class Ours:
    def __init__(self, kiste, lengths, folder):
        self.kiste, self.path = kiste, folder / "lengths.msgpack"
        lines = folder / "lengths.jsonl"
        lines.write_text("".join(f'{{"key": "{at}", "n": {length}}}\n' for at, length in enumerate(lengths)))
        subprocess.run([kiste, "-q", "convert", "--force", lines, self.path, "--lengths", "n"], check=True)

    def __call__(self, how):
        order = [self.kiste, "order", self.path, "--seed", "1", "--world", str(WORLD), "--quality", "--json"]
        found = json.loads(subprocess.run([*order, "--batches", how, "--lengths", "n"], check=True, stdout=-1).stdout)
        return found["padding"], spread(found["tokens_by_rank"])


def compare(name, lengths, row, kiste):
    lengths = [min(length, row) for length in lengths]
    random.Random(1).shuffle(lengths)
    # Some hundred batches of a small set, so that ranks can be compared.
    budget = max(1, min(8, sum(lengths) // row // 200)) * row
    size = 64 if len(lengths) >= 10_000 else 16
    with tempfile.TemporaryDirectory() as folder:
        ours = Ours(kiste, lengths, pathlib.Path(folder))
        ways = {
            f"kiste, budget:{budget}": lambda: ours(f"budget:{budget}"),
            f"kiste, equal:32x{size}": lambda: ours(f"equal:32x{size}"),
            "lhotse, 30 buckets": lambda: lhotse(lengths, budget),
            "sorted": lambda: padded(greedy(sorted(lengths), budget)),
            "random order": lambda: padded(greedy(lengths, budget)),
            f"random order, {size} samples": lambda: padded([lengths[at : at + size] for at in range(0, len(lengths), size)]),
            f"kiste, rows:{row}x{budget // row}": lambda: ours(f"rows:{row}x{budget // row}"),
            f"kiste, budget:{row}:packed": lambda: ours(f"budget:{row}:packed"),
            "Grain, best fit, 256 rows": lambda: grain(lengths, row, "Best", 256),
            "Grain, best fit, 64 rows": lambda: grain(lengths, row, "Best", 64),
            "Grain, first fit, 64 rows": lambda: grain(lengths, row, "First", 64),
        }
        print(f"\n{name}: {len(lengths):,} of 1 to {row:,}, on average {sum(lengths) / len(lengths):,.0f}\n")
        print("| | padding | ranks |\n| --- | ---: | ---: |")
        for way, measure in ways.items():
            waste, uneven = measure()
            print(f"| {way} | {100 * waste:.2f} % | {100 * uneven:.2f} % |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kiste", help="the program")
    kinds = {"texts": (texts, 4096), "audio": (audio, 30_000), "images": (images, 4096)}
    for kind in kinds:
        parser.add_argument(f"--{kind}", type=pathlib.Path, metavar="DIR", nargs="+", default=[])
    parser.add_argument("--most", type=int, default=100_000, help="samples of each kind, in random order")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    for kind, (read, row) in kinds.items():
        lengths = sorted(length for folder in getattr(given, kind) for length in read(folder))
        if lengths:
            compare(kind, random.Random(0).sample(lengths, min(given.most, len(lengths))), row, given.kiste)


if __name__ == "__main__":
    main()
