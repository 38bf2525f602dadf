#!/usr/bin/env python3
"""How fast is the first epoch of other libraries over a server whose answers take 30 ms to begin? The side of
the peers of `cargo bench --bench remote`, against the same server: each in its own format, shuffled, in
batches of 256, with two workers.

    pip install torch webdataset
    cargo bench --bench remote --features remote --no-run
    python benches/remote_peers.py target/release/deps/remote-HASH [PEER...]
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

BATCH = 256
WORKERS = 2
SHARD = 64 << 20
SAMPLES = [("10 kB", 10_000, 40_000), ("110 kB", 110_000, 4_000)]


def samples(count, size):
    random = np.random.default_rng(0)
    for index in range(count):
        yield f"sample-{index:08}", random.bytes(size)


def as_list(batch):
    return batch


def loader(dataset, **options):
    from torch.utils.data import DataLoader

    return DataLoader(
        dataset, batch_size=BATCH, num_workers=WORKERS, collate_fn=as_list, **options
    )


class WebDataset:
    def write(self, folder, count, size):
        import webdataset

        with webdataset.ShardWriter(f"{folder}/%04d.tar", maxsize=SHARD, verbose=0) as writer:
            for key, image in samples(count, size):
                writer.write({"__key__": key, "bin": image})

    def epoch(self, url, folder):
        import webdataset

        names = sorted(path.name for path in Path(folder).glob("*.tar"))
        urls = [f"{url}/{Path(folder).name}/{name}" for name in names]
        dataset = webdataset.WebDataset(urls, shardshuffle=100, seed=1).shuffle(1000)
        return (len(sample["bin"]) for batch in loader(dataset) for sample in batch)


PEERS = {"webdataset": WebDataset}


def measure(peer, server, size, count):
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root, "bucket")
        folder.mkdir()
        PEERS[peer]().write(folder, count, size)
        process = subprocess.Popen([server, "serve", root], stdout=subprocess.PIPE, text=True)
        try:
            url = process.stdout.readline().strip()
            begin = time.perf_counter()
            lengths = list(PEERS[peer]().epoch(url, folder))
            seconds = time.perf_counter() - begin
        finally:
            process.kill()
            process.wait()
    assert len(lengths) == count and sum(lengths) == count * size, (len(lengths), sum(lengths))
    return seconds


def main(server, *peers):
    for name, size, count in SAMPLES:
        for peer in peers or PEERS:
            try:
                seconds = measure(peer, server, size, count)
            except Exception as error:
                print(f"{peer:<12} {name:>7}  failed: {type(error).__name__}: {error}"[:300], flush=True)
                continue
            rate = size * count / seconds / 1e6
            print(f"{peer:<12} {name:>7} {seconds * 1e3:10.1f} ms {rate:8.0f} MB/s", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
