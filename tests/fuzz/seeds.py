"""Seeds for the fuzzer: inputs of the targets made of the files in tests/data.

    python seeds.py [KISTE DIR]

fills corpus/TARGET/ for the targets whose inputs are files, with a byte in front where that says what
the file is. With the command and a folder of miniature archives it does so for the catalogue too:

    python ../compat/python_catalogue.py KISTE --build DIR

Nothing larger than what the fuzzer makes itself (`-max_len`) is taken. Needs nothing beside Python.
"""

import io
import json
import struct
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "data"
MAX = 1 << 16

# What the first byte of `inputs` says of a file, by its ending: see `which` in its source.
INPUTS = {
    ".parquet": 7, ".arrow": 8, ".csv": 9, ".npz": 10, ".jsonl": 11, ".tfrecord": 12, ".tar": 13,
    ".tsv": 14, ".mds": 3, ".json": 2, ".jpg": 6, ".jpeg": 6, ".png": 6, ".gif": 6, ".bmp": 6,
    ".webp": 6, ".tif": 6, ".tiff": 6,
}
PICKLES = 4
PLAIN = {"parquet": (".parquet", ".arrow"), "mat": (".mat",), "zip": (".zip", ".npz"),
         "jsonl": (".jsonl",), "msgpack": (".msgpack",), "bloscpack": (".blp",)}


def put(target, name, content):
    if len(content) <= MAX:
        folder = HERE / "corpus" / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def of_files():
    for path in sorted(DATA.rglob("*")):
        if not path.is_file() or path.stat().st_size > MAX:
            continue
        name = "-".join(path.relative_to(DATA).parts)
        content = path.read_bytes()
        if path.suffix in INPUTS:
            put("inputs", name, bytes([INPUTS[path.suffix]]) + content)
        if path.name.startswith("ten_protocol"):
            put("inputs", name, bytes([PICKLES]) + content)
        for target, suffixes in PLAIN.items():
            if path.suffix in suffixes:
                put(target, name, content)


def of_text():
    """What no file in tests/data is."""
    put("inputs", "list.tsv", b"\x0epath\tlabel\tweight\na/1.jpg\tcat\t0.5\n\"b \"\"2\"\".png\"\t\t1\n")
    put("inputs", "table.csv", b"\x09key,n,text\na,1,\"x\ny\"\nb,-2.5e3,\nc,,z\n")
    put("inputs", "lines.jsonl", b"\x0b{\"key\":\"a\",\"n\":[1,2.5,null,true]}\n{\"key\":\"b\"}\n")
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as out:
        for name, how in [("a/1.txt", zipfile.ZIP_STORED), ("b/2.txt", zipfile.ZIP_DEFLATED)]:
            out.writestr(name, name * 20, how)
    put("zip", "two.zip", archive.getvalue())


def entries(path):
    """The files of an archive or folder, as the target `datasets` reads them."""
    out = bytearray()
    if path.is_dir():
        files = [(str(f.relative_to(path)), f.read_bytes()) for f in sorted(path.rglob("*")) if f.is_file()]
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            files = [(entry.filename, archive.read(entry)) for entry in archive.infolist()]
    else:
        with tarfile.open(path) as archive:
            files = [(e.name, archive.extractfile(e).read()) for e in archive.getmembers() if e.isfile()]
    for name, content in files:
        name = name.encode()
        # More than there is room for would be cut anyway.
        if len(name) < 256 and len(content) < 1 << 16:
            out += bytes([len(name)]) + name + struct.pack("<H", len(content)) + content
    return bytes(out)


def of_catalogue(kiste, folder):
    known = json.loads(subprocess.run([kiste, "datasets", "--json"], capture_output=True, check=True).stdout)
    for number, dataset in enumerate(known):
        root = folder / dataset["name"].lower()
        out = bytearray([number, 0])
        for file in dataset["files"]:
            path = root / file["path"]
            is_archive = path.suffix == ".zip" or ".tar" in path.name or path.is_dir()
            content = b""
            if path.exists():
                content = entries(path) if is_archive else path.read_bytes()
            out += struct.pack("<I", len(content)) + content
        if root.is_dir():
            put("datasets", dataset["name"], bytes(out))


of_files()
of_text()
if len(sys.argv) == 3:
    of_catalogue(sys.argv[1], Path(sys.argv[2]))
