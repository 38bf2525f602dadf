"""Shards of MDS of 64 MiB, not compressed; `LocalDataset`, and `StreamingDataset` with its loader."""

from . import Base, tensors


class Peer(Base):
    title = "MosaicML Streaming"
    urls = ("s3",)
    resumes = True

    @classmethod
    def imports(cls):
        global streaming
        import streaming

    def write(self, source):
        array = "ndarray:float32:" + ",".join(map(str, self.shape or ()))
        columns = {"key": "str", "number": "int", "payload": array if self.shape else "bytes"}
        with streaming.MDSWriter(out=self.at("mds"), columns=columns, size_limit=1 << 26) as writer:
            for key, number, payload in source:
                writer.write({"key": key, "number": number, "payload": payload})

    def open(self):
        if self.is_remote:
            self.dataset = self.streamed(1)
        else:
            self.dataset = streaming.LocalDataset(self.at("mds"))

    def streamed(self, batch, **options):
        streaming.base.util.clean_stale_shared_memory()
        where = {"local": self.at("mds")}
        if self.is_remote:
            where = {"remote": self.at("mds"), "local": self.cache}
        dataset = streaming.StreamingDataset(**where, batch_size=batch, num_canonical_nodes=1, **options)
        # Else the workers share the connection that has fetched the index, and their answers get mixed up.
        for stream in dataset.streams:
            if getattr(stream, "_downloader", None):
                stream._downloader.clean_up()
        return dataset

    def sample(self, sample):
        return sample["number"], sample["payload"]

    def scan(self):
        return map(self.get, range(self.n))

    def get(self, index):
        return self.sample(self.dataset[index])

    def loader(self, batch, workers, seed):
        def collate(samples):
            return tensors([self.sample(sample) for sample in samples])

        dataset = self.streamed(batch, shuffle=True, shuffle_seed=seed)
        return streaming.StreamingDataLoader(
            dataset, batch_size=batch, num_workers=workers, collate_fn=collate, persistent_workers=True
        )
