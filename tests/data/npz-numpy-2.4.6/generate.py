"""Archives of NumPy. Run: python generate.py DIRECTORY"""

import sys
from pathlib import Path

import numpy as np

assert np.__version__ == "2.4.6"
out = Path(sys.argv[1])
rows = {
    "x": np.asfortranarray(np.arange(12, dtype=">f4").reshape(3, 4)),
    "label": np.array([7, -1, 2], np.int8),
    "score": np.array([0.5, 1.5, 2.5], np.float16),
    "name": np.array(["a", "zwei", "二"]),
}
np.savez(out / "rows.npz", **rows)
np.savez_compressed(out / "compressed.npz", **rows)
np.savez(out / "uneven.npz", np.arange(3), b=np.arange(4))
np.savez(out / "objects.npz", a=np.array([None], dtype=object))
# As Keras and MedMNIST hand out splits, and texts of different lengths.
np.savez(
    out / "keras.npz",
    x_train=np.arange(48, dtype=np.uint8).reshape(3, 4, 4), y_train=np.array([1, 0, 1]),
    x_test=np.arange(32, dtype=np.uint8).reshape(2, 4, 4), y_test=np.array([0, 1]),
)
np.savez(out / "ragged.npz", ids=np.arange(6, dtype=np.int32), ids_lengths=np.array([1, 3, 2]))
