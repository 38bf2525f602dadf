"""Datasets of datasets hold the samples that they should, byte for byte."""

import random
import signal

import numpy as np
import pytest

import pykiste as ki


def write(path, samples, labels=None):
    with ki.Writer(path) as writer:
        for sample in samples:
            writer.write(sample)
        if labels is not None:
            writer.set_labels(labels)
    return path


def keys(made):
    return list(ki.open(made["path"]).keys())


@pytest.fixture
def mixed(tmp_path):
    """Samples with a few values of many kinds."""
    rng = random.Random(5)
    samples = [
        {
            "key": f"k{n}",
            "label": rng.randrange(3),
            "patient": f"p{rng.randrange(9)}",
            "score": rng.choice([rng.random(), rng.randrange(3), np.float32(0.5)]),
            "array": np.arange(n % 5),
        }
        for n in range(200)
    ]
    return write(tmp_path / "mixed.msgpack", samples, ["cat", "dog", "emu"])


def test_every_function_passes_samples_through(mixed, tmp_path):
    source, out = ki.open(mixed), tmp_path / "out.msgpack"
    made = [
        ki.shuffle(source, out, seed=3, overwrite=True),
        ki.sort(mixed, out, by="score", overwrite=True),
        ki.select(mixed, out, range(0, 200, 3), overwrite=True),
        ki.filter(mixed, out, lambda sample: sample["label"], overwrite=True),
        *ki.split(mixed, ratios=[1, 1]),
    ]
    for one in made:
        dataset = ki.open(one["path"])
        if one["path"] == out:
            assert one["labels"] == out.with_suffix(".msgpack.labels")
            assert one["labels"].read_text() == "cat\ndog\nemu\n"
        for key in dataset.keys():
            assert dataset.raw(key) == source.raw(key)
    assert ki.verify(out, deep=True)["good"]


def test_shuffle_has_the_order_of_the_sampler(mixed, tmp_path):
    source, out = ki.open(mixed), tmp_path / "out.msgpack"
    expected = [source.key(index) for index in ki.Sampler.shuffle(200, 9).order()]
    assert keys(ki.shuffle(mixed, out, seed=9)) == expected
    assert keys(ki.shuffle(mixed, out, seed=9, memory=2_000, overwrite=True)) == expected
    sampler = ki.Sampler.datadings_shuffle(200, 7)
    expected = [source.key(index) for index in sampler.order(2)]
    assert keys(ki.shuffle(mixed, out, sampler=sampler, epoch=2, overwrite=True)) == expected
    for wrong in [{"sampler": sampler, "seed": 1}, {"sampler": ki.Sampler.shuffle(201)}]:
        with pytest.raises(ValueError, match="sampler"):
            ki.shuffle(mixed, out, **wrong, overwrite=True)
    with pytest.raises(ki.errors.InvalidError):
        ki.shuffle(mixed, out, memory=2_000, sampler=ki.Sampler.shuffle(150), overwrite=True)
    assert keys({"path": out}) == expected, "what fails leaves the dataset that was there"


def test_split_at_positions_by_ratios_and_by_values(mixed, tmp_path):
    source = ki.open(mixed)
    samples = {sample["key"]: sample for sample in source}
    at = ki.split(mixed, at=[50, 60])
    assert [one["path"].name for one in at] == ["mixed-0.msgpack", "mixed-1.msgpack", "mixed-2.msgpack"]
    assert sum(map(keys, at), []) == list(source.keys()) and [one["samples"] for one in at] == [50, 10, 140]
    outputs = [tmp_path / f"{name}.msgpack" for name in "abc"]
    by_group = ki.split(mixed, ratios=[8, 1, 1], groups="patient", outputs=outputs, seed=1)
    patients = [{samples[key]["patient"] for key in keys(one)} for one in by_group]
    assert len(set.union(*patients)) == sum(map(len, patients)) == 9
    dealt = ki.split(mixed, ratios=[3, 1], stratify="label", outputs=outputs[:2], overwrite=True)
    for label in range(3):
        counts = [sum(samples[key]["label"] == label for key in keys(one)) for one in dealt]
        assert abs(counts[0] - 3 * counts[1]) <= 4
    by_label = ki.split(mixed, by="label", overwrite=True)
    assert [one["path"].name for one in by_label] == [f"mixed-{n}.msgpack" for n in range(3)]
    for label, one in enumerate(by_label):
        assert {samples[key]["label"] for key in keys(one)} == {label}


def test_what_split_refuses(mixed, tmp_path):
    out = tmp_path / "a.msgpack"
    for wrong, error, message in [
        ({}, ValueError, "one of at, ratios and by"),
        ({"at": [1], "by": "label"}, ValueError, "one of"),
        ({"at": [1], "groups": "label"}, ValueError, "ratios"),
        ({"ratios": [1, 1], "groups": "label", "stratify": "label"}, ValueError, "both"),
        ({"at": [200]}, ki.errors.InvalidError, "from 1 to 199"),
        ({"at": [5, 5]}, ki.errors.InvalidError, "ascending"),
        ({"ratios": [1, 0]}, ki.errors.InvalidError, "positive"),
        ({"by": "array"}, ki.errors.InvalidError, "neither a number nor text"),
        ({"by": "none"}, ki.errors.InvalidError, "no field"),
        ({"at": [5], "outputs": [out]}, ki.errors.InvalidError, "2 outputs, found 1"),
        ({"at": [5], "outputs": [out, out]}, ki.errors.InvalidError, "two parts"),
        ({"at": [5], "outputs": [out, mixed]}, ki.errors.InvalidError, "both read and written"),
        ({"at": [5], "color": True}, TypeError, "unexpected keyword argument 'color'"),
    ]:
        before = sorted(path.name for path in tmp_path.iterdir())
        with pytest.raises(error, match=message):
            ki.split(mixed, **wrong)
        assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_merge_one_after_the_other_and_interleaved(tmp_path):
    a = write(tmp_path / "a.msgpack", [{"key": f"a{n}"} for n in range(50)])
    b = write(tmp_path / "b.msgpack", [{"key": f"b{n}"} for n in range(20)])
    out = tmp_path / "out.msgpack"
    one_by_one = keys(ki.merge([a, ki.open(b)], out))
    assert one_by_one == [f"a{n}" for n in range(50)] + [f"b{n}" for n in range(20)]
    for how in [{"interleave": True}, {"weights": [1, 3]}]:
        mixed = keys(ki.merge([a, b], out, **how, seed=4, overwrite=True))
        assert mixed != one_by_one and sorted(mixed) == sorted(one_by_one)
        assert [key for key in mixed if key[0] == "a"] == one_by_one[:50]
        assert mixed == keys(ki.merge([a, b], out, **how, seed=4, overwrite=True))
    with pytest.raises(TypeError, match="list"):
        ki.merge(str(a), out)
    with pytest.raises(FileExistsError):
        ki.merge([a, b], out)
    with pytest.raises(ki.errors.InvalidError, match="both read and written"):
        ki.merge([a, b], a, overwrite=True)


def test_merge_tells_of_duplicates_and_labels(tmp_path):
    a = write(tmp_path / "a.msgpack", [{"key": "x", "label": 1}], ["cat", "dog"])
    b = write(tmp_path / "b.msgpack", [{"key": "y", "label": 0}, {"key": "x", "label": 0}], ["dog"])
    out = tmp_path / "out.msgpack"
    with pytest.raises(ki.errors.InvalidError, match="expected the labels of .*a.msgpack"):
        ki.merge([a, b], out)
    with pytest.raises(ki.errors.DuplicateKeyError) as caught:
        ki.merge([a, b], out, labels="renumber")
    assert caught.value.key == "x" and "a.msgpack: sample 0 and" in str(caught.value)
    assert not out.exists()
    made = ki.merge([a, b], out, labels="renumber", skip_duplicates=True)
    assert made["skipped_duplicates"] == 1 and made["labels"].read_text() == "cat\ndog\n"
    assert [(sample["key"], sample["label"]) for sample in ki.open(out)] == [("x", 1), ("y", 1)]
    made = ki.merge([a, b], out, labels="drop", skip_duplicates=True, overwrite=True)
    assert made["labels"] is None and ki.open(out)["y"]["label"] == 0
    with pytest.raises(ValueError, match="'same', 'renumber' or 'drop'"):
        ki.merge([a, b], out, labels="x")


@pytest.mark.parametrize("by", ["key", "label", "score"])
@pytest.mark.parametrize("reverse", [False, True])
def test_sort_is_that_of_python(mixed, tmp_path, by, reverse):
    expected = sorted(ki.open(mixed), key=lambda sample: sample[by], reverse=reverse)
    made = ki.sort(mixed, tmp_path / "out.msgpack", by=by, reverse=reverse)
    assert keys(made) == [sample["key"] for sample in expected]


def test_select_by_index_key_and_slice(mixed, tmp_path):
    source, out = ki.open(mixed), tmp_path / "out.msgpack"
    assert keys(ki.select(source, out, ["k7", -1, np.int64(3)])) == ["k7", "k199", "k3"]
    assert keys(ki.select(source, out, slice(10, None, -5), overwrite=True)) == ["k10", "k5", "k0"]
    made = ki.select(source, out, ["k1", "none"], skip_missing=True, overwrite=True)
    assert keys(made) == ["k1"] and made["skipped"] == 1
    for items, error in [(["none"], KeyError), ([200], IndexError), ("k1", TypeError), ([1.5], TypeError)]:
        with pytest.raises(error):
            ki.select(source, out, items, overwrite=True)
    with pytest.raises(ki.errors.InvalidError, match="once") as caught:
        ki.select(source, out, [3, "k3"], overwrite=True)
    assert caught.value.key == "k3" and caught.value.path == mixed


def test_filter_with_an_expression_or_a_function(mixed, tmp_path):
    out = tmp_path / "out.msgpack"
    made = ki.filter(mixed, out, lambda sample: len(sample["array"]) == 2)
    assert keys(made) == [f"k{n}" for n in range(2, 200, 5)] and made["of"] == 200
    by_text = tmp_path / "text.msgpack"
    for text, function in [
        ("label == dog and score > 0.5", lambda s: s["label"] == 1 and s["score"] > 0.5),
        ("patient in p1,p2 or key ~ 'k1?'", lambda s: s["patient"] in ("p1", "p2") or s["key"][:2] == "k1" and len(s["key"]) == 3),
        ("not has caption", lambda s: True),
    ]:
        one = ki.filter(mixed, by_text, text, overwrite=True)
        assert keys(one) == keys(ki.filter(mixed, out, function, overwrite=True))
        assert one["mismatches"] == []
    assert ki.filter(mixed, by_text, "label == 1 or patient > 3", overwrite=True)["mismatches"]
    for wrong, message in [("label => 3", "condition: "), ("label == cow", "cow")]:
        with pytest.raises(ValueError, match=message):
            ki.filter(mixed, by_text, wrong, overwrite=True)
    with pytest.raises(ki.errors.InvalidError, match="caption"):
        ki.filter(mixed, by_text, "caption == x", overwrite=True)
    ki.filter(mixed, out, lambda sample: len(sample["array"]) == 2, overwrite=True)
    with pytest.raises(ZeroDivisionError):
        ki.filter(mixed, out, lambda sample: 1 / 0, overwrite=True)
    with pytest.raises(TypeError, match="function"):
        ki.filter(mixed, out, 3, overwrite=True)
    assert len(ki.open(out)) == 40


def test_diff_finds_every_change(mixed, tmp_path):
    source = ki.open(mixed)
    samples = [sample for sample in source if sample["key"] not in ("k5", "k6")]
    samples[0]["label"] = 99
    samples[1]["new"] = np.arange(3)
    del samples[2]["score"]
    samples.append({"key": "added"})
    changed = write(tmp_path / "changed.msgpack", samples[::-1])
    found = ki.diff(mixed, changed)
    assert {name: found[name] for name in ("same", "only_left", "only_right", "changed", "same_order")} == {
        "same": 195, "only_left": 2, "only_right": 1, "changed": 3, "same_order": False,
    }
    by_key = {one["key"]: one for one in found["differences"]}
    assert by_key["k5"] == {"key": "k5", "change": "left", "index": 5}
    assert by_key["added"] == {"key": "added", "change": "right", "index": 0}
    assert by_key["k0"]["fields"] == {"label": {"left": source[0]["label"], "right": 99}}
    assert by_key["k1"]["fields"]["new"]["right"].tolist() == [0, 1, 2]
    assert list(by_key["k2"]["fields"]["score"]) == ["left"]
    assert len(ki.diff(mixed, changed, limit=2)["differences"]) == 2
    same = ki.diff(mixed, source)
    assert same["same"] == 200 and same["same_order"] and same["differences"] == []


def test_stat_counts(mixed):
    found = ki.stat(mixed)
    assert found["samples"] == 200 and found["path"] == mixed and found["labels"] == ["cat", "dog", "emu"]
    fields = {field["name"]: field for field in found["fields"]}
    assert list(fields) == ["key", "label", "patient", "score", "array"]
    assert fields["label"]["present"] == 200 and fields["label"]["numbers"]["max"] == 2
    assert [field["name"] for field in ki.stat(mixed, fields=["label"])["fields"]] == ["label"]
    with pytest.raises(ki.errors.InvalidError, match="none"):
        ki.stat(mixed, fields=["none"])


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    path = tmp_path_factory.mktemp("many") / "many.msgpack"
    with ki.Writer(path, durable=False, digests=False) as writer:
        for n in range(50_000):
            writer.write({"key": f"{n:06}", "n": n})
    return path


WORK = {
    "shuffle": lambda source, out, **kw: ki.shuffle(source, out, **kw),
    "sort": lambda source, out, **kw: ki.sort(source, out, by="n", **kw),
    "merge": lambda source, out, **kw: ki.merge([source], out, **kw),
    "split": lambda source, out, **kw: ki.split(
        source, ratios=[1, 1], outputs=[out, out.with_name("b.msgpack")], **kw
    ),
    "select": lambda source, out, **kw: ki.select(source, out, slice(None), **kw),
    "filter": lambda source, out, **kw: ki.filter(source, out, "n >= 0", **kw),
    "diff": lambda source, out, **kw: ki.diff(source, source, **kw),
    "stat": lambda source, out, **kw: ki.stat(source, **kw),
}


@pytest.mark.parametrize("name", WORK)
def test_progress_is_told_and_an_exception_in_it_stops(many, tmp_path, name):
    heard = []
    WORK[name](many, tmp_path / "out.msgpack", progress=heard.append)
    assert heard and all({"phase", "samples", "total_samples"} <= set(one) for one in heard)

    def stop(_):
        raise RuntimeError("enough")

    for path in tmp_path.iterdir():
        path.unlink()
    with pytest.raises(RuntimeError, match="enough"):
        WORK[name](many, tmp_path / "out.msgpack", progress=stop)
    assert not any(".partial" in path.name for path in tmp_path.iterdir())


def test_ctrl_c_stops_a_shuffle(many, tmp_path):
    def interrupt(_):
        # As the terminal does, while the thread that shuffles is at work.
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        ki.shuffle(many, tmp_path / "out.msgpack", progress=interrupt)
    assert list(tmp_path.iterdir()) == []
