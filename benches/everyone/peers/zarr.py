"""An array with a chunk for each sample, Blosc (LZ4) and bytes shuffled; threads, as its own do not survive a fork."""

import numpy as np

from . import Base, threads_over_indices


class Peer(Base):
    title = "Zarr"
    workloads = ("arrays",)

    @classmethod
    def imports(cls):
        global zarr
        import zarr
        import zarr.codecs

    def write(self, source):
        group = zarr.open_group(self.at("data.zarr"), mode="w")
        codec = zarr.codecs.BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", typesize=4)
        options = {"shape": (source.n, *self.shape), "chunks": (1, *self.shape), "compressors": codec}
        payloads = group.create_array("payload", dtype="f4", **options)
        for _, number, payload in source:
            payloads[number] = payload
        group.create_array("number", data=np.arange(source.n))

    def open(self):
        group = zarr.open_group(self.at("data.zarr"), mode="r")
        self.payloads, self.numbers = group["payload"], group["number"][:].tolist()

    def scan(self):
        return map(self.get, range(self.n))

    def get(self, index):
        return self.numbers[index], self.payloads[index]

    def get_many(self, indices):
        found = self.payloads.get_orthogonal_selection(np.array(indices))
        return [(self.numbers[index], each) for index, each in zip(indices, found)]

    def loader(self, batch, workers, seed):
        return threads_over_indices(self, batch, workers, seed)
