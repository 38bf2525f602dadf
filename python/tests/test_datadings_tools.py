"""Everything that datadings has is in the drop-in, and helpers do the same."""

import builtins
import functools
import gzip
import http.server
import importlib
import inspect
import io
import itertools
import lzma
import random
import struct
import threading
from argparse import Namespace
from hashlib import md5
from pathlib import Path

import numpy as np
import pytest
from conftest import GOLDEN
from differential import alike, outcome

import pykiste as ki
import pykiste.datadings as own
from pykiste.datadings import index, tools

datadings = pytest.importorskip("datadings")

import datadings.index  # noqa: E402
import datadings.tools  # noqa: E402

MODULES = [
    "reader",
    "reader.augment",
    "reader.directory",
    "reader.list",
    "reader.msgpack",
    "reader.reader",
    "reader.sharded",
    "reader.zipfile",
    "writer",
    "index",
    "tools",
    "tools.argparse",
    "tools.cached_property",
    "tools.compression",
    "tools.matlab",
    "tools.msgpack",
    "sets",
    "sets.types",
    "torch",
]

def public(module):
    """The names that a module of datadings defines itself."""
    for name, value in vars(module).items():
        home = getattr(value, "__module__", None) or ""
        if not name.startswith("_") and home.startswith("datadings."):
            yield name, value


@pytest.mark.parametrize("name", MODULES)
def test_modules_have_the_names_and_parameters(name):
    if name == "torch":
        pytest.importorskip("torch")
    theirs = importlib.import_module(f"datadings.{name}")
    ours = importlib.import_module(f"pykiste.datadings.{name}")
    checked = 0
    for public_name, value in public(theirs):
        home = value.__module__.removeprefix("datadings.")
        if home != name and home not in MODULES:
            continue
        if home != name and not (hasattr(theirs, "__path__") and home.startswith(name)):
            # Imported for its own use.
            continue
        found = getattr(ours, public_name)
        same_parameters(value, found, f"{name}.{public_name}")
        checked += 1
    assert checked or name in ("tools.cached_property", "tools.msgpack")
    for constant, value in vars(theirs).items():
        if constant[0] != "_" and constant.isupper() and isinstance(value, (str, int)):
            assert getattr(ours, constant) == value


def same_parameters(theirs, ours, what):
    if inspect.isclass(theirs):
        for name, method in vars(theirs).items():
            if name == "__init__" or not name.startswith("_") and callable(method):
                same_parameters(method, getattr(ours, name), f"{what}.{name}")
        return
    if isinstance(theirs, functools.partial):
        return
    parameters = [
        [(p.name, p.default, p.kind) for p in inspect.signature(of).parameters.values()]
        for of in (theirs, ours)
    ]
    # What only ours has, and has to be named.
    own = {("allow_outside", inspect.Parameter.KEYWORD_ONLY), ("folder", inspect.Parameter.KEYWORD_ONLY)}
    parameters[1] = [p for p in parameters[1] if p[0] != "durable" and (p[0], p[2]) not in own]
    # Private ones that hold a constant.
    parameters[0] = [parameter for parameter in parameters[0] if not parameter[0].startswith("__")]
    named = [[(name, repr(default)) for name, default, _ in several] for several in parameters]
    if "noop" in str(named) or "noop" in repr(parameters):
        # Functions have a place in memory.
        named = [[name for name, _ in several] for several in named]
    assert named[0] == named[1], what


def test_versions():
    assert own.__version__ == datadings.__version__
    assert own.__version_info__ == datadings.__version_info__


def test_star_imports_do_not_hide_builtins():
    names = {}
    exec("from pykiste.datadings.reader import *", names)
    assert "MsgpackReader" in names and "list" not in names


@pytest.mark.parametrize("path", ["a", "a.keys", "a.b/c", "x.keys.md5", ".keys", "a.", "a.keys.", "/"])
def test_paths(path):
    for call in (
        lambda package: package.path_append(Path(path), ".keys"),
        lambda package: package.path_append_suffix(Path(path), ".keys"),
        lambda package: package.path_append_suffix(Path(path), "keys"),
    ):
        (result, error), (found, failure) = (
            outcome(lambda: call(package)) for package in (datadings.tools, tools)
        )
        assert type(error) is type(failure) and result == found


def test_hashes(tmp_path):
    for text in "", "k0", "é漢", "x" * 1000:
        for salt in b"", b"12345678", b"1":
            for name in "hash_string", "hash_string_bytes":
                assert getattr(datadings.tools, name)(text, salt) == getattr(tools, name)(text, salt)
    for arguments in (5,), ("a", b"123456789"), (None,), ("\ud800",):
        (_, error), (_, failure) = (
            outcome(lambda: package.hash_string(*arguments)) for package in (datadings.tools, tools)
        )
        assert type(error) is type(failure)
    path = tmp_path / "x"
    path.write_bytes(b"x" * 100_000)
    assert tools.hash_md5hex(path) == datadings.tools.hash_md5hex(path, 7)
    assert tools.hash_md5hex(path, progress=True) == md5(b"x" * 100_000).hexdigest()
    for name in sorted(GOLDEN.glob("*.md5")):
        assert tools.load_md5file(name) == datadings.tools.load_md5file(name)
    # A file name with two spaces fails in datadings.
    path.write_text("0123  two  spaces\n")
    with pytest.raises(ValueError):
        datadings.tools.load_md5file(path)
    assert tools.load_md5file(path) == {"two  spaces": "0123"}


@pytest.mark.parametrize("answers", list(itertools.permutations(["", "n", "AB", "maybe"], 2)))
@pytest.mark.parametrize("default", ["yes", "no", None, "nonsense"])
def test_questions(answers, default, monkeypatch, capsys):
    results = []
    for package in datadings.tools, tools:
        left = iter([*answers, "yes"])
        monkeypatch.setattr(builtins, "input", lambda: next(left))
        found = outcome(lambda: package.query_user("Well?", default))
        results.append((*map(repr, found), capsys.readouterr()))
    assert results[0] == results[1]


def test_documentation_of_keys():
    from datadings.sets import types as theirs

    from pykiste.datadings.sets import types as ours

    for name in ours.__all__:
        their, our = getattr(theirs, name), getattr(ours, name)
        arguments = range(len(inspect.signature(their).parameters))
        assert list(their(*arguments).items()) == list(our(*arguments).items())
        for options in {}, {"block": "b", "prefix": "p", "postfix": "q"}:
            expected = datadings.tools.document_keys(their, **options)
            assert tools.document_keys(our, **options) == expected


def test_tiles():
    image = np.arange(3 * 7 * 9).reshape(3, 7, 9)
    for arguments in (2, 3), (7, 9), (1, 20), (4, 4, (1, 2)):
        theirs, ours = (list(package.split_array(image, *arguments)) for package in (datadings.tools, tools))
        assert len(theirs) == len(ours) and all(map(np.array_equal, theirs, ours))


def test_printing_over_the_line(capsys):
    for package in datadings.tools, tools:
        package.print_over("a", "b", sep="-", flush=True)
        package.print_over("c", end="!")
        assert capsys.readouterr().out == "\r-a-b\033[K\n\r c\033[K!"
    # datadings prints to standard output.
    file = io.StringIO()
    tools.print_over("a", file=file)
    assert file.getvalue() == "\r a\033[K\n" and capsys.readouterr().out == ""


def slow(items):
    import time

    for item in items:
        time.sleep(0.001)
        yield item


def broken(items):
    yield from items
    raise KeyError("broken")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["yield_threaded", "yield_process"])
def test_generators_in_the_background(name, capfd):
    if name == "yield_process":
        import multiprocessing

        if "fork" not in multiprocessing.get_all_start_methods():
            pytest.skip("generators reach another process by fork")
    for package in datadings.tools, tools:
        run = getattr(package, name)
        assert list(run(slow(range(50)))) == list(range(50))
        assert list(run(iter(()))) == []
        found = []
        with pytest.raises(RuntimeError):
            for item in run(broken(range(4))):
                found.append(item)
        assert found == [0, 1, 2, 3]
        some = run(slow(itertools.count()))
        assert [next(some) for _ in range(5)] == list(range(5))
        some.close()


def test_a_slow_reader_of_a_generator_reaches_the_end():
    """datadings gives up after a second, and then waits for ever."""
    import time

    items = tools.yield_threaded(iter(range(5)))
    found = [next(items)]
    time.sleep(1.5)
    assert found + list(items) == list(range(5))


def test_compressed_files(tmp_path):
    from datadings.tools.compression import open_comp as theirs

    from pykiste.datadings.tools.compression import open_comp

    for name, package in ("a.gz", gzip), ("a.xz", lzma), ("a", builtins):
        path = tmp_path / name
        with open_comp(path, "wb") as file:
            file.write(b"caf\xc3\xa9")
        with package.open(path, "rb") as file:
            assert file.read() == b"caf\xc3\xa9"
        for opened in theirs, open_comp:
            with opened(str(path), "rt", encoding="utf-8") as file:
                assert file.read() == "café"


def test_matlab():
    pytest.importorskip("scipy")
    from datadings.tools import matlab as theirs

    from pykiste.datadings.tools import matlab

    path = sorted(Path(GOLDEN.parent).glob("**/allImages_release.mat"))[0]
    for source in str(path), path.read_bytes():
        assert sorted(theirs.loadmat(source)) == sorted(matlab.loadmat(source))
    with pytest.raises(FileNotFoundError):
        matlab.loadmat("no/such.mat")
    fields = np.zeros(2, [("a", int), ("b", float)])
    for ignore in (), ("a",):
        names = [[name for name, _ in of.iter_fields(fields, ignore)] for of in (theirs, matlab)]
        assert names[0] == names[1]


@pytest.mark.parametrize(
    "line",
    [
        "", "in", "in -o out", "in -y -s", "in --shuffle no", "in --shuffle yes", "in --shuffle maybe",
        "in -t 0", "in -t 1000", "in -t 2", "in --calculate-weights", "in --nonsense", "-h",
    ],
)
def test_arguments(line, capsys):
    from datadings.tools import argparse as theirs

    from pykiste.datadings.tools import argparse as ours

    results = []
    for package in theirs, ours:
        parser = package.make_parser("A script.", prog="x")
        package.argument_calculate_weights(parser)
        package.argument_threads(parser, default=3, max_threads=4)
        simple = package.make_parser_simple("Another.", prog="y", shuffle=True)
        package.argument_infile(simple, nargs="+", help="What is read.")
        package.argument_outfile(simple, required=True)
        package.argument_outfiles(package.make_parser_simple("More."))
        package.argument_outfile_positional(simple)
        try:
            parsed = [vars(parser.parse_args(line.split()))]
        except SystemExit as end:
            parsed = [end.code]
        for argument in line.split("\n"):
            try:
                parsed.append(vars(simple.parse_args(["a", "b", *argument.split()])))
            except SystemExit as end:
                parsed.append(end.code)
        results.append((parsed, capsys.readouterr()))
    assert results[0] == results[1]


def test_packed_messages(tmp_path):
    from datadings.tools import msgpack as theirs

    from pykiste.datadings.tools import msgpack as ours

    value = {"a": [1, b"x"], "b": np.arange(3), "c": 1j, 5: None}
    packed = theirs.packb(value)
    assert ours.packb(value) == packed == ours.make_packer().pack(value)
    assert ours.packb(value, default=str, use_bin_type=True) != b""
    for data in packed, bytearray(packed), memoryview(packed):
        assert repr(ours.unpackb(data)) == repr(theirs.unpackb(data))
    pairs = {"object_hook": None, "object_pairs_hook": list}
    assert repr(ours.unpackb(packed, **pairs)) == repr(theirs.unpackb(packed, **pairs))
    path = tmp_path / "x"
    for package in theirs, ours:
        with path.open("wb") as file:
            package.pack(value, file)
        assert path.read_bytes() == packed
        with path.open("rb") as file:
            assert repr(package.unpack(file)) == repr(theirs.unpackb(packed))
        with path.open("rb") as file:
            assert package.make_unpacker(file, read_size=5).read_map_header() == 4
    for broken_data in b"", packed[:-1], packed + b"\0", b"\xc1", b"\xa1\xff":
        (_, error), (_, failure) = (outcome(lambda: of.unpackb(broken_data)) for of in (theirs, ours))
        assert error is not None and alike(error, failure)
    for odd in {1, 2}, object(), 2**64, "\ud800":
        (_, error), (_, failure) = (outcome(lambda: of.packb(odd)) for of in (theirs, ours))
        assert error is not None and alike(error, failure)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.msgpack")), ids=lambda path: path.stem)
def test_side_files(path, tmp_path):
    theirs = datadings.index
    keys, offsets = theirs.load_keys(path), theirs.load_offsets(path)
    assert index.keys_len(path) == theirs.keys_len(path) == len(keys)
    assert index.load_keys(path) == keys and index.load_keys(Path(f"{path}.keys")) == keys
    assert np.array_equal(index.load_offsets(path), offsets)
    assert index.load_offsets(path).dtype == offsets.dtype
    salt, hashes = theirs.load_key_hashes(path)
    assert index.load_key_hashes(path)[0] == salt
    assert np.array_equal(index.load_key_hashes(path)[1], hashes)
    bloom, known = index.load_filter(path), theirs.load_filter(path)
    for key in [*keys[:50], *map(str, range(300))]:
        assert (key in bloom) == (key in known)
    for number, (write, value) in enumerate(
        [("write_keys", keys), ("write_offsets", offsets), ("write_key_hashes", keys), ("write_filter", keys)]
    ):
        paths = [tmp_path / f"{name}{number}" for name in ("theirs", "ours")]
        made = [getattr(of, write)(value, to) for of, to in zip((theirs, index), paths)]
        assert made[0].read_bytes() == made[1].read_bytes()
        assert made[0].suffix == made[1].suffix


def test_legacy_indices():
    for path in sorted(GOLDEN.glob("legacy/*.msgpack")):
        theirs = datadings.index
        assert index.legacy_index_len(path) == theirs.legacy_index_len(path)
        assert index.legacy_load_index(path) == theirs.legacy_load_index(path)


def test_hash_collisions():
    for call in (
        lambda of: of.hash_keys(["a", "b", "a"], 5),
        lambda of: of.hash_keys([5]),
        lambda of: of.hash_keys(["a"], 0),
    ):
        (_, error), (_, failure) = (outcome(lambda: call(of)) for of in (datadings.index, index))
        assert type(error) is type(failure) and str(error) == str(failure)
    (salt, hashes), (own_salt, own_hashes) = (of.hash_keys(["a", "b"]) for of in (datadings.index, index))
    assert salt == own_salt and np.array_equal(hashes, own_hashes) and hashes.dtype == own_hashes.dtype


def test_damaged_filters(tmp_path):
    """datadings fills a truncated filter with zeros, and reports keys as absent."""
    path = tmp_path / "x"
    index.write_filter(["a", "b", "c"], path)
    whole = (tmp_path / "x.filter").read_bytes()
    no_elements = whole[:16] + bytes(8) + whole[24:]
    for damaged in whole[:-1], whole + b"\0", b"X" + whole[1:], no_elements, whole[:20], b"":
        (tmp_path / "x.filter").write_bytes(damaged)
        with pytest.raises((ValueError, struct.error)):
            index.load_filter(path)
    for size in -1, 0, 1:
        with pytest.raises(ValueError):
            index.BloomFilter(size)


class Server(http.server.SimpleHTTPRequestHandler):
    """Serves files, also from the middle on."""

    def do_GET(self):
        data = Path(self.directory, self.path[1:])
        if not data.is_file():
            return self.send_error(404)
        data, asked = data.read_bytes(), self.headers.get("Range")
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        # A connection that is lost.
        self.wfile.write(data[start : start + 1000 if "lost" in self.path else None])

    def log_message(self, *args):
        pass


def test_downloads(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    data = random.Random(1).randbytes(700_000)
    (tmp_path / "data.bin").write_bytes(data)
    handler = functools.partial(Server, directory=tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/data.bin"
        files = {"train": {"path": "deep/data.bin", "url": url, "md5": md5(data).hexdigest()}}
        target = tmp_path / "in" / "deep" / "data.bin"
        args = Namespace(indir=str(tmp_path / "in"), skip_verification=False)
        for fetched in None, 0, 300_000:
            if fetched is not None:
                target.unlink()
                target.with_name("data.bin.part").write_bytes(data[:fetched])
            assert tools.prepare_indir(files, args) == {"train": files["train"] | {"path": str(target)}}
            assert target.read_bytes() == data
            assert not target.with_name("data.bin.part").exists()
        capsys.readouterr()
        files["train"]["md5"] = "0"
        assert outcome_of_exit(lambda: tools.verify_files(files, args.indir)) == 1
        assert "could not verify MD5 for data.bin: expected 0, got" in capsys.readouterr().out
        gone = str(tmp_path / "gone")
        assert outcome_of_exit(lambda: tools.download_if_not_found(url + "x", gone)) == 1
        assert "Download error HTTP status 404" in capsys.readouterr().out
        (tmp_path / "lost.bin").write_bytes(data)
        lost = url.replace("data.bin", "lost.bin")
        for _ in range(2):
            assert outcome_of_exit(lambda: tools.download_if_not_found(lost, gone)) == 1
            assert f"Connection to {lost} was lost" in capsys.readouterr().out
        assert Path(f"{gone}.part").read_bytes() == data[:2000] and not Path(gone).exists()
        Path(f"{gone}.part").unlink()
        server.shutdown()
    assert outcome_of_exit(lambda: tools.download_if_not_found(url, gone)) == 1
    assert f"Could not connect to {url}" in capsys.readouterr().out


def outcome_of_exit(call):
    with pytest.raises(SystemExit) as caught:
        call()
    return caught.value.code


def test_nothing_but_numpy_is_needed():
    """In another process, which finds no other package of datadings."""
    import subprocess
    import sys

    script = """if True:
        import sys
        needed = "tqdm natsort msgpack msgpack_numpy simplebloom requests gdown scipy PIL torch simplejpeg"
        for name in needed.split() + ["datadings"]:
            sys.modules[name] = None
        from pykiste.datadings import index, tools, sets
        from pykiste.datadings.reader import *
        from pykiste.datadings.writer import *
        from pykiste.datadings.tools import argparse, compression, msgpack
        reader = MsgpackReader(sys.argv[1])
        print(len(list(Shuffler(reader))), msgpack.unpackb(msgpack.packb([1])))
        print(ListReader([{"label": "b10"}, {"label": "b9"}]).labels)
    """
    command = [sys.executable, "-c", script, GOLDEN / "ten.msgpack"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("10 [1]\n['b9', 'b10']\n", "")
    assert ki.__name__ == "pykiste"
