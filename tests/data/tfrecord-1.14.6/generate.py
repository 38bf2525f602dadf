"""TFRecord files as the package tfrecord writes and reads them. Run: python generate.py DIRECTORY"""

import gzip, json, struct, sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
from tfrecord import example_pb2
from tfrecord.reader import tfrecord_iterator
from tfrecord.writer import TFRecordWriter

assert version("tfrecord") == "1.14.6"
out = Path(sys.argv[1])

RECORDS = [
    {"image": (b"\xff\xd8 no image", "byte"), "label": (7, "int"), "score": (0.1, "float")},
    {
        "image": (b"", "byte"),
        "label": (-1, "int"),
        "box": ([0.5, 1.5, -2.25, float("inf")], "float"),
        "ids": ([0, 127, 128, 300, -1, 2**63 - 1, -(2**63)], "int"),
        "names": ([b"a", b"", "zwei–二".encode()], "byte"),
        "none": ([], "int"),
    },
    {},
]

writer = TFRecordWriter(str(out / "some.tfrecord"))
for record in RECORDS:
    writer.write(record)
writer.close()
(out / "some.tfrecord.gz").write_bytes(gzip.compress((out / "some.tfrecord").read_bytes(), mtime=0))


def plain(feature):
    kind = feature.WhichOneof("kind")
    values = list(getattr(feature, kind).value)
    if kind == "bytes_list":
        return {"bytes": [value.hex() for value in values]}
    if kind == "float_list":
        return {"floats": [struct.pack("<f", value).hex() for value in values]}
    return {"ints": values}


records = []
for data in tfrecord_iterator(str(out / "some.tfrecord")):
    example = example_pb2.Example()
    example.ParseFromString(bytes(data))
    records.append({name: plain(feature) for name, feature in example.features.feature.items()})
(out / "manifest.json").write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n")
