"""One file of pages without keys; its loader of threads and compiled code. Bytes are padded to the longest sample."""

import numpy as np

from . import Base


class Peer(Base):
    title = "FFCV"
    padded = True

    @classmethod
    def imports(cls):
        global DatasetWriter, fields, Loader, OrderOption
        from ffcv import fields
        from ffcv.loader import Loader, OrderOption
        from ffcv.writer import DatasetWriter

    def write(self, source):
        payload = fields.NDArrayField(np.dtype("float32"), self.shape) if self.shape else fields.BytesField()
        columns = {"number": fields.IntField(), "size": fields.IntField(), "payload": payload}
        writer = DatasetWriter(self.at("data.beton"), columns, num_workers=2)
        writer.from_indexed_dataset(Indexed(source), chunksize=20)

    def iterate(self, order, batch, workers, seed=None):
        options = {"batch_size": batch, "num_workers": workers, "order": order, "seed": seed}
        return Loader(self.at("data.beton"), os_cache=True, drop_last=False, **options)

    def open(self):
        self.batches = self.iterate(OrderOption.SEQUENTIAL, 32 if self.shape else 256, 1)

    def scan(self):
        for numbers, sizes, payloads in self.batches:
            for number, size, payload in zip(numbers[:, 0].tolist(), sizes[:, 0].tolist(), payloads.numpy()):
                yield number, payload if self.shape else payload[:size].data

    def loader(self, batch, workers, seed):
        return self.iterate(OrderOption.RANDOM, batch, workers, seed)

    def arrays(self, batch):
        return batch[0].numpy()[:, 0], batch[2].numpy()


class Indexed:
    def __init__(self, source):
        self.source = source

    def __len__(self):
        return self.source.n

    def __getitem__(self, index):
        payload = self.source.payload(index)
        if self.source.shape:
            return index, payload.nbytes, np.array(payload)
        return index, len(payload), np.frombuffer(payload, np.uint8)
