"""Ctrl-C ends every call that may take long.

Each call is made in a process of its own that would need minutes or more for it, and gets SIGINT once it says that it
started. The test fails if the process is not gone, with `KeyboardInterrupt`, after a bound that is far below that.
"""

import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are those of Unix")

# Seconds, on a machine that is busy with something else.
BOUND = 30

PREPARE = {
    # A map that names one key again and again takes long, and no memory.
    "slow": """
scalar = b"\\x83\\xc4\\x02nd\\xc2\\xc4\\x04type\\xa3<f4\\xc4\\x04data\\xc4\\x04abcd"
value = b"\\xdf" + (500_000).to_bytes(4, "big") + (b"\\xa1a" + scalar) * 500_000
with ki.Writer(folder / "slow.msgpack", digests=False) as writer:
    writer.write_packed(b"\\x82\\xa3key\\xa1a\\xa5value" + value)
dataset = ki.open(folder / "slow.msgpack")
""",
    # Comparing the sample with its checksum takes a while, and no memory.
    "large": """
with ki.Writer(folder / "large.msgpack", digests=False, checksums=True) as writer:
    writer.write({"key": "a", "data": bytes(32 << 20)})
dataset = ki.open(folder / "large.msgpack", verify=True, copy=False)
many = ki.Sampler.repeat(ki.Sampler.sequential(1), 100_000)
columns = {"key": bytes}
""",
    # Some hundred gigabytes, of which most are holes of the file.
    "sparse": """
import struct
count, size = 3000, 1 << 28
head = b"\\x82\\xa3key\\xa8%08d\\xa4data\\xc6" + struct.pack(">I", size)
path = folder / "sparse.msgpack"
each = len(head % 0) + size
with open(path, "wb") as file:
    for number in range(count):
        file.seek(number * each)
        file.write(head % number)
    file.truncate(count * each)
offsets = b"".join(struct.pack(">Q", number * each) for number in range(count + 1))
(folder / "sparse.msgpack.offsets").write_bytes(offsets)
(folder / "sparse.msgpack.md5").write_text("0" * 32 + "  sparse.msgpack\\n")
""",
    # Takes connections, and says nothing.
    "server": """
import socket
server = socket.create_server(("127.0.0.1", 0), backlog=100)
url = f"http://127.0.0.1:{server.getsockname()[1]}/x.msgpack"
""",
    "nothing": "",
}

CALLS = {
    "a list of samples": ("large", "dataset[[0] * 1_000_000]"),
    "many samples": ("large", "dataset.get_many([0] * 1_000_000)"),
    "samples that are slow": ("slow", "dataset[[0] * 1000]"),
    "samples of a batch": ("slow", "batch.samples"),
    "next": ("large", "next(ki.Loader(dataset, many, batch_size=100_000, threads=2, columns=columns))"),
    "next without threads": ("large", "next(ki.Loader(dataset, many, batch_size=100_000, threads=0, columns=columns))"),
    "pack": ("nothing", "ki.pack([[np.float32(1)] * 60_000] * 60_000)"),
    "verify": ("sparse", "ki.verify(path)"),
    "a deep verify": ("sparse", "ki.verify(path, deep=True)"),
    "index": ("sparse", "ki.index(path, force=True, checksums=True)"),
    "filter by a function": ("sparse", "ki.filter(path, folder / 'out.msgpack', bool)"),
    "diff": ("sparse", "ki.diff(path, path)"),
    "a slice of an order": ("nothing", "ki.Sampler.shuffle(1 << 40).order(0)[::-1000]"),
    "opening a URL": ("server", "ki.open(url)"),
}

# A batch that is there when the call begins.
BATCH = """
batch = next(ki.Loader(dataset, ki.Sampler.repeat(ki.Sampler.sequential(1), 100), batch_size=100, threads=1, queue=1))
"""
PREPARE["slow"] += BATCH

SCRIPT = """
import os, pathlib, sys
import numpy as np
import pykiste as ki
folder = pathlib.Path(sys.argv[1])
{prepare}
try:
    print("started", flush=True)
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    os._exit(0)
print("finished", flush=True)
"""


@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_ends(tmp_path, name):
    prepare, call = CALLS[name]
    script = SCRIPT.format(prepare=PREPARE[prepare], call=call)
    command = [sys.executable, "-c", script, tmp_path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "started\n", process.stderr.read()
            process.send_signal(signal.SIGINT)
            said, errors = process.communicate(timeout=BOUND)
        finally:
            process.kill()
    assert said == "interrupted\n", errors


def test_a_handler_may_use_the_loader_that_it_interrupts(numbers):
    """Such as one that saves the state of a run before the process is ended."""
    script = """
import signal, sys
import pykiste as ki
loader = ki.Loader(ki.open(sys.argv[1]), batch_size=10, threads={threads})
said = []
def handle(number, frame):
    said.append(loader.state_dict())
    try:
        loader.close()
    except ki.errors.FaultError:
        pass
signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
while len(said) < 50:
    next(loader, None)
signal.setitimer(signal.ITIMER_REAL, 0)
print("done")
"""
    for threads in (0, 2):
        command = [sys.executable, "-c", script.format(threads=threads), numbers]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.stdout == "done\n", done.stderr
