"""Threads that work with one object while others ask for it: none waits for ever. Each runs in a process of its own."""

import subprocess
import sys

import pytest

# Each has `work`, which needs the lock of Python in the end, as for an exception, and `ask` for another thread.
CASES = {
    "writer": """
writer = ki.Writer(folder / "x.msgpack")
writer.write({"key": "a"})
def work():
    try:
        writer.write({"key": "a"})
    except (KeyError, ValueError):
        pass
def ask():
    try:
        len(writer), "a" in writer, writer.flush()
    except ValueError:
        pass
end = writer.abort
""",
    "writer that is closed": """
writer = ki.Writer(folder / "x.msgpack")
writer.write({"key": "a"})
def work():
    try:
        writer.write({"key": "a"})
    except (KeyError, ValueError):
        pass
def ask():
    try:
        writer.close() if random.random() < 0.01 else len(writer)
    except ValueError:
        pass
end = writer.abort
""",
    "store": """
store = ki.ArrayStore.create(folder / "store", (4, 4), "u1", durable=False)
def work():
    try:
        store.resize([3])
    except ValueError:
        pass
def ask():
    store.shape, store.version, store[0], repr(store), len(store)
end = store.close
""",
    "staged version": """
store = ki.ArrayStore.create(folder / "store", (4, 4), "u1", durable=False)
staged = store.stage("x")
def work():
    try:
        staged[9] = 1
    except IndexError:
        pass
    store.commit(staged)
def ask():
    staged.shape, staged[0], len(staged), staged.attrs, staged.has_changes
    staged[1] = random.randrange(9)
end = store.close
""",
    "loader": """
with ki.Writer(folder / "x.msgpack") as writer:
    for number in range(20):
        writer.write({"key": str(number), "n": number if number % 3 else "text"})
loader = ki.Loader(ki.open(folder / "x.msgpack"), batch_size=2, columns={"n": "int64"}, threads=2)
def work():
    try:
        next(loader)
    except (StopIteration, ki.Error):
        pass
def ask():
    loader.state_dict(), loader.report(), repr(loader)
    if random.random() < 0.05:
        loader.close()
end = loader.close
""",
    "loader without threads": """
with ki.Writer(folder / "x.msgpack") as writer:
    for number in range(20):
        writer.write({"key": str(number), "n": number if number % 3 else "text"})
loader = ki.Loader(ki.open(folder / "x.msgpack"), batch_size=2, columns={"n": "int64"}, threads=0)
def work():
    try:
        next(loader)
    except (StopIteration, ki.Error):
        pass
def ask():
    loader.state_dict(), repr(loader), iter(loader)
end = loader.close
""",
    "dataset": """
with ki.Writer(folder / "x.msgpack") as writer:
    for number in range(20):
        writer.write({"key": str(number)})
dataset = ki.open(folder / "x.msgpack")
def work():
    try:
        dataset["none"]
    except (KeyError, ValueError):
        pass
    try:
        ki.unpack(b"\\xc1")
    except ki.Error:
        pass
def ask():
    dataset[3], len(dataset), repr(dataset), list(dataset)
end = dataset.close
""",
}

SCRIPT = """
import faulthandler, pathlib, random, sys, threading
import pykiste as ki
faulthandler.dump_traceback_later(100, exit=True)
sys.setswitchinterval(1e-5)
folder = pathlib.Path(sys.argv[1])
{case}
def run(what):
    for _ in range(150):
        what()
threads = [threading.Thread(target=run, args=(what,)) for what in (work, ask, work, ask)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
end()
print("done")
"""


@pytest.mark.parametrize("case", CASES)
def test_no_thread_waits_for_ever(tmp_path, case):
    script = SCRIPT.format(case=CASES[case])
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr[-5000:]
