#!/usr/bin/env python3
"""How do tar archives that are read in place compare with WebDataset, Streaming, litData and Energon?

    pip install ./python webdataset mosaicml-streaming litdata megatron-energon     # those that are there take part
    python benches/in_place_peers.py [--shards 100] [--megabytes 100] [--bytes 110000] [--dir DIR]

Archives of WebDataset's own writer, whose samples have random bytes and a number. Every epoch is one of one process:
the number and the bytes of every sample are handed out in batches of 128, nothing is decoded. Two threads of kiste, as
there are two cores; with `--workers 2` the others have two processes. Streaming has the same samples in its own
shards, litData in one file each, as its raw mode takes them. All is in the page cache. The best of three epochs counts.
"""
import argparse
import importlib.util
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

BATCH = 128


def has(module):
    return importlib.util.find_spec(module) is not None


def seconds(do):
    start = time.perf_counter()
    found = do()
    return time.perf_counter() - start, found


def make(args, root):
    """The archives, by WebDataset's writer."""
    import webdataset as wds

    folder = root / "tar"
    if folder.exists():
        return sorted(map(str, folder.glob("*.tar")))
    folder.mkdir(parents=True)
    noise = random.Random(0).randbytes(args.bytes * 2 + 4096)
    each = args.megabytes * 1_000_000 // args.bytes
    with wds.ShardWriter(str(folder / "%05d.tar"), maxcount=each, maxsize=1 << 40, mtime=0, verbose=0) as writer:
        for number in range(args.shards * each):
            at = number * 7919 % args.bytes
            writer.write({"__key__": f"{number:09}", "bin": noise[at : at + args.bytes], "cls": str(number % 1000)})
    return sorted(map(str, folder.glob("*.tar")))


class Webdataset:
    title = "webdataset"

    def __init__(self, tars, root, workers):
        import webdataset as wds

        self.wds, self.tars, self.workers = wds, tars, workers

    def epoch(self, buffer):
        shuffled = len(self.tars) if buffer else False
        stream = self.wds.WebDataset(self.tars, shardshuffle=shuffled, seed=1, empty_check=False)
        stream = stream.shuffle(buffer) if buffer else stream
        stream = stream.map(lambda sample: (int(sample["cls"]), sample["bin"]))
        stream = stream.batched(BATCH, collation_fn=list, partial=True)
        batches = self.wds.WebLoader(stream, batch_size=None, num_workers=self.workers)
        return sum(len(batch) for batch in batches)

    def runs(self):
        yield "in order", lambda: self.epoch(0)
        yield "shuffle buffer of 2,000", lambda: self.epoch(2000)


class Streaming:
    title = "streaming (its own shards)"

    def __init__(self, tars, root, workers):
        import streaming
        from torch.utils.data import DataLoader

        self.folder, self.workers, self.load = str(root / "mds"), workers, DataLoader
        self.dataset = streaming.StreamingDataset
        if not os.path.exists(self.folder):
            import webdataset as wds

            columns = {"cls": "int", "bin": "bytes"}
            with streaming.MDSWriter(out=self.folder, columns=columns, size_limit=1 << 26) as writer:
                for sample in wds.WebDataset(tars, shardshuffle=False):
                    writer.write({"cls": int(sample["cls"]), "bin": sample["bin"]})

    def epoch(self):
        dataset = self.dataset(local=self.folder, shuffle=True, shuffle_seed=1, batch_size=BATCH)
        rows = self.load(dataset, BATCH, num_workers=self.workers, collate_fn=lambda rows: [(r["cls"], r["bin"]) for r in rows])
        return sum(len(batch) for batch in rows)

    def runs(self):
        yield "shuffled", self.epoch


class Litdata:
    title = "litData, raw (a file each)"

    def __init__(self, tars, root, workers):
        os.environ["DISABLE_VERSION_CHECK"] = "1"
        from litdata import StreamingRawDataset
        from torch.utils.data import DataLoader

        self.folder, self.workers, self.load, self.raw = str(root / "files"), workers, DataLoader, StreamingRawDataset
        self.cache = str(root / "litdata")
        if not os.path.exists(self.folder):
            os.mkdir(self.folder)
            for tar in tars:
                subprocess.run(["tar", "-xf", tar, "-C", self.folder, "--wildcards", "*.bin"], check=True)

    def epoch(self):
        dataset = self.raw(self.folder, cache_dir=self.cache)
        batches = self.load(dataset, BATCH, shuffle=True, num_workers=self.workers, collate_fn=list)
        return sum(len(batch) for batch in batches)

    def runs(self):
        yield "shuffled", self.epoch


class Energon:
    title = "Energon"

    def __init__(self, tars, root, workers):
        import megatron.energon as energon

        self.energon, self.workers, self.folder = energon, workers, root / "energon"
        if not self.folder.exists():
            self.folder.mkdir()
            for tar in tars:
                os.link(tar, self.folder / os.path.basename(tar))
            command = [os.path.join(os.path.dirname(sys.executable), "energon"), "prepare", str(self.folder)]
            command += ["--non-interactive", "--split-ratio", "1,0,0", "--sample-type", "CrudeWebdataset"]
            self.prepared, _ = seconds(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))
            print(f"{self.title}: prepared in {self.prepared:.2f} s")

    def epoch(self, shuffled):
        energon = self.energon

        class Task(energon.DefaultTaskEncoder):
            cookers = [energon.Cooker(energon.stateless(lambda sample: sample))]

            @energon.stateless
            def batch(self, samples):
                return [(sample["cls"], sample["bin"]) for sample in samples]

        config = energon.WorkerConfig(rank=0, world_size=1, num_workers=self.workers)
        options = {"batch_size": BATCH, "worker_config": config, "task_encoder": Task()}
        if shuffled:
            dataset = energon.get_train_dataset(
                str(self.folder), shuffle_buffer_size=2000, max_samples_per_sequence=100, repeat=False, **options
            )
        else:
            dataset = energon.get_val_dataset(str(self.folder), split_part="train", **options)
        return sum(len(batch) for batch in energon.get_loader(dataset))

    def runs(self):
        yield "in order", lambda: self.epoch(False)
        yield "sequences of 100 and a buffer of 2,000", lambda: self.epoch(True)


class Kiste:
    title = "kiste"

    def __init__(self, tars, root, workers):
        import pykiste as ki

        self.ki, self.index, self.converted = ki, root / "tar.inplace.json", root / "converted.msgpack"
        self.tars, self.length = tars, None
        self.index.unlink(missing_ok=True)
        self.indexed, found = seconds(lambda: ki.index(tars, output=self.index, overwrite=True))
        self.length = found["samples"]
        if not self.converted.exists():
            ki.convert(self.index, self.converted)

    def loader(self, path, order, **options):
        columns = {"cls": "int64", "bin": "bytes"}
        return self.ki.Loader(self.ki.open(path), order, batch_size=BATCH, columns=columns, **options)

    def epoch(self, path, order):
        return sum(len(batch) for batch in self.loader(path, order))

    def runs(self):
        shuffle = self.ki.Sampler.shuffle(self.length, seed=1)
        yield "in place, fully shuffled", lambda: self.epoch(self.index, shuffle)
        yield "in place, in order", lambda: self.epoch(self.index, self.ki.Sampler.sequential(self.length))
        yield "converted, fully shuffled", lambda: self.epoch(self.converted, shuffle)

    def others(self):
        ki = self.ki
        opened, dataset = seconds(lambda: ki.open(self.index))
        first, _ = seconds(lambda: dataset[f"{self.length // 3:09}"])
        numbers = random.Random(2).sample(range(self.length), min(self.length, 2000))
        keys, _ = seconds(lambda: [dataset[f"{number:09}"] for number in numbers])
        print(f"  opening {opened * 1e3:.2f} ms, the first key {first * 1e3:.2f} ms, then {keys / len(numbers) * 1e6:.1f} us a key")
        middle = self.loader(self.index, ki.Sampler.shuffle(self.length, seed=1), threads=2)
        state = {"epoch": 0, "position": self.length // 2 // BATCH * BATCH}
        resumed, _ = seconds(lambda: (middle.load_state_dict(state), next(iter(middle))))
        print(f"  resumed in the middle: first batch after {resumed * 1e3:.2f} ms")


def read_all(tars):
    for tar in tars:
        with open(tar, "rb", buffering=0) as file:
            block = bytearray(1 << 20)
            while file.readinto(block):
                pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=100)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--bytes", type=int, default=110_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--dir")
    args = parser.parse_args()
    root = pathlib.Path(args.dir or tempfile.mkdtemp())
    tars = make(args, root)
    size = sum(map(os.path.getsize, tars))
    print(f"{len(tars)} archives of {size // len(tars) / 1e6:.0f} MB, samples of {args.bytes:,} bytes")
    read_all(tars)
    read = min(seconds(lambda: read_all(tars))[0] for _ in range(args.rounds))
    print(f"reading all bytes once: {read:.2f} s")
    rates = {}
    for peer, module in [(Kiste, "pykiste"), (Webdataset, "webdataset"), (Streaming, "streaming"), (Litdata, "litdata"), (Energon, "megatron")]:
        if not has(module):
            print(f"{peer.title}: not there")
            continue
        try:
            one = peer(tars, root, args.workers)
        except Exception as error:  # A peer may not install or start here; the others run.
            print(f"{peer.title}: {type(error).__name__}: {error}")
            continue
        if peer is Kiste:
            print(f"{peer.title}: indexed in {one.indexed:.2f} s, {read / one.indexed:.2f} of reading")
            one.others()
        for name, run in one.runs():
            times, counts = zip(*(seconds(run) for _ in range(args.rounds)))
            rate = counts[0] / min(times)
            rates[peer.title, name] = rate
            print(f"{peer.title}, {name}: {rate:,.0f} samples/s, {rate * args.bytes / 1e6:,.0f} MB/s", flush=True)
    base = rates.get(("kiste", "in place, fully shuffled"))
    for name, rate in rates.items():
        if base and name != ("kiste", "in place, fully shuffled"):
            print(f"in place, fully shuffled, to {', '.join(name)}: {base / rate:.2f}")
    if not args.dir:
        shutil.rmtree(root)


if __name__ == "__main__":
    sys.exit(main())
