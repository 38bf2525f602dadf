"""kiste and its peers on the same samples: writing, reading, epochs and resuming; time, processors and memory.

    python benches/everyone                     # all that can be installed, on this machine's disk
    python benches/everyone --quick             # the same in minutes
    python benches/everyone --latency 30        # behind a server whose answers take 30 ms to begin
    EVERYONE_BUCKET=s3://bucket/prefix python benches/everyone
    python benches/everyone report RESULTS      # the tables and the chart of what was measured
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import machine
import report
from environments import HERE, REPOSITORY, Environments, Missing, packages

PEERS = sorted(path.stem for path in (HERE / "peers").glob("*.py") if path.stem != "__init__")
# Workloads, and the samples of a batch.
BATCHES = {"records": 256, "10kB": 256, "110kB": 64, "arrays": 32}
WORKLOADS = list(BATCHES)
READING = ["first", "scan", "index", "key", "epoch"]


class Worker:
    """The process of a peer that forks one for each job."""

    def __init__(self, name, interpreter, variables):
        command = [interpreter, HERE / "worker.py", name, *packages(name)]
        quiet = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
        self.process = subprocess.Popen(
            [*map(str, command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if not os.environ.get("EVERYONE_DEBUG") else None,
            text=True,
            env={**os.environ, **quiet, **variables},
        )
        self.name = name

    def imported(self):
        """What it says about itself, once it has imported its library."""
        self.about = self.answer()
        if "error" in self.about:
            raise Missing(f"{self.name}: {self.about['error']}")
        return self.about

    def answer(self):
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": "it ended without an answer"}

    def ask(self, job):
        try:
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()
        except OSError:
            return {"error": "it has ended"}
        return self.answer()

    def close(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.wait()


class Session:
    def __init__(self, options):
        self.options = options
        self.data, self.scratch = options.cache / "data", options.cache / "bucket"
        self.environments = Environments(options.cache / "environments", options.python, options.torch, options.pykiste)
        self.bucket = os.environ.get("EVERYONE_BUCKET", "").rstrip("/")
        self.out = open(options.out, "w")
        self.workers, self.missing, self.server = {}, {}, None
        self.variables, self.bases, self.failed = {}, {}, set()

    def note(self, kind, **record):
        self.out.write(json.dumps({"kind": kind, **record}) + "\n")
        self.out.flush()

    def run(self):
        """Whether all those that have to work do."""
        scale = {"quick": 0.1, "large": 20}.get(self.options.size, 1)
        command = [self.environments.get("data"), HERE / "workloads.py", self.data, "--scale", scale]
        subprocess.run([*map(str, command), *self.options.workloads], check=True)
        try:
            self.start()
            self.describe()
            for workload in self.options.workloads:
                self.measure(workload)
        finally:
            for worker in self.workers.values():
                worker.close()
            if self.server:
                self.server.kill()
                self.server.wait()
            shutil.rmtree(self.scratch, ignore_errors=True)
            self.out.close()
        return not self.failed & {*(self.options.peers or ["kiste"])}

    def start(self):
        """What runs while this measures: a server, if it takes one, and the peers."""
        self.scratch.mkdir(parents=True, exist_ok=True)
        if self.options.latency:
            command = [sys.executable, HERE / "server.py", self.options.cache, *self.options.latency.split(",")]
            self.server = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True)
            url = self.server.stdout.readline().strip()
            self.bases = {"s3": "s3://bucket", "http": f"{url}/bucket"}
            self.variables = {"AWS_ENDPOINT_URL": url, "S3_ENDPOINT_URL": url, "AWS_ALLOW_HTTP": "true"}
            self.variables |= {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any"}
            self.variables |= {"AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1"}
        elif self.bucket:
            self.bases = {"s3": self.bucket}
            endpoint = os.environ.get("AWS_ENDPOINT_URL")
            self.variables = {"S3_ENDPOINT_URL": endpoint} if endpoint else {}
        started = []
        for name in self.options.peers or PEERS:
            with self.named(name):
                started.append(Worker(name, self.environments.get(name), self.variables))
        for worker in started:
            with self.named(worker.name):
                urls = worker.imported()["urls"]
                if self.bases and not set(urls) & set(self.bases):
                    worker.close()
                    raise Missing(f"{worker.name}: does not read such URLs")
                self.workers[worker.name] = worker

    @contextlib.contextmanager
    def named(self, name):
        """Goes on without what is missing, but says so."""
        try:
            yield
        except Missing as missing:
            self.failed.add(name)
            self.missing[name] = str(missing).removeprefix(f"{name}: ")
            print(f"left out: {missing}", file=sys.stderr, flush=True)

    def describe(self):
        self.gpu = self.has_gpu()
        revision = ["git", "-C", str(REPOSITORY), "describe", "--always", "--dirty"]
        found = subprocess.run(revision, capture_output=True, text=True)
        self.note(
            "run",
            date=time.strftime("%Y-%m-%d %H:%M"),
            command=" ".join(["python benches/everyone", *sys.argv[1:]]),
            revision=found.stdout.strip(),
            machine=machine.describe(self.options.cache),
            options={name: getattr(self.options, name) for name in ("size", "rounds", "workers", "cap")},
            latency=self.options.latency,
            bucket=self.bucket,
            gpu=self.gpu,
            missing=self.missing,
            peers={name: worker.about for name, worker in self.workers.items()},
        )

    def has_gpu(self):
        """Asked once, of an environment that has PyTorch."""
        for name in self.workers:
            if "torch" in packages(name):
                command = [self.environments.get(name), "-c", "import torch; print(torch.cuda.is_available())"]
                done = subprocess.run([*map(str, command)], capture_output=True, text=True)
                return done.stdout.strip() == "True"
        return False

    def states(self):
        if self.options.latency:
            return ["latency"]
        return ["bucket"] if self.bucket else ["warm", "cold"]

    def measure(self, workload):
        peers = [name for name, worker in self.workers.items() if workload in worker.about["workloads"]]
        peers = self.rounds(peers, workload, "write", "warm")
        for name in peers:
            if self.bucket and not self.options.latency:
                self.transfer("put", str(self.scratch / workload / name), f"{self.bucket}/{workload}/{name}")
        for state in self.states():
            for op in READING + ["device"] * self.gpu:
                self.rounds(peers, workload, op, state)
            able = [name for name in peers if "resume" in self.workers[name].about["ops"]]
            if state != "cold" and self.rounds(able, workload, "halt", state, rounds=1):
                self.rounds(able, workload, "resume", state)
        for name in peers:
            shutil.rmtree(self.scratch / workload / name, ignore_errors=True)
            if self.bucket and not self.options.latency:
                self.transfer("delete", f"{self.bucket}/{workload}/{name}")

    def transfer(self, *arguments):
        interpreter = self.environments.get("bucket")
        subprocess.run([str(interpreter), str(HERE / "bucket.py"), *arguments], check=True)

    def rounds(self, peers, workload, op, state, rounds=None):
        """One after the other, and that again, but what took too long once; returns those that did not fail."""
        peers = [name for name in peers if op in self.workers[name].about["ops"]]
        failed, slow = set(), set()
        for number in range(rounds or self.options.rounds):
            for name in peers:
                if name in failed | slow:
                    continue
                found = self.once(name, workload, op, state)
                if "error" in found or not found["ok"]:
                    failed.add(name)
                    self.failed.add(name)
                elif found["seconds"] > self.options.cap:
                    slow.add(name)
                self.note("result", peer=name, workload=workload, op=op, state=state, round=number, **found)
                show(name, workload, op, state, found)
        return [name for name in peers if name not in failed]

    def once(self, name, workload, op, state):
        folder, source = self.scratch / workload / name, self.data / workload
        if op == "write":
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        machine.warm(source)
        found = {}
        if state == "cold":
            found["stayed"] = machine.drop(folder)
        else:
            machine.warm(folder)
        place = str(folder)
        if op != "write" and self.bases:
            scheme = next(each for each in self.workers[name].about["urls"][::-1] if each in self.bases)
            place = f"{self.bases[scheme]}/{workload}/{name}"
        job = {"op": op, "state": state, "place": place, "written": str(folder), "source": str(source)}
        job |= {"batch": BATCHES[workload], "workers": self.options.workers, "cap": self.options.cap, "seed": 7}
        # Behind a network each takes as long as an answer.
        job |= {"count": 200 if self.bases else 2000, "timeout": 60 + 10 * self.options.cap}
        job |= {"scratch": str(self.options.cache), "note": str(self.options.cache / f"{name}.state")}
        found |= self.workers[name].ask(job)
        if op == "write" and "error" not in found:
            found["disk"] = machine.size(folder)
        return found


def show(name, workload, op, state, found):
    told = found.get("error") or f"{found['seconds']:.4f} s, {found['cpu']:.4f} of processors, {found['items']}"
    told += "" if found.get("ok", True) else ", WRONG SAMPLES"
    print(f"{workload:8} {state:7} {op:7} {name:12} {told}", file=sys.stderr, flush=True)


def names(allowed):
    def parse(text):
        found = text.split(",")
        for name in found:
            if name not in allowed:
                raise argparse.ArgumentTypeError(f"expected some of {', '.join(allowed)}, found {name}")
        return found

    return parse


def parse():
    kind = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("everyone", description=__doc__, formatter_class=kind)
    add = parser.add_argument
    size = parser.add_mutually_exclusive_group()
    for name, text in [("quick", "a tenth of the samples"), ("large", "20 times as many samples")]:
        size.add_argument(f"--{name}", dest="size", action="store_const", const=name, default="default", help=text)
    cores = machine.describe("/")["cores"]
    add("--peers", type=names(PEERS), help=f"some of {','.join(PEERS)}, which have to work then (default: all that do)")
    add("--workloads", type=names(WORKLOADS), default=WORKLOADS, help=f"some of {','.join(WORKLOADS)}")
    add("--rounds", type=int, default=3, help="processes for each operation; medians are shown (default: 3)")
    add("--workers", type=int, default=cores, help="threads or processes of a loader (default: the cores there are)")
    cap = "what takes longer is not repeated; reading stops (default: 10)"
    add("--cap", type=float, default=10, metavar="SECONDS", help=cap)
    add("--latency", metavar="MS[,MB/S]", help="serve the files with a delay and a limit, and read them by URL")
    add("--cache", type=Path, default=REPOSITORY / "target" / "everyone", help="environments, samples, results")
    add("--out", type=Path, help="the results (default: results.jsonl in the cache)")
    add("--python", default=sys.executable, help="the interpreter of the environments")
    add("--torch", type=Path, help="a site-packages that has PyTorch, instead of installing it")
    add("--pykiste", type=Path, help="a wheel, or a folder that has the built package (default: build python/)")
    options = parser.parse_args()
    options.cache = options.cache.resolve()
    options.cache.mkdir(parents=True, exist_ok=True)
    options.out = options.out or options.cache / "results.jsonl"
    return options


def main():
    if sys.argv[1:2] == ["report"]:
        report.main(sys.argv[2:])
        return
    options = parse()
    works = Session(options).run()
    report.main([str(options.out)])
    sys.exit(not works)


if __name__ == "__main__":
    main()
