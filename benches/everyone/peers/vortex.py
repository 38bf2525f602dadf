"""One file, compressed as it chooses; scans of indices or of a key, in threads. Arrays: fixed lists."""

from . import Base, arrow_batches, arrow_samples, threads_over_indices

COLUMNS = ["number", "payload"]


class Peer(Base):
    title = "Vortex"
    urls = ("http",)

    @classmethod
    def imports(cls):
        global vortex, expressions, pa
        import pyarrow as pa
        import vortex
        import vortex.expr as expressions

    def write(self, source):
        batches = arrow_batches(source, 256)
        first = next(batches)

        def all_of_them():
            yield first
            yield from batches

        vortex.io.write(pa.RecordBatchReader.from_batches(first.schema, all_of_them()), self.at("data.vortex"))

    def open(self):
        self.file = vortex.open(self.at("data.vortex"))

    def scan(self):
        for batch in self.file.to_arrow(COLUMNS):
            yield from arrow_samples(batch, self.shape)

    def samples(self, **which):
        found = self.file.scan(COLUMNS, **which).read_all().to_arrow_table()
        return arrow_samples(found, self.shape)

    def get_many(self, indices):
        # They have to be sorted.
        wanted = vortex.array(pa.array(sorted(indices), pa.uint64()))
        found = dict(self.samples(indices=wanted))
        return [(index, found[index]) for index in indices]

    def get(self, index):
        return self.get_many([index])[0]

    def get_key(self, key):
        return next(self.samples(expr=expressions.column("key") == key))

    def loader(self, batch, workers, seed):
        return threads_over_indices(self, batch, workers, seed)
