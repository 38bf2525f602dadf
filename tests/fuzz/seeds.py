"""Seeds for the fuzzer: inputs of the targets made of the files in tests/data.

    python seeds.py [KISTE DIR]

unpacks corpus-seeds/, and fills corpus/TARGET/ for the targets whose inputs are files, with a byte in
front where that says what the file is. With the command and a folder of miniature archives it does so for the catalogue too:

    python ../compat/python_catalogue.py KISTE --build DIR

Nothing larger than what the fuzzer makes itself (`-max_len`) is taken. Needs nothing beside Python.

    python seeds.py --keep TARGET DIR

packs the inputs in DIR, such as are small, to corpus-seeds/TARGET.tar.xz.
"""

import io
import json
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "data"
MAX = 1 << 16
KEPT = HERE / "corpus-seeds"
# Of inputs that a repository has room for.
MAX_KEPT = 1500
MAX_KEPT_BYTES = 1 << 10

# What the first byte of `inputs` and of `decoders` says of a file, by its ending: see `which` in their
# sources.
INPUTS = {
    ".parquet": 1, ".arrow": 2, ".csv": 3, ".npz": 4, ".jsonl": 5, ".tfrecord": 6, ".tar": 7,
    ".tsv": 8, ".jpg": 0, ".jpeg": 0, ".png": 0, ".gif": 0, ".bmp": 0, ".webp": 0, ".tif": 0,
    ".tiff": 0, ".gz": 16, ".zst": 16, ".bz2": 16,
}
DECODERS = {".tar": 0, ".json": 2, ".mds": 3, ".parquet": 6, ".arrow": 6}
PICKLES = 4
# What the first byte of `texts` says of the rest, and of `plans`.
TEXTS = {
    0: ["{train,val}-{08..10}.tar", "a{b}{3..1}x{,c}"],
    1: ["cat/1.jpg\n*.[jJ][pP]g", "a]b\n[!a-f]*[]]?"],
    2: ["a10\na9\nb", "ä01\nä1\n"],
    3: ["512K", "0.5G", "3/7", "zstd", "blpk:zlib:9:bitshuffle",
        "2026-01-31T12:00:00.5Z", "__12__", "a[1:2]", "-1", "100,200"],
    4: ["2:5, ::-1, [4, 0], ..., None, 7", "-1, [2, -2]", ":, None, ::-2"],
    5: ["a == 1 and not (b in 'x', 2.5 or has c)", "n >= -1e3 or k ~ '*.png'", "a not in true, null",
        "len(a[-1].x) > 1 || 'a.b' ilike '%x_'", "label in (a, b) and t >= 2024-05-01T12:00Z", "width(a) is not null"],
    6: ["x/{key.stem}-{id}.{key.name}\na.b/c.d", "{key}\nä"],
    7: ["<f4\n1.5", "|S4\nab", "<M8[s]\n0", "[('a', '<i2'), ('b', '|u1', (2,))]\n0", ">c16\nnan"],
    8: ["{LABEL}/**", "**/[[]c]/*", "a/*.txt"],
}
ENTRY = '{"unit":1,"samples":1,"bytes":7,"crc32":%d,"state":null,"finished":false}\n'
PLANS = {
    0: ['{"a":1}', '{"a": [1, {}]}', "null"],
    1: ['{"plan":"0","state":[1]}'],
    2: ['{"version":1,"plan":"p"}\n', '{"version":1,"plan":"p"}\n' + ENTRY % zlib.crc32(b"\x81\xa3key\xa1a")],
    3: ['{"version":1,"base":{"samples":1,"bytes":7},"side_files_only":false,"digests":true,"lookup":false}\n'],
    4: ["cat\ndog\n"],
}
RECIPES = [
    'kiste = 1\n\n[source.a]\npath = "a/*.msgpack"\nidentity = "i"\nselection = "s"\nkeep_keys = ["k"]\ndrop_keys = "d"\n'
    'where = \'x == "y"\'\nkeep_fields = ["x"]\nrename = { x = "z" }\n\n[[source.a.join]]\npath = "b"\nhow = "left"\n'
    'fields = ["f", "g"]\nprefix = "p"\nmissing = { f = [1, 2.5, { t = true }] }\nmissing_null = ["g"]\n\n'
    '[source.a.digest]\n"a" = "md5:' + "0" * 32 + '"\n',
    'kiste = 1\nconcat = ["a", "b"]\n[source.a]\npath = "a"\n[source.b]\nsource = "a"\ndrop_fields = ["x"]\n',
    'kiste = 1\n[source]\na.path = "a"\nb.path = "b"\n[mixture]\nsamples = 9\nseed = 1\nmax_passes = { a = 2 }\n'
    'exhausted = "others"\nsources = ["b", "a"]\nphase = [{ from = 0, weights = { a = 1 } }, { from = 7, weights = { b = 0.5 } }]\n',
]
# Samples of the source, chosen ones, and the body of each kind.
KEPT_SELECTIONS = [
    (0, 1 << 40, 5, struct.pack("<4Q", 3, 4, 9, 1)),
    (1, 70, 3, struct.pack("<2Q", 5, 32)),
    (2, 10, 3, struct.pack("<3I", 9, 0, 9)),
    (3, 1 << 33, 2, struct.pack("<2Q", 1 << 32, 1)),
]
PLAIN = {"parquet": (".parquet", ".arrow"), "mat": (".mat",), "zip": (".zip", ".npz"),
         "jsonl": (".jsonl",), "msgpack": (".msgpack",), "bloscpack": (".blp",),
         "arrays": (".npy",), "bcolz": (".blp",),
         "side_files": (".offsets", ".keys", ".key_hashes", ".filter", ".md5", ".index")}
# The small files of bcolz.
SMALL = ("sizes", "storage", "__attrs__", "__rootdirs__")


def put(target, name, content):
    if len(content) <= MAX:
        folder = HERE / "corpus" / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def chunks_in(container):
    """The first Blosc chunks in a container: what has a header of version 2 and is as long as that says."""
    at, found = 0, 0
    while at + 16 <= len(container) and found < 2:
        version, _, _, _, nbytes, blocksize, cbytes = struct.unpack_from("<4B3I", container, at)
        if version == 2 and 0 < blocksize <= nbytes < MAX and 16 < cbytes <= len(container) - at:
            yield container[at:at + cbytes]
            at, found = at + cbytes, found + 1
        else:
            at += 1


def of_files():
    for path in sorted(DATA.rglob("*")):
        if not path.is_file() or path.stat().st_size > MAX:
            continue
        name = "-".join(path.relative_to(DATA).parts)
        content = path.read_bytes()
        if path.suffix in INPUTS:
            put("inputs", name, bytes([INPUTS[path.suffix]]) + content)
        if INPUTS.get(path.suffix) == 0:
            put("images", name, bytes([len(content) % 8]) + content)
        if path.suffix in DECODERS:
            put("decoders", name, bytes([DECODERS[path.suffix]]) + content)
        if path.name.startswith("ten_protocol"):
            put("decoders", name, bytes([PICKLES]) + content)
            put("inputs", name, bytes([13]) + content)
        if path.name in SMALL:
            put("bcolz", name, content)
        if path.suffix == ".blp":
            for number, chunk in enumerate(chunks_in(content)):
                put("blosc", f"{name}-{number}", chunk)
        for target, suffixes in PLAIN.items():
            if path.suffix in suffixes:
                put(target, name, content)


def of_text():
    """What no file in tests/data is."""
    put("inputs", "list.tsv", b"\x08path\tlabel\tweight\na/1.jpg\tcat\t0.5\n\"b \"\"2\"\".png\"\t\t1\n")
    put("inputs", "table.csv", b"\x03key,n,text\na,1,\"x\ny\"\nb,-2.5e3,\nc,,z\n")
    put("inputs", "lines.jsonl", b"\x05{\"key\":\"a\",\"n\":[1,2.5,null,true]}\n{\"key\":\"b\"}\n")
    put("inputs", "metadata.csv", b"\x09file_name,text,label\na.png,x,1\ncat/b.png,\"y\nz\",2\n")
    put("inputs", "metadata.jsonl", b"\x0a{\"file_name\":\"a.png\",\"n\":[1,2]}\n{\"file_name\":\"cat/b.png\"}\n")
    for text in ["640x480", "short:256", "max:1024", "webp", "4:2:0"]:
        put("inputs", text.replace(":", "-"), b"\x0f" + text.encode())
    for which, texts in TEXTS.items():
        for number, text in enumerate(texts):
            put("texts", f"{which}-{number}", bytes([which]) + text.encode())
    for which, texts in PLANS.items():
        for number, text in enumerate(texts):
            put("plans", f"{which}-{number}", bytes([which]) + text.encode())
    for number, text in enumerate(RECIPES):
        put("recipe", str(number), text.encode())
    for kind, source, chosen, body in KEPT_SELECTIONS:
        each = {0: 16, 2: 4}.get(kind, 8)
        header = struct.pack("<8s2I3Q2I", b"kistesel", 1, kind, source, chosen, len(body) // each, 3, 5)
        put("kept_selection", str(kind), header + b"alla > 1" + body)
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


def kept():
    """What was found in earlier runs."""
    for path in sorted(KEPT.glob("*.tar.xz")):
        target = path.name.removesuffix(".tar.xz")
        with tarfile.open(path) as archive:
            for entry in archive.getmembers():
                put(target, Path(entry.name).name, archive.extractfile(entry).read())


def keep(target, folder):
    """Packs the smallest inputs; the same ones always make the same archive."""
    inputs = sorted((f.stat().st_size, f.name, f) for f in folder.iterdir())
    KEPT.mkdir(exist_ok=True)
    with tarfile.open(KEPT / f"{target}.tar.xz", "w:xz", format=tarfile.USTAR_FORMAT) as archive:
        for size, name, path in inputs[:MAX_KEPT]:
            if size <= MAX_KEPT_BYTES:
                entry = tarfile.TarInfo(name[:16])
                entry.size = size
                archive.addfile(entry, io.BytesIO(path.read_bytes()))


if len(sys.argv) == 4 and sys.argv[1] == "--keep":
    keep(sys.argv[2], Path(sys.argv[3]))
    sys.exit()
kept()
of_files()
of_text()
if len(sys.argv) == 3:
    of_catalogue(sys.argv[1], Path(sys.argv[2]))
