"""Row groups of 1,000 records, 32 arrays or about 10 MB; an epoch shuffles groups, and rows within four of them.
Arrays: zstd over streams of bytes; else no compression."""

import random

from . import Base, Threads, arrow_batches, arrow_samples, joined

COLUMNS = ["number", "payload"]
ROWS = {"records": 1000, "10kB": 1000, "110kB": 100, "arrays": 32}


class Peer(Base):
    title = "Parquet (pyarrow)"

    @classmethod
    def imports(cls):
        global pa, pq
        import pyarrow as pa
        import pyarrow.parquet as pq

    def write(self, source):
        options = {"compression": "none", "use_dictionary": False}
        if self.shape:
            options |= {"compression": "zstd", "use_byte_stream_split": ["payload.list.element"]}
        writer = None
        for batch in arrow_batches(source, ROWS[self.name]):
            writer = writer or pq.ParquetWriter(self.at("data.parquet"), batch.schema, **options)
            writer.write_batch(batch)
        writer.close()

    def file_of(self):
        return pq.ParquetFile(self.at("data.parquet"), memory_map=True)

    def open(self):
        self.file = self.file_of()

    def group(self, index, file=None):
        """By another file with one thread, or by this one with those of the library."""
        table = (file or self.file).read_row_group(index, columns=COLUMNS, use_threads=file is None)
        return arrow_samples(table, self.shape)

    def scan(self):
        for index in range(self.file.num_row_groups):
            yield from self.group(index)

    def get(self, index):
        group, row = divmod(index, ROWS[self.name])
        table = self.file.read_row_group(group, columns=COLUMNS, use_threads=False)
        return next(arrow_samples(table.slice(row, 1), self.shape))

    def loader(self, batch, workers, seed):
        def parts(order):
            groups = list(range(self.file.num_row_groups))
            order.shuffle(groups)
            return [(groups[at : at + 4], order.random()) for at in range(0, len(groups), 4)]

        def work(part):
            groups, seed = part
            # Threads cannot share a file.
            file = self.file_of()
            samples = [sample for index in groups for sample in self.group(index, file)]
            random.Random(seed).shuffle(samples)
            return [joined(*zip(*samples[at : at + batch])) for at in range(0, len(samples), batch)]

        self.open()
        return Threads(parts, work, workers, seed)
