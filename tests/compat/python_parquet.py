"""Whether pyarrow, pandas and Hugging Face datasets read what `kiste` writes, and the reverse.

    pip install datadings datasets pandas pillow pyarrow
    cargo build --features parquet
    python tests/compat/python_parquet.py target/debug/kiste
"""

import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq

KISTE = sys.argv[1]


def kiste(*args, stdin=None):
    done = subprocess.run([KISTE, *map(str, args)], input=stdin, capture_output=True)
    assert done.returncode == 0, (args, done.stderr.decode())
    return done.stdout


def image(n):
    out = io.BytesIO()
    PIL.Image.new("RGB", (4, 3), (n % 256, 0, 255 - n % 256)).save(out, "png")
    return out.getvalue()


def lines(path):
    return [json.loads(line) for line in kiste("cat", "--jsonl", path).splitlines()]


def make(folder):
    """A dataset of images and arrays, by way of Parquet of datasets."""
    features = datasets.Features({
        "key": datasets.Value("string"),
        "image": datasets.Image(),
        "label": datasets.ClassLabel(names=["cat", "dog"]),
        "boxes": datasets.Array2D((None, 4), "float32"),
        "pixels": datasets.Array3D((2, 3, 1), "uint8"),
        "tokens": datasets.List(datasets.Value("int64")),
        "caption": datasets.Value("string"),
        "score": datasets.Value("float64"),
        "words": datasets.List(datasets.Value("string")),
        "meta": {"id": datasets.Value("int64"), "ok": datasets.Value("bool")},
    })
    rows = [{
        "key": f"k{n}",
        "image": {"bytes": image(n), "path": None},
        "label": n % 2,
        "boxes": np.full((n % 3, 4), n, np.float32),
        "pixels": np.full((2, 3, 1), n % 256, np.uint8),
        "tokens": list(range(n % 4)),
        "caption": f"zwei–{n}",
        "score": n / 7,
        "words": ["a"] * (n % 3),
        "meta": {"id": n, "ok": n % 2 == 0},
    } for n in range(3000)]
    made = datasets.Dataset.from_list(rows, features=features)
    made.to_parquet(folder / "theirs.parquet", batch_size=1000)
    made.save_to_disk(folder / "saved", num_shards=2)
    return rows


def same(row, expected):
    assert row["key"] == expected["key"]
    assert row["label"] == expected["label"] and row["caption"] == expected["caption"]
    assert row["score"] == expected["score"] and row["meta"] == expected["meta"], row
    assert list(row["tokens"]) == expected["tokens"] and list(row["words"]) == expected["words"]


def main():
    folder = Path(tempfile.mkdtemp())
    rows = make(folder)

    # Theirs to ours, by both ways, and to theirs again.
    kiste("convert", folder / "theirs.parquet", folder / "a.msgpack")
    kiste("convert", *sorted((folder / "saved").glob("*.arrow")), folder / "b.msgpack")
    a, b = (folder / "a.msgpack").read_bytes(), (folder / "b.msgpack").read_bytes()
    assert a == b, "Parquet and Arrow IPC differ"
    assert (folder / "a.msgpack.labels").read_text() == "cat\ndog\n"
    kiste("convert", folder / "a.msgpack", folder / "ours.parquet")
    kiste("convert", folder / "a.msgpack", folder / "ours.arrow")
    kiste("convert", folder / "ours.parquet", folder / "c.msgpack")
    kiste("convert", folder / "ours.arrow", folder / "d.msgpack")
    assert (folder / "c.msgpack").read_bytes() == a and (folder / "d.msgpack").read_bytes() == a

    # datasets, with its features.
    found = datasets.load_dataset("parquet", data_files=str(folder / "ours.parquet"), split="train",
                                  cache_dir=str(folder / "cache"))
    assert isinstance(found.features["image"], datasets.Image), found.features
    assert found.features["label"].names == ["cat", "dog"], found.features
    assert found.features["boxes"] == datasets.Array2D((None, 4), "float32"), found.features
    assert found.features["pixels"] == datasets.Array3D((2, 3, 1), "uint8"), found.features
    arrays = found.with_format("numpy")
    theirs = datasets.Dataset.from_parquet(str(folder / "theirs.parquet"), cache_dir=str(folder / "cache"))
    theirs = theirs.with_format("numpy")
    for n, expected in enumerate(rows):
        same(found[n], expected)
        if n < 50:
            assert found[n]["image"].getpixel((0, 0)) == (n % 256, 0, 255 - n % 256)
            np.testing.assert_array_equal(arrays[n]["boxes"], expected["boxes"])
            np.testing.assert_array_equal(arrays[n]["pixels"], expected["pixels"])
            for name in ["pixels", "boxes"]:
                assert arrays[n][name].dtype == theirs[n][name].dtype

    # pandas and pyarrow, without them: pandas 3 cannot hash the types that datasets registers.
    for n in range(2, 6):
        pa.unregister_extension_type(f"datasets.features.features.Array{n}DExtensionType")
    frame = pd.read_parquet(folder / "ours.parquet")
    assert list(frame.columns) == list(rows[0]), frame.columns
    for n, expected in enumerate(rows):
        row = frame.iloc[n]
        same(row, expected)
        assert row["image"]["bytes"] == expected["image"]["bytes"]
        assert np.array_equal(np.stack(row["pixels"].tolist()[0]).ravel(), expected["pixels"][0].ravel())
    table = pq.read_table(folder / "ours.parquet")
    feather = pa.ipc.open_file(pa.OSFile(str(folder / "ours.arrow"))).read_all()
    assert table.equals(feather), "Parquet and Arrow IPC of the same samples differ"
    assert pq.ParquetFile(folder / "ours.parquet").metadata.num_rows == len(rows)

    # Every type of NumPy that columns have, from msgpack-numpy.
    import msgpack_numpy
    from datadings.writer import FileWriter

    names = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()
    with FileWriter(folder / "np.msgpack", disable=True) as writer:
        for n in range(5):
            arrays = {f"a_{t}": np.arange(n).astype(t) for t in names}
            matrices = {f"m_{t}": np.arange(6).reshape(n % 2 + 1, -1).astype(t) for t in names}
            scalars = {f"s_{t}": np.array(n).astype(t)[()] for t in names}
            writer.write({"key": str(n), **arrays, **matrices, **scalars})
    kiste("convert", folder / "np.msgpack", folder / "np.parquet")
    kiste("convert", folder / "np.parquet", folder / "np2.msgpack")
    assert (folder / "np.msgpack").read_bytes() == (folder / "np2.msgpack").read_bytes()
    table = pq.read_table(folder / "np.parquet")
    for n, row in enumerate(table.to_pylist()):
        for t in names:
            np.testing.assert_array_equal(np.array(row[f"a_{t}"], t), np.arange(n).astype(t))
            np.testing.assert_array_equal(np.array(row[f"m_{t}"], t).ravel(), np.arange(6).astype(t))
            assert row[f"s_{t}"] == np.array(n).astype(t)[()], (t, row)
    # Words in UTF-8, as JSON lines have them.
    text = "".join(json.dumps({"key": str(n), "x": [n, None], "y": {"a": "ü"}}) + "\n" for n in range(10))
    kiste("convert", "-", folder / "j.parquet", stdin=text.encode())
    kiste("convert", folder / "j.parquet", folder / "j.msgpack")
    assert lines(folder / "j.msgpack") == [json.loads(line) for line in text.splitlines()]
    assert pd.read_parquet(folder / "j.parquet")["y"][0] == {"a": "ü"}
    print("ok")


main()
