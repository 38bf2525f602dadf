"""Builds miniature archives, and notes what the real writers of datadings make of them.

    python generate.py
    python generate.py counts    # only counts.json, of the archives that are there

Needs datadings 3.4.7 with what its writers need: NumPy 1.23, Pillow 9, SciPy, OpenCV 3.4.
"""
import hashlib
import io
import json
import shutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import msgpack
import numpy as np
from PIL import Image

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "compat"))
import python_catalogue as catalogue  # noqa: E402

NAMES = ["ADE20k", "CAMVID", "Cityscapes", "Places2017", "RIT18", "VOC2012"]


def md5(data):
    return hashlib.md5(data).hexdigest()


def pixels(png):
    """Width, height, bits and pixels of a map; those of 16 bits with the high byte first."""
    image = Image.open(io.BytesIO(png))
    bits = 8 if image.mode == "L" else 16
    data = np.asarray(image).astype(">u2" if bits == 16 else "u1").tobytes()
    return "%dx%dx%d %s" % (image.width, image.height, bits, md5(data))


def note(value, is_map):
    if isinstance(value, list) and is_map:
        return [note(item, is_map) for item in value]
    if is_map:
        return pixels(value)
    # Pairs keep the order of maps; packing needs the maps.
    return md5(msgpack.packb(plain(value)))


def plain(value):
    if isinstance(value, list) and value and all(isinstance(item, tuple) for item in value):
        return {key: plain(item) for key, item in value}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def expected(name):
    module = import_module("catalogue." + name.lower())
    indir = HERE / name.lower()
    shutil.rmtree(indir, ignore_errors=True)
    indir.mkdir()
    module.build(indir)
    splits = {}
    with tempfile.TemporaryDirectory() as out:
        options = catalogue.runs(module, "PYTHON")[0]
        catalogue.run(sys.executable, "-c", catalogue.DRIVER, "datadings.sets.%s_write" % name,
                      getattr(module, "MEND", ""), indir, "-o", out, *options)
        for path in sorted(Path(out).glob("*.msgpack")):
            maps = getattr(module, "PIXELS", [])
            splits[path.stem] = [
                [[field, value if field == "key" else note(value, field in maps)] for field, value in sample]
                for sample, _ in catalogue.samples(path)
            ]
    return splits


def counts():
    found = {}
    for name in NAMES:
        module = import_module("catalogue." + name.lower())
        if hasattr(module, "COUNTED"):
            found[name] = catalogue.counted(name, module, HERE / name.lower())
    text = json.dumps(found, separators=(",", ":")).replace("]],", "]],\n")
    (HERE / "counts.json").write_text(text + "\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["counts"]:
        sys.exit(counts())
    table = {name: expected(name) for name in NAMES}
    text = json.dumps(table, separators=(",", ":")).replace("]],[[", "]],\n[[")
    (HERE / "expected.json").write_text(text + "\n")
    counts()
