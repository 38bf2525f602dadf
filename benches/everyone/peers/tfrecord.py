"""TFRecord by the package tfrecord, without TensorFlow; a queue of 2,000 samples (arrays: 200) is shuffled.
Arrays are bytes, which are not compressed."""

from . import Base, tensors

FIELDS = {"number": "int", "payload": "byte"}


class Peer(Base):
    title = "TFRecord (tfrecord)"

    @classmethod
    def imports(cls):
        global tfrecord, TFRecordDataset, create_index, DataLoader
        import tfrecord
        from tfrecord.tools.tfrecord2idx import create_index
        from tfrecord.torch.dataset import TFRecordDataset
        from torch.utils.data import DataLoader

    def write(self, source):
        writer = tfrecord.TFRecordWriter(self.at("data.tfrecord"))
        for key, number, payload in source:
            payload = self.plain(payload)
            writer.write({"key": (key.encode(), "byte"), "number": (number, "int"), "payload": (payload, "byte")})
        writer.close()
        create_index(self.at("data.tfrecord"), self.at("data.index"))

    def open(self):
        pass

    def sample(self, sample):
        return int(sample["number"][0]), self.payload(bytes(sample["payload"]))

    def scan(self):
        return map(self.sample, tfrecord.tfrecord_loader(self.at("data.tfrecord"), None, FIELDS))

    def loader(self, batch, workers, seed):
        def collate(samples):
            return tensors([self.sample(sample) for sample in samples])

        queue = 200 if self.shape else 2000
        files = self.at("data.tfrecord"), self.at("data.index")
        dataset = TFRecordDataset(*files, FIELDS, shuffle_queue_size=queue)
        options = {"batch_size": batch, "num_workers": workers, "persistent_workers": True}
        return DataLoader(dataset, collate_fn=collate, **options)
