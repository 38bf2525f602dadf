"""Datasets behind HTTP read like files."""

import http.server
import re
import threading
import time
from pathlib import Path

import pytest
from conftest import place

import pykiste as ki


# Answers wait while it is clear.
GATE = threading.Event()
GATE.set()


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers ranges of the files in a folder."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        GATE.wait(60)
        # What follows a "?" may be a signature.
        file = self.server.folder / self.path.split("?")[0].lstrip("/")
        if not file.is_file():
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        content = file.read_bytes()
        start, end = 0, len(content)
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if asked:
            first, last = asked.groups()
            start = int(first) if first else max(end - int(last), 0)
            end = min(int(last) + 1, end) if first and last else end
        if asked and start >= len(content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(content)}")
        self.send_header("Content-Length", str(end - start))
        self.send_header("ETag", f'"{file.stat().st_mtime_ns}"')
        self.end_headers()
        self.wfile.write(content[start:end])

    def log_message(self, *_args):
        pass


@pytest.fixture
def served(tmp_path):
    path = tmp_path / "numbers.msgpack"
    with ki.Writer(path) as writer:
        for number in range(3000):
            writer.write({"key": f"{number:04}", "number": number, "data": bytes([number % 256]) * 40})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.folder = tmp_path
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/numbers.msgpack"
    try:
        try:
            ki.open(url)
        except ki.errors.UnsupportedError as error:
            pytest.skip(str(error))
        yield path, url
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_loader_says_where_it_is_while_another_thread_waits_for_a_batch(served):
    dataset = ki.open(served[1])
    got, asked, begins = [], [], threading.Event()
    GATE.clear()
    try:
        loader = ki.Loader(dataset, batch_size=1000, columns={"number": "int64"}, threads=1)

        def wait():
            begins.set()
            got.append(next(loader))

        def ask():
            asked.extend([repr(loader), loader.state_dict(), loader.report()["batches"]])

        waiting, asking = (threading.Thread(target=work, daemon=True) for work in (wait, ask))
        waiting.start()
        assert begins.wait(60)
        time.sleep(0.3)
        asking.start()
        asking.join(20)
        said, state, batches = asked
        assert not got and said.endswith("epoch 0, position 0)") and place(state) == (0, 0) and batches == 0
    finally:
        GATE.set()
    waiting.join(60)
    assert got[0]["number"].tolist() == list(range(1000))
    assert place(loader.state_dict()) == (0, 1000)


def test_a_url_reads_like_a_file(served):
    path, url = served
    local, remote = ki.open(path), ki.open(url)
    assert len(remote) == len(local) and remote[7] == local[7] and remote["2999"] == local[-1]
    assert remote[10:20] == local[10:20] and list(remote) == list(local)
    assert list(remote.keys()) == list(local.keys()) and remote.key(5) == "0005"
    wanted = [f"{number:04}" for number in range(0, 3000, 7)]
    assert remote.get_many(wanted) == local.get_many(wanted)
    assert "0003" in remote and "no" not in remote and remote.get("no") is None
    with pytest.raises(KeyError, match='"no"'):
        remote.get_many(["0001", "no"])
    # There is no map that a view could be of.
    assert ki.open(url, copy=False)[3] == local[3]


@pytest.mark.skipif(not ki.features()["arrow"], reason="this build has no Arrow")
def test_a_url_is_a_table(served):
    pyarrow = pytest.importorskip("pyarrow")
    local, remote = (pyarrow.table(ki.open(name)) for name in served)
    assert local == remote and remote.num_rows == 3000
    some = ki.open(served[1]).to_arrow(["number"], batch_size=700)
    assert pyarrow.table(some)["number"].to_pylist() == list(range(3000))


def test_a_loader_reads_a_url(served):
    path, url = served
    sampler = ki.Sampler.block_shuffle(3000, 100, 4, seed=3)
    columns = {"number": "int64", "data": bytes}
    batches = [
        [batch["number"].tolist() for batch in ki.Loader(ki.open(name), sampler, columns=columns, threads=2)]
        for name in [path, url]
    ]
    assert batches[0] == batches[1]


def test_other_threads_run_while_one_waits(served):
    # The server is a thread of this process: it could not answer if a read held the lock of Python.
    path, url = served
    assert ki.open(url)[100] == ki.open(path)[100]


def test_what_is_secret_in_a_url_is_not_shown(served):
    _, url = served
    dataset = ki.open(url.replace("//", "//user:secret@") + "?token=secret")
    assert "secret" not in repr(dataset) and "numbers.msgpack" in repr(dataset)
    with pytest.raises(IndexError) as caught:
        dataset[3000]
    assert "secret" not in str(caught.value)
    with pytest.raises(ki.errors.NotFoundError) as caught:
        ki.open(url.replace("//", "//user:secret@").replace("numbers", "no"))
    assert "secret" not in str(caught.value)


def test_a_replaced_dataset_is_an_error(served):
    path, url = served
    dataset = ki.open(url)
    assert dataset[0]["number"] == 0
    with ki.Writer(path, overwrite=True) as writer:
        for number in range(3000):
            writer.write({"key": f"{number:04}", "number": -number, "data": bytes(40)})
    with pytest.raises(ki.errors.ReplacedError):
        for index in range(0, 3000, 100):
            dataset[index]


def test_paths_are_not_urls(tmp_path):
    with pytest.raises(ki.errors.NotFoundError):
        ki.open(Path(tmp_path) / "s3:")


def test_sources_and_datasets_of_datasets_may_be_urls(served):
    path, url = served
    folder = path.parent
    server = url.rsplit("/", 1)[0]
    for name, options in [("numbers.parquet", {}), ("numbers.arrow", {}), ("numbers.jsonl", {})]:
        try:
            ki.convert(path, folder / name)
        except ki.errors.UnsupportedError as error:
            pytest.skip(str(error))
        ki.convert(f"{server}/{name}", folder / "there.msgpack", overwrite=True, **options)
        ki.convert(folder / name, folder / "here.msgpack", overwrite=True, **options)
        assert (folder / "there.msgpack").read_bytes() == (folder / "here.msgpack").read_bytes()
    for make in [
        lambda source, output: ki.shuffle(source, output, seed=3, overwrite=True),
        lambda source, output: ki.sort(source, output, by="number", reverse=True, overwrite=True),
        lambda source, output: ki.select(source, output, [7, 3, 2999], overwrite=True),
        lambda source, output: ki.filter(source, output, "number < 10", overwrite=True),
        lambda source, output: ki.filter(source, output, lambda sample: sample["number"] < 9, overwrite=True),
        lambda source, output: ki.select(source, output, ["0007", "2999"], overwrite=True),
        lambda source, output: ki.merge([source], output, overwrite=True),
    ]:
        here, there = make(path, folder / "here.msgpack"), make(url, folder / "there.msgpack")
        assert here["samples"] == there["samples"] > 0
        # The server is a thread of this process: nothing that waits for it holds the interpreter.
        assert ki.stat(url)["samples"] == 3000
        assert (folder / "there.msgpack").read_bytes() == (folder / "here.msgpack").read_bytes()


def test_web_servers_are_not_written_to(served):
    path, url = served
    new = url.replace("numbers", "new")
    for make in [
        lambda: ki.shuffle(path, new),
        lambda: ki.sort(path, new),
        lambda: ki.select(path, new, [1]),
        lambda: ki.filter(path, new, "number < 10"),
        lambda: ki.merge([path], new),
        lambda: ki.split(path, at=[10], outputs=[new, path.parent / "rest.msgpack"]),
        lambda: ki.convert(path, new),
    ]:
        with pytest.raises(ki.errors.UnsupportedError, match="only reads from web servers"):
            make()
    assert not (path.parent / "rest.msgpack").exists()
