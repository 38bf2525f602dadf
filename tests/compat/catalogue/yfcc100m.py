"""YFCC100m in miniature, in the layout that its reader in datadings documents: zip files with images
`ZIP/HASH` and other files. Python has no writer, so its reader reads the same archives, and writes what
it read; the list of zip files is that of the wheel, cut down to those that are there.
"""

import zipfile

import msgpack

from photos import photo

MODULE = "datadings.sets.YFCC100m"
PYTHON = [[], ["--rejected", "{indir}/rejected.txt"], ["--rejected", "{indir}/rejected.msgpack"]]
KISTE = PYTHON
MEND = """
import argparse
from datadings.writer import FileWriter

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("indir")
    parser.add_argument("-o")
    parser.add_argument("--rejected", default=None)
    args = parser.parse_args()
    writer.FILE_COUNTS[:] = writer.FILE_COUNTS[:2]
    writer.FILES_TOTAL = 13
    lists = [args.rejected] if args.rejected else []
    reader = writer.YFCC100mReader(args.indir, reject_file_paths=lists)
    with FileWriter(args.o + "/YFCC100m.msgpack", overwrite=True) as out:
        for sample in reader:
            out.write(sample)

writer.main = main
"""


REJECTED = {"00024a73d1": [0, 3], "01554691b5": [7]}


def build(indir):
    lines = [f"{name} {number}\n" for name, numbers in REJECTED.items() for number in numbers]
    (indir / "rejected.txt").write_text("".join(lines))
    (indir / "rejected.msgpack").write_bytes(msgpack.packb(REJECTED))
    for name, count in [("01554691b5", 8), ("00024a73d1", 5)]:
        with zipfile.ZipFile(indir / f"{name}.zip", "w") as archive:
            archive.writestr(f"{name}/", b"")
            archive.writestr(f"{name}/readme.txt", b"no image")
            for n in range(count):
                archive.writestr(f"{name}/{(n * 7919) % 65536:032x}", photo(f"{name} {n}"))
