"""Runs single operations of one peer, each in a process of its own that is forked once the peer's library has been
imported. Reads jobs and writes results, one JSON object a line.

    python worker.py PEER PACKAGE...
"""

import contextlib
import importlib
import json
import logging
import os
import pickle
import select
import signal
import sys
import tempfile
import time
import traceback
import warnings
from importlib.metadata import PackageNotFoundError, version

import machine
import numpy as np
from workloads import Source


class Clock:
    """What is between `with` and its end: seconds, and those of all processors."""

    def __enter__(self):
        self.processor, self.begin = machine.processor_seconds(), time.perf_counter()
        return self

    def __exit__(self, *_):
        self.seconds = time.perf_counter() - self.begin
        self.cpu = machine.processor_seconds() - self.processor


def report(clock, count, ok, **more):
    return {"seconds": clock.seconds, "cpu": clock.cpu, "items": count, "ok": bool(ok), **more}


def ends(payload):
    if isinstance(payload, np.ndarray):
        return float(payload[0, 0, 0]) + float(payload[-1, -1, -1])
    return payload[0] + payload[-1]


def write(peer, source, job):
    with Clock() as clock:
        peer.write(source)
    return report(clock, source.n, ok=True)


def first(peer, source, job):
    with Clock() as clock:
        peer.open()
        number, payload = peer.get(0) if hasattr(peer, "get") else next(iter(peer.scan()))
        found = number + ends(payload)
    return report(clock, 1, found == source.checksum([0]))


def passed(samples, cap):
    """How many there were until the time was over, and their checksum."""
    count, total, end = 0, 0, time.perf_counter() + cap
    for number, payload in samples:
        total += number + ends(payload)
        count += 1
        if count % 16 == 0 and time.perf_counter() > end:
            break
    return count, float(total)


def scan(peer, source, job):
    peer.open()
    with Clock() as clock:
        count, total = passed(peer.scan(), job["cap"])
    return report(clock, count, total == source.checksum(np.arange(count)), all=count == source.n, checksum=total)


def accesses(peer, source, job, get, names):
    indices = source.indices[: job["count"]]
    get(names[indices[-1]])
    with Clock() as clock:
        count, total = passed((get(names[index]) for index in indices), job["cap"])
    return report(clock, count, total == source.checksum(indices[:count]), all=count == len(indices), checksum=total)


def index(peer, source, job):
    peer.open()
    return accesses(peer, source, job, peer.get, range(source.n))


def key(peer, source, job):
    peer.open()
    return accesses(peer, source, job, peer.get_key, source.keys)


class Seen:
    """The batches of an epoch, as far as it takes to know whether they are right."""

    def __init__(self, peer, consume=None):
        self.peer, self.consume = peer, consume
        self.numbers, self.ends, self.nbytes = [], [], 0

    def add(self, batch):
        numbers, data = self.peer.arrays(batch)
        flat = data.reshape(-1)
        # The memory of a batch may be used again.
        self.numbers.append(np.array(numbers))
        self.ends.append((float(flat[0]), float(flat[-1])))
        self.nbytes += data.nbytes
        if self.consume:
            self.consume(numbers, data)

    def take(self, batches, limit=None, cap=float("inf")):
        """Whether that was all of it."""
        end = time.perf_counter() + cap
        for batch in batches:
            self.add(batch)
            if len(self.numbers) == limit or time.perf_counter() > end:
                return False
        return True

    def all(self):
        return np.concatenate(self.numbers)

    def ok(self, source):
        """Each sample at most once, and the bytes are theirs."""
        numbers = self.all()
        if len(np.unique(numbers)) != len(numbers):
            return False
        if self.peer.padded:
            return True
        first, _ = source.ends([each[0] for each in self.numbers])
        _, last = source.ends([each[-1] for each in self.numbers])
        same = [(one, two) for one, two in zip(first, last)] == self.ends
        return same and self.nbytes == source.nbytes_of(numbers)


def epoch(peer, source, job, consume=None):
    """The first of them where the cache is cold or empty, with the start of the workers; else the second."""
    seen = Seen(peer, consume)
    with Clock() as clock:
        batches = peer.loader(job["batch"], job["workers"], job["seed"])
        complete = seen.take(batches, cap=job["cap"])
    if job["state"] == "warm" and complete:
        seen = Seen(peer, consume)
        with Clock() as clock:
            complete = seen.take(batches, cap=job["cap"])
    numbers = seen.all()
    ok = seen.ok(source) and (not complete or len(numbers) == source.n)
    shuffled = float(np.abs(numbers - np.arange(len(numbers))).mean() / (source.n / 3)) if complete else None
    return report(clock, len(numbers), ok, all=complete, shuffled=shuffled, checksum=source.checksum(numbers))


def device(peer, source, job):
    """The same, with each batch copied to pinned memory and from there to the GPU."""
    import torch

    def copy(numbers, data):
        for part in (numbers, data):
            torch.from_numpy(np.asarray(part)).pin_memory().to("cuda", non_blocking=True)

    torch.zeros(1, device="cuda")
    found = epoch(peer, source, job, copy)
    torch.cuda.synchronize()
    return found


def half(source, job):
    return max(1, source.n // job["batch"] // 2)


def halt(peer, source, job):
    """An epoch that is stopped in its middle; `resume` goes on."""
    seen = Seen(peer)
    loader = peer.loader(job["batch"], job["workers"], job["seed"])
    with Clock() as clock:
        seen.take(loader, limit=half(source, job))
    with open(job["note"], "wb") as file:
        pickle.dump((loader.state_dict(), seen.all()), file)
    return report(clock, len(seen.all()), seen.ok(source))


def resume(peer, source, job):
    """Up to the first batch."""
    with open(job["note"], "rb") as file:
        state, before = pickle.load(file)
    seen = Seen(peer)
    with Clock() as clock:
        loader = peer.loader(job["batch"], job["workers"], job["seed"])
        loader.load_state_dict(state)
        batches = iter(loader)
        seen.add(next(batches))
    seen.take(batches)
    together = np.concatenate([before, seen.all()])
    ok = seen.ok(source) and np.array_equal(np.sort(together), np.arange(source.n))
    return report(clock, 1, ok)


OPS = {each.__name__: each for each in (write, first, scan, index, key, epoch, device, halt, resume)}
NEEDS = {"index": "get", "key": "get_key", "epoch": "loader", "device": "loader"}


def offered(kind):
    """The operations that a peer has."""
    found = [op for op in OPS if hasattr(kind, NEEDS.get(op, "scan"))]
    return [op for op in found if kind.resumes or op not in ("halt", "resume")]


def run(kind, job):
    source = Source(job["source"])
    with tempfile.TemporaryDirectory(dir=job["scratch"], ignore_cleanup_errors=True) as cache:
        peer = kind(job["place"], source, cache)
        peer.written = job["written"]
        try:
            return OPS[job["op"]](peer, source, job)
        except Exception as error:
            traceback.print_exc()
            return {"error": f"{type(error).__name__}: {error}"[:300]}


def apart(kind, job):
    """The job in a process of its own, and the most memory that it took, looked at from here."""
    before = machine.memory(os.getpid())
    answer, told = os.pipe()
    released, release = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        os.close(release)
        with contextlib.suppress(BaseException):
            os.write(told, json.dumps(run(kind, job)).encode())
            # Until its memory has been looked at.
            os.read(released, 1)
        os._exit(0)
    os.close(told)
    os.close(released)
    most, found, end = before, b"", time.monotonic() + job["timeout"]
    pause = 0.02
    while time.monotonic() < end:
        ready, _, _ = select.select([answer], [], [], pause)
        begin = time.monotonic()
        most = max(most, machine.memory(os.getpid()))
        # It may take one percent of a processor.
        pause = max(0.05, 100 * (time.monotonic() - begin))
        if ready:
            found = os.read(answer, 1 << 16)
            break
    os.close(answer)
    os.close(release)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    _, _, used = os.wait4(child, 0)
    late = time.monotonic() >= end
    result = json.loads(found or json.dumps({"error": "too slow" if late else "it ended without an answer"}))
    return {**result, "memory": most - before, "memory_before": before, "largest_process": used.ru_maxrss << 10}


def main():
    name, *packages = sys.argv[1:]
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    # Libraries print.
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def tell(answer):
        out.write(json.dumps(answer) + "\n")

    try:
        kind = importlib.import_module(f"peers.{name}").Peer
        kind.imports()
    except Exception as error:
        tell({"error": f"{type(error).__name__}: {error}"[:300]})
        return
    versions = {}
    for package in packages:
        with contextlib.suppress(PackageNotFoundError):
            versions[package] = version(package)
    found = {"title": kind.title, "ops": offered(kind), "workloads": kind.workloads, "urls": kind.urls}
    tell({**found, "note": kind.__doc__, "versions": {**versions, **kind.versions()}})
    for line in sys.stdin:
        tell(apart(kind, json.loads(line)))


if __name__ == "__main__":
    main()
