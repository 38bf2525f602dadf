"""Chunks of 64 MiB; `StreamingDataset` with its loader. Arrays are bytes, which are not compressed."""

import os

from . import Base, tensors


class Peer(Base):
    title = "litData"
    urls = ("s3",)
    resumes = True

    @classmethod
    def imports(cls):
        global litdata, Cache
        os.environ["DISABLE_VERSION_CHECK"] = "1"
        import litdata
        from litdata.streaming.cache import Cache

    def write(self, source):
        # What `optimize` calls in each of its workers.
        cache = Cache(self.at("chunks"), chunk_bytes=1 << 26)
        for key, number, payload in source:
            cache[number] = {"key": key, "number": number, "payload": self.plain(payload)}
        cache.done()
        cache.merge()

    def streamed(self, **options):
        if self.is_remote:
            options["cache_dir"] = self.cache
            endpoint = os.environ.get("AWS_ENDPOINT_URL")
            if endpoint:
                from litdata.streaming import downloader

                downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True
                options["storage_options"] = {"endpoint_url": endpoint, "region_name": "us-east-1"}
        return litdata.StreamingDataset(self.at("chunks"), **options)

    def open(self):
        self.dataset = self.streamed(shuffle=False)

    def sample(self, sample):
        return sample["number"], self.payload(sample["payload"])

    def scan(self):
        return map(self.sample, self.dataset)

    def get(self, index):
        return self.sample(self.dataset[index])

    def loader(self, batch, workers, seed):
        def collate(samples):
            return tensors([self.sample(sample) for sample in samples])

        dataset = self.streamed(shuffle=True, seed=seed)
        return litdata.StreamingDataLoader(
            dataset, batch_size=batch, num_workers=workers, collate_fn=collate, persistent_workers=True
        )
