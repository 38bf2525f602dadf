"""A B-tree in a map, by number, and a second one by key; PyTorch's `DataLoader`. Arrays are not compressed."""

import struct

from . import Base, of_record, to_record, torch_loader

NUMBER = struct.Struct(">Q")


class Peer(Base):
    title = "LMDB"

    @classmethod
    def imports(cls):
        global lmdb
        import lmdb
        import torch.utils.data  # noqa: F401

    def write(self, source):
        size = source.nbytes * 3 + source.n * 1000 + (1 << 26)
        options = {"sync": False, "metasync": False, "lock": False, "meminit": False}
        tree = lmdb.open(self.at("data.lmdb"), subdir=False, max_dbs=2, map_size=size, writemap=True, **options)
        records, keys = tree.open_db(b"records"), tree.open_db(b"keys")
        with tree.begin(write=True, db=records) as change:
            for key, number, payload in source:
                change.put(NUMBER.pack(number), to_record(key, number, self.plain(payload)), append=True)
        with tree.begin(write=True, db=keys) as change, change.cursor() as cursor:
            pairs = sorted((key.encode(), NUMBER.pack(number)) for number, key in enumerate(source.keys))
            cursor.putmulti(pairs, append=True)
        tree.close()

    def open(self):
        options = {"readonly": True, "lock": False}
        self.tree = lmdb.open(self.at("data.lmdb"), subdir=False, max_dbs=2, **options)
        records, keys = (self.tree.open_db(name, create=False) for name in (b"records", b"keys"))
        self.records = self.tree.begin(db=records, buffers=True)
        self.keys = self.tree.begin(db=keys, buffers=True)

    def sample(self, record):
        number, data = of_record(record)
        return number, self.payload(data)

    def scan(self):
        with self.records.cursor() as cursor:
            yield from map(self.sample, cursor.iternext(keys=False))

    def get(self, index):
        return self.sample(self.records.get(NUMBER.pack(index)))

    def get_key(self, key):
        return self.sample(self.records.get(self.keys.get(key.encode())))

    def loader(self, batch, workers, seed):
        return torch_loader(self, batch, workers, seed)
