"""`FileWriter`; `MsgpackReader`; PyTorch's `DataLoader`. Arrays are bytes, which are not compressed."""

from . import Base, torch_loader


class Peer(Base):
    title = "datadings"

    @classmethod
    def imports(cls):
        global FileWriter, MsgpackReader
        import torch.utils.data  # noqa: F401
        from datadings.reader import MsgpackReader
        from datadings.writer import FileWriter

    def write(self, source):
        with FileWriter(self.at("data.msgpack"), overwrite=True, disable=True) as writer:
            for key, number, payload in source:
                writer.write({"key": key, "label": number, "payload": self.plain(payload)})

    def open(self):
        self.reader = MsgpackReader(self.at("data.msgpack"))

    def sample(self, sample):
        return sample["label"], self.payload(sample["payload"])

    def scan(self):
        return map(self.sample, self.reader.iter(copy=False, chunk_size=64))

    def get(self, index):
        return self.sample(self.reader.get(index))

    def get_key(self, key):
        return self.get(self.reader.find_index(key))

    def loader(self, batch, workers, seed):
        return torch_loader(self, batch, workers, seed)
