"""16 files of groups of one record; random access by `ArrayRecordDataSource`; Grain with threads. Arrays: zstd."""

from . import Base, joined, of_record, to_record

FILES = 16


class Peer(Base):
    title = "ArrayRecord, Grain"
    resumes = True

    @classmethod
    def imports(cls):
        global module, source_of, grain
        import grain
        from array_record.python import array_record_data_source as source_of
        from array_record.python import array_record_module as module

    def write(self, source):
        codec = "group_size:1,zstd:1" if self.shape else "group_size:1,uncompressed"
        each = -(-source.n // FILES)
        for file in range(-(-source.n // each)):
            writer = module.ArrayRecordWriter(self.at(f"{file:02}.arrayrecord"), codec)
            for index in range(file * each, min(source.n, (file + 1) * each)):
                writer.write(to_record(source.keys[index], index, self.plain(source.payload(index))))
            writer.close()

    def open(self):
        self.files = self.names("*.arrayrecord")
        self.records = source_of.ArrayRecordDataSource(self.files)

    def sample(self, record):
        number, data = of_record(record)
        return number, self.payload(data)

    def scan(self):
        for file in self.files:
            reader = module.ArrayRecordReader(file)
            for at in range(0, reader.num_records(), 256):
                yield from map(self.sample, reader.read(at, min(reader.num_records(), at + 256)))

    def get(self, index):
        return self.sample(self.records[index])

    def loader(self, batch, workers, seed):
        return Resumable(self, batch, workers, seed)


class Resumable:
    """An iterator of Grain for each epoch."""

    def __init__(self, peer, batch, workers, seed):
        self.options, self.epoch, self.state = (peer, batch, workers, seed), 0, None

    def __iter__(self):
        peer, batch, workers, seed = self.options
        peer.open()
        data = grain.MapDataset.source(peer.records).seed(seed + self.epoch).shuffle().map(peer.sample)
        data = data.batch(batch, batch_fn=lambda samples: joined(*zip(*samples)))
        self.epoch += 1
        self.iterator = iter(data.to_iter_dataset(grain.ReadOptions(workers, 2 * workers)))
        if self.state:
            self.iterator.set_state(self.state)
        return self.iterator

    def state_dict(self):
        return self.iterator.get_state()

    def load_state_dict(self, state):
        self.state = state
