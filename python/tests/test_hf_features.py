"""Every type of Hugging Face's features: samples become a table, and the table the same samples."""

import datetime as dt
import io

import numpy as np
import pytest
from conftest import same

import pykiste as ki

datasets = pytest.importorskip("datasets")

from pykiste.hf import from_dataset, to_dataset, to_iterable  # noqa: E402

UTC = dt.timezone.utc
PNG = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\0\0\0\0:~\x9bU\0\0\0\nIDATx\x9cc`\0\0\0\2"
    b"\0\1H\xaf\xa4q\0\0\0\0IEND\xaeB`\x82"
)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def written(path, samples, labels=None):
    with ki.Writer(path) as writer:
        for number, sample in enumerate(samples):
            writer.write({"key": str(number), **sample})
        if labels is not None:
            writer.set_labels(labels)
    return path


def round_trip(tmp_path, samples, labels=None, **options):
    path = written(tmp_path / "x.msgpack", samples, labels)
    table = to_dataset(path, cache_dir=str(tmp_path / "c"), **options)
    from_dataset(table, tmp_path / "again.msgpack")
    before, after = ki.open(path), ki.open(tmp_path / "again.msgpack")
    for one, other in zip(before, after, strict=True):
        assert same(one, other), f"{one}\n{other}"
    assert after.labels == before.labels
    return table


RNG = np.random.default_rng(1)
VALUES = {
    "bool": [True, False, None],
    "int": [1, -(2**63), 2**63 - 1, None],
    "large integers of one axis": [np.array([0, 2**64 - 1], "u8"), np.array([1], "u8")],
    "float": [1.5, float("nan"), float("inf"), -0.0, None],
    "text": ["", "ü\0", None],
    "bytes": [b"", b"\0\xff", None],
    "an image": [PNG, None],
    "nothing": [None, None],
    "lists": [[1, 2], [], [None, 3], None],
    "lists of lists": [[[1.5], []], [[2.5, None]], []],
    "dicts": [{"a": 1, "b": ["x"]}, {"a": None, "b": []}],
    "lists of dicts": [[{"a": 1, "b": "x"}, {"a": 2, "b": None}], []],
    "dicts with fields that some lack": [{"a": 1, "b": 2}, {"a": 1}, {"b": 5}],
    "timestamps": [ki.Timestamp(0, 1), ki.Timestamp(-1, 999_999_999), ki.Timestamp(1_700_000_000), None],
    "lists of timestamps": [[ki.Timestamp(5, 7)], []],
    "arrays of one axis": [np.arange(3, dtype="float32"), np.zeros(0, "float32"), None],
    "arrays of one axis and length": [np.arange(3), np.arange(3) + 1],
    "arrays of two axes": [RNG.random((4, 3)).astype("float32") for _ in range(3)],
    "arrays whose first axis varies": [np.ones((n, 3), "u1") for n in (1, 5, 2)],
    "arrays of any shape": [np.arange(a * b).reshape(a, b).astype("i2") for a, b in ((1, 5), (3, 2))],
    "arrays of five axes": [RNG.random((1, 2, 3, 2, 1)) for _ in range(2)],
    "arrays of six axes": [RNG.random((1, 2, 1, 2, 1, 2)) for _ in range(2)],
    "arrays of float16": [np.ones((2, 2), "float16"), np.zeros((2, 2), "float16")],
    "arrays of booleans": [np.array([[True, False]]), np.array([[False, False]])],
    "arrays of the other byte order": [np.arange(6, dtype=">i4").reshape(2, 3)] * 2,
    "one axis of the other byte order": [np.arange(6, dtype=">f8")] * 2,
    "arrays of text": [np.array(["a", "bcd"]), np.array(["e", "fgh"])],
    "arrays of times": [np.array(["2024-01-01T00:00:00.000000001", "NaT"], "M8[ns]"), np.array([], "M8[ns]")],
    "arrays of days": [np.array(["2024-01-01", "NaT"], "M8[D]")],
    "arrays of time spans": [np.array([1, -5], "m8[ms]"), np.array([7], "m8[ms]")],
    "lists of arrays": [[np.arange(2, dtype="i4")], []],
    "dicts of arrays": [{"x": np.ones((2, 2), "f4")}, {"x": np.zeros((2, 2), "f4")}],
    "scalars": [np.float32(1.5), np.float32("nan")],
    "small scalars": [np.int8(-5), None],
    "scalars of text": [np.str_("a"), np.str_("b")],
    "days": [np.datetime64("2024-01-01"), np.datetime64("1960-01-01")],
    "times": [np.datetime64("2024-01-01T00:00:00.000001", "us"), np.datetime64("0001-01-01T00:00:00", "us")],
    "times of nanoseconds": [np.datetime64("2024-01-01T00:00:00.000000001", "ns"), None],
    "time spans": [np.timedelta64(5, "us"), np.timedelta64(-5, "us")],
    "odd names": [{"a b.c": 1, "": 2, "[0]": 3}],
}


@pytest.mark.parametrize("name", VALUES)
def test_samples_become_a_table_and_the_same_samples(tmp_path, name):
    round_trip(tmp_path, [{"value": value} for value in VALUES[name]])


def test_fields_that_some_samples_lack(tmp_path):
    samples = [{"a": 1, "x": np.arange(3)}, {"b": "text"}, {"a": 2, "scalar": np.float32(1)}, {}]
    table = round_trip(tmp_path, samples)
    assert table["a"][:] == [1, None, 2, None]


def test_all_at_once_and_after_operations_of_datasets(tmp_path):
    samples = [
        {"label": n % 3, "x": np.full((n % 4 + 1, 2), n, "f4"), "tokens": np.arange(n, dtype="i4"), "when": ki.Timestamp(n)}
        for n in range(40)
    ]
    table = round_trip(tmp_path, samples, ["a", "b", "c"])
    assert isinstance(table.features["label"], datasets.ClassLabel)
    assert isinstance(table.features["x"], datasets.Array2D)
    some = table.filter(lambda row: row["label"] == 1).map(lambda row: {"more": len(row["tokens"])}).shuffle(seed=1)
    from_dataset(some, tmp_path / "some.msgpack")
    found = ki.open(tmp_path / "some.msgpack")
    assert len(found) == 13 and found.labels == ["a", "b", "c"]
    for sample in found:
        assert same({k: v for k, v in sample.items() if k != "more"}, ki.open(tmp_path / "x.msgpack")[sample["key"]])
    table.save_to_disk(str(tmp_path / "disk"))
    from_dataset(datasets.load_from_disk(str(tmp_path / "disk")), tmp_path / "disk.msgpack")
    assert ki.diff(tmp_path / "x.msgpack", tmp_path / "disk.msgpack")["same"] == 40


@pytest.mark.parametrize("num_proc", [None, 2])
def test_shards(tmp_path, num_proc):
    paths = [written(tmp_path / f"{n}.msgpack", [{"x": np.zeros((2, n + 1), "f4")}], ["a"]) for n in range(3)]
    with pytest.warns(UserWarning, match="names of labels are left out"):
        table = to_dataset(paths, num_proc=num_proc, cache_dir=str(tmp_path / "c"))
    assert len(table) == 3
    with ki.Writer(tmp_path / "2.msgpack", append=True) as writer:
        writer.set_labels(["other"])
    with pytest.raises(ki.errors.InvalidError, match="expected shards with the same labels"):
        to_dataset(paths, cache_dir=str(tmp_path / "c"))


LATER = {
    "a float among integers": (1, 2.0, "found float 2.0"),
    "a boolean among integers": (1, True, "found bool True"),
    "a large integer": (1, 2**63, "found int"),
    "text among bytes": (b"", "", "found str"),
    "a shape": (np.zeros((2, 3)), np.zeros((2, 4)), r"an array of float64 with the shape \(2, 4\)"),
    "a type of elements": (np.zeros(2, "f4"), np.zeros(2), "an array of float64"),
    "a field of a dict": ({"a": 1}, {"a": 1, "b": 2}, "found another one"),
    "no field of a dict": ({"a": 1}, {}, "found none"),
    "a label without a name": (0, 5, None),
}


@pytest.mark.parametrize("name", LATER)
def test_what_the_first_samples_did_not_have_is_an_error_and_never_changed(tmp_path, name):
    first, later, found = LATER[name]
    field = "label" if found is None else "value"
    path = written(tmp_path / "x.msgpack", [{field: first}] * 100 + [{field: later}], ["a"] if found is None else None)
    with pytest.raises(ki.errors.WrongTypeError, match=f"sample '100', field '{field}.*: expected .*{found or 'found int 5'}"):
        to_dataset(path, cache_dir=str(tmp_path / "c"))


FIRST = {
    "numbers of two types": [1, 1.5],
    "complex": [1j],
    "structures": [np.zeros(2, [("a", "u1")])],
    "no axes": [np.array(3)],
    "no elements": [np.zeros((0, 3))],
    "extensions": [ki.Extension(1, b"")],
    "numbers as names": [{5: 1}],
    "arrays of two types": [np.zeros(1, "f4"), np.zeros(1, "f8")],
    "large integers": [1, 2**64 - 1],
    "not a time": [np.datetime64("NaT", "us")],
}


@pytest.mark.parametrize("name", FIRST)
def test_what_datasets_has_no_type_for_is_refused(tmp_path, name):
    path = written(tmp_path / "x.msgpack", [{"value": value} for value in FIRST[name]])
    with pytest.raises(ki.errors.WrongTypeError, match="field 'value.*': expected .*, found"):
        to_dataset(path, cache_dir=str(tmp_path / "c"))


def image_features():
    image = datasets.Image()
    return datasets.Features({
        "key": datasets.Value("string"), "one": image, "list": datasets.List(image), "fixed": datasets.List(image, length=2),
        "struct": {"image": image, "n": datasets.Value("int32")}, "deep": datasets.List({"image": image}),
        "sequence": datasets.Sequence({"image": image, "n": datasets.Value("int64")}), "large": datasets.LargeList(image),
    })


@pytest.mark.parametrize("streaming", [False, True])
def test_images_at_any_depth_are_their_bytes(tmp_path, streaming):
    pytest.importorskip("PIL")
    (tmp_path / "file.png").write_bytes(PNG)
    inline, file = {"bytes": PNG, "path": None}, {"bytes": None, "path": str(tmp_path / "file.png")}
    row = {
        "key": "a", "one": inline, "list": [inline, None, file], "fixed": [inline, file], "struct": {"image": file, "n": 3},
        "deep": [{"image": inline}, {"image": None}], "sequence": {"image": [inline], "n": [5]}, "large": [inline],
    }
    table = datasets.Dataset.from_list([row], features=image_features())
    before = table.features.copy()
    given = table.to_iterable_dataset() if streaming else table
    from_dataset(given, tmp_path / "x.msgpack")
    assert table.features == before and table[0]["one"].size == (1, 1), "the table is as it was"
    assert list(ki.open(tmp_path / "x.msgpack")) == [{
        "key": "a", "one": PNG, "list": [PNG, None, PNG], "fixed": [PNG, PNG], "struct": {"image": PNG, "n": 3},
        "deep": [{"image": PNG}, {"image": None}], "sequence": {"image": [PNG], "n": [5]}, "large": [PNG],
    }]
    again = to_dataset(tmp_path / "x.msgpack", features=image_features(), cache_dir=str(tmp_path / "c"))
    assert again[0]["struct"]["image"].size == (1, 1) and again[0]["deep"][0]["image"].size == (1, 1)


def test_times_of_a_table(tmp_path):
    moment = dt.datetime(2024, 1, 2, 3, 4, 5, 678_901)
    columns = {
        "utc": ("timestamp[us, tz=UTC]", moment.replace(tzinfo=UTC), ki.Timestamp(1704164645, 678_901_000)),
        "zone": ("timestamp[ns, tz=Europe/Berlin]", moment.replace(tzinfo=UTC), ki.Timestamp(1704164645, 678_901_000)),
        "naive": ("timestamp[us]", moment, np.datetime64(moment, "us")),
        "ns": ("timestamp[ns]", 1_704_164_645_678_901_234, np.datetime64(1_704_164_645_678_901_234, "ns")),
        "day": ("date32", moment.date(), np.datetime64("2024-01-02")),
        "span": ("duration[us]", dt.timedelta(seconds=5), np.timedelta64(5_000_000, "us")),
    }
    features = datasets.Features({name: datasets.Value(kind) for name, (kind, *_) in columns.items()})
    features["key"] = datasets.Value("string")
    row = {"key": "a", **{name: value for name, (_, value, _) in columns.items()}}
    from_dataset(datasets.Dataset.from_list([row], features=features), tmp_path / "x.msgpack")
    found = ki.open(tmp_path / "x.msgpack")[0]
    for name, (_, _, expected) in columns.items():
        assert same(found[name], expected), (name, found[name])
    bad = datasets.Dataset.from_list(
        [{"key": "a", "t": dt.time(1)}],
        features=datasets.Features({"key": datasets.Value("string"), "t": datasets.Value("time64[us]")}),
    )
    with pytest.raises(ki.errors.WrongTypeError, match="sample 'a', field 't': .*time"):
        from_dataset(bad, tmp_path / "y.msgpack")


def labelled(**columns):
    features = {name: datasets.ClassLabel(names=names) for name, names in columns.items()}
    row = {"key": "a", **dict.fromkeys(columns, 1)}
    return datasets.Dataset.from_list([row], features=datasets.Features({"key": datasets.Value("string"), **features}))


def test_names_of_labels_come_along(tmp_path):
    out = iter(tmp_path / f"{n}.msgpack" for n in range(10))

    def names(table, **options):
        path = next(out)
        from_dataset(table, path, **options)
        return ki.open(path).labels

    one, two = ["cat", "dog"], ["small", "large"]
    assert names(labelled(label=one)) == one and names(labelled(kind=one)) == one
    assert names(labelled(a=one, b=one)) == one
    with pytest.raises(ki.errors.InvalidError, match="found different ones in 'a' and 'b'"):
        names(labelled(a=one, b=two))
    assert names(labelled(a=one, b=two), labels="b") == two
    assert names(labelled(a=one, b=two), labels=False) is None
    assert names(labelled(a=one), labels=["x", "y"]) == ["x", "y"]
    with pytest.raises(ki.errors.InvalidError, match=r"a column of class labels \(a\), found 'key'"):
        names(labelled(a=one), labels="key")
    path = written(tmp_path / "x.msgpack", [{"kind": 1}, {"kind": -1}, {"kind": None}], one)
    table = to_dataset(path, label="kind", cache_dir=str(tmp_path / "c"))
    assert table.features["kind"].names == one and names(table) == one
    twice = written(tmp_path / "y.msgpack", [{"label": 1}], ["a", "a"])
    with pytest.raises(ki.errors.InvalidError, match="found one twice"):
        to_dataset(twice, cache_dir=str(tmp_path / "c"))


def test_json_stays_what_it_says(tmp_path):
    if not hasattr(datasets, "Json"):
        pytest.skip("this version has no such feature")
    value = {"bytes": 1, "list": [1, None, {"a": "b"}]}
    features = datasets.Features({"key": datasets.Value("string"), "j": datasets.Json()})
    from_dataset(datasets.Dataset.from_list([{"key": "a", "j": value}], features=features), tmp_path / "x.msgpack")
    assert ki.open(tmp_path / "x.msgpack")["a"]["j"] == value


def test_rows_without_features_are_the_samples(tmp_path):
    samples = [{"z": 1j, "x": np.zeros((0, 3)), "mixed": 1}, {"mixed": 1.5, "ext": ki.Extension(1, b"a")}]
    path = written(tmp_path / "x.msgpack", samples)
    from_dataset(to_iterable(path), tmp_path / "y.msgpack")
    assert all(map(same, ki.open(path), ki.open(tmp_path / "y.msgpack")))


def test_nothing(tmp_path):
    path = written(tmp_path / "x.msgpack", [])
    heard = []
    from_dataset(to_iterable(path), tmp_path / "y.msgpack", progress=heard.append)
    assert heard == [0] and len(ki.open(tmp_path / "y.msgpack")) == 0


def test_real_images_are_not_encoded_again(tmp_path):
    image = pytest.importorskip("PIL.Image")
    jpeg = io.BytesIO()
    image.fromarray(RNG.integers(0, 255, (8, 8, 3), np.uint8)).save(jpeg, "JPEG")
    table = datasets.Dataset.from_dict({"key": ["a"], "image": [{"bytes": jpeg.getvalue(), "path": None}]})
    from_dataset(table.cast_column("image", datasets.Image()), tmp_path / "x.msgpack")
    assert ki.open(tmp_path / "x.msgpack")["a"]["image"] == jpeg.getvalue()
