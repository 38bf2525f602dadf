"""Shards as webdataset writes and reads them. Run: python generate.py DIRECTORY"""

import gzip, io, json, sys, tarfile
from pathlib import Path

import numpy as np
import webdataset
from webdataset.autodecode import Decoder, basichandlers

assert webdataset.__version__ == "1.0.2"
out = Path(sys.argv[1])

SAMPLES = [
    {"__key__": "a/0001", "jpg": b"\xff\xd8 no image \xff\xd9", "cls": 7, "json": {"box": [1, 2.5, None], "ok": True}},
    {"__key__": "a/0002", "jpg": b"\xff\xd8", "cls": -3, "txt": "zwei – 二\n"},
    {"__key__": "b.dir/0003", "seg.PNG": bytes(range(256)) * 3, "count": 0, "npy": np.arange(6, dtype=np.int16).reshape(2, 3)},
    {"__key__": "b.dir/" + "long" * 20 + "/" + "name" * 10, "bin": b"", "id": 12345678901234567890},
]


def write(path, samples, **options):
    with webdataset.TarWriter(str(path), mtime=0, **options) as writer:
        for sample in samples:
            writer.write(sample)


def members(path, files, fmt=tarfile.GNU_FORMAT, mode="w"):
    with tarfile.open(path, mode, format=fmt) as tar:
        for name, data in files:
            info = tarfile.TarInfo(name)
            if data is None:
                info.type = tarfile.DIRTYPE
                tar.addfile(info)
            else:
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))


write(out / "shard-000000.tar", SAMPLES[:2])
write(out / "shard-000001.tar", SAMPLES[2:])
long = "x/" + "very-long-name-" * 20 + "/" + "ä" * 120
odd = [
    ("d", None),
    ("__meta__.json", b"{}"),
    ("d/no-extension", b"1"),
    ("./d/k.A.b", b"2"),
    ("./d/k.c", b"3"),
    ("d/k.c", b"4"),
    (long + ".txt", b"5"),
    (long + ".cls", b"6"),
]
members(out / "gnu.tar", odd)
members(out / "pax.tar", odd, tarfile.PAX_FORMAT)
members(out / "twice.tar", [("a.x", b"1"), ("a.X", b"2")])
# Without the time and the name, so that a second run gives the same.
(out / "shard.tar.gz").write_bytes(gzip.compress((out / "shard-000000.tar").read_bytes(), mtime=0))


def plain(value):
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, np.ndarray):
        return {"array": value.dtype.str, "shape": value.shape, "data": value.tobytes().hex()}
    return value


def read(name):
    found = []
    for decoded in (False, True):
        data = webdataset.WebDataset(str(out / name), shardshuffle=False)
        if decoded:
            data = data.decode()
        samples = [{k: plain(v) for k, v in s.items() if k not in ("__url__", "__local_path__")} for s in data]
        found.append(samples)
    return dict(zip(("raw", "decoded"), found))


names = ["shard-000000.tar", "shard-000001.tar", "shard.tar.gz", "gnu.tar", "pax.tar"]
manifest = {name: read(name) for name in names}
(out / "manifest.json").write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
