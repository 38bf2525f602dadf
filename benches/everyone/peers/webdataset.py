"""Shards of tar, read as streams; `WebLoader`, a buffer of 2,000 samples (arrays: 200) in each worker is shuffled."""

from . import Base, tensors


class Peer(Base):
    title = "WebDataset"
    urls = ("http",)

    @classmethod
    def imports(cls):
        global wds
        import torch.utils.data  # noqa: F401
        import webdataset as wds

    def write(self, source):
        shard = -(-source.n // 16)
        # A time with a fraction takes a second header for each member.
        options = {"maxcount": shard, "maxsize": 1 << 40, "mtime": 0, "verbose": 0}
        with wds.ShardWriter(self.at("%04d.tar"), **options) as writer:
            for key, number, payload in source:
                writer.write({"__key__": key, "cls": str(number), "bin": self.plain(payload)})

    def open(self):
        self.stream = wds.WebDataset(self.names("*.tar"), shardshuffle=False, empty_check=False)

    def sample(self, sample):
        return int(sample["cls"]), self.payload(sample["bin"])

    def scan(self):
        return map(self.sample, self.stream)

    def loader(self, batch, workers, seed):
        def collate(samples):
            return tensors([self.sample(sample) for sample in samples])

        urls = self.names("*.tar")
        stream = wds.WebDataset(urls, shardshuffle=len(urls), seed=seed, empty_check=False)
        stream = stream.shuffle(200 if self.shape else 2000).batched(batch, collation_fn=collate, partial=True)
        return wds.WebLoader(stream, batch_size=None, num_workers=workers, persistent_workers=True)
