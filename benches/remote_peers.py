#!/usr/bin/env python3
"""How fast is the first epoch of other libraries over a server whose answers take 30 ms to begin? The side of
the peers of `cargo bench --bench remote`, against the same server: each in its own format, shuffled, in
batches of 256, with two workers.

    pip install torch webdataset mosaicml-streaming litdata pylance s3torchconnector
    cargo bench --bench remote --features remote --no-run
    python benches/remote_peers.py target/release/deps/remote-HASH [--count N] [PEER...]

With few samples (--count) it only shows which of them work.
"""

import argparse
import io
import os
import subprocess
import tarfile
import tempfile
import time
from importlib.metadata import version
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
        # A worker may have no shard where there are few samples.
        options = {"shardshuffle": 100, "seed": 1, "empty_check": False}
        dataset = webdataset.WebDataset(urls, **options).shuffle(1000)
        return (len(sample["bin"]) for batch in loader(dataset) for sample in batch)


class Streaming:
    """MosaicML Streaming: shards of MDS are downloaded to a disk, and read there."""

    def write(self, folder, count, size):
        from streaming import MDSWriter

        columns = {"key": "str", "bin": "bytes"}
        with MDSWriter(out=f"{folder}/mds", columns=columns, size_limit=SHARD) as writer:
            for key, image in samples(count, size):
                writer.write({"key": key, "bin": image})

    def epoch(self, url, folder):
        from streaming import StreamingDataset

        os.environ["S3_ENDPOINT_URL"] = url
        local = f"{folder}/../local"
        dataset = StreamingDataset(
            remote=f"s3://{Path(folder).name}/mds", local=local, shuffle=True, batch_size=BATCH
        )
        return (len(sample["bin"]) for batch in loader(dataset) for sample in batch)


def litdata_sample(index):
    return {"key": f"sample-{index:08}", "bin": np.random.default_rng(index).bytes(LITDATA_SIZE)}


class LitData:
    """Chunks are downloaded to a disk, and read there."""

    def write(self, folder, count, size):
        import litdata

        global LITDATA_SIZE
        LITDATA_SIZE = size
        litdata.optimize(
            fn=litdata_sample,
            inputs=list(range(count)),
            output_dir=f"{folder}/lit",
            chunk_bytes=SHARD,
            num_workers=1,
            start_method="fork",
        )

    def epoch(self, url, folder):
        import litdata
        from litdata.streaming import downloader

        # The server has no TLS.
        downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True
        dataset = litdata.StreamingDataset(
            f"s3://{Path(folder).name}/lit",
            cache_dir=f"{folder}/../local",
            shuffle=True,
            storage_options={"endpoint_url": url, "region_name": "us-east-1"},
        )
        batches = litdata.StreamingDataLoader(
            dataset, batch_size=BATCH, num_workers=WORKERS, collate_fn=as_list
        )
        return (len(sample["bin"]) for batch in batches for sample in batch)


class Lance:
    """A scan in the order of the file, on its own threads: the fastest way it has."""

    def write(self, folder, count, size):
        import lance
        import pyarrow as pa

        def batches():
            for start in range(0, count, 1000):
                part = [s for _, s in zip(range(1000), rows)]
                keys, images = zip(*part)
                yield pa.record_batch({"key": list(keys), "bin": pa.array(images, pa.large_binary())})

        rows = samples(count, size)
        schema = pa.schema({"key": pa.string(), "bin": pa.large_binary()})
        lance.write_dataset(batches(), f"{folder}/set.lance", schema=schema)

    def epoch(self, url, folder):
        import lance

        options = {"aws_endpoint": url, "allow_http": "true", "aws_region": "us-east-1"}
        dataset = lance.dataset(f"s3://{Path(folder).name}/set.lance", storage_options=options)
        for batch in dataset.to_batches(columns=["bin"], batch_size=BATCH):
            yield from (len(sample.as_buffer()) for sample in batch.column("bin"))


class S3TorchConnector:
    """Shards of WebDataset, each read as a stream and unpacked by Python's `tarfile`."""

    def write(self, folder, count, size):
        WebDataset().write(folder, count, size)

    def epoch(self, url, folder):
        from s3torchconnector import S3ClientConfig, S3IterableDataset

        names = sorted(path.name for path in Path(folder).glob("*.tar"))
        dataset = S3IterableDataset.from_objects(
            [f"s3://{Path(folder).name}/{name}" for name in names],
            region="us-east-1",
            endpoint=url,
            transform=tar_members,
            s3client_config=S3ClientConfig(force_path_style=True, unsigned=True),
            enable_sharding=True,
        )
        from torch.utils.data import DataLoader

        shards = DataLoader(dataset, batch_size=None, num_workers=WORKERS)
        return (len(sample) for shard in shards for sample in shard)


def tar_members(stream):
    with tarfile.open(fileobj=io.BufferedReader(stream, 1 << 20), mode="r|") as archive:
        return [archive.extractfile(member).read() for member in archive]


# What each is called, and the package that has it.
PEERS = {
    "webdataset": (WebDataset, "webdataset"),
    "streaming": (Streaming, "mosaicml-streaming"),
    "litdata": (LitData, "litdata"),
    "lance": (Lance, "pylance"),
    "s3torchconnector": (S3TorchConnector, "s3torchconnector"),
}


def measure(peer, server, size, count):
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root, "bucket")
        folder.mkdir()
        PEERS[peer][0]().write(folder, count, size)
        process = subprocess.Popen([server, "serve", root], stdout=subprocess.PIPE, text=True)
        try:
            url = process.stdout.readline().strip()
            begin = time.perf_counter()
            lengths = list(PEERS[peer][0]().epoch(url, folder))
            seconds = time.perf_counter() - begin
        finally:
            process.kill()
            process.wait()
    assert len(lengths) == count and sum(lengths) == count * size, (len(lengths), sum(lengths))
    return seconds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("server")
    parser.add_argument("peers", nargs="*", metavar="PEER", help=", ".join(PEERS))
    parser.add_argument("--count", type=int, help="samples of each size")
    args = parser.parse_intermixed_args()
    os.environ.update(AWS_ACCESS_KEY_ID="AKID", AWS_SECRET_ACCESS_KEY="secret")
    os.environ.update(AWS_DEFAULT_REGION="us-east-1", AWS_ALLOW_HTTP="true")
    for name, size, count in SAMPLES:
        count = args.count or count
        for peer in args.peers or PEERS:
            try:
                seconds = measure(peer, args.server, size, count)
            except Exception as error:
                print(f"{peer:<24} {name:>7}  failed: {type(error).__name__}: {error}"[:300], flush=True)
                continue
            rate = size * count / seconds / 1e6
            shown = f"{peer} {version(PEERS[peer][1])}"
            print(f"{shown:<24} {name:>7} {seconds * 1e3:10.1f} ms {rate:8.0f} MB/s", flush=True)


if __name__ == "__main__":
    main()
