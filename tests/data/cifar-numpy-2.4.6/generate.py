"""Files laid out as those of CIFAR and MNIST, with noise for images. Run: python generate.py DIRECTORY"""

import gzip, pickle, struct, sys
from pathlib import Path

import numpy as np

assert np.__version__ == "2.4.6"
out = Path(sys.argv[1])
# Few different bytes, so that the files can be compressed.
images = (np.arange(2 * 3072, dtype=np.uint32) // 256).astype(np.uint8).reshape(2, 3072)

for protocol in (2, 3, 4):
    ten = {b"batch_label": b"training batch 1 of 5", b"labels": [6, np.int64(9)], b"data": images, b"filenames": [b"frog.png", b"truck.png"]}
    data = pickle.dumps(ten, protocol)
    if protocol == 2:
        # With labels as the original ones have them.
        data = pickle.dumps({**ten, b"labels": [6, 9]}, 2)
    (out / f"ten_protocol{protocol}.gz").write_bytes(gzip.compress(data, mtime=0))
hundred = {"coarse_labels": [11, 15], "fine_labels": [19, 29], "data": np.asfortranarray(images), "filenames": ["a.png", "b.png"]}
(out / "hundred.gz").write_bytes(gzip.compress(pickle.dumps(hundred, 2), mtime=0))
(out / "object").write_bytes(pickle.dumps({"data": np.array([Path("x")], dtype=object)}, 2))
(out / "ten.bin.gz").write_bytes(gzip.compress(bytes([6]) + images[0].tobytes() + bytes([9]) + images[1].tobytes(), mtime=0))
(out / "hundred.bin.gz").write_bytes(gzip.compress(bytes([11, 19]) + images[0].tobytes() + bytes([15, 29]) + images[1].tobytes(), mtime=0))
(out / "images-idx3-ubyte.gz").write_bytes(gzip.compress(struct.pack(">4B3I", 0, 0, 8, 3, 2, 4, 8) + images[0, ::48].tobytes(), mtime=0))
(out / "labels-idx1-ubyte.gz").write_bytes(gzip.compress(struct.pack(">4BI", 0, 0, 8, 1, 2) + bytes([5, 0]), mtime=0))
