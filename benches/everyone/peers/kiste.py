"""`Writer`; `open`; `Loader` with columns, threads and no PyTorch. Arrays are packed arrays (LZ4)."""

import numpy as np

from . import Base


class Peer(Base):
    title = "kiste"
    urls = ("http", "s3")
    resumes = True

    @classmethod
    def imports(cls):
        global ki
        import pykiste as ki

    @classmethod
    def versions(cls):
        return {"pykiste": ki.__version__}

    def write(self, source):
        with ki.Writer(self.at("data.msgpack"), durable=False) as writer:
            for key, number, payload in source:
                if self.shape:
                    payload = bytes(ki.PackedArray.pack(payload))
                writer.write({"key": key, "label": number, "payload": payload})

    def open(self):
        self.dataset = ki.open(self.at("data.msgpack"), copy=False)

    def sample(self, sample):
        payload = sample["payload"]
        return sample["label"], ki.PackedArray(payload)[...] if self.shape else payload

    def scan(self):
        return map(self.sample, self.dataset)

    def get(self, index):
        return self.sample(self.dataset[index])

    get_key = get

    def loader(self, batch, workers, seed):
        self.open()
        order = ki.Sampler.shuffle(self.n, seed=seed)
        if self.is_remote:
            # Blocks of neighbours, so that requests are large.
            order = ki.Sampler.block_shuffle(self.n, 128, 16, seed=seed)
        return ki.Loader(
            self.dataset,
            order,
            batch_size=batch,
            columns={"label": "int64", "payload": ("float32", self.shape) if self.shape else bytes},
            threads=workers,
            tail="uneven",
        )

    def arrays(self, batch):
        return batch["label"], batch["payload"] if self.shape else np.asarray(batch.ragged("payload")[0])
