"""Forks, spawns and serves processes next to a live loader, round after round.

    python python/tests/soak.py [ROUNDS]

Each round starts a process with every start method in turn. The process reads the dataset of its parent, runs a loader,
verifies the dataset, and answers within 60 seconds, or the round has failed. Ends with the number of rounds, the largest
private memory of a process above that of one without pykiste's work, the size of a pickled dataset, and how long a
loader takes from a saved state to its first batch.
"""

import multiprocessing
import pickle
import sys
import tempfile
import time
from pathlib import Path

import pykiste as ki

SAMPLES = 20_000


def private():
    """Bytes of memory that no other process shares."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Private_"))


def work(dataset, pipe):
    before = private()
    for index in range(0, SAMPLES, 7):
        dataset[index]
    after = private()
    loader = ki.Loader(dataset, ki.Sampler.shuffle(SAMPLES, 1), columns={"n": "int64"}, threads=2)
    seen = sum(int(batch["n"].sum()) for batch in loader)
    good = ki.verify(dataset.path)["good"]
    pipe.send((seen == sum(range(SAMPLES)) and good, after - before))


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.msgpack"
        with ki.Writer(path, durable=False) as writer:
            for number in range(SAMPLES):
                writer.write({"key": f"{number:06}", "n": number, "data": bytes(100)})
        dataset = ki.open(path)
        live = ki.Loader(dataset, columns={"n": "int64"}, batch_size=16)
        next(iter(live))
        ki.verify(path)
        methods = ["fork"] * 8 + ["forkserver", "spawn"]
        memory, counts = {}, dict.fromkeys(methods, 0)
        for number in range(rounds):
            method = methods[number % len(methods)]
            context = multiprocessing.get_context(method)
            ours, theirs = context.Pipe()
            process = context.Process(target=work, args=(dataset, theirs))
            process.start()
            if not ours.poll(60):
                sys.exit(f"round {number}, {method}: no answer in 60 seconds")
            good, more = ours.recv()
            process.join(60)
            if not good or process.exitcode:
                sys.exit(f"round {number}, {method}: wrong answer, exit code {process.exitcode}")
            counts[method] += 1
            memory[method] = max(memory.get(method, 0), more)
        resumed = []
        for position in range(0, SAMPLES, SAMPLES // 20):
            loader = ki.Loader(dataset, ki.Sampler.shuffle(SAMPLES, 1), columns={"n": "int64"})
            start = time.perf_counter()
            loader.load_state_dict({"epoch": 3, "position": position})
            next(iter(loader))
            resumed.append(time.perf_counter() - start)
        print("rounds without a hang:", counts)
        print("private memory of reading:", {name: f"{most / 2**20:.1f} MiB" for name, most in memory.items()})
        print("pickled dataset:", len(pickle.dumps(dataset)), "bytes")
        print(f"resumed to the first batch: {sorted(resumed)[len(resumed) // 2] * 1e3:.2f} ms (median)")


if __name__ == "__main__":
    main()
