"""Makes the tables in this folder from an installed datadings 3.4.7: python generate.py"""
import gzip
import os

from datadings.sets.tools import load_json

HERE = os.path.dirname(os.path.abspath(__file__))


def write(name, lines):
    text = "".join("%s\n" % line for line in lines).encode()
    with open(os.path.join(HERE, name + ".txt.gz"), "wb") as out:
        out.write(gzip.compress(text, 9, mtime=0))


def counts(name):
    table = load_json(name)
    write(os.path.basename(name).split(".")[0].lower(),
          ["%d %r" % pair for pair in zip(table["INDEXES"], table["COUNTS"])])


write("scenes", load_json("ADE20k_scenelabels.json.gz"))
counts("ADE20k_counts.json.xz")
counts("Places2017_counts.json.gz")
labels = load_json("Places2017_scenelabels.json.xz")
names = ["ADE_train_%08d.jpg" % n for n in range(1, 20211)] + ["ADE_val_%08d.jpg" % n for n in range(1, 2001)]
assert sorted(labels) == names
write("places2017_labels", [labels[name] for name in names])
