"""What the commands are tried on: for each scenario a tree, a command, and what it is to leave."""

import gzip
import json
import os
import struct
import zlib
from dataclasses import dataclass

import dataset

GROUPS = ("faults", "kills", "power", "foreign")


@dataclass(frozen=True)
class Cut:
    """A command that is killed before the scenario begins: after the first call that `name` and
    `ending` describe, or after this share of its calls."""
    command: str
    name: str = ""
    ending: str = ""
    share: float = 0.5


@dataclass(frozen=True)
class Scenario:
    name: str
    act: str
    # dataset: old or new after at most a repair. file: each target is old or new at any time.
    # folder: files come one by one, the last of them says that all are there.
    # many: good at any time, old or new, and in the end no other shards.
    # array: good at any time, and old or new. blpk: the next append puts the end back.
    kind: str = "dataset"
    targets: tuple = ("x.msgpack",)
    # Functions of the tree and commands that make what is there before.
    setup: tuple = ()
    cut: Cut = None
    # Exit codes of a run without faults.
    code: int = 0
    # Whether the act can be done again once its old state is back.
    repeatable: bool = True
    # Files that may come and go beside the targets.
    extras: tuple = ()
    # What is tried, and how much of it: not all of what has very many calls.
    groups: tuple = GROUPS
    most: int = 0


def samples(prefix, count, size=40):
    return [dataset.sample(f"{prefix}{i:02}", image=bytes([i]) * (size + 7 * i), label=i % 3)
            for i in range(count)]


def jsonl(count, size=30):
    lines = [json.dumps({"key": f"j{i:02}", "text": "t" * (size + i), "label": i % 4}) for i in range(count)]
    return "\n".join(lines).encode() + b"\n"


def png(shade):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    body = zlib.compress(bytes([0, shade]))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def npy(rows, columns=3, start=0):
    head = f"{{'descr': '<i4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}"
    head = head.ljust(117) + "\n"
    data = struct.pack(f"<{rows * columns}i", *range(start, start + rows * columns))
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data


def put(name, content):
    def step(root):
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
    return step


def put_dataset(name, content):
    return lambda root: dataset.write(os.path.join(root, name), content)


def remove(*names):
    def step(root):
        for name in names:
            os.remove(os.path.join(root, name))
    return step


def damage(name, at):
    def step(root):
        with open(os.path.join(root, name), "r+b") as file:
            file.seek(at)
            file.write(b"\xc1\xc1\xc1")
    return step


def mnist(root):
    """The four archives of MNIST, with five images each."""
    for split in ("train", "t10k"):
        images = struct.pack(">IIII", 2051, 5, 28, 28) + bytes(i % 251 for i in range(5 * 784))
        labels = struct.pack(">II", 2049, 5) + bytes(range(5))
        for name, data in ((f"{split}-images-idx3-ubyte.gz", images), (f"{split}-labels-idx1-ubyte.gz", labels)):
            put("archives/" + name, gzip.compress(data, mtime=0))(root)


SOURCE = put("in.jsonl", jsonl(20))
BAD = put("bad.jsonl", jsonl(6) + b"not JSON\n" + jsonl(8)[-160:].split(b"\n", 1)[1])
A = put_dataset("a.msgpack", samples("a", 12))
B = put_dataset("b.msgpack", samples("b", 7))
OLD = put_dataset("x.msgpack", samples("old", 9))
LABELS = put("x.msgpack.labels", b"cow\nowl\nyak\nzho\n")
OLD_WITH_ALL = (OLD, LABELS, "index --lookup x.msgpack")
IMAGES = tuple(put(f"img/{label}/{i}.png", png(10 * i)) for label in ("cat", "dog") for i in range(3))
ROWS = put("rows.npy", npy(5))
MORE_ROWS = put("more.npy", npy(4, start=100))
PLAIN = put("plain.dat", bytes(range(256)) * 40)
ARRAY = (ROWS, MORE_ROWS, "array create arr --dtype '<i4' --shape 5,3 --chunks 2,3", "array put arr --npy rows.npy")
NEWEST_ONLY = (ROWS, "array create arr --dtype '<i4' --shape 5,3 --chunks 2,3 --unversioned", "array put arr --npy rows.npy")
# Large enough for several writes and units, so that a kill leaves whole samples behind.
LONG = put("long.jsonl", jsonl(300, 400))


def export(to, target, kind="file", setup=(A,), **more):
    return Scenario(f"convert-to-{to}", f"convert a.msgpack {target} --to {to}", kind,
                    (target,), tuple(setup), **more)


SCENARIOS = [
    Scenario("convert-new", "convert in.jsonl x.msgpack", setup=(SOURCE,)),
    Scenario("convert-force", "convert --force in.jsonl x.msgpack", setup=(SOURCE, OLD)),
    Scenario("convert-force-labels", "convert --force img x.msgpack", setup=IMAGES + OLD_WITH_ALL),
    Scenario("convert-force-lookup", "convert --force --lookup in.jsonl x.msgpack",
             setup=(SOURCE,) + OLD_WITH_ALL),
    Scenario("convert-force-legacy", "convert --force in.jsonl x.msgpack",
             setup=(SOURCE, put("x.msgpack", b"\x81\xa3key\xa1a"), put("x.msgpack.index", b"\x81\xa1a\x00"))),
    Scenario("convert-append", "convert --append in.jsonl x.msgpack", setup=(SOURCE, OLD)),
    Scenario("convert-append-lookup", "convert --append --lookup in.jsonl x.msgpack",
             setup=(SOURCE,) + OLD_WITH_ALL),
    Scenario("convert-append-data-alone", "convert --append in.jsonl x.msgpack",
             setup=(SOURCE, OLD, remove(*("x.msgpack" + s for s in dataset.SUFFIXES)))),
    Scenario("convert-images", "convert img x.msgpack", setup=IMAGES),
    Scenario("convert-no-md5", "convert --no-md5 --force in.jsonl x.msgpack", setup=(SOURCE, OLD)),
    Scenario("convert-quarantine", "convert --bad quarantine bad.jsonl x.msgpack", setup=(BAD,), code=1,
             extras=("x.msgpack.quarantine.jsonl",)),
    Scenario("convert-split", "convert --split train=0.7,val=0.3 in.jsonl x.msgpack", setup=(SOURCE,),
             targets=("x-train.msgpack", "x-val.msgpack"), extras=("x.msgpack.parts",)),
    Scenario("convert-arrays", "convert --arrays blpk --force a.msgpack x.msgpack", setup=(A, OLD)),
    Scenario("convert-resume", "convert --resume long.jsonl x.msgpack", setup=(LONG,),
             cut=Cut("convert --resume long.jsonl x.msgpack")),
    Scenario("convert-resume-force", "convert --resume --force long.jsonl x.msgpack", setup=(LONG, OLD),
             cut=Cut("convert --resume --force long.jsonl x.msgpack")),
    Scenario("convert-part", "convert in.jsonl x.msgpack --part 1/2", "folder", ("x.msgpack.parts",), (SOURCE,)),
    Scenario("commit", "commit x.msgpack", setup=(SOURCE, "convert in.jsonl x.msgpack --part 1/2",
                                                  "convert in.jsonl x.msgpack --part 2/2"),
             extras=("x.msgpack.parts",)),
    Scenario("commit-split", "commit x.msgpack", setup=(SOURCE, "convert in.jsonl x.msgpack --split a=1,b=1 --part 1/2",
                                                        "convert in.jsonl x.msgpack --split a=1,b=1 --part 2/2"),
             targets=("x-a.msgpack", "x-b.msgpack"), extras=("x.msgpack.parts",)),
    Scenario("commit-csv", "commit y.csv", "file", ("y.csv",), (SOURCE, "convert in.jsonl y.csv --part 1/2",
                                                                "convert in.jsonl y.csv --part 2/2"),
             extras=("y.csv.parts",)),
    Scenario("commit-split-csv", "commit y.csv", "folder", ("y-a.csv", "y-b.csv"),
             (SOURCE, "convert in.jsonl y.csv --split a=1,b=1 --part 1/2",
              "convert in.jsonl y.csv --split a=1,b=1 --part 2/2"),
             extras=("y.csv.parts",)),
    # Samples that the format refuses count towards the limit, for all outputs.
    Scenario("commit-split-tar", "commit y.tar", "folder", ("y-a-000000.tar", "y-b-000000.tar"),
             (put("abs.jsonl", b"".join(b'{"key":"%s%d","n":%d}\n' % (b"/abs" if n % 3 == 0 else b"k", n, n)
                                        for n in range(30))),
              "convert abs.jsonl y.tar --split a=1,b=1 --bad skip --limit 18 --part 1/2",
              "convert abs.jsonl y.tar --split a=1,b=1 --bad skip --limit 18 --part 2/2"),
             code=1, extras=("y.tar.parts",)),
    Scenario("commit-mds", "commit mds", "folder", ("mds",), (SOURCE, "convert in.jsonl mds --to mds --part 1/2",
                                                              "convert in.jsonl mds --to mds --part 2/2"),
             extras=("mds.parts",)),
    Scenario("commit-shards", "commit x.shards.json", "file", ("x.shards.json",),
             (SOURCE, "convert in.jsonl x.shards.json --part 1/2", "convert in.jsonl x.shards.json --part 2/2"),
             extras=("x.shards.json.parts",)),
    Scenario("convert-shards-force", "convert in.jsonl x.shards.json --shards 2 --force", "many", ("x.shards.json",),
             (SOURCE, A, "convert a.msgpack x.shards.json --shards 3")),
    Scenario("commit-shards-force", "commit x.shards.json", "many", ("x.shards.json",),
             (SOURCE, A, "convert a.msgpack x.shards.json --shards 3", "convert in.jsonl x.shards.json --part 1/2 --force",
              "convert in.jsonl x.shards.json --part 2/2 --force")),
    # Keys that come twice, and a limit: shards are rewritten when the parts are joined.
    Scenario("commit-shards-trim", "commit x.shards.json", "many", ("x.shards.json",),
             (SOURCE, put("again.jsonl", jsonl(26)), A, "convert a.msgpack x.shards.json --shards 3",
              "convert in.jsonl again.jsonl x.shards.json --part 1/3 --force --skip-duplicates --limit 24",
              "convert in.jsonl again.jsonl x.shards.json --part 2/3 --force --skip-duplicates --limit 24",
              "convert in.jsonl again.jsonl x.shards.json --part 3/3 --force --skip-duplicates --limit 24")),
    Scenario("commit-tar-force", "commit y.tar", "folder", tuple(f"y-{n:06}.tar" for n in range(3)),
             (SOURCE,) + tuple(put(f"y-{n:06}.tar", b"old") for n in range(3)) +
             ("convert in.jsonl y.tar --part 1/2 --force", "convert in.jsonl y.tar --part 2/2 --force"),
             extras=("y.tar.parts",)),
    Scenario("commit-append", "commit x.msgpack",
             setup=(SOURCE, OLD, "convert --append in.jsonl x.msgpack --part 1/2",
                    "convert --append in.jsonl x.msgpack --part 2/2"),
             extras=("x.msgpack.parts",)),
    Scenario("commit-append-split", "commit x.msgpack",
             setup=(SOURCE, put_dataset("x-a.msgpack", samples("old", 9)), put_dataset("x-b.msgpack", samples("more", 5)),
                    "convert --append in.jsonl x.msgpack --split a=1,b=1 --part 1/2",
                    "convert --append in.jsonl x.msgpack --split a=1,b=1 --part 2/2"),
             targets=("x-a.msgpack", "x-b.msgpack"), extras=("x.msgpack.parts",)),
    # Without a repair in between.
    Scenario("commit-again", "commit x.msgpack", "folder",
             setup=(SOURCE, "convert in.jsonl x.msgpack --part 1/2", "convert in.jsonl x.msgpack --part 2/2"),
             extras=("x.msgpack.parts",)),
    Scenario("commit-gathered", "commit x.shards.json", "file", ("x.shards.json",),
             (A,) + tuple(f"shuffle a.msgpack x.shards.json --part {part}/2 --pass {number}"
                          for number in (1, 2) for part in (1, 2)),
             extras=("x.shards.json.parts", "x.shards.json.scatter")),
    export("jsonl", "y.jsonl"),
    export("csv", "y.csv", setup=(put("in.csv", b"key,a,b\nk,1,2\nl,3,4\n"), "convert in.csv a.msgpack")),
    export("npz", "y.npz", setup=(put("in.csv", b"key,a,b\nk,1,2\nl,3,4\n"),
                                  "convert --guess-types in.csv a.msgpack")),
    export("tfrecord", "y.tfrecord"),
    export("webdataset", "y.tar", "folder"),
    export("mds", "mds", "folder"),
    export("images", "folder", "folder", setup=IMAGES + ("convert img a.msgpack",)),
    export("parquet", "y.parquet"),
    export("arrow", "y.arrow"),
    Scenario("index-missing", "index x.msgpack", setup=(OLD, remove("x.msgpack.keys", "x.msgpack.md5"))),
    Scenario("index-data-alone", "index x.msgpack",
             setup=(OLD, remove(*("x.msgpack" + s for s in dataset.SUFFIXES)))),
    Scenario("index-force-lookup", "index --force --lookup x.msgpack", setup=(OLD,)),
    Scenario("repair-finish", "repair --finish x.msgpack", setup=(LONG,), repeatable=False, code=1,
             cut=Cut("convert long.jsonl x.msgpack", "write", "/data")),
    Scenario("repair-finish-append", "repair --finish x.msgpack", setup=(LONG, OLD), repeatable=False, code=1,
             cut=Cut("convert --append long.jsonl x.msgpack", "write", "x.msgpack")),
    Scenario("repair-undo", "repair --undo x.msgpack", setup=(LONG, OLD), repeatable=False,
             cut=Cut("convert --append long.jsonl x.msgpack", "write", "x.msgpack")),
    Scenario("repair-committed", "repair x.msgpack", setup=(LONG,) + OLD_WITH_ALL, repeatable=False,
             cut=Cut("convert --force long.jsonl x.msgpack", "rename", "x.msgpack.keys")),
    # All samples are there, and side files are still to be made.
    Scenario("repair-complete", "repair x.msgpack", setup=(LONG, OLD), repeatable=False,
             cut=Cut("convert --force long.jsonl x.msgpack", "rename", "complete")),
    Scenario("repair-output", "repair d.msgpack -o x.msgpack", code=1,
             setup=(put_dataset("d.msgpack", samples("d", 8)), damage("d.msgpack", len(samples("d", 1)[0][1])))),
    Scenario("merge", "merge a.msgpack b.msgpack x.msgpack", setup=(A, B)),
    Scenario("merge-force", "merge a.msgpack b.msgpack x.msgpack --force", setup=(A, B, OLD)),
    Scenario("split", "split a.msgpack 5 -o x.msgpack y.msgpack", setup=(A,), targets=("x.msgpack", "y.msgpack")),
    Scenario("split-force", "split a.msgpack 5 -o x.msgpack y.msgpack --force", setup=(A, OLD),
             targets=("x.msgpack", "y.msgpack")),
    Scenario("shuffle", "shuffle a.msgpack x.msgpack", setup=(A,)),
    Scenario("shuffle-memory", "shuffle long.msgpack x.msgpack --memory 40K --force",
             setup=(put_dataset("long.msgpack", samples("s", 60, 2000)), OLD)),
    Scenario("sort", "sort a.msgpack x.msgpack --reverse", setup=(A,)),
    Scenario("select", "select a.msgpack x.msgpack --range 2..7 --force", setup=(A, OLD)),
    Scenario("filter", "filter a.msgpack x.msgpack 'label == 1'", setup=(A,)),
    Scenario("sample", "sample a.msgpack x.msgpack 4", setup=(A,)),
    Scenario("shuffle-shards", "shuffle a.msgpack x.shards.json --shards 2", "folder", ("x.shards.json",), (A,),
             extras=("x.shards.json.parts", "x.shards.json.scatter")),
    Scenario("write", "write mnist archives out --skip-verification", setup=(mnist,),
             targets=("out/train.msgpack", "out/test.msgpack")),
    Scenario("demo", "demo demo", targets=("demo/digits.msgpack",), extras=("demo",),
             groups=("faults", "kills"), most=16),
    Scenario("stat-html", "stat a.msgpack --html page.html --force", "file", ("page.html",),
             (A, put("page.html", b"<p>old</p>"))),
    Scenario("get-field", "get a.msgpack a03 --field image -o out.bin", "file", ("out.bin",), (A,)),
    Scenario("array-create", "array create arr --dtype '<i4' --shape 4,3 --chunks 2,3", "array", ("arr",)),
    Scenario("array-import", "array import rows.npy arr --chunks 2,3", "array", ("arr",), (ROWS,)),
    Scenario("array-put", "array put 'arr[1:4]' --value 9", "array", ("arr",), ARRAY),
    Scenario("array-append", "array append arr --npy more.npy", "array", ("arr",), ARRAY),
    Scenario("array-resize", "array resize arr 3,3", "array", ("arr",), ARRAY),
    Scenario("array-resize-newest", "array resize arr 9,3", "array", ("arr",), NEWEST_ONLY),
    Scenario("array-put-newest", "array put 'arr[1:4]' --value 9", "array", ("arr",), NEWEST_ONLY),
    Scenario("array-attrs", "array attrs arr unit=3", "array", ("arr",), ARRAY),
    Scenario("array-checkout", "array checkout arr 1", "array", ("arr",), ARRAY),
    Scenario("array-gc", "array gc arr --keep 1", "array", ("arr",),
             ARRAY + ("array put arr --value 4", "array append arr --npy more.npy")),
    Scenario("array-export-npy", "array export arr o.npy --force", "file", ("o.npy",), ARRAY + (put("o.npy", npy(1)),)),
    Scenario("array-export-npz", "array export arr o.npz", "file", ("o.npz",), ARRAY),
    Scenario("array-export-blp", "array export arr o.blp", "file", ("o.blp",), ARRAY),
    Scenario("array-export-bcolz", "array export arr o.bcolz --to bcolz", "folder", ("o.bcolz",), ARRAY),
    Scenario("blpk-compress", "blpk compress plain.dat --force -z 2K", "file", ("plain.dat.blp",),
             (PLAIN, put("plain.dat.blp", b"an old one"))),
    Scenario("blpk-decompress", "blpk decompress plain.dat.blp out.dat", "file", ("out.dat",),
             (PLAIN, "blpk compress plain.dat -z 2K")),
    Scenario("blpk-append", "blpk append plain.dat.blp plain.dat", "blpk", ("plain.dat.blp",),
             (PLAIN, "blpk compress plain.dat -z 2K")),
]
