"""What the peers have in common. Each module here has one class `Peer`, and its docs say how the library is used."""

import random
import struct
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np


class Base:
    title = ""
    workloads = ("records", "10kB", "110kB", "arrays")
    # What of URLs it reads: http, s3.
    urls = ()
    # Whether its loader goes on in the middle of an epoch: `state_dict` and `load_state_dict`.
    resumes = False
    # Whether a batch holds more than the bytes of its samples.
    padded = False

    def __init__(self, place, source, cache):
        """`place` is a folder or a URL, `cache` an empty folder for what is downloaded."""
        self.place, self.cache = place, cache
        self.n, self.shape, self.name = source.n, source.shape, source.meta["name"]

    @classmethod
    def imports(cls):
        """Imports what would be imported by any program that uses the library."""

    @classmethod
    def versions(cls):
        """Of what no requirement names."""
        return {}

    def at(self, name):
        return f"{self.place}/{name}"

    @property
    def is_remote(self):
        return "://" in self.place

    def names(self, pattern):
        """Names of files, also of those behind a URL: what was uploaded is still there."""
        return [self.at(path.name) for path in sorted(Path(self.written).glob(pattern))]

    def payload(self, data):
        """Of the bytes of a sample."""
        return np.frombuffer(data, "<f4").reshape(self.shape) if self.shape else data

    def plain(self, payload):
        return payload.tobytes() if self.shape else payload

    def arrays(self, batch):
        """The numbers of a batch, and its payloads in one array."""
        numbers, data = batch[:2]
        return np.asarray(numbers), np.asarray(data)


def joined(numbers, payloads):
    """A batch: payloads of bytes back to back, arrays stacked."""
    numbers = np.asarray(numbers, np.int64)
    if isinstance(payloads[0], np.ndarray) and payloads[0].ndim == 3:
        return numbers, np.stack(payloads)
    return numbers, np.frombuffer(b"".join(payloads), np.uint8)


def tensors(samples):
    """The same as tensors, in shared memory if a worker of PyTorch makes it; for `collate_fn`."""
    import torch
    from torch.utils.data import get_worker_info

    numbers, payloads = zip(*samples)
    numbers, data = joined(numbers, payloads)
    if get_worker_info() is None:
        return torch.from_numpy(numbers), torch.from_numpy(np.array(data))
    storage = torch.UntypedStorage._new_shared(data.nbytes)
    shared = torch.empty(0, dtype=torch.float32 if data.ndim > 1 else torch.uint8).set_(storage, 0, data.shape)
    shared.numpy()[...] = data
    return torch.from_numpy(numbers), shared


class MapStyle:
    """A dataset for PyTorch, opened where it is used."""

    def __init__(self, peer):
        self.peer, self.opened = peer, False

    def __len__(self):
        return self.peer.n

    def __getitems__(self, indices):
        if not self.opened:
            self.peer.open()
            self.opened = True
        if hasattr(self.peer, "get_many"):
            return self.peer.get_many(indices)
        return [self.peer.get(index) for index in indices]


def torch_loader(peer, batch, workers, seed):
    """PyTorch's `DataLoader` with worker processes, shuffled, a request for each batch."""
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    order = torch.Generator().manual_seed(seed)
    return DataLoader(
        MapStyle(peer), batch, shuffle=True, generator=order, num_workers=workers, collate_fn=tensors,
        persistent_workers=True, multiprocessing_context="fork",
    )  # fmt: skip


class Threads:
    """Batches made by threads, for libraries whose own threads do not survive a fork. `work(part)` returns some."""

    def __init__(self, parts, work, workers, seed):
        self.parts, self.work, self.workers, self.random = parts, work, workers, random.Random(seed)

    def __iter__(self):
        with ThreadPoolExecutor(self.workers) as pool:
            waiting = deque()
            for part in self.parts(self.random):
                waiting.append(pool.submit(self.work, part))
                if len(waiting) > 2 * self.workers:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()


def threads_over_indices(peer, batch, workers, seed):
    def parts(order):
        indices = list(range(peer.n))
        order.shuffle(indices)
        return (indices[at : at + batch] for at in range(0, peer.n, batch))

    peer.open()
    return Threads(parts, lambda indices: [joined(*zip(*peer.get_many(indices)))], workers, seed)


def variable_column(column):
    """Views of the values of an Arrow column of (large) binaries."""
    views = []
    if str(column.type).endswith("view"):
        column = column.cast("large_binary")
    for chunk in column.chunks if hasattr(column, "chunks") else [column]:
        _, offsets, data = chunk.buffers()
        kind = np.int64 if str(chunk.type).startswith("large") else np.int32
        places = np.frombuffer(offsets, kind)[chunk.offset : chunk.offset + len(chunk) + 1].tolist()
        view = memoryview(data).cast("B")
        views += [view[begin:end] for begin, end in zip(places, places[1:])]
    return views


def fixed_column(column, shape):
    """Views of the arrays of an Arrow column of lists of one length."""
    arrays = []
    for chunk in column.chunks if hasattr(column, "chunks") else [column]:
        arrays += list(chunk.flatten().to_numpy(zero_copy_only=False).reshape(-1, *shape))
    return arrays


def arrow_batches(source, rows):
    """Tables of Arrow for what is written by rows: key, number, payload."""
    import pyarrow as pa

    kind = arrow_kind(source.shape)
    schema = pa.schema([("key", pa.string()), ("number", pa.int64()), ("payload", kind)])
    for at in range(0, source.n, rows):
        indices = range(at, min(at + rows, source.n))
        payloads = [source.payload(index) for index in indices]
        if source.shape:
            flat = pa.array(np.concatenate([each.reshape(-1) for each in payloads]))
            payloads = pa.FixedSizeListArray.from_arrays(flat, type=kind)
        else:
            payloads = pa.array(payloads, kind)
        columns = [pa.array(source.keys[at : at + rows]), pa.array(indices, pa.int64()), payloads]
        yield pa.record_batch(columns, schema=schema)


def arrow_kind(shape):
    import pyarrow as pa

    return pa.list_(pa.float32(), int(np.prod(shape))) if shape else pa.large_binary()


def arrow_samples(table, shape):
    payloads = table.column("payload")
    values = fixed_column(payloads, shape) if shape else variable_column(payloads)
    return zip(table.column("number").to_pylist(), values)


# Records for containers of plain bytes: the number, the length of the key, the key, the payload.
HEAD = struct.Struct("<qH")


def to_record(key, number, payload):
    key = key.encode()
    return HEAD.pack(number, len(key)) + key + payload


def of_record(record):
    number, length = HEAD.unpack_from(record)
    return number, record[HEAD.size + length :]
