"""Arrow files, mapped; PyTorch's `DataLoader`. Arrays are bytes, which are not compressed."""

from . import Base, torch_loader


class Peer(Base):
    title = "HF datasets"

    @classmethod
    def imports(cls):
        global datasets, ArrowWriter
        import datasets
        import torch.utils.data  # noqa: F401
        from datasets.arrow_writer import ArrowWriter

    def write(self, source):
        kinds = {"key": "string", "number": "int64", "payload": "binary"}
        features = datasets.Features({name: datasets.Value(kind) for name, kind in kinds.items()})
        with ArrowWriter(features=features, path=self.at("data.arrow"), writer_batch_size=100) as writer:
            for key, number, payload in source:
                writer.write({"key": key, "number": number, "payload": self.plain(payload)})
            writer.finalize()

    def open(self):
        self.dataset = datasets.Dataset.from_file(self.at("data.arrow"))

    def samples(self, rows):
        return zip(rows["number"], map(self.payload, rows["payload"]))

    def scan(self):
        for rows in self.dataset.iter(batch_size=50 if self.shape else 1000):
            yield from self.samples(rows)

    def get(self, index):
        row = self.dataset[index]
        return row["number"], self.payload(row["payload"])

    def get_many(self, indices):
        return list(self.samples(self.dataset[indices]))

    def loader(self, batch, workers, seed):
        return torch_loader(self, batch, workers, seed)
