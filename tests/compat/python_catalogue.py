"""Does `kiste write` make of archives what the writers of datadings make of them?

    python tests/compat/python_catalogue.py target/debug/kiste [NAME...]

The archives are miniatures of the real ones, in the layout that their authors document: each file in
`catalogue/` builds one. The real `datadings.sets.NAME_write` and `kiste write NAME` make datasets of
it, which are compared sample by sample: keys and their order, fields and their order, and all values,
byte for byte. Re-encoded images are compared by their pixels.

Needs datadings with what its writers need (Pillow, simplejpeg, SciPy). The tests of `kiste` do not run
this, people do. One line per data set, `FAIL` and the reason where one fails. Exit code 0: all is well;
1: a comparison failed. `--build DIR` only builds the archives, in DIR/NAME.

A file in `catalogue/` is a module with

    build(indir)    writes the archives to this folder (a Path)
    MODULE          the real writer; without it `datadings.sets.NAME_write`; None if there is none
    PYTHON, KISTE   options of the two; each may be a list of lists, for several runs; {indir} is the
                    folder with the archives
    PIXELS          fields with images that are compared by their pixels
    LOSSY           {field: how far apart pixels may be on average}, if the encoding loses something
    CLOSE           {field: how far apart numbers in arrays may be}, where sums are in another order
    MEND            Python code that runs before the real writer, which is `writer` there, with the
                    reason why it cannot run as it is
    COUNTED         the splits whose classes the real writer counts, in its order; COUNT is the option that
                    makes it do so (`--calculate-weights`), and MEND_COUNT what MEND is to it
    check(outdir)   looks at what `kiste` made in ways of its own, and raises what it does not like
"""

import importlib
import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import msgpack
import numpy as np
from PIL import Image

HERE = Path(__file__).resolve().parent
# Builders import each other as modules of the package, or by themselves.
sys.path[:0] = [str(HERE), str(HERE / "catalogue")]

DRIVER = """
import importlib, sys
module, mend, *sys.argv[1:] = sys.argv[1:]
writer = importlib.import_module(module)
exec(mend)
writer.main()
"""


COUNTER = """
import importlib, json, sys
from datadings.sets.VOC2012 import median_frequency_weights as frequency_weights
module, mend, path, *sys.argv[1:] = sys.argv[1:]
writer = importlib.import_module(module)
right, found = writer.class_counts, []
def class_counts(maps, **kwargs):
    counts = right(maps, **kwargs)
    classes = sorted(counts)
    values = [counts[n] for n in classes]
    found.append(list(zip(classes, values, frequency_weights(values))))
    return counts
writer.class_counts = class_counts
exec(mend)
writer.main()
json.dump(found, open(path, "w"))
"""


def run(*args, input=None):
    done = subprocess.run([*map(str, args)], capture_output=True, text=True, input=input)
    assert done.returncode == 0, f"{args[-5:]}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def samples(path):
    """All samples of a dataset as lists of fields, so that their order is seen, and as bytes."""
    unpacker = msgpack.Unpacker(path.open("rb"), object_pairs_hook=list, strict_map_key=False,
                                max_buffer_size=1 << 30)
    packed, at, found = path.read_bytes(), 0, []
    for sample in unpacker:
        end = unpacker.tell()
        found.append((sample, packed[at:end]))
        at = end
    return found


def pixels(data):
    image = Image.open(io.BytesIO(data))
    return image.mode, np.asarray(image)


def distance(ours, theirs):
    """How far apart two images are on average; None if they are not of one form."""
    (mode, a), (their_mode, b) = pixels(ours), pixels(theirs)
    if mode != their_mode or a.shape != b.shape:
        return None
    return float(np.abs(a.astype(np.float64) - b.astype(np.float64)).mean())


def are_close(ours, theirs, limit):
    """Whether two values are the same, but for arrays, the numbers of which may differ by so much."""
    if isinstance(theirs, (list, tuple)) and type(ours) is type(theirs) and len(ours) == len(theirs):
        if theirs and isinstance(theirs[0], tuple) and theirs[0][0] == b"nd":
            ours, theirs = dict(ours), dict(theirs)
            if ours[b"type"] != theirs[b"type"] or ours[b"shape"] != theirs[b"shape"]:
                return False
            ours, theirs = (np.frombuffer(array[b"data"], array[b"type"]) for array in (ours, theirs))
            return bool((np.abs(ours - theirs) <= limit).all())
        return all(are_close(mine, other, limit) for mine, other in zip(ours, theirs))
    return ours == theirs


def compare_values(field, key, ours, theirs, module, found):
    """Compares a field, which may be a list of images."""
    lossy, close = getattr(module, "LOSSY", {}), getattr(module, "CLOSE", {})
    if field in close:
        assert are_close(ours, theirs, close[field]), f"{key}: {field}: further apart than {close[field]}"
        return
    if field not in getattr(module, "PIXELS", ()) and field not in lossy:
        assert ours == theirs, f"{key}: {field}: {str(ours)[:200]}, Python has {str(theirs)[:200]}"
        return
    if isinstance(theirs, list):
        assert len(ours) == len(theirs), f"{key}: {field}: {len(ours)} images, not {len(theirs)}"
        for mine, other in zip(ours, theirs):
            compare_values(field, key, mine, other, module, found)
        return
    if ours == theirs:
        return
    apart = distance(ours, theirs)
    assert apart is not None, f"{key}: {field}: another form: {pixels(ours)[0]}, {pixels(theirs)[0]}"
    limit = lossy.get(field, 0.0)
    assert apart <= limit, f"{key}: {field}: {apart:.2f} apart, at most {limit} expected"
    found.append((field, apart))


def compare(ours, theirs, module):
    """Compares two datasets; says how many samples are the same bytes, and how far others are apart."""
    ours, theirs = samples(ours), samples(theirs)
    keys = [[dict(sample)["key"] for sample, _ in which] for which in (ours, theirs)]
    assert keys[0] == keys[1], f"keys are {keys[0][:9]}, Python has {keys[1][:9]}"
    same, found = 0, []
    for (sample, packed), (other, their_packed) in zip(ours, theirs):
        same += packed == their_packed
        key, fields = dict(sample)["key"], [name for name, _ in other]
        assert [name for name, _ in sample] == fields, f"{key}: fields {sample}, Python has {fields}"
        for (field, value), (_, expected) in zip(sample, other):
            compare_values(field, key, value, expected, module, found)
    return len(ours), same, found


def runs(module, name):
    """The options of a program, one list for each run."""
    default = ["-s", "-y", "--shuffle", "no"] if name == "PYTHON" else []
    options = getattr(module, name, default)
    return options if options and isinstance(options[0], list) else [options]


def counted(name, module, indir):
    """What the real writer counts: class, count and weight by split."""
    with tempfile.TemporaryDirectory() as scratch:
        path, option = Path(scratch) / "found.json", getattr(module, "COUNT", "--calculate-weights")
        run(sys.executable, "-c", COUNTER, f"datadings.sets.{name}_write", getattr(module, "MEND_COUNT", ""), path,
            indir, "-o", scratch, "-s", option)
        found = json.loads(path.read_text())
    assert len(found) == len(module.COUNTED), f"Python counts {len(found)} splits"
    return dict(zip(module.COUNTED, found))


def check_counts(kiste, name, module, indir):
    theirs = counted(name, module, indir)
    args = ["--calculate-weights", "--json", "-s", "--quiet", "--splits", ",".join(theirs)]
    ours = json.loads(run(kiste, "write", name, indir, *args))["splits"]
    ours = {split["split"]: [list(map(row.get, ["class", "count", "weight"])) for row in split["classes"]]
            for split in ours}
    for split, rows in theirs.items():
        found, expected = np.array(ours[split]), np.array(rows)
        assert found.shape == expected.shape and (found[:, 0] == expected[:, 0]).all(), f"{split}: other classes"
        assert np.allclose(found, expected, rtol=1e-12, atol=0), f"{split}: {found}, Python has {expected}"
    return sum(map(len, theirs.values()))


def check(kiste, name, module):
    writer = getattr(module, "MODULE", f"datadings.sets.{name}_write")
    samples, same, apart, splits = 0, 0, {}, set()
    with tempfile.TemporaryDirectory() as scratch:
        indir = Path(scratch) / "in"
        indir.mkdir()
        module.build(indir)
        classes = check_counts(kiste, name, module, indir) if hasattr(module, "COUNTED") else 0
        for at, (python, options) in enumerate(zip(runs(module, "PYTHON"), runs(module, "KISTE"))):
            python, options = ([text.format(indir=indir) for text in which] for which in (python, options))
            ours, theirs = Path(scratch) / f"ours{at}", Path(scratch) / f"theirs{at}"
            run(kiste, "write", name, indir, ours, "--skip-verification", "--quiet", *options)
            for path in ours.glob("*.msgpack"):
                run(kiste, "verify", "--deep", path)
            if hasattr(module, "check"):
                module.check(ours)
            if writer is None:
                continue
            theirs.mkdir()
            run(sys.executable, "-c", DRIVER, writer, getattr(module, "MEND", ""), indir, "-o", theirs, *python)
            names = [sorted(path.name for path in which.glob("*.msgpack")) for which in (ours, theirs)]
            assert names[0] == names[1], f"{names[0]}, Python has {names[1]}"
            for file in names[0]:
                count, bytes, found = compare(ours / file, theirs / file, module)
                splits.add(file.removesuffix(".msgpack"))
                samples, same = samples + count, same + bytes
                for field, distance in found:
                    apart[field] = max(apart.get(field, 0), distance)
    if writer is None:
        return "no such writer in Python; checked by itself"
    images = ", ".join(f"{field} at most {far:.2f} apart" if far else f"{field} of the same pixels"
                       for field, far in apart.items())
    text = f"{', '.join(sorted(splits))}: {samples} samples, {same} of the same bytes"
    text = f"{text}, else {images}" if images else text
    return f"{text}; {classes} weights" if classes else text


def main():
    args = sys.argv[1:]
    kiste = Path(args.pop(0)).resolve()
    known = {known["name"].lower(): known["name"] for known in json.loads(run(kiste, "datasets", "--json"))}
    builders = {path.stem: path for path in sorted((HERE / "catalogue").glob("*.py"))}
    build = Path(args.pop(args.index("--build") + 1)) if "--build" in args else None
    wanted = [name.lower() for name in args if name != "--build"] or list(known)
    failed = False
    for name in wanted:
        module = importlib.import_module(f"catalogue.{name}") if name in builders else None
        if build and module:
            (build / name).mkdir(parents=True)
            module.build(build / name)
            continue
        try:
            assert module, f"there is no catalogue/{name}.py"
            print(f"ok    {known[name]}: {check(kiste, known[name], module)}", flush=True)
        except Exception as error:
            failed = True
            print(f"FAIL  {known.get(name, name)}: {error!r}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
