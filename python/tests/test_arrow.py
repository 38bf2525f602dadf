"""Datasets as tables of DuckDB, polars, pandas and pyarrow, and their tables as datasets."""

import datetime
import gc
import io
import math
import subprocess
import sys
import tarfile
import threading

import numpy as np
import pytest
from conftest import same

import pykiste as ki

pa = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.skipif(not ki.features()["arrow"], reason="this build has no Arrow")


def write(path, samples, labels=None):
    with ki.Writer(path) as writer:
        for sample in samples:
            writer.write(sample)
        if labels:
            writer.set_labels(labels)
    return ki.open(path)


NUMBERS = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()
TIMES = "datetime64[D] datetime64[s] datetime64[ms] datetime64[us] datetime64[ns]".split() + [
    f"timedelta64[{unit}]" for unit in ("s", "ms", "us", "ns")
]


def numbers(rng, dtype, shape):
    """Random bits of a type of NumPy: all its values, NaN and infinities among them."""
    dtype = np.dtype(dtype)
    if dtype == bool:
        return np.array(rng.random(shape) < 0.5)
    size = int(np.prod(shape, dtype=int))
    if dtype.kind in "Mm":
        # Years that all programs know.
        limit = 20_000 if dtype == "datetime64[D]" else 2**60 if "ns" in str(dtype) else 4 * 10**9
        return rng.integers(-limit, limit, size).astype("i8").view(dtype).reshape(shape)
    return np.frombuffer(rng.bytes(size * dtype.itemsize), dtype).reshape(shape)


# Each makes one value of a field from a generator; all values of a field fit one column.
KINDS = {
    "bool": lambda rng: bool(rng.random() < 0.5),
    "int": lambda rng: int(rng.integers(-(2**63), 2**63 - 1, endpoint=True)),
    "large": lambda rng: 2**64 - 1 - int(rng.integers(0, 2**62)),
    "float": lambda rng: [math.nan, math.inf, -0.0, float(rng.normal())][rng.integers(4)],
    "text": lambda rng: ["", "ein Wörtchen", "🦆" * 9, "x" * 300][rng.integers(4)],
    "bytes": lambda rng: rng.bytes(int(rng.integers(0, 40))),
    "blob": lambda rng: rng.bytes(1000),
    "nothing": lambda rng: None,
    "list": lambda rng: [int(n) for n in rng.integers(0, 9, rng.integers(0, 4))],
    "texts": lambda rng: ["a", "é", ""][: rng.integers(0, 4)],
    "blobs": lambda rng: [rng.bytes(20)] * int(rng.integers(0, 3)),
    "lists": lambda rng: [[0.5] * int(n) for n in rng.integers(0, 3, rng.integers(0, 3))],
    "map": lambda rng: {"a": 1, "b": rng.bytes(30)} | ({"c": "more"} if rng.random() < 0.5 else {}),
    "maps": lambda rng: [{"x": 1.5, "y": [1, 2]}] * int(rng.integers(0, 3)),
}
for dtype in NUMBERS + TIMES:
    KINDS[f"scalar {dtype}"] = lambda rng, dtype=dtype: numbers(rng, dtype, ())[()]
    KINDS[f"array {dtype}"] = lambda rng, dtype=dtype: numbers(rng, dtype, (2, 3))
    KINDS[f"ragged {dtype}"] = lambda rng, dtype=dtype: numbers(rng, dtype, int(rng.integers(1, 5)))
KINDS["rows"] = lambda rng: numbers(rng, "float32", (int(rng.integers(1, 4)), 2))
KINDS["single"] = lambda rng: np.array(int(rng.integers(0, 9)))
KINDS["vector"] = lambda rng: numbers(rng, "uint8", 5000)


def samples_of(rng, count, kinds=KINDS):
    samples = []
    for number in range(count):
        sample = {"key": f"k{number}"}
        for name, make in kinds.items():
            chance = rng.random()
            if chance < 0.1:
                sample[name] = None
            elif chance < 0.9:
                sample[name] = make(rng)
        samples.append(sample)
    return samples


def plain(value):
    """A value as Arrow's `to_pylist` has it, to be compared with `==`."""
    if isinstance(value, np.generic) and value.dtype.kind in "Mm":
        return str(value.dtype), int(value.view("i8"))
    if isinstance(value, np.ndarray) and value.dtype.kind in "Mm":
        return [plain(item) for item in value] if value.ndim else plain(value[()])
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def from_arrow(array):
    """The values of a pyarrow array, times as their type and number."""
    of = array.type
    if pa.types.is_dictionary(of):
        return array.to_pylist()
    if pa.types.is_temporal(of):
        name = {True: "datetime64"}.get(pa.types.is_timestamp(of), "timedelta64")
        if pa.types.is_date32(of):
            days = array.cast(pa.int32()).to_pylist()
            return [None if day is None else ("datetime64[D]", day) for day in days]
        return [
            None if time is None else (f"{name}[{of.unit}]", time)
            for time in array.cast(pa.int64()).to_pylist()
        ]
    if pa.types.is_list(of) or pa.types.is_fixed_size_list(of):
        return [
            None if not item.is_valid else from_arrow(item.values) for item in array
        ]
    return [plain(value) for value in array.to_pylist()]


def check(dataset, table):
    """Compares each value of a pyarrow table with what the dataset has."""
    assert table.num_rows == len(dataset)
    for name in table.column_names:
        found = [value for chunk in table.column(name).chunks for value in from_arrow(chunk)]
        expected = [plain(sample.get(name)) for sample in dataset]
        assert found == expected, name


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("views", [True, False])
def test_all_kinds_of_values(tmp_path, seed, views):
    rng = np.random.default_rng(seed)
    dataset = write(tmp_path / "all.msgpack", samples_of(rng, 60))
    table = dataset.to_arrow(batch_size=17, views=views)
    read = pa.table(table)
    assert table.columns == read.column_names and len(table) == 60
    read.validate(full=True)
    check(dataset, read)
    # The types of the columns.
    types = {field.name: field.type for field in read.schema}
    for dtype in NUMBERS + TIMES[1:]:
        expected = pa.from_numpy_dtype(np.dtype(dtype))
        assert types[f"scalar {dtype}"] == expected
        array = types[f"array {dtype}"]
        assert (array.list_size, array.value_type.list_size) == (2, 3)
        assert array.value_type.value_type == expected
        assert types[f"ragged {dtype}"].value_type == expected
    assert (types["int"], types["large"], types["float"]) == (pa.int64(), pa.uint64(), pa.float64())
    assert types["blob"] == (pa.binary_view() if views else pa.binary())
    assert types["blobs"] == pa.list_(pa.binary()) and types["nothing"] == pa.null()
    assert types["rows"] == pa.list_(pa.list_(pa.float32(), 2))
    assert types["vector"] == pa.list_(pa.uint8()) and types["single"] == pa.int64()
    assert not read.schema.field("key").nullable and read.schema.field("int").nullable
    # And back.
    ki.convert(table, tmp_path / "back.msgpack")
    back = ki.open(tmp_path / "back.msgpack")
    assert list(back.keys()) == list(dataset.keys())
    for one, other in zip(dataset, back):
        for name, value in one.items():
            if value is not None:
                assert same(value, other[name]), name


def test_the_same_in_each_program(tmp_path):
    duckdb, pl, pd = map(pytest.importorskip, ("duckdb", "polars", "pandas"))
    rng = np.random.default_rng(7)
    # What all of them have: DuckDB has no half floats, and its times and those of Python end at microseconds.
    left_out = [name for name in KINDS if "float16" in name or "ns]" in name or "nothing" in name]
    kinds = {name: make for name, make in KINDS.items() if name not in left_out}
    dataset = write(tmp_path / "all.msgpack", samples_of(rng, 40, kinds))
    expected = pa.table(dataset).to_pydict()

    def values(column):
        return [plain_python(value) for value in column]

    def plain_python(value):
        if isinstance(value, (list, tuple)):
            return [plain_python(item) for item in value]
        if isinstance(value, dict):
            return {name: plain_python(item) for name, item in value.items() if item is not None}
        if isinstance(value, float) and math.isnan(value):
            return "NaN"
        return value

    frame = pl.DataFrame(dataset)
    relation = duckdb.sql("select * from dataset")
    rows = relation.fetchall()
    for at, name in enumerate(["key", *kinds]):
        if name not in expected:
            continue
        assert values(frame[name].to_list()) == values(expected[name]), name
        assert values(row[relation.columns.index(name)] for row in rows) == values(expected[name]), name

    def of_pandas(value):
        if value is pd.NA or value is pd.NaT:
            return None
        if isinstance(value, np.ndarray):
            return [of_pandas(item) for item in value]
        if isinstance(value, dict):
            return {name: of_pandas(item) for name, item in value.items() if item is not None}
        if isinstance(value, (pd.Timestamp, pd.Timedelta)):
            return value.to_pydatetime() if isinstance(value, pd.Timestamp) else value.to_pytimedelta()
        return plain_python(value.item() if isinstance(value, np.generic) else value)

    exact = pa.table(dataset).to_pandas(types_mapper=pd.ArrowDtype)
    own = pd.DataFrame.from_arrow(dataset)
    assert list(exact) == list(own) == list(expected)
    for name in exact:
        assert [of_pandas(value) for value in exact[name].tolist()] == values(expected[name]), name
        # The types of pandas have NaN in place of nulls, and integers that may be null are floats.
        if own[name].dtype.kind == "f":
            floats = [math.nan if value is None else float(value) for value in expected[name]]
            np.testing.assert_array_equal(own[name].astype("float64"), floats, name)
        else:
            found = [None if value == "NaN" else value for value in map(of_pandas, own[name].tolist())]
            assert found == values(expected[name]), name


def test_labels_are_names(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    names = ["cat", "dog", "Ente"]
    samples = [{"key": str(n), "label": n % 3} for n in range(300)]
    pets = write(tmp_path / "pets.msgpack", [*samples, {"key": "none", "label": None}], names)
    table = pets.to_arrow(["label"])
    assert table.schema == "label: Dictionary(Int32, Utf8)"
    counts = duckdb.sql("select label, count(*) from pets group by label")
    assert sorted(counts.fetchall(), key=str) == [("Ente", 100), ("cat", 100), ("dog", 100), (None, 1)]
    assert pa.table(table)["label"].to_pylist() == [*(names[n % 3] for n in range(300)), None]
    # Numbers come back, and the names with them.
    ki.convert(pets.to_arrow(), tmp_path / "back.msgpack")
    back = ki.open(tmp_path / "back.msgpack")
    assert (back.labels, [sample["label"] for sample in back[:4]]) == (names, [0, 1, 2, 0])
    # A number that has no name: seen at once, all are numbers; seen late, it is an error and never another name.
    late = list(samples)
    late[200] = {"key": "late", "label": 3}
    unnamed = write(tmp_path / "unnamed.msgpack", late, names)
    assert pa.table(unnamed)["label"].to_pylist()[200] == 3
    with pytest.raises(pa.ArrowException, match='"late".*label.*one of 3 labels, found 3'):
        pa.table(unnamed.to_arrow(infer=10))


def test_no_byte_of_a_blob_is_copied(tmp_path):
    rng = np.random.default_rng(1)
    samples = [
        {"key": str(n), "blob": rng.bytes(2000), "map": {"blob": rng.bytes(500)}, "n": n}
        for n in range(100)
    ]
    dataset = write(tmp_path / "blobs.msgpack", samples)
    def copied(table):
        """Bytes of all buffers of the views of the blobs that are not in a map of the file."""
        maps, found = maps_of(dataset.path), 0
        for name in ("blob", "map"):
            for chunk in table.column(name).chunks:
                if name == "map":
                    chunk = chunk.field("blob")
                for buffer in chunk.buffers()[2:]:
                    inside = any(
                        start <= buffer.address and buffer.address + buffer.size <= end
                        for start, end in maps
                    )
                    found += 0 if inside else buffer.size
        return found

    everything = pa.table(dataset)
    assert copied(everything) == 0 and everything["blob"][7].as_py() == samples[7]["blob"]
    for view in (dataset.select(indices=[5, 3, 9]), dataset.where("n > 50"), dataset.range(3, 8)):
        assert copied(pa.table(view)) == 0
    renamed = dataset.with_fields(rename={"n": "number"})
    assert copied(pa.table(renamed.to_arrow(["number", "blob", "map"]))) == 0
    # A copy where it is asked for: by the option, or by the program that reads.
    assert pa.table(dataset.to_arrow(views=False))["blob"].type == pa.binary()
    plain_schema = pa.schema([("key", pa.string()), ("blob", pa.binary())])
    capsule = dataset.to_arrow(["key", "blob"]).__arrow_c_stream__(plain_schema.__arrow_c_schema__())
    assert capsule is not None
    table = pa.RecordBatchReader._import_from_c_capsule(capsule).read_all()
    assert table["blob"].type == pa.binary() and table["blob"][7].as_py() == samples[7]["blob"]


def maps_of(path):
    """The addresses that a file is mapped at."""
    if sys.platform != "linux":
        pytest.skip("reads /proc")
    with open("/proc/self/maps") as lines:
        ranges = [line.split()[0] for line in lines if line.rstrip().endswith(str(path))]
    return [tuple(int(end, 16) for end in addresses.split("-")) for addresses in ranges]


def test_batches_outlive_what_they_were_made_of(tmp_path):
    samples = [{"key": str(n), "blob": bytes([n]) * 100} for n in range(50)]
    dataset = write(tmp_path / "b.msgpack", samples)
    reader = pa.RecordBatchReader.from_stream(dataset.to_arrow(batch_size=10))
    first = reader.read_next_batch()
    dataset.close()
    with pytest.raises(ki.errors.InvalidError, match="closed"):
        dataset.to_arrow()
    (tmp_path / "b.msgpack").unlink()
    del dataset
    gc.collect()
    rest = reader.read_all()
    assert [first.num_rows, rest.num_rows] == [10, 40]
    assert first.column("blob")[9].as_py() == samples[9]["blob"]
    assert rest.column("blob")[39].as_py() == samples[49]["blob"]
    # Streams that nobody reads to the end, and two at once.
    dataset = write(tmp_path / "c.msgpack", samples)
    table = dataset.to_arrow(batch_size=1)
    for taken in range(4):
        reader = pa.RecordBatchReader.from_stream(table)
        assert [reader.read_next_batch()["key"][0].as_py() for _ in range(taken)] == [
            str(n) for n in range(taken)
        ]
        del reader
    one, two = pa.RecordBatchReader.from_stream(table), pa.RecordBatchReader.from_stream(table)
    pairs = [(one.read_next_batch(), two.read_next_batch()) for _ in range(50)]
    assert all(left == right for left, right in pairs)
    table.__arrow_c_stream__()  # and one that nobody takes


def test_errors_name_the_sample(tmp_path):
    samples = [{"key": f"k{n}", "n": n, "m": "a"} for n in range(100)]
    for value, says in [
        (2**63, r"an integer of 64 bits, found an integer up to 2\^64-1"),
        (0.5, "found a float of 64 bits"),
        ("text", "found text"),
        ([1, "a"], "lists of one type"),
        (ki.Extension(5, b"x"), "a value that a column can have"),
        (3 + 4j, "imaginary part"),
        ({1: 2}, "keys are strings"),
        (np.float32(1), "NumPy's <f4"),
    ]:
        samples[70] = {"key": "odd", "n": value, "m": "a"}
        dataset = write(tmp_path / "odd.msgpack", samples)
        with pytest.raises(pa.ArrowException, match=f'odd.msgpack.*70.*"odd".*"n".*{says}'):
            pa.table(dataset.to_arrow(infer=10))
        # Seen at once it is raised at once, but for integers that all fit a wider column.
        if value == 2**63:
            assert pa.table(dataset)["n"].type == pa.uint64()
        else:
            with pytest.raises(ki.errors.InvalidError, match="other fields") as raised:
                dataset.to_arrow()
            assert (raised.value.key, raised.value.field) == ("odd", "n")
        assert pa.table(dataset.to_arrow(["m"])).num_rows == 100
        dataset.close()
        (tmp_path / "odd.msgpack").unlink()
    samples[70] = {"key": "odd", "n": 1, "m": "a", "new": 1}
    dataset = write(tmp_path / "odd.msgpack", samples)
    with pytest.raises(pa.ArrowException, match='"odd".*"new"'):
        pa.table(dataset.to_arrow(infer=10))
    assert pa.table(dataset.to_arrow(infer="all"))["new"].null_count == 99
    for fields, says in [(["none"], "no sample has a field"), (["n", "n"], "twice"), ([], "at least one")]:
        with pytest.raises(ki.errors.InvalidError, match=says):
            dataset.to_arrow(fields)
    for infer in (0, -1, "some"):
        with pytest.raises(ki.errors.InvalidError, match="infer"):
            dataset.to_arrow(infer=infer)
    # A sample that is damaged.
    path = tmp_path / "damaged.msgpack"
    dataset = write(path, [{"key": f"k{n}", "n": n} for n in range(100)])
    dataset.close()
    data = bytearray(path.read_bytes())
    at = data.index(b"\xa3k70") + 6
    data[at] = 0xC1
    path.write_bytes(data)
    with pytest.raises(pa.ArrowException, match="damaged.msgpack.*70"):
        pa.table(ki.open(path).to_arrow(infer=10))


def test_times_that_are_none_are_null(tmp_path):
    nat = np.datetime64("NaT", "us")
    day = np.datetime64("NaT", "D")
    times = np.array(["2020-01-01", "NaT"], "M8[s]")
    dataset = write(
        tmp_path / "t.msgpack",
        [
            {"key": "a", "t": nat, "d": day, "ts": times},
            {"key": "b", "t": np.datetime64(5, "us"), "d": np.datetime64("2020-01-02"), "ts": times},
        ],
    )
    table = pa.table(dataset)
    assert table["t"].null_count == table["d"].null_count == 1
    assert table["d"].to_pylist() == [None, datetime.date(2020, 1, 2)]
    assert table["ts"].to_pylist() == [[datetime.datetime(2020, 1, 1), None]] * 2


def test_recipes_shards_and_joins(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    parts = [
        write(tmp_path / f"part-{at}.msgpack", [{"key": f"{at}/{n}", "n": n} for n in range(20)])
        for at in range(3)
    ]
    more = write(tmp_path / "more.msgpack", [{"key": f"1/{n}", "blob": bytes(50)} for n in range(20)])
    shards = ki.open(str(tmp_path / "part-*.msgpack"))
    assert duckdb.sql("select count(*), sum(n) from shards").fetchall() == [(60, 570)]
    some = ki.concat([parts[0], parts[1].where("n > 15")])
    some.save(tmp_path / "some.kiste.toml")
    recipe = ki.open(tmp_path / "some.kiste.toml")
    check(recipe, pa.table(recipe))
    joined = parts[1].join(more)
    check(joined, pa.table(joined))
    assert pa.table(joined.to_arrow(["blob"]))["blob"].to_pylist() == [bytes(50)] * 20
    mixture = ki.Mixture({"a": (parts[0], 1), "b": (parts[1], 9)})
    assert pa.table(mixture).num_rows == 40
    empty = parts[0].range(3, 3)
    assert pa.table(empty).num_rows == 0 and pa.table(empty.to_arrow(["n"])).num_rows == 0


def test_samples_in_place(tmp_path):
    rng = np.random.default_rng(3)
    blobs = [rng.bytes(700) for _ in range(30)]
    with tarfile.open(tmp_path / "shard.tar", "w") as tar:
        for number, blob in enumerate(blobs):
            for ending, content in [("jpg", blob), ("cls", str(number % 4).encode())]:
                entry = tarfile.TarInfo(f"{number:04}.{ending}")
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    ki.index([tmp_path / "shard.tar"], output=tmp_path / "shard.inplace.json")
    dataset = ki.open(tmp_path / "shard.inplace.json")
    (image,) = [name for name, value in dataset[0].items() if isinstance(value, bytes)]
    for table in (pa.table(dataset), pa.table(dataset.to_arrow([image]))):
        assert table[image].to_pylist() == blobs
        maps = maps_of(tmp_path / "shard.tar")
        for chunk in table[image].chunks:
            for buffer in chunk.buffers()[2:]:
                assert any(a <= buffer.address and buffer.address + buffer.size <= b for a, b in maps)
    check(dataset, pa.table(dataset))


def test_tables_become_datasets(tmp_path):
    duckdb, pl, pd = map(pytest.importorskip, ("duckdb", "polars", "pandas"))
    columns = {"key": ["a", "b"], "n": [1, 2], "text": ["x", None], "list": [[1.5, 2.5], []]}
    table = pa.table(columns)
    sources = {
        "pyarrow": table,
        "reader": table.to_reader(),
        "polars": pl.DataFrame(columns),
        "duckdb": duckdb.from_arrow(table),
        "pandas": pd.DataFrame({"key": ["a", "b"], "n": [1, 2], "text": ["x", None]}),
    }
    if ki.features()["parquet"]:
        ki.convert(write_parquet(table, tmp_path), tmp_path / "file.msgpack")
    for name, source in sources.items():
        path = tmp_path / f"{name}.msgpack"
        report = ki.convert(source, path)
        assert report["outputs"][0]["samples"] == 2
        dataset = ki.open(path)
        assert list(dataset.keys()) == ["a", "b"]
        assert dataset["b"]["n"] == 2 and dataset["b"]["text"] is None and dataset["a"]["text"] == "x"
        if name != "pandas":
            assert np.array_equal(dataset["a"]["list"], [1.5, 2.5])
            if ki.features()["parquet"]:
                assert all(map(same, dataset, ki.open(tmp_path / "file.msgpack")))
    # Keys of another column, and of none.
    people = pa.table({"id": [7, 8], "key": ["x", "y"]})
    ki.convert(people, tmp_path / "people.msgpack", key_field="id")
    assert [dict(person) for person in ki.open(tmp_path / "people.msgpack")] == [
        {"key": "7", "_key": "x"},
        {"key": "8", "_key": "y"},
    ]
    ki.convert(pa.table({"n": [1, 2]}), tmp_path / "n.msgpack")
    assert list(ki.open(tmp_path / "n.msgpack").keys()) == ["table/000000000", "table/000000001"]
    ki.convert(table, tmp_path / "lines.jsonl")
    assert (tmp_path / "lines.jsonl").read_text().count("\n") == 2
    # What a column has that samples do not is an error or a remark, as of files.
    report = ki.convert(pa.table({"d": pa.array([1, None], pa.decimal128(5))}), tmp_path / "d.msgpack")
    assert any("decimal" in remark for remark in report["remarks"])
    with pytest.raises(ki.errors.Error, match="column \"i\""):
        ki.convert(pa.table({"i": pa.array([(1, 2, 3)], pa.month_day_nano_interval())}), tmp_path / "i.msgpack")
    # A dataset is its samples, whatever columns could hold.
    odd = write(tmp_path / "odd.msgpack", [{"key": "a", "v": 1 + 2j}, {"key": "b", "v": "text"}])
    ki.convert(odd, tmp_path / "same.msgpack")
    assert (tmp_path / "odd.msgpack").read_bytes() == (tmp_path / "same.msgpack").read_bytes()
    closed = ki.open(tmp_path / "odd.msgpack")
    closed.close()
    with pytest.raises(ki.errors.InvalidError, match="closed"):
        ki.convert(closed, tmp_path / "closed.msgpack")

    def broken():
        yield table.to_batches()[0]
        raise ValueError("no more rows")

    reader = pa.RecordBatchReader.from_batches(table.schema, broken())
    with pytest.raises(ki.errors.Error, match="no more rows"):
        ki.convert(reader, tmp_path / "broken.msgpack")
    assert not (tmp_path / "broken.msgpack").exists()


def write_parquet(table, folder):
    import pyarrow.parquet

    pyarrow.parquet.write_table(table, folder / "file.parquet")
    return folder / "file.parquet"


def test_many_threads(tmp_path):
    dataset = write(tmp_path / "n.msgpack", [{"key": str(n), "n": n} for n in range(5000)])
    table, sums = dataset.to_arrow(["n"], batch_size=100), []

    def add():
        for source in (table, dataset):
            sums.append(sum(pa.table(source)["n"].to_pylist()))

    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [sum(range(5000))] * 16


FLAT = """
import sys
import pyarrow as pa, pykiste as ki
dataset = ki.open(sys.argv[1])

def private():
    with open("/proc/self/status") as lines:
        (line,) = [line for line in lines if line.startswith("RssAnon")]
    return int(line.split()[1]) << 10

reader = pa.RecordBatchReader.from_stream(dataset.to_arrow(batch_size=1000))
reader.read_next_batch()
before, most, rows = private(), 0, 1000
for batch in reader:
    rows += batch.num_rows
    most = max(most, private())
assert rows == len(dataset), rows
print(most - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_flat(tmp_path):
    path = tmp_path / "large.msgpack"
    text, blob = "t" * 500, bytes(1500)
    write(path, ({"key": str(n), "n": n, "text": text, "blob": blob} for n in range(100_000)))
    grown = int(subprocess.check_output([sys.executable, "-c", FLAT, path]))
    # A tenth of the 50 MB of text that goes through it, and no more for the 150 MB of blobs.
    assert grown < 20 << 20
