"""Ray Data: a datasource that reads datasets in tasks, and a datasink that writes one from parts.

::

    import ray
    from pykiste.ray import KisteDatasink, KisteDatasource

    rows = ray.data.read_datasource(KisteDatasource("train.msgpack"))
    rows.map(augment).write_datasink(KisteDatasink("augmented.msgpack"))
"""

import os
import shutil

import pykiste as ki

try:
    from ray.data import Datasink, Datasource, ReadTask
    from ray.data._internal.delegating_block_builder import DelegatingBlockBuilder
    from ray.data.block import BlockAccessor, BlockMetadata
except ImportError as error:  # pragma: no cover
    message = "pykiste.ray needs Ray Data: pip install 'ray[data]'"
    raise ki.errors.MissingPackageError(message) from error

__all__ = ["KisteDatasink", "KisteDatasource"]

# Rows of a block: as many as fit in about this many bytes of packed samples.
_BLOCK_BYTES = 64 << 20


class KisteDatasource(Datasource):
    """The samples of a dataset, or of several shards, for `ray.data.read_datasource`: paths, or datasets that are open,
    such as what was made of others.

    Each read task has a run of neighbours of one shard, and opens it where it runs: all nodes must see
    the same paths.
    """

    def __init__(self, paths):
        super().__init__()
        paths = [paths] if isinstance(paths, (str, os.PathLike, ki.Dataset)) else paths
        self._shards = []
        for path in paths:
            is_open = isinstance(path, ki.Dataset)
            dataset = path if is_open else ki.open(path)
            # Workers do not evaluate a recipe again: with the dataset they get what it chose.
            place = dataset if is_open or dataset.sources is not None else os.path.abspath(path)
            self._shards.append((place, len(dataset), dataset.data_size))
            if place is not dataset:
                dataset.close()

    def get_name(self):
        """What Ray calls it in its reports."""
        return "Kiste"

    def estimate_inmemory_data_size(self):
        """Bytes of the data files."""
        return sum(size for _, _, size in self._shards)

    def get_read_tasks(self, parallelism, per_task_row_limit=None, data_context=None):
        """About `parallelism` tasks with equally many samples, and at least one for each shard."""
        samples = sum(count for _, count, _ in self._shards)
        each = max(1, -(-samples // max(1, parallelism)))
        tasks = []
        for path, count, size in self._shards:
            for start in range(0, count, each):
                stop = min(start + each, count)
                rows = stop - start
                metadata = BlockMetadata(
                    num_rows=rows,
                    size_bytes=size * rows // count,
                    input_files=[str(path.path or path) if isinstance(path, ki.Dataset) else path],
                    exec_stats=None,
                )
                read = _Read(path, count, size, start, stop)
                tasks.append(ReadTask(read, metadata, per_task_row_limit=per_task_row_limit))
        return tasks


class _Read:
    """Reads some samples of one shard, as blocks."""

    def __init__(self, path, samples, size, start, stop):
        self.path, self.samples, self.size, self.start, self.stop = path, samples, size, start, stop

    def __call__(self):
        if isinstance(self.path, ki.Dataset):
            yield from self._blocks(self.path)
            return
        with ki.open(self.path) as dataset:
            if (len(dataset), dataset.data_size) != (self.samples, self.size):
                message = f"{self.path}: expected the dataset of the datasource, found another one"
                raise ki.errors.ReplacedError(message, path=self.path)
            yield from self._blocks(dataset)

    def _blocks(self, dataset):
        rows = max(1, _BLOCK_BYTES * self.samples // max(1, self.size))
        for start in range(self.start, self.stop, rows):
            block = DelegatingBlockBuilder()
            for sample in dataset[start : min(start + rows, self.stop)]:
                block.add(sample)
            yield block.build()


class KisteDatasink(Datasink):
    """Writes rows to one dataset, for `Dataset.write_datasink`. Rows need text in the column `key`.

    Each write task writes a part next to the dataset, in `PATH.parts`, which all nodes must see. At the
    end the parts become one dataset, in the order of the tasks. A write that fails leaves nothing.
    Options are those of `pykiste.merge`, such as `overwrite=True`.
    """

    def __init__(self, path, **options):
        self.path = os.path.abspath(path)
        self.options = options
        self.parts = self.path + ".parts"

    def on_write_start(self, *args, **kwargs):
        """Makes the folder of the parts. The dataset must not exist, unless it may be overwritten."""
        if os.path.lexists(self.path) and not self.options.get("overwrite"):
            raise ki.errors.AlreadyExistsError(f"{self.path}: the dataset exists already", path=self.path)
        # Fails if another write is at work there.
        os.mkdir(self.parts)

    def write(self, blocks, ctx):
        """Writes the part of a task and returns its path."""
        path = os.path.join(self.parts, f"{ctx.task_idx:08}.msgpack")
        # A task that is tried again replaces what it wrote before.
        with ki.Writer(path, overwrite=True, digests=False, durable=False) as writer:
            for block in blocks:
                for row in BlockAccessor.for_block(block).iter_rows(public_row_format=True):
                    writer.write(dict(row))
        return path

    def on_write_complete(self, write_result):
        """Joins the parts and removes them."""
        try:
            ki.merge(sorted(write_result.write_returns), self.path, labels="drop", **self.options)
        finally:
            shutil.rmtree(self.parts)

    def on_write_failed(self, error):
        """Removes the parts."""
        shutil.rmtree(self.parts, ignore_errors=True)
