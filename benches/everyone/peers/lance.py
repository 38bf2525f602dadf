"""A table with an index of keys (BTREE); `take`, in threads, as its own do not survive a fork. Arrays: fixed lists."""

import os

from . import Base, arrow_batches, arrow_kind, arrow_samples, threads_over_indices

COLUMNS = ["number", "payload"]


class Peer(Base):
    title = "Lance"
    urls = ("s3",)

    @classmethod
    def imports(cls):
        global lance, pa
        import lance
        import pyarrow as pa

    def write(self, source):
        schema = pa.schema([("key", pa.string()), ("number", pa.int64()), ("payload", arrow_kind(self.shape))])
        table = lance.write_dataset(arrow_batches(source, 256), self.at("table.lance"), schema=schema)
        table.create_scalar_index("key", "BTREE")

    def open(self):
        options = None
        if os.environ.get("AWS_ENDPOINT_URL") and self.is_remote:
            options = {"aws_endpoint": os.environ["AWS_ENDPOINT_URL"], "allow_http": "true", "aws_region": "us-east-1"}
        self.table = lance.dataset(self.at("table.lance"), storage_options=options)

    def scan(self):
        for batch in self.table.to_batches(columns=COLUMNS):
            yield from arrow_samples(batch, self.shape)

    def get_many(self, indices):
        return list(arrow_samples(self.table.take(indices, columns=COLUMNS), self.shape))

    def get(self, index):
        return self.get_many([index])[0]

    def get_key(self, key):
        found = self.table.scanner(columns=COLUMNS, filter=f"key = '{key}'").to_table()
        return next(arrow_samples(found, self.shape))

    def loader(self, batch, workers, seed):
        return threads_over_indices(self, batch, workers, seed)
