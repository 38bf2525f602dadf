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
