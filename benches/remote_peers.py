#!/usr/bin/env python3
"""How fast are other libraries over a server whose answers take 30 ms to begin? The side of the peers of
`cargo bench --bench remote`, against the same server, each in its own format and with an empty cache:

- the first epoch, shuffled, in batches of 256, with two workers;
- opening a dataset and reading one sample;
- opening it and reading 1,000 samples from all over it, by index, and by key where there is an index of keys.

    pip install torch webdataset mosaicml-streaming litdata pylance s3torchconnector
    cargo bench --bench remote --features remote --no-run
    python benches/remote_peers.py target/release/deps/remote-HASH [--count N] [PEER...]

With few samples (--count) it only shows which of them work. `--what` chooses: epoch, first, random, keys.
"""

import argparse
import importlib
import io
import multiprocessing
import os
import shutil
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


def spread(count, wanted):
    """As many indices from all over, as in the bench of kiste."""
    return [at * 7919 % count for at in range(min(wanted, count))]


def as_list(batch):
    return batch


def loader(dataset, **options):
    from torch.utils.data import DataLoader

    return DataLoader(
        dataset, batch_size=BATCH, num_workers=WORKERS, collate_fn=as_list, **options
    )


class Peer:
    """What it measures of each: None where a library cannot."""

    # Samples by index, of a dataset that is opened for them.
    at = None
    # The same by key.
    by_key = None

    def first(self, url, folder, index):
        """One sample: the first one of what can only be read as a stream."""
        return self.at(url, folder, [index])


class WebDataset(Peer):
    def write(self, folder, count, size):
        import webdataset

        with webdataset.ShardWriter(f"{folder}/%04d.tar", maxsize=SHARD, verbose=0) as writer:
            for key, image in samples(count, size):
                writer.write({"__key__": key, "bin": image})

    def urls(self, url, folder):
        names = sorted(path.name for path in Path(folder).glob("*.tar"))
        return [f"{url}/{Path(folder).name}/{name}" for name in names]

    def first(self, url, folder, index):
        import webdataset

        stream = webdataset.WebDataset(self.urls(url, folder), shardshuffle=False)
        return [len(next(iter(stream))["bin"])]

    def epoch(self, url, folder):
        import webdataset

        urls = self.urls(url, folder)
        # A worker may have no shard where there are few samples.
        options = {"shardshuffle": 100, "seed": 1, "empty_check": False}
        dataset = webdataset.WebDataset(urls, **options).shuffle(1000)
        return (len(sample["bin"]) for batch in loader(dataset) for sample in batch)


class Streaming(Peer):
    """MosaicML Streaming: shards of MDS are downloaded to a disk, and read there."""

    def write(self, folder, count, size):
        from streaming import MDSWriter

        columns = {"key": "str", "bin": "bytes"}
        with MDSWriter(out=f"{folder}/mds", columns=columns, size_limit=SHARD) as writer:
            for key, image in samples(count, size):
                writer.write({"key": key, "bin": image})

    def open(self, url, folder, **options):
        from streaming import StreamingDataset

        os.environ["S3_ENDPOINT_URL"] = url
        remote, local = f"s3://{Path(folder).name}/mds", f"{folder}/../local"
        return StreamingDataset(remote=remote, local=local, batch_size=BATCH, **options)

    def epoch(self, url, folder):
        dataset = self.open(url, folder, shuffle=True)
        # Else the workers share the connection that has fetched the index: their answers get mixed up, and each
        # waits for a minute.
        for stream in dataset.streams:
            stream._downloader.clean_up()
        return (len(sample["bin"]) for batch in loader(dataset) for sample in batch)

    def at(self, url, folder, indices):
        dataset = self.open(url, folder)
        return [len(dataset[index]["bin"]) for index in indices]


def litdata_sample(index):
    return {"key": f"sample-{index:08}", "bin": np.random.default_rng(index).bytes(LITDATA_SIZE)}


class LitData(Peer):
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

    def open(self, url, folder, **options):
        import litdata
        from litdata.streaming import downloader

        # The server has no TLS.
        downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True
        return litdata.StreamingDataset(
            f"s3://{Path(folder).name}/lit",
            cache_dir=f"{folder}/../local",
            storage_options={"endpoint_url": url, "region_name": "us-east-1"},
            **options,
        )

    def epoch(self, url, folder):
        import litdata

        dataset = self.open(url, folder, shuffle=True)
        batches = litdata.StreamingDataLoader(
            dataset, batch_size=BATCH, num_workers=WORKERS, collate_fn=as_list
        )
        return (len(sample["bin"]) for batch in batches for sample in batch)

    def at(self, url, folder, indices):
        dataset = self.open(url, folder)
        return [len(dataset[index]["bin"]) for index in indices]


class Lance(Peer):
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
        dataset = lance.write_dataset(batches(), f"{folder}/set.lance", schema=schema)
        dataset.create_scalar_index("key", "BTREE")

    def open(self, url, folder):
        import lance

        options = {"aws_endpoint": url, "allow_http": "true", "aws_region": "us-east-1"}
        return lance.dataset(f"s3://{Path(folder).name}/set.lance", storage_options=options)

    def at(self, url, folder, indices):
        table = self.open(url, folder).take(indices, columns=["bin"])
        return [len(sample.as_buffer()) for sample in table.column("bin")]

    def by_key(self, url, folder, keys):
        wanted = ", ".join(f"'{key}'" for key in keys)
        table = self.open(url, folder).to_table(columns=["bin"], filter=f"key IN ({wanted})")
        return [len(sample.as_buffer()) for sample in table.column("bin")]

    def epoch(self, url, folder):
        dataset = self.open(url, folder)
        for batch in dataset.to_batches(columns=["bin"], batch_size=BATCH):
            yield from (len(sample.as_buffer()) for sample in batch.column("bin"))


class S3TorchConnector(Peer):
    """Shards of WebDataset, each read as a stream and unpacked by Python's `tarfile`."""

    def write(self, folder, count, size):
        WebDataset().write(folder, count, size)

    def open(self, url, folder, transform):
        from s3torchconnector import S3ClientConfig, S3IterableDataset

        names = sorted(path.name for path in Path(folder).glob("*.tar"))
        return S3IterableDataset.from_objects(
            [f"s3://{Path(folder).name}/{name}" for name in names],
            region="us-east-1",
            endpoint=url,
            transform=transform,
            s3client_config=S3ClientConfig(force_path_style=True, unsigned=True),
            enable_sharding=True,
        )

    def first(self, url, folder, index):
        return [len(next(iter(self.open(url, folder, first_member))))]

    def epoch(self, url, folder):
        dataset = self.open(url, folder, tar_members)
        from torch.utils.data import DataLoader

        shards = DataLoader(dataset, batch_size=None, num_workers=WORKERS)
        return (len(sample) for shard in shards for sample in shard)


def tar_members(stream):
    with tarfile.open(fileobj=io.BufferedReader(stream, 1 << 20), mode="r|") as archive:
        return [archive.extractfile(member).read() for member in archive]


def first_member(stream):
    with tarfile.open(fileobj=io.BufferedReader(stream, 1 << 16), mode="r|") as archive:
        return archive.extractfile(archive.next()).read()


# What each is called, the package that has it, and its modules.
PEERS = {
    "webdataset": (WebDataset, "webdataset", ["webdataset"]),
    "streaming": (Streaming, "mosaicml-streaming", ["streaming"]),
    "litdata": (LitData, "litdata", ["litdata"]),
    "lance": (Lance, "pylance", ["lance"]),
    "s3torchconnector": (S3TorchConnector, "s3torchconnector", ["s3torchconnector"]),
}


def timed(peer, what, url, folder, wanted, answer):
    """One measurement, in a process of its own: some libraries keep what they know of a dataset."""
    made = PEERS[peer][0]()
    for module in ("torch.utils.data", *PEERS[peer][2]):
        importlib.import_module(module)
    begin = time.perf_counter()
    try:
        lengths = list(getattr(made, what)(url, folder, *wanted))
        answer.send((time.perf_counter() - begin, lengths))
    except Exception as error:
        answer.send(f"{type(error).__name__}: {error}")


def measure(peer, server, size, count, chosen):
    """What was chosen, and how long each took, or why not: `None` where the library cannot."""
    made = PEERS[peer][0]()
    some = spread(count, 1000)
    keys = [f"sample-{index:08}" for index in some]
    work = {
        "epoch": ("epoch", (), count),
        "first": ("first", (count // 2,), 1),
        "random": ("at", (some,), len(some)),
        "keys": ("by_key", (keys,), len(some)),
    }
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
        folder = Path(root, "bucket")
        folder.mkdir()
        made.write(folder, count, size)
        for what in chosen:
            name, wanted, expected = work[what]
            if getattr(made, name) is None:
                yield what, None
                continue
            process = subprocess.Popen([server, "serve", root], stdout=subprocess.PIPE, text=True)
            try:
                url = process.stdout.readline().strip()
                fresh = multiprocessing.get_context("spawn")
                answer, sender = fresh.Pipe(duplex=False)
                child = fresh.Process(target=timed, args=(peer, name, url, folder, wanted, sender))
                child.start()
                sender.close()
                try:
                    found = answer.recv()
                except EOFError:
                    found = "it ended without an answer"
                child.join()
            finally:
                process.kill()
                process.wait()
                shutil.rmtree(f"{root}/local", ignore_errors=True)
            if isinstance(found, tuple):
                seconds, lengths = found
                assert lengths == [size] * expected, (what, len(lengths), sum(lengths))
                found = seconds
            yield what, found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("server")
    parser.add_argument("peers", nargs="*", metavar="PEER", help=", ".join(PEERS))
    parser.add_argument("--count", type=int, help="samples of each size")
    parser.add_argument("--what", default="epoch,first,random,keys", metavar="WHAT,...")
    args = parser.parse_intermixed_args()
    os.environ.update(AWS_ACCESS_KEY_ID="AKID", AWS_SECRET_ACCESS_KEY="secret")
    os.environ.update(AWS_DEFAULT_REGION="us-east-1", AWS_ALLOW_HTTP="true")
    for name, size, count in SAMPLES:
        count = args.count or count
        for peer in args.peers or PEERS:
            shown = f"{peer} {version(PEERS[peer][1])}"
            try:
                for what, seconds in measure(peer, args.server, size, count, args.what.split(",")):
                    if seconds is None:
                        print(f"{shown:<24} {name:>7} {what:<6}  has none", flush=True)
                        continue
                    if isinstance(seconds, str):
                        print(f"{shown:<24} {name:>7} {what:<6}  failed: {seconds}"[:300], flush=True)
                        continue
                    rate = f" {size * count / seconds / 1e6:8.0f} MB/s" if what == "epoch" else ""
                    print(f"{shown:<24} {name:>7} {what:<6} {seconds * 1e3:10.1f} ms{rate}", flush=True)
            except Exception as error:
                failed = f"failed: {type(error).__name__}: {error}"
                print(f"{shown:<24} {name:>7}  {failed}"[:300], flush=True)


if __name__ == "__main__":
    main()
