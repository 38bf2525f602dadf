"""Whether odd values survive `kiste convert`, as the libraries of the formats see it.

    pip install datadings datasets mosaicml-streaming pyarrow tfrecord webdataset
    cargo build --features full
    python tests/compat/python_values.py target/debug/kiste

A dataset that Python's datadings writes has a field for each odd value: NumPy scalars and arrays of
all types, dates, NaN and infinities, integers of more than 63 bits, lists with bytes, arrays and NaN
in them, maps with integers as keys, timestamps. For each format

out    `kiste convert` writes it, and the format's own library finds the values that are listed here;
back   `kiste convert` reads it again, and Python's datadings finds the same bytes, or what the run
       said that values became;
no     what the format has no place for is refused with its field, and nothing is written;
in     the format's own library writes odd values, `kiste convert` reads them, and Python's datadings
       finds what is listed here.

A library that is not there is skipped by its name. Ends with a table; exit code 1: a check failed.
"""

import importlib.metadata
import importlib.util
import io
import json
import subprocess
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

# The folder catalogue beside this script is not the package of that name, which Streaming imports.
sys.path = [path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parent]

import msgpack
import msgpack_numpy
import numpy as np
from datadings.reader import MsgpackReader
from datadings.writer import FileWriter

KISTE = None
TABLE = []
SAMPLES = 50
DAY = np.datetime64("2026-11-22", "D")
SECOND = np.datetime64("2026-11-22T23:30:01", "s")
NANO = np.datetime64("2026-11-22T23:30:01.123456789", "ns")
NAT = np.datetime64("NaT", "s")
INF, NAN = float("inf"), float("nan")


def kiste(*args, code=0):
    done = subprocess.run([KISTE, *map(str, args)], capture_output=True, text=True)
    assert done.returncode == code, f"exit code {done.returncode}: {done.stderr}"
    return done.stderr


def field(value):
    """A value, or a function of the number of the sample."""
    return value if callable(value) else lambda n: value


# Values by the names of their fields.
PLAIN = {
    "nil": None, "true": True, "int": lambda n: n - 25, "large": lambda n: 2**63 + n,
    "float": lambda n: n / 7, "nan": lambda n: [NAN, INF, -INF][n % 3],
    "text": lambda n: f"№ {n}\n\"x\"", "zero": "x\0", "bytes": lambda n: bytes([0, 255, n]),
    "complex": complex(1.5, -2), "time": msgpack.Timestamp(1_700_000_000, 5),
    "empty": [], "list": [1, 2, 3], "floats": [0.5, NAN], "mixed": [1, "a", None, b"\0\xff", 0.25],
    "arrays": lambda n: [np.arange(n % 3, dtype="<i2"), NAN], "map": {"a": 1, "$f": [b"x"]},
    "ints": {1: "one", -2: {3: NAN}}, "none": {},
}
SCALARS = {
    f"s_{name}": np.dtype(name).type(value) for name, value in {
        "int8": -7, "uint16": 700, "int64": -2**62, "uint64": 2**64 - 1, "float16": 0.1, "float32": 0.1,
        "bool": True, "complex64": 2.1 + 1j, "complex128": 2.1 + 1j,
    }.items()
}
SCALARS |= {"s_day": DAY, "s_second": SECOND, "s_nano": NANO, "s_nat": NAT,
            "s_span": np.timedelta64(-90, "s"), "s_hour": np.datetime64(9, "h")}
ARRAYS = {
    f"a_{name.strip('<>|')}{'_big' if '>' in name else ''}": np.arange(6).reshape(2, 3).astype(name)
    for name in ["<i1", "<u1", "<i2", "<i4", "<i8", "<u8", "<f2", "<f4", "<f8", "|b1", "<c8", ">i4", ">f8"]
}
ARRAYS |= {
    "a_point": np.array(7, "<i4"), "a_none": np.zeros((0, 3), "<f4"), "a_text": np.array(["a", "ßß"]),
    "a_bytes": np.array([b"a", b"bc"]), "a_days": np.array([DAY, DAY + 1]),
    "a_seconds": np.array([SECOND, NAT]), "a_struct": np.array([(1, 2.5)], [("a", "<i2"), ("b", "<f4")]),
}
ALL = PLAIN | SCALARS | ARRAYS


def rows(names):
    return [{"key": f"k.{n:03}", **{name: field(ALL[name])(n) for name in names}} for n in range(SAMPLES)]


def encode(value):
    """As msgpack-numpy packs values, and dates, which it cannot pack, in the same way."""
    if isinstance(value, np.datetime64):
        return {b"nd": False, b"type": value.dtype.str, b"data": value.tobytes()}
    if isinstance(value, np.ndarray) and value.dtype.kind == "M":
        return {b"nd": True, b"type": value.dtype.str, b"kind": b"", b"shape": value.shape,
                b"data": value.tobytes()}
    return msgpack_numpy.encode(value)


def dataset(path, rows):
    """What Python's datadings writes."""
    with FileWriter(path, disable=True) as writer:
        writer._packer = msgpack.Packer(default=encode)
        for row in rows:
            writer.write(dict(row))
    return path


def read(path):
    warnings.simplefilter("error", UserWarning)
    with MsgpackReader(path) as reader:
        assert reader.verify_data()
        return [reader.get(n) for n in range(len(reader))]


def equal(a, b):
    """Whether two values are the same, of the same type, NaN included."""
    if isinstance(a, (np.ndarray, np.generic)) or isinstance(b, (np.ndarray, np.generic)):
        if type(a) is not type(b) or a.dtype != b.dtype or a.shape != b.shape:
            return False
        return a.tobytes() == b.tobytes()
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[name], b[name]) for name in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(equal, a, b))
    return a == b or (a != a and b != b)


def same(found, expected):
    """Compares sample by sample, field by field. Returns the number of values."""
    found, expected = list(found), list(expected)
    assert len(found) == len(expected), f"{len(found)} samples, not {len(expected)}"
    count = 0
    for a, b in zip(found, expected):
        assert a.keys() == b.keys(), f"{sorted(a.keys() ^ b.keys())}"
        for name in b:
            assert equal(a[name], b[name]), f"{name}: found {a[name]!r}, expected {b[name]!r}"
            count += 1
    return count


def check(what, library, direction, run):
    try:
        values, remark = run(), "same"
    except Exception as error:
        values, remark = 0, f"FAILED: {error}"
        traceback.print_exc()
    TABLE.append((what, library, direction, values, remark))
    print(*TABLE[-1], sep="\t", flush=True)


def trip(folder, what, library, target, names, reads, becomes=None, args=(), back=()):
    """Out and back. `becomes` says what values are afterwards, by field, if not the same; `reads`
    is a function that reads with the library, and returns what it found and what it should find."""
    source = dataset(folder / f"{what}.msgpack", rows(names))
    path = folder / f"{what}{target}"
    becomes = becomes or {}

    def out():
        said = kiste("convert", source, path, *args)
        for name in becomes:
            # Ten are told one by one.
            told = f'field "{name}"' in said or "--dry-run says" in said
            assert told, f"{name} changes, but the run said only: {said}"
        return same(*reads(path))

    def again():
        shards = sorted(path.parent.glob(f"{path.stem}-0*.tar")) if target == ".tar" else [path]
        there = folder / f"{what}-back.msgpack"
        kiste("convert", *shards, there, *back)
        expected = [{**row, **{name: f(row[name]) for name, f in becomes.items()}} for row in rows(names)]
        return same(read(there), expected)

    check(what, library, "out", out)
    check(what, library, "back", again)


def refused(folder, what, library, target, names):
    """Each of these fields alone is an error that names it."""

    def run():
        for name in names:
            source = dataset(folder / f"no-{what}-{name}.msgpack", rows([name, "int"][:2]))
            path = folder / f"no-{what}-{name}{target}"
            said = kiste("convert", source, path, code=2)
            assert f'"{name}"' in said and "k.000" in said, said
            assert not list(folder.glob(f"no-{what}-{name}{target.split('.')[0]}*{target}*")), said
        return len(names) * SAMPLES

    check(what, library, "no", run)


def with_webdataset(folder):
    import webdataset as wds

    names = [name for name in ALL if name != "nil"] + ["nil"]

    def reads(path):
        shards = sorted(map(str, path.parent.glob(f"{path.stem}-0*.tar")))
        found = list(wds.WebDataset(shards, shardshuffle=False).decode())
        expected = []
        for row in rows(names):
            sample = {}
            for name, value in row.items():
                if name == "key":
                    sample["__key__"] = value.replace(".", "%2E")
                elif isinstance(value, bytes):
                    sample[name] = value
                elif isinstance(value, str):
                    sample[name if name == "text" else f"{name}.txt"] = value
                elif isinstance(value, np.integer) and value.dtype.kind in "iu":
                    sample[f"{name}.cls"] = int(value)
                elif isinstance(value, (np.ndarray, np.generic)):
                    sample[f"{name}.npy"] = np.asarray(value)
                elif isinstance(value, int) and not isinstance(value, bool):
                    sample[f"{name}.cls"] = value
                elif value is None:
                    # The library takes a decoded None for one that was not decoded.
                    sample["nil.json"] = b"null"
                elif name in ("true", "float", "nan", "empty", "list", "floats", "none"):
                    sample[f"{name}.json"] = value
            expected.append(sample)
        keep = expected[0].keys()
        return [{k: v for k, v in sample.items() if k in keep} for sample in found], expected

    trip(folder, "WebDataset", "webdataset", ".tar", names, reads)

    def pictures():
        png = bytes.fromhex(
            "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763"
            "f8cfc000000301010018dd8db00000000049454e44ae426082")
        made = [{"key": f"{n}", "image": png, "label": n} for n in range(SAMPLES)]
        kiste("convert", dataset(folder / "pictures.msgpack", made), folder / "pictures.tar")
        stream = wds.WebDataset(str(folder / "pictures-000000.tar"), shardshuffle=False)
        found = list(stream.decode("pil").to_tuple("png", "cls"))
        assert [label for _, label in found] == list(range(SAMPLES))
        assert all(picture.size == (1, 1) for picture, _ in found)
        kiste("convert", folder / "pictures-000000.tar", folder / "pictures-back.msgpack")
        return same(read(folder / "pictures-back.msgpack"), made)

    check("WebDataset, to_tuple", "webdataset", "out", pictures)

    def odd():
        values = [{"a": NAN, "b": [INF, -INF]}, {"$f": "x"}, [2**64 - 1, -2**63], None]
        with wds.TarWriter(str(folder / "odd.tar")) as sink:
            for n, value in enumerate(values):
                sink.write({"__key__": f"{n}", "json": value})
        kiste("convert", folder / "odd.tar", folder / "odd-in.msgpack")
        count = same(read(folder / "odd-in.msgpack"),
                     [{"key": f"{n}", "json": value} for n, value in enumerate(values)])
        with wds.TarWriter(str(folder / "huge.tar")) as sink:
            sink.write({"__key__": "a", "json": {"n": 2**64}})
        kiste("convert", folder / "huge.tar", folder / "huge.msgpack", code=1)
        return count + 1

    check("WebDataset", "webdataset", "in", odd)


def with_mds(folder):
    from streaming import MDSWriter
    from streaming import LocalDataset

    arrays = "a_i1 a_u1 a_i2 a_i4 a_i8 a_u8 a_f2 a_f4 a_f8".split()
    names = sorted([*PLAIN, *SCALARS, *arrays])
    own = "s_int8 s_uint16 s_int64 s_uint64 s_float16 s_float32".split()
    plain = "nil true int large float nan text zero bytes empty list floats none".split()

    def reads(path):
        data = LocalDataset(str(path))
        found = [data[n] for n in range(len(data))]
        expected = rows(names)
        for row in expected:
            # A column `float64` has NumPy numbers for this library.
            row |= {name: np.float64(row[name]) for name in ("float", "nan")}
        keep = {"key", *arrays, *own, *plain}
        pick = lambda row: {name: row[name] for name in sorted(keep)}
        return map(pick, found), map(pick, expected)

    trip(folder, "MDS", "mosaicml-streaming", "-mds", names, reads, args=("--to", "mds"),
         back=("--key-field", "key"))
    def no():
        names = [name for name in ARRAYS if name not in arrays]
        for name in names:
            source = dataset(folder / f"no-mds-{name}.msgpack", rows([name]))
            said = kiste("convert", source, folder / f"no-mds-{name}", "--to", "mds", code=2)
            assert f'"{name}"' in said and "k.000" in said, said
            assert not (folder / f"no-mds-{name}").exists()
        return len(names) * SAMPLES

    check("MDS", "mosaicml-streaming", "no", no)

    def pickles():
        columns = {"a": "int", "b": "pkl", "c": "json", "d": "str_int", "e": "float32"}
        made = [{"a": n, "b": {1, 2}, "c": {"x": NAN}, "d": 2**63 + n, "e": np.float32(n)}
                for n in range(SAMPLES)]
        with MDSWriter(out=str(folder / "pkl"), columns=columns) as sink:
            for row in made:
                sink.write(row)
        said = kiste("convert", folder / "pkl", folder / "pkl.msgpack", code=2)
        assert '"b"' in said and "--drop" in said, said
        kiste("convert", folder / "pkl", folder / "pkl.msgpack", "--drop", "b", "--key-field", "a")
        return same(read(folder / "pkl.msgpack"), [
            {"key": str(row["a"]), **{name: row[name] for name in "cde"}} for row in made])

    check("MDS, pickles dropped", "mosaicml-streaming", "in", pickles)


def with_tfrecord(folder):
    from tfrecord.reader import tfrecord_loader

    single = lambda value: np.float32(value)
    becomes = {
        "true": int, "float": single, "nan": single, "text": str.encode, "zero": str.encode,
        "list": lambda v: np.array(v, "<i8"), "floats": lambda v: np.array(v, "<f4"),
        "s_int8": int, "s_uint16": int, "s_int64": int, "s_float16": single, "s_bool": int,
        "a_i1": lambda v: v.ravel().astype("<i8"), "a_b1": lambda v: v.ravel().astype("<i8"),
        "a_f2": lambda v: v.ravel().astype("<f4"), "a_f8": lambda v: v.ravel().astype("<f4"),
        "a_i4_big": lambda v: v.ravel().astype("<i8"), "a_f8_big": lambda v: v.ravel().astype("<f4"),
        "a_point": int,
    }
    # The library does not take a feature without a value, as nil becomes.
    names = sorted([*becomes, "int", "bytes", "s_float32"])

    def reads(path):
        found, expected = [], []
        for record in tfrecord_loader(str(path), None):
            found.append({name: np.asarray(record[name]).ravel().tolist() if name not in TEXT
                          else bytes(record[name]) for name in names if name in record})
        for row in rows(names):
            sample = {}
            for name in names:
                value = becomes.get(name, lambda v: v)(row[name])
                if name in TEXT:
                    sample[name] = value
                elif value is not None:
                    sample[name] = np.asarray(value).ravel().tolist()
            expected.append(sample)
        return found, expected

    TEXT = {"text", "zero", "bytes"}
    trip(folder, "TFRecord", "tfrecord", ".tfrecord", names, reads, becomes, back=("--key-field", "key"))
    refused(folder, "TFRecord", "tfrecord", ".tfrecord", [
        "large", "complex", "time", "mixed", "arrays", "map", "ints", "s_uint64", "s_complex64",
        "s_second", "a_c8", "a_text", "a_seconds", "a_struct"])


def with_arrow(folder, library):
    import pyarrow as pa
    import pyarrow.parquet as pq

    no = ["complex", "time", "mixed", "arrays", "ints", "none", "s_complex64", "s_hour",
          "a_c8", "a_i4_big", "a_text", "a_struct"]
    names = [name for name in ALL if name not in [*no, "s_complex128", "a_f8_big", "a_bytes"]]

    def cell(value):
        match value:
            case np.datetime64() if str(value.dtype) == "datetime64[D]":
                return value.item()
            case np.generic() | np.ndarray():
                return value
            case _:
                return value

    def reads(path):
        if library == "datasets":
            import datasets
            kind = "parquet" if path.suffix == ".parquet" else "arrow"
            table = datasets.load_dataset(kind, data_files=str(path), split="train",
                                          cache_dir=str(folder / "cache")).with_format("arrow")[:]
        else:
            table = pq.read_table(path) if path.suffix == ".parquet" else pa.ipc.open_file(path).read_all()
        found, expected = [], []
        for n, row in enumerate(rows(names)):
            sample, there = {}, {}
            for name in ("key", *names):
                value, column = row[name], table.column(name)
                one = column[n]
                if isinstance(value, (np.datetime64, np.timedelta64)):
                    # As the library's own NumPy conversion has it, to the unit of the value.
                    got = column.to_numpy()[n]
                    sample[name] = got.astype(value.dtype) if not np.isnat(value) else value
                    assert np.isnat(got) == np.isnat(value), name
                    there[name] = value
                elif isinstance(value, np.ndarray) and value.dtype.kind == "M":
                    assert pa.types.is_temporal(one.type.value_type), one.type
                    sample[name] = np.asarray(one.values).astype(value.dtype)
                    there[name] = value
                elif isinstance(value, (np.ndarray, np.generic)):
                    dtype = value.dtype
                    sample[name] = np.array(one.as_py(), dtype).reshape(value.shape)
                    there[name] = np.asarray(value)
                else:
                    sample[name], there[name] = one.as_py(), value
            found.append(sample)
            expected.append(there)
        return found, expected

    for what, target in [("Parquet", ".parquet"), ("Arrow", ".arrow")]:
        trip(folder, what, library, target, names, reads)
        if library == "pyarrow":
            refused(folder, what, library, target, no)


def with_pyarrow(folder):
    import datetime
    import pyarrow as pa
    import pyarrow.parquet as pq

    with_arrow(folder, "pyarrow")

    def odd():
        day = datetime.date(2026, 11, 22)
        table = pa.table({
            "key": [f"{n}" for n in range(4)],
            "day": pa.array([day, None, day, day], pa.date32()),
            "ints": pa.array([[1, 2], [3, None], [], None], pa.list_(pa.int32())),
            "floats": pa.array([[0.5], [None, NAN], None, [1.0]], pa.list_(pa.float32())),
            "time": pa.array([0, 1, 2, 3], pa.timestamp("s")),
        })
        pq.write_table(table, folder / "odd.parquet")
        kiste("convert", folder / "odd.parquet", folder / "odd.msgpack")
        kiste("convert", folder / "odd.msgpack", folder / "odd-again.parquet")
        again = pq.read_table(folder / "odd-again.parquet")
        for name in table.column_names:
            a, b = table.column(name), again.column(name)
            assert a.type == b.type or name == "time" or pa.types.is_list(a.type), (a.type, b.type)
            assert str(a.to_pylist()) == str(b.to_pylist()), f"{name}: {b.to_pylist()}"
        kiste("convert", folder / "odd-again.parquet", folder / "odd-again.msgpack")
        return same(read(folder / "odd-again.msgpack"), read(folder / "odd.msgpack"))

    check("Parquet, dates and lists with null", "pyarrow", "in", odd)


def with_datasets(folder):
    import datasets

    with_arrow(folder, "datasets")

    def paths():
        place = folder / "photos"
        place.mkdir()
        made = []
        for n in range(SAMPLES):
            out = io.BytesIO()
            import PIL.Image
            PIL.Image.new("RGB", (3, 2), (n, 0, 0)).save(out, "png")
            (place / f"{n:02}.png").write_bytes(out.getvalue())
            made.append(out.getvalue())
        data = datasets.Dataset.from_dict({"image": [str(place / f"{n:02}.png") for n in range(SAMPLES)]})
        data = data.cast_column("image", datasets.Image())
        import pyarrow.parquet as pq
        # As `to_parquet` writes it without its bytes.
        pq.write_table(data.data.table, place / "photos.parquet")
        kiste("convert", place / "photos.parquet", folder / "photos.msgpack")
        found = read(folder / "photos.msgpack")
        assert [row["image"] for row in found] == made
        pq.write_table(data.data.table, folder / "cache" / "elsewhere.parquet")
        said = kiste("convert", folder / "cache" / "elsewhere.parquet", folder / "no.msgpack", code=2)
        assert "below the folder" in said, said
        return len(found)

    check("Parquet, images by their paths", "datasets", "in", paths)


def with_numpy(folder):
    names = ["int", "true", "float", "nan", "text", *SCALARS]
    names += [name for name in ARRAYS if name not in ("a_point", "a_none")]
    plain = {name: (lambda v: v.item()) for name in
             ["s_int8", "s_uint16", "s_int64", "s_uint64", "s_bool"]}

    def reads(path):
        arrays = np.load(path)
        found = [{name: arrays[name][n] for name in ("key", *names)} for n in range(SAMPLES)]
        expected = [{name: np.asarray(value)[()] if not isinstance(value, str) else np.str_(value)
                     for name, value in row.items()} for row in rows(names)]
        # Strings have the width of the longest.
        cut = lambda value: str(value) if isinstance(value, np.str_) else value
        each = lambda samples: [{k: cut(v) for k, v in row.items()} for row in samples]
        return each(found), each(expected)

    trip(folder, "npz", "numpy", ".npz", names, reads, plain, back=("--key-field", "key"))
    refused(folder, "npz", "numpy", ".npz", [
        "nil", "large", "zero", "bytes", "complex", "time", "empty", "list", "mixed", "map", "a_none"])


def with_json(folder):
    def reads(path):
        lines = [json.loads(line) for line in path.read_text("utf8").splitlines()]
        names = "key nil true int large float text empty list none".split()
        pick = lambda row: {name: row[name] for name in names}
        return map(pick, lines), map(pick, rows(ALL))

    trip(folder, "JSON lines", "json", ".jsonl", list(ALL), reads)

    def odd():
        made = [{"key": f"{n}", "x": [NAN, INF, -INF], "y": {"z": NAN}} for n in range(SAMPLES)]
        (folder / "odd.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made))
        kiste("convert", folder / "odd.jsonl", folder / "odd-lines.msgpack")
        return same(read(folder / "odd-lines.msgpack"), made)

    check("JSON lines", "json", "in", odd)


def with_csv(folder):
    import csv

    names = ["int", "large", "float", "nan", "text", "s_int8", "s_int64", "s_uint64", "true"]
    becomes = {"s_int8": int, "s_int64": int, "s_uint64": int, "true": lambda v: "true"}

    def reads(path):
        with open(path, newline="", encoding="utf8") as file:
            found = list(csv.DictReader(file))
        expected = []
        for row in rows(names):
            row["nan"] = {"nan": "NaN", "inf": "inf", "-inf": "-inf"}[str(row["nan"])]
            row["true"] = "true"
            expected.append({name: value if isinstance(value, str) else str(value)
                             for name, value in row.items()})
        return found, expected

    trip(folder, "CSV", "csv", ".csv", names, reads, becomes,
         back=("--key-field", "key", "--guess-types"))
    refused(folder, "CSV", "csv", ".csv", ["bytes", "complex", "time", "list", "map", "s_second", "a_i4"])


LIBRARIES = {
    "webdataset": with_webdataset, "mosaicml-streaming": with_mds, "tfrecord": with_tfrecord,
    "pyarrow": with_pyarrow, "datasets": with_datasets, "numpy": with_numpy, "json": with_json,
    "csv": with_csv,
}


def main(arguments):
    global KISTE
    if not arguments:
        print(__doc__.strip())
        return 2
    KISTE = str(Path(arguments[0]).resolve())
    for name, run in LIBRARIES.items():
        if len(arguments) > 1 and name not in arguments[1:]:
            continue
        module = {"mosaicml-streaming": "streaming"}.get(name, name)
        if importlib.util.find_spec(module) is None:
            print(f"skipped: {name}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                run(Path(folder))
            except ImportError as error:
                print(f"skipped: {name} ({error})".split("\n")[0])
    versions = {row[1] for row in TABLE}
    print("\n| format | library | direction | values | result |\n| --- | --- | --- | ---: | --- |")
    for what, library, direction, values, remark in TABLE:
        print(f"| {what} | {library} | {direction} | {values:,} | {remark} |")
    for name in sorted(versions - {"json", "csv"}):
        print(name, importlib.metadata.version(name))
    failed = sum(row[4] != "same" for row in TABLE)
    print(f"\n{failed} of {len(TABLE)} checks failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
