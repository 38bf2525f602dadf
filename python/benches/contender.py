"""pykiste's side of the harness that compares it with its peers.

    python run.py run … --peers pykiste --contender 'pykiste=python python/benches/contender.py --harness PEERS'

PEERS is the folder of the harness, whose timed loops and checks run here as they do for the other Python peers.
`benches/contender.rs` is the same for the Rust library. Variants of an epoch: `threads` takes batches in memory of the
loader, `buffers` in tensors that are used again (arrays), `torch` and `torch_copy` are a `DataLoader`
with worker processes over `pykiste.Dataset`, with and without views of the map.
"""

import argparse
import json
import logging
import os
import sys
import warnings


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--harness", required=True)
    for name in ["--op", "--src", "--dir"]:
        parser.add_argument(name, required=True)
    for name, default in [("--count", 10_000), ("--batch", 256), ("--workers", 2), ("--seed", 7)]:
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--cap", type=float, default=30.0)
    parser.add_argument("--variant", default="")
    return parser.parse_args()


def peer_of(common):
    """The peer, a class of what the harness offers."""
    import torch

    import pykiste as ki
    from pykiste.torch import buffers

    torch.set_num_threads(1)

    class Pykiste(common.Peer):
        name = "pykiste"
        epoch_variants = ("threads", "buffers", "torch", "torch_copy")
        # Samples own their memory, and are decoded to what Python's datadings returns.
        copy = False

        @property
        def file(self):
            return self.path / "data.msgpack"

        def write(self, src):
            with ki.Writer(self.file, durable=False) as writer:
                for key, label, payload in src:
                    if self.is_array:
                        payload = bytes(ki.PackedArray.pack(payload))
                    writer.write({"key": key, "label": label, "payload": payload})

        def open(self):
            self.dataset = ki.open(self.file, copy=self.copy)

        def close(self):
            self.dataset.close()

        def _out(self, sample):
            payload = sample["payload"]
            return sample["label"], ki.PackedArray(payload)[...] if self.is_array else payload

        def get(self, index):
            return self._out(self.dataset[index])

        get_key = get

        def contains(self, key):
            return key in self.dataset

        def get_batch(self, indices):
            pairs = map(self._out, self.dataset.get_many(indices))
            return tuple(zip(*pairs))

        def scan_raw(self):
            return map(self.dataset.raw, range(len(self.dataset)))

        def scan(self):
            return map(self._out, self.dataset)

        def loader(self, variant, batch, workers, seed):
            if variant.startswith("torch"):
                self.copy = variant == "torch_copy"
                return super().loader("torch", batch, workers, seed)
            self.open()
            payload = ("float32", self.shape) if self.is_array else bytes
            columns = {"label": "int64", "payload": payload}
            memory = None
            if variant == "buffers":
                if payload is bytes:
                    raise common.NA
                memory = buffers(columns, batch, count=2 * workers + 4)
            return ki.Loader(
                self.dataset,
                ki.Sampler.shuffle(len(self.dataset), seed),
                batch_size=batch,
                columns=columns,
                threads=workers,
                tail="uneven",
                buffers=memory,
            )

        def as_batch(self, made):
            if not isinstance(made, ki.Batch):
                return made
            # The labels outlive the batch.
            label = made["label"].copy()
            if self.is_array:
                return label, torch.from_numpy(made["payload"]), None
            data, offsets = made.ragged("payload")
            return label, torch.from_numpy(data), offsets

    return Pykiste


def main():
    args = arguments()
    sys.path.insert(0, args.harness)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    import common

    kind = peer_of(common)
    if args.op == "describe":
        print(json.dumps({"workloads": "ABCD", "ops": None, "variants": kind.epoch_variants}))
        return
    src = common.Source(args.src)
    peer = kind(args.dir, src.meta)
    out = {"op": args.op}
    try:
        if args.op not in common.OPS:
            raise common.NA
        clock, done = common.OPS[args.op](peer, src, args)
        out.update(done, seconds=clock.seconds, cpu=clock.cpu, variant=args.variant)
    except common.NA:
        out["skip"] = "n/a"
    out["hwm_kib"] = common.hwm_kib()
    print(json.dumps(out), flush=True)
    # Threads of a loader that was stopped early need not be waited for.
    os._exit(0)


if __name__ == "__main__":
    main()
