"""Makes the tables in this folder of those in the wheel of datadings 3.4.7.

    python make.py

Needs datadings. The same tables come out every time.
"""

import gzip
import json
import lzma
from pathlib import Path

import datadings.sets

SETS = Path(datadings.sets.__file__).parent
HERE = Path(__file__).resolve().parent


def write(name, lines):
    text = "".join(f"{line}\n" for line in lines)
    (HERE / name).write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def ilsvrc2012():
    # Synset and words.
    write("ilsvrc2012_synsets.txt.gz", lzma.open(SETS / "ILSVRC2012_synsets.txt.xz", "rt").read().splitlines())
    rows = [line.split() for line in lzma.open(SETS / "ILSVRC2012_val.txt.xz", "rt")]
    # Line n is the label of image n.
    assert [name for name, _ in rows] == [f"ILSVRC2012_val_{n:08}.JPEG" for n in range(1, 50001)]
    write("ilsvrc2012_val.txt.gz", [label for _, label in rows])


def imagenet21k():
    meta = json.load(lzma.open(SETS / "ImageNet21k_synsets.json.xz"))
    trees = meta["class_tree_list"]
    lines = []
    for number, ((synset, words), tree) in enumerate(zip(meta["class_description"].items(), trees)):
        # A class, its parent, and so on: all of it follows from the parents.
        assert tree == [number] + (trees[tree[1]] if len(tree) > 1 else [])
        lines.append(f"{synset} {tree[1] if len(tree) > 1 else '-'} {words}")
    write("imagenet21k_synsets.txt.gz", lines)


def places365():
    write("places365_classes.txt.gz", json.load(gzip.open(SETS / "Places365_classes.json.gz")))


ilsvrc2012()
imagenet21k()
places365()
