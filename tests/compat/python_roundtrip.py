"""Is this dataset what Python datadings would have written?

    python tests/compat/python_roundtrip.py DATASET.msgpack

Needs the real Python datadings; the tests of `kiste` do not run this, people do. Two questions:

read     Does MsgpackReader accept the dataset and give right answers: verify_data, every sample
         by index, every key by index and index by key, `in`, and keys that are absent?
rewrite  Does FileWriter, given the same samples, write the same six files byte for byte?

One line per check, `FAIL` and the reason where one fails. Exit code 0: all is well; 1: a check
failed; 2: wrong usage.

Some values that datadings can read it cannot write again, or not to the same bytes (arrays of
datetime64, structs with padding): `rewrite` fails for these, whoever wrote the dataset.
Only for datasets that you trust: datadings unpickles arrays of Python objects while reading.
"""

import sys
import tempfile
import traceback
import warnings
from pathlib import Path

from datadings.reader import MsgpackReader
from datadings.writer import FileWriter

SUFFIXES = "", ".offsets", ".keys", ".key_hashes", ".filter", ".md5"


class Failed(Exception):
    """A check failed; the message says what was expected and what was found."""


def ensure(condition, message):
    if not condition:
        raise Failed(message)


def check_files(path, reader):
    sizes = [side_file(path, suffix).stat().st_size for suffix in SUFFIXES]
    return f"{len(sizes)} files, {sum(sizes):,} bytes"


def check_digest(path, reader):
    ensure(reader.verify_data(), "the MD5 of the data is not the one in .md5")
    return "the data are as .md5 says"


def check_samples(path, reader):
    end = 0
    for index in range(len(reader)):
        raw = reader.get(index, raw=True)
        end += len(raw)
        key, sample = reader.get(index, yield_key=True)
        ensure(isinstance(sample, dict), f"sample {index} is no map but a {type(sample).__name__}")
        ensure(
            sample.get("key") == key,
            f"sample {index} has key {sample.get('key')!r}, .keys has {key!r}",
        )
    size = path.stat().st_size
    ensure(end == size, f"the samples take {end} bytes, the data file has {size}")
    return f"{len(reader):,} samples decoded, each with the key of .keys"


def check_keys(path, reader):
    for index in range(len(reader)):
        key = reader.find_key(index)
        ensure(key in reader, f"{key!r} is sample {index}, yet not `in` the dataset")
        found = reader.find_index(key)
        ensure(found == index, f"find_index({key!r}) gives {found}, not {index}")
    return f"{len(reader):,} keys found, each at its index"


def check_absent(path, reader):
    present = {reader.find_key(index) for index in range(len(reader))}
    candidates = {"", "\0", "absent", "кто здесь?"} | {f"absent/{i}" for i in range(1000)}
    for key in sorted(present)[:1000]:
        candidates |= {key + "\0", key + " ", key[:-1], key.swapcase(), "/" + key}
    absent = sorted(candidates - present)
    for key in absent:
        ensure(key not in reader, f"{key!r} is no key, yet `in` the dataset")
        try:
            found = reader.find_index(key)
        except KeyError:
            continue
        raise Failed(f"{key!r} is no key, yet find_index gives {found}")
    return f"{len(absent):,} absent keys not found"


def check_rewrite(path, reader):
    with tempfile.TemporaryDirectory(prefix="python_roundtrip-") as folder:
        copy = Path(folder) / path.name
        with FileWriter(copy, disable=True) as writer:
            for index in range(len(reader)):
                writer.write(reader.get(index))
        differences = [
            difference
            for suffix in SUFFIXES
            if (difference := first_difference(side_file(path, suffix), side_file(copy, suffix)))
        ]
        ensure(not differences, "; ".join(differences))
    return f"{len(SUFFIXES)} files are the same, byte for byte"


def side_file(path, suffix):
    return path.with_name(path.name + suffix)


def first_difference(ours, theirs, size=1 << 20):
    """Where the files differ, in words; None if they do not."""
    with open(ours, "rb") as a, open(theirs, "rb") as b:
        start = 0
        while True:
            left, right = a.read(size), b.read(size)
            if left != right:
                pairs = enumerate(zip(left, right))
                shorter = min(len(left), len(right))
                at = start + next((i for i, (x, y) in pairs if x != y), shorter)
                sizes = f"{ours.stat().st_size} bytes here, {theirs.stat().st_size} by Python"
                return f"{ours.name} differs from byte {at} on ({sizes})"
            if not left:
                return None
            start += len(left)


CHECKS = {
    "files": check_files,
    "digest": check_digest,
    "samples": check_samples,
    "keys": check_keys,
    "absent": check_absent,
    "rewrite": check_rewrite,
}


def main(arguments):
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(__doc__.strip())
        return 0 if arguments in (["-h"], ["--help"]) else 2
    path = Path(arguments[0])
    # A missing side file is only a warning to datadings; here it is a failure.
    warnings.simplefilter("error", UserWarning)
    failed = 0
    try:
        reader = MsgpackReader(path)
    except Exception as error:
        print(f"FAIL  open     {type(error).__name__}: {error}")
        return 1
    with reader:
        for name, check in CHECKS.items():
            try:
                print(f"ok    {name:8} {check(path, reader)}", flush=True)
            except Exception as error:
                failed += 1
                reason = f"{error}" if isinstance(error, Failed) else last_line_of(error)
                print(f"FAIL  {name:8} {reason}", flush=True)
    return 1 if failed else 0


def last_line_of(error):
    return traceback.format_exception_only(error)[-1].strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
