"""What a person looks at: views, the schema, labels, `info`, and a dataset in a notebook."""

import json
import re
import subprocess
import sys
from collections.abc import Set
from pathlib import Path

import numpy as np
import pytest

import pykiste as ki

PNG = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\0\0\0\0:~\x9bU\0\0\0\nIDATx\x9cc`\0\0\0\2"
    b"\0\1H\xaf\xa4q\0\0\0\0IEND\xaeB`\x82"
)


def written(path, samples, labels=None):
    with ki.Writer(path) as writer:
        for sample in samples:
            writer.write(sample)
        if labels is not None:
            writer.set_labels(labels)
    return ki.open(path)


@pytest.fixture
def empty(tmp_path):
    return written(tmp_path / "empty.msgpack", [])


def test_keys_are_a_view(numbers):
    dataset = ki.open(numbers)
    keys = dataset.keys()
    assert isinstance(keys, Set) and len(keys) == 100
    assert list(keys) == list(keys) == [f"{n:03}" for n in range(100)], "it can be iterated again"
    assert list(reversed(keys))[:2] == ["099", "098"]
    assert "042" in keys and "none" not in keys and 42 not in keys and None not in keys
    assert keys & {"001", "x"} == {"001"} and keys >= {"001"} and keys.isdisjoint({"x"})
    assert repr(keys) == f"{dataset!r}.keys()"
    with pytest.raises(TypeError):
        next(keys)


def test_items_and_values_read_as_they_are_iterated(tmp_path):
    path = tmp_path / "x.msgpack"
    with ki.Writer(path) as writer:
        writer.write({"key": "good", "n": 1})
        writer.write_raw("bad", b"\xc1")
    dataset = ki.open(path)
    for view in dataset.items(), dataset.values():
        assert len(view) == 2
        iterator = iter(view)
        assert next(iterator) in (("good", {"key": "good", "n": 1}), {"key": "good", "n": 1})
        with pytest.raises(ki.errors.DamagedError):
            next(iterator)


def test_items_are_pairs(numbers):
    dataset = ki.open(numbers)
    items = dict(dataset.items())
    assert list(items) == list(dataset.keys()) and items["007"]["label"] == 7
    assert [sample["label"] for sample in dataset.values()] == list(range(100))
    assert [key for key, _ in reversed(dataset.items())][:2] == ["099", "098"]
    assert next(reversed(dataset.values()))["label"] == 99
    assert dict(dataset)["099"]["label"] == 99, "dict() uses keys()"
    for view in dataset.items(), dataset.values():
        with pytest.raises(ki.errors.WrongTypeError, match="expected `key in dataset`"):
            ("007", 7) in view


def test_views_of_nothing_and_of_a_closed_dataset(empty):
    for view in empty.keys(), empty.items(), empty.values():
        assert len(view) == 0 and list(view) == []
    keys = empty.keys()
    empty.close()
    for use in len, list, repr:
        try:
            assert "closed" in use(keys)
        except ki.Error as error:
            assert "closed" in str(error)


def test_the_schema_says_what_it_is_from(tmp_path):
    samples = [
        {
            "key": f"{n:03}", "label": n, "mixed": n if n % 2 else "text", "image": PNG,
            "grid": np.zeros((4, n + 1), "float32"), "fixed": np.zeros((2, 3), ">i2"),
            **({"odd": None} if n % 2 else {}),
            "kinds": np.zeros(1, "u1" if n % 2 else "u2"), "table": np.zeros(2, [("a", "u1"), ("b", "<f4")]),
        }
        for n in range(150)
    ]
    schema = written(tmp_path / "x.msgpack", samples).schema
    assert (schema.samples, schema.of_samples) == (100, 150)
    assert repr(schema).startswith("Schema of the first 100 of 150 samples:\n  key ")
    assert list(schema) == list(samples[0]) + ["odd"] or set(schema) == set(samples[1])
    assert schema["label"].types == ("int",) and schema["label"].shape is None
    assert set(schema["mixed"].types) == {"int", "str"}
    assert schema["grid"].shape == (4, None) and schema["grid"].dtype == np.float32
    assert schema["fixed"].shape == (2, 3) and schema["fixed"].dtype == np.dtype(">i2")
    assert schema["odd"].present == 50 and "not in 50 of them" in repr(schema)
    assert schema["kinds"].dtype is None and schema["kinds"].shape == (1,)
    assert schema["image"].shape == (1, 1) and schema["image"].types == ("image png",)
    assert "none" not in schema
    with pytest.raises(KeyError):
        schema["none"]


def test_the_schema_of_nothing(empty):
    assert dict(empty.schema) == {} and repr(empty.schema) == "Schema of all samples (0):"


def test_the_schema_of_odd_names(tmp_path):
    dataset = written(tmp_path / "x.msgpack", [{"key": "a", 5: 1, b"b": 2, "a\nb\u202e": 3}])
    assert "\u202e" not in repr(dataset.schema) and len(repr(dataset.schema).splitlines()) == 5


def test_damage_in_the_first_samples_is_an_error(tmp_path):
    with ki.Writer(tmp_path / "x.msgpack") as writer:
        writer.write_raw("a", b"\xc1")
    dataset = ki.open(tmp_path / "x.msgpack")
    with pytest.raises(ki.errors.DamagedError):
        dataset.schema
    assert "a" in dataset._ipython_key_completions_()
    assert "sample 0" in dataset._repr_html_()


def test_labels(tmp_path, numbers):
    assert ki.open(numbers).labels is None
    names = ["cat", "", "über <b>"]
    assert written(tmp_path / "x.msgpack", [{"key": "a"}], names).labels == names
    assert written(tmp_path / "y.msgpack", [{"key": "a"}], []).labels == []
    (tmp_path / "x.msgpack.labels").write_bytes(b"\xff\n")
    with pytest.raises(ki.errors.DamagedError, match="UTF-8"):
        ki.open(tmp_path / "x.msgpack").labels


def test_info(numbers, empty):
    info = ki.open(numbers).info()
    assert info["samples"] == 100 and info["bytes"] == numbers.stat().st_size
    assert info["file"] == numbers and all(isinstance(file["file"], Path) for file in info["files"])
    assert {file["file"].name: file["bytes"] for file in info["files"]}["numbers.msgpack"] == info["bytes"]
    assert info["fields"]["label"] == ["int"] and info["arrays"]["image"]["shapes"] == {"2": [[4, 4], [3, 3]]}
    assert (info["digests"], info["lookup"], info["checksums"], info["unfinished"]) == (True, False, False, None)
    assert info["sample_bytes"]["min"] < info["sample_bytes"]["mean"] < info["sample_bytes"]["max"]
    json.dumps(info, default=str)
    assert empty.info()["sample_bytes"] is None


def test_info_says_that_a_write_did_not_end(tmp_path, numbers):
    script = "import os, sys, pykiste as ki; w = ki.Writer(sys.argv[1], append=True); " \
        "w.write({'key': 'more'}); w.flush(); os._exit(0)"
    subprocess.run([sys.executable, "-c", script, numbers], check=True)
    unfinished = ki.open(numbers).info()["unfinished"]
    assert unfinished and "kiste repair" not in unfinished


def test_reprs(numbers, tmp_path):
    dataset = ki.open(numbers, copy=False, untrusted=True)
    assert repr(dataset) == f'pykiste.Dataset("{numbers}", 100 samples, copy=False, untrusted=True)'
    writer = ki.Writer(tmp_path / "x.msgpack")
    writer.write({"key": "a"})
    assert repr(writer) == f'pykiste.Writer("{tmp_path / "x.msgpack"}", 1 samples so far)'
    writer.abort()
    assert repr(writer) == f'pykiste.Writer("{tmp_path / "x.msgpack"}", closed)'
    sampler = ki.Sampler.repeat(ki.Sampler.shuffle(10, 3), 2)
    assert repr(sampler.order(4)) == "pykiste.Sampler.repeat(pykiste.Sampler.shuffle(10, 3), 2).order(4)"
    dataset.close()
    assert repr(dataset) == f'pykiste.Dataset("{numbers}", closed)'


HOSTILE = "</td><script>alert('1')</script>\"&\u202e\0"


def test_nothing_of_the_data_is_markup_in_a_notebook(tmp_path):
    svg = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    sample = {"key": HOSTILE, HOSTILE: HOSTILE, "list": [HOSTILE], "svg": svg, 5: {HOSTILE: 1}}
    html = written(tmp_path / "a<b>'.msgpack", [sample], [HOSTILE])._repr_html_()
    assert "<script" not in html and "<svg" not in html and "<img" not in html
    assert "\u202e" not in html and "\0" not in html and "a<b>" not in html
    assert "&lt;script&gt;" in html
    # What is left of tags are ours, and each attribute is quoted.
    tags = set(re.findall(r"</?(\w+)", html))
    assert tags <= {"p", "code", "table", "caption", "tr", "th", "td", "figure", "figcaption", "b", "br", "i"}


def test_images_in_a_notebook(tmp_path):
    image = pytest.importorskip("PIL.Image")
    from io import BytesIO

    large = BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (900, 1200, 3), np.uint8)
    image.fromarray(noise).save(large, "PNG")
    samples = [{"key": str(n), "png": PNG if n else large.getvalue(), "other": PNG} for n in range(50)]
    for copy in True, False:
        written(tmp_path / f"{copy}.msgpack", samples)
        html = ki.open(tmp_path / f"{copy}.msgpack", copy=copy)._repr_html_()
        assert html.count("<img") == 6 and html.count("src='data:image/png;base64,") == 5
        # The large one is a small JPEG.
        assert html.count("src='data:image/jpeg;base64,") == 1
        assert len(html) < 500_000, "a large image is a small picture"
    damaged = written(tmp_path / "d.msgpack", [{"key": "a", "image": large.getvalue()[:90_000]}])
    assert "<img" not in damaged._repr_html_() and "&lt;png 1200 x 900, 90 kB&gt;" in damaged._repr_html_()


def test_values_in_a_notebook(tmp_path):
    sample = {
        "key": "a",
        "taken": np.datetime64("2024-05-01T12:30:00", "us"),
        "long": np.timedelta64(7205, "s"),
        "half": np.float16(0.1),
        "box": np.array([0.1, 0.2, 0.3], np.float32),
        "mask": np.zeros((9, 9), np.uint8),
        "story": "Once upon a time " * 99,
        "sound": b"fLaC" + bytes(996),
        "tokens": list(range(1000)),
    }
    html = written(tmp_path / "values.msgpack", [sample])._repr_html_()
    for name, shown in {
        "taken": "2024-05-01T12:30:00.000000",
        "long": "2 h 5 s",
        "half": "0.1",
        "box": "[0.1 0.2 0.3] &lt;f4",
        "mask": "&lt;array |u1 [9, 9], all 0&gt;",
        "story": "&quot;Once upon a time Once upon a time Once upon a ti…&quot; (1,683 characters)",
        "sound": "&lt;flac, 1.0 kB&gt;",
        "tokens": "[0,1,2,3,4,5,…] (1,000 items)",
    }.items():
        assert f"<i>{name}</i> {shown}<" in html, html


def test_a_notebook_shows_few_of_many(tmp_path, empty):
    wide = {"key": "a", **{f"field {n}": n for n in range(200)}}
    html = written(tmp_path / "wide.msgpack", [wide])._repr_html_()
    assert "and 151 more" in html and html.count("<i>") < 60
    many = written(tmp_path / "many.msgpack", [{"key": f"{n:05}"} for n in range(3000)])
    assert many._ipython_key_completions_() == [f"{n:05}" for n in range(1000)]
    assert "0 samples" in empty._repr_html_() and empty._ipython_key_completions_() == []
    empty.close()
    assert "closed" in empty._repr_html_()


def test_version_and_features():
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", ki.__version__)
    features = ki.features()
    assert {"parquet", "remote", "images", "turbo", "abi3"} <= set(features)
    assert all(isinstance(has, bool) for has in features.values()) and features["images"]


def test_a_star_import_leaves_names_of_python_alone():
    import builtins

    names = {}
    exec("from pykiste import *", names)
    assert not {name for name in names if name in vars(builtins)} - {"__builtins__"}
    assert ki.open is ki.Dataset and callable(ki.filter)
