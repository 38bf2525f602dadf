"""Data sets as MosaicML's Streaming writes and reads them. Run: python generate.py DIRECTORY"""

import json, shutil, sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import streaming
from streaming import MDSWriter
from streaming.base.format import reader_from_json
from streaming.base.hashing import get_hashes

assert streaming.__version__ == "0.13.0"
out = Path(sys.argv[1])

SCALARS = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
ALL = {
    "bytes": "bytes", "str": "str", "int": "int", "json": "json", "nd": "ndarray", "nd1": "ndarray:int16",
    "nd2": "ndarray:float32:2,3", "str_int": "str_int", "str_float": "str_float", "str_decimal": "str_decimal",
    "jpeg": "jpeg", "images": "jpeg_array", **{name: name for name in SCALARS},
}


def sample(i):
    return {
        "bytes": bytes([i, 255]) * i, "str": "zwei – 二" * i, "int": -i, "json": {"a": [i, None, 0.5], "ü": True},
        "nd": np.arange(i * 300 + 1, dtype=["u1", "f8", "i4"][i % 3]).reshape(1, -1), "nd1": np.full((i + 1, 2, 1), i, np.int16),
        "nd2": np.full((2, 3), i, np.float32), "str_int": 10**18 * i, "str_float": i / 3, "str_decimal": Decimal("1.10") * i,
        "jpeg": b"\xff\xd8 no image", "images": [bytearray(b"ab" * i), bytearray(b"c")],
        **{name: getattr(np, name)(i * 3) for name in SCALARS},
    }


def write(name, columns, samples, **options):
    shutil.rmtree(out / name, ignore_errors=True)
    with MDSWriter(out=str(out / name), columns=columns, **options) as writer:
        for each in samples:
            writer.write(each)


write("all", ALL, [sample(i) for i in range(4)], hashes=["md5", "sha1", "xxh64"], size_limit="4kb")
for compression in ("zstd:7", "gz", "snappy", "br"):
    few = [{"n": i, "text": "text" * 50} for i in range(30)]
    write(compression.split(":")[0], {"n": "int", "text": "str"}, few, compression=compression, hashes=["sha256"], size_limit=4096)
few = [{"n": i, "text": "text" * 50} for i in range(30)]
write("bz2", {"n": "int", "text": "str"}, few, compression="bz2", hashes=sorted(get_hashes()), size_limit=4096)
write("pickle", {"id": "int", "p": "pkl"}, [{"id": 1, "p": {"a": 1}}])
# What our writer makes of the same samples.
ours = [{"key": f"k{i:02}", "ä": float(i), "array": np.arange(i + 1, dtype="<u2"), "json": [i], "n": i, "b": b"\0" * i} for i in range(20)]
write("ours", {"key": "str", "ä": "float64", "array": "ndarray", "json": "json", "n": "int", "b": "bytes"}, ours, hashes=["sha1"], size_limit=1024)


def plain(value):
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, np.ndarray):
        return {"array": value.dtype.newbyteorder("<").str, "shape": value.shape, "data": value.tobytes().hex()}
    if isinstance(value, np.generic):
        return {"scalar": value.dtype.newbyteorder("<").str, "data": value.tobytes().hex()}
    return str(value) if isinstance(value, Decimal) else value


def read(name):
    index = json.loads((out / name / "index.json").read_text())
    found = []
    for shard in index["shards"]:
        reader = reader_from_json(str(out / name), "", shard)
        for i in range(len(reader)):
            data = reader.get_sample_data(i)
            # Images would be decoded: they stay what they are.
            reader.column_encodings = ["bytes" if e.startswith("jpeg") else e for e in reader.column_encodings]
            found.append({k: plain(v) for k, v in reader.decode_sample(data).items()})
    return found


manifest = {name: read(name) for name in ("all", "ours")}
(out / "manifest.json").write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
