"""Datasets made of others: each method by a table, random ones against lists of dicts, mixtures and their runs, trainers,
other processes.
"""

import itertools
import multiprocessing
import os
import pickle
import random
import subprocess
import sys

import numpy as np
import pytest

import pykiste as ki

ALL = bool(os.environ.get("KISTE_TEST_ALL"))
METHODS = [m for m in ("fork", "spawn", "forkserver") if m in multiprocessing.get_all_start_methods()]


def write(path, samples, labels=None):
    with ki.Writer(path, durable=False, overwrite=True) as writer:
        for sample in samples:
            writer.write(sample)
        if labels is not None:
            writer.set_labels(labels)
    return path


@pytest.fixture
def letters(tmp_path):
    """Five samples: a to e, with a number and data."""
    samples = [{"key": key, "n": n, "data": key.encode() * 100} for n, key in enumerate("abcde")]
    return ki.open(write(tmp_path / "letters.msgpack", samples))


def keys(dataset):
    return "".join(dataset.keys())


# What each method makes of the five letters.
MADE = {
    "range": (lambda ds: ds.range(1, 3), "bc"),
    "no range": (lambda ds: ds.range(2, 2), ""),
    "all": (lambda ds: ds.range(0, 5), "abcde"),
    "keys": (lambda ds: ds.select(keys=["d", "a", "d"]), "dad"),
    "keys of a view": (lambda ds: ds.select(keys=ds.range(3, 5).keys()), "de"),
    "no keys": (lambda ds: ds.select(keys=[]), ""),
    "indices": (lambda ds: ds.select(indices=[4, -5, 0]), "eaa"),
    "an array": (lambda ds: ds.select(indices=np.array([3, -1, 1])), "deb"),
    "small integers": (lambda ds: ds.select(indices=np.array([3, 1], "uint8")), "db"),
    "a range of Python": (lambda ds: ds.select(indices=range(4, 0, -2)), "ec"),
    "no indices": (lambda ds: ds.select(indices=np.array([], "int64")), ""),
    "a mask": (lambda ds: ds.select(mask=[True, False, False, True, True]), "ade"),
    "an array of booleans": (lambda ds: ds.select(mask=np.arange(5) % 2 == 0), "ace"),
    "no true one": (lambda ds: ds.select(mask=[False] * 5), ""),
    "without": (lambda ds: ds.without(["b", "absent", "b"]), "acde"),
    "without, by name": (lambda ds: ds.without(keys=("a", "e")), "bcd"),
    "where": (lambda ds: ds.where("n >= 3"), "de"),
    "where nothing is": (lambda ds: ds.where("n > 100"), ""),
    "concat": (lambda ds: ki.concat([ds.range(3, 5), ds]), "deabcde"),
    "concat of one": (lambda ds: ki.concat(iter([ds])), "abcde"),
    "concat of paths": (lambda ds: ki.concat([ds.path, str(ds.path)]), "abcdeabcde"),
    "a list": (lambda ds: ki.open([ds.path, ds.range(0, 1)]), "abcdea"),
    "dedupe": (lambda ds: ki.concat([ds.range(3, 5), ds]).dedupe(), "deabc"),
    "dedupe by": (lambda ds: ki.concat([ds, ds]).dedupe(by="n"), "abcde"),
    "join": (lambda ds: ds.join(ds.range(1, 3), prefix="x_"), "bc"),
    "left join": (lambda ds: ds.join(ds.range(1, 3), "left", prefix="x_"), "abcde"),
    "join of a path": (lambda ds: ds.join(ds.path, prefix="x_"), "abcde"),
    "fields": (lambda ds: ds.with_fields(keep=["n"]), "abcde"),
    "all fields": (lambda ds: ds.with_fields(), "abcde"),
    "one after another": (lambda ds: ds.where("n >= 1").range(1, 4).select(indices=[-1]), "e"),
    "mixture": (lambda ds: ki.Mixture({"one": (ds, 1), "two": (ds.range(0, 2), 0.5)}), "abcdeab"),
    "mixture of one": (lambda ds: ki.Mixture({"one": (ds, 1)}), "abcde"),
}


@pytest.mark.parametrize("what", MADE)
def test_each_method_makes_a_dataset(letters, what):
    make, expected = MADE[what]
    made = make(letters)
    assert type(made) is ki.Dataset and len(made) == len(expected)
    assert keys(made) == expected and "".join(made.keys()) == expected
    assert [made.key(index) for index in range(len(made))] == list(expected)
    assert [sample["key"] for sample in made] == list(expected)
    assert [sample["key"] for sample in made[:]] == list(expected)
    assert all(made[index]["n"] == ord(key) - ord("a") for index, key in enumerate(expected))
    for key in "abcdex":
        assert (key in made) == (key in expected)
        assert made.find(key) == (expected.index(key) if key in expected else None)
    assert repr(made).startswith("pykiste.Dataset(") and "samples" in repr(made)
    again = pickle.loads(pickle.dumps(made))
    assert keys(again) == expected and again.copy == made.copy
    assert made.labels is None and made.data_size == letters.data_size
    assert made.info()["samples"] == len(expected)
    # What it was made of is as it was.
    letters.close()
    assert keys(made) == expected
    with pytest.raises(ki.errors.InvalidError, match="closed"):
        letters.range(0, 1)


def test_what_was_made_says_how(letters):
    made = ki.concat([letters.where("n > 1"), letters.range(0, 2)]).with_fields(drop=["data"])
    text = repr(made)
    for part in ("letters.msgpack", 'where("n > 1")', "range(0, 2)", "concat(", "drop=", "5 samples"):
        assert part in text, text
    assert made.path is None and made._repr_html_()
    assert made.schema["n"] and "data" not in made.schema
    assert ki.concat([letters]).path == letters.path


def test_fields(letters):
    assert letters.with_fields(keep=["n"])[1] == {"key": "b", "n": 1}
    assert letters.with_fields(drop=["data"], rename={"n": "number"})[1] == {"key": "b", "number": 1}
    joined = letters.with_fields(keep=["n"]).join(letters.range(1, 3), "left", fields=["n"], prefix="x_", missing={"n": None})
    assert [sample["x_n"] for sample in joined] == [None, 1, 2, None, None]
    array = np.arange(3, dtype="int16")
    plain = letters.join(letters.range(0, 1).with_fields(rename={"n": "m"}), "left", fields=["m"], missing={"m": array})
    assert plain[0]["m"] == 0 and np.array_equal(plain[1]["m"], array) and plain[1]["m"].dtype == array.dtype
    assert list(plain[1]) == ["key", "n", "data", "m"]


def test_what_was_left_out_is_told(letters):
    made = letters.without(["a", "absent"]).where("n > 2").join(letters.range(4, 5), "left", prefix="x_")
    steps = [(entry["step"], entry["samples"], entry["unknown_keys"]) for entry in made.left_out]
    assert steps == [("without", 1, 1), ("where", 2, 0), ("join", 1, 0)]
    assert made.left_out[1]["rule"] == "n > 2" and letters.left_out == []
    words = write(letters.path.with_name("words.msgpack"), [{"key": "f", "n": "six"}, {"key": "g", "n": "7"}])
    [entry] = ki.concat([letters, words]).where("n >= 3").left_out
    assert entry["samples"] == 5 and len(entry["remarks"]) == 1 and "2 samples" in entry["remarks"][0], entry


def test_duplicates_are_found(letters):
    twice = ki.concat([letters.range(2, 4), letters])
    assert twice.duplicates() == [(0, 4), (1, 5)] and letters.duplicates() == []
    assert [sample["n"] for sample in (twice["c"], twice[4])] == [2, 2]


WRONG = {
    "a range outside": (lambda ds: ds.range(1, 6), ki.errors.InvalidError, "0..5"),
    "a range backwards": (lambda ds: ds.range(3, 2), ki.errors.InvalidError, "3..2"),
    "a negative range": (lambda ds: ds.range(-2, 5), ki.errors.InvalidError, "-2..5"),
    "no key": (lambda ds: ds.select(keys=["a", "x"]), KeyError, "x"),
    "a key alone": (lambda ds: ds.select(keys="ab"), TypeError, "list of str"),
    "a number for a key": (lambda ds: ds.select(keys=[1]), TypeError, "expected str, found int"),
    "no index": (lambda ds: ds.select(indices=[5]), IndexError, "5 is out of range"),
    "no such index of an array": (lambda ds: ds.select(indices=np.array([0, -6])), IndexError, "-6 is out of range"),
    "a key for an index": (lambda ds: ds.select(indices=["a"]), TypeError, "`keys` takes them"),
    "a mask for indices": (lambda ds: ds.select(indices=[True] * 5), TypeError, "`mask` takes them"),
    "a short mask": (lambda ds: ds.select(mask=[True]), IndexError, "each of 5 samples, found 1"),
    "an empty mask": (lambda ds: ds.select(mask=[]), IndexError, "each of 5 samples, found 0"),
    "a long mask": (lambda ds: ds.select(mask=np.ones(6, bool)), IndexError, "each of 5 samples, found 6"),
    "indices for a mask": (lambda ds: ds.select(mask=[1, 0, 1, 0, 1]), TypeError, "expected booleans"),
    "nothing to select": (lambda ds: ds.select(), ki.errors.InvalidError, "one of keys, indices and mask"),
    "both": (lambda ds: ds.select(keys=["a"], indices=[0]), ki.errors.InvalidError, "one of keys, indices and mask"),
    "no condition": (lambda ds: ds.where("n >="), ki.errors.InvalidError, ""),
    "no such field": (lambda ds: ds.where("width > 3"), ki.errors.InvalidError, "width"),
    "no field to keep": (lambda ds: ds.with_fields(keep=["m"]), ki.errors.InvalidError, "m"),
    "no field to rename": (lambda ds: ds.with_fields(rename={"m": "n"}), ki.errors.InvalidError, "m"),
    "one text": (lambda ds: ds.with_fields(keep="n"), TypeError, "list of str"),
    "keep and drop": (lambda ds: ds.with_fields(keep=["n"], drop=["data"]), ki.errors.InvalidError, "keep or drop"),
    "another join": (lambda ds: ds.join(ds, how="outer"), ki.errors.InvalidError, "'inner' or 'left'"),
    "a name twice": (lambda ds: ds.join(ds), ki.errors.InvalidError, "n"),
    "a value for an inner join": (
        lambda ds: ds.join(ds, prefix="x_", missing={"n": 1}), ki.errors.InvalidError, "left join",
    ),
    "a join of none": (lambda ds: ds.join(3), TypeError, ""),
    "a join of no file": (lambda ds: ds.join("absent.msgpack"), FileNotFoundError, "absent"),
    "dedupe by no field": (lambda ds: ds.dedupe(by="m"), ki.errors.InvalidError, "m"),
    "concat of none": (lambda ds: ki.concat([]), ki.errors.InvalidError, "at least one"),
    "concat of a path": (lambda ds: ki.concat(str(ds.path)), TypeError, "list of datasets"),
    "concat of a dataset": (lambda ds: ki.concat(ds), TypeError, "list of datasets"),
    "an empty list": (lambda ds: ki.open([]), ki.errors.InvalidError, "at least one"),
    "a mixture of none": (lambda ds: ki.Mixture({}), ki.errors.InvalidError, ""),
    "no weight": (lambda ds: ki.Mixture({"a": ds}), TypeError, "pair of a dataset and a weight"),
    "no weights at all": (lambda ds: ki.Mixture({"a": (ds, 0)}), ki.errors.InvalidError, ""),
    "a negative weight": (lambda ds: ki.Mixture({"a": (ds, -1)}), ki.errors.InvalidError, ""),
    "a cap of another": (lambda ds: ki.Mixture({"a": (ds, 1)}, max_passes={"b": 1}), ki.errors.InvalidError, "b"),
    "a phase of another": (lambda ds: ki.Mixture({"a": (ds, 1)}, phases={9: {"b": 1}}), ki.errors.InvalidError, "b"),
    "another end": (lambda ds: ki.Mixture({"a": (ds, 1)}, exhausted="stop"), ki.errors.InvalidError, "'error' or 'others'"),
    "weight without samples": (lambda ds: ki.Mixture({"a": (ds.range(0, 0), 1)}), ki.errors.InvalidError, "no samples"),
    "no recipe": (lambda ds: ds.save(ds.path.with_name("some.toml")), ki.errors.InvalidError, "kiste.toml"),
    "no file": (lambda ds: ki.open("absent.kiste.toml"), FileNotFoundError, "absent"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_makes_no_sense_is_an_error(letters, what):
    make, kind, message = WRONG[what]
    with pytest.raises(kind, match="(?s).*" + message.replace("..", r"\.\.")) as error:
        make(letters)
    assert isinstance(error.value, (ki.Error, TypeError)), type(error.value)


def test_labels_of_several_are_numbered_by_their_names(tmp_path):
    cats = ki.open(write(tmp_path / "cats.msgpack", [{"key": "a", "label": 0}, {"key": "b", "label": 1}], ["cat", "dog"]))
    dogs = ki.open(write(tmp_path / "dogs.msgpack", [{"key": "c", "label": 0}, {"key": "d", "label": 1}], ["dog", "emu"]))
    both = ki.concat([cats, dogs])
    assert both.labels == ["cat", "dog", "emu"] and [sample["label"] for sample in both] == [0, 1, 1, 2]
    assert keys(both.where("label in (dog, emu)")) == "bcd"
    assert pickle.loads(pickle.dumps(both)).labels == both.labels
    none = ki.open(write(tmp_path / "none.msgpack", [{"key": "e", "label": 7}]))
    with pytest.raises(ki.errors.InvalidError, match="does not mean the same"):
        ki.concat([cats, none])
    assert cats.range(0, 1).labels == ["cat", "dog"]


def test_without_a_copy_samples_are_views_of_their_maps(letters, tmp_path):
    other = write(tmp_path / "other.msgpack", [{"key": "f", "n": 5, "data": b"f" * 100}])
    one, two = ki.open(letters.path, copy=False), ki.open(other, copy=False)
    both = ki.concat([two, one.where("n != 1"), one])
    assert both.copy is False and [bytes(sample["data"][:1]) for sample in both] == [key.encode() for key in "facdeabcde"]
    assert all(type(sample["data"]) is memoryview for sample in both)
    assert all(type(both.raw(index)) is memoryview for index in range(len(both)))
    assert np.shares_memory(np.asarray(both[1]["data"]), np.asarray(one[0]["data"]))
    # What is put together has memory of its own.
    assert type(one.with_fields(keep=["data"])[0]["data"]) is bytes
    assert ki.concat([one, ki.open(other)]).copy is True
    assert type(letters.range(0, 2).raw(1, copy=False)) is memoryview
    assert ki.open([letters.path, other], copy=False).copy is False


def test_options_go_along(letters):
    ki.index(letters.path, force=True, checksums=True)
    careful = ki.open(letters.path, verify=True, untrusted=True)
    made = careful.where("n > 0").range(0, 2)
    assert made.verify and made.untrusted and not made.allow_outside and "verify=True" in repr(made)
    again = pickle.loads(pickle.dumps(made))
    assert again.verify and again.untrusted and keys(again) == "bc"
    assert not ki.concat([careful, letters]).verify
    data = bytearray(letters.path.read_bytes())
    at = data.index(b"ccc")
    data[at] ^= 1
    checked = ki.open(letters.path, verify=True).range(1, 4)
    letters.path.write_bytes(data)
    with pytest.raises(ki.errors.DamagedError):
        [sample for sample in checked]


def test_progress_and_errors_of_a_callback(letters):
    many = ki.concat([letters] * 3000)
    calls = []
    assert len(many.where("n == 2", progress=calls.append)) == 3000
    assert calls[-1]["total_samples"] == 15000 and "condition" in calls[-1]["phase"]

    def stop(report):
        raise RuntimeError("enough")

    for slow in (
        lambda: many.where("n == 2", progress=stop),
        lambda: many.dedupe(progress=stop),
        lambda: many.dedupe(by="n", progress=stop),
        lambda: many.join(letters, prefix="x_", progress=stop),
        lambda: many.duplicates(progress=stop),
    ):
        with pytest.raises(RuntimeError, match="enough"):
            slow()


# --- random ones against lists of dicts ---------------------------------------------------------------------------


class Model:
    """A dataset and the samples that it must have."""

    def __init__(self, dataset, samples, text):
        self.dataset, self.samples, self.text = dataset, samples, text

    def has(self, field):
        return any(field in sample for sample in self.samples)


def base(folder, draw):
    """Datasets of random samples, whose keys they have in part in common."""
    made = []
    for name in ("one", "two", "three", "none"):
        count = 0 if name == "none" else draw.randint(3, 22)
        samples = []
        for key in draw.sample(range(40), count):
            sample = {"key": f"k{key}"}
            for field in ("a", "b"):
                if draw.random() < 0.88:
                    sample[field] = draw.randrange(10)
            samples.append(sample)
        dataset = ki.open(write(folder / f"{name}.msgpack", samples))
        made.append(Model(dataset, samples, name))
    return made


def compared(sample, field, sign, number):
    value = sample.get(field)
    signs = {">=": lambda a, b: a >= b, "<": lambda a, b: a < b, "==": lambda a, b: a == b}
    return value is not None and signs[sign](value, number)


def grown(draw, bases, depth):
    if depth == 0:
        return draw.choice(bases)
    of = grown(draw, bases, depth - 1)
    dataset, samples = of.dataset, of.samples
    size = len(samples)
    match draw.randrange(10):
        case 0:
            others = [grown(draw, bases, depth - 1) for _ in range(draw.randint(1, 2))]
            parts = [of, *others]
            made = ki.concat([part.dataset for part in parts])
            everything = [sample for part in parts for sample in part.samples]
            return Model(made, everything, f"concat({', '.join(part.text for part in parts)})")
        case 1:
            start = draw.randint(0, size)
            stop = draw.randint(start, size)
            return Model(dataset.range(start, stop), samples[start:stop], f"{of.text}.range({start}, {stop})")
        case 2 if size:
            indices = [draw.randrange(-size, size) for _ in range(draw.randint(0, 30))]
            given = np.array(indices, "int64") if draw.random() < 0.5 else indices
            return Model(dataset.select(indices=given), [samples[index] for index in indices], f"{of.text}.select({indices})")
        case 3 if size:
            chosen = [draw.choice(samples)["key"] for _ in range(draw.randint(0, 10))]
            first = {}
            for sample in samples:
                first.setdefault(sample["key"], sample)
            return Model(dataset.select(keys=chosen), [first[key] for key in chosen], f"{of.text}.select({chosen})")
        case 4:
            mask = [draw.random() < 0.7 for _ in samples]
            given = np.array(mask, bool) if draw.random() < 0.5 else mask
            return Model(dataset.select(mask=given), list(itertools.compress(samples, mask)), f"{of.text}.mask")
        case 5:
            out = {sample["key"] for sample in samples if draw.random() < 0.25} | {"absent"}
            left = [sample for sample in samples if sample["key"] not in out]
            return Model(dataset.without(out), left, f"{of.text}.without({sorted(out)})")
        case 6 if of.has("a") and of.has("b"):
            one = ("a", draw.choice([">=", "<", "=="]), draw.randrange(10))
            two = ("b", draw.choice([">=", "<"]), draw.randrange(10))
            word = draw.choice(["and", "or"])
            condition = f"{one[0]} {one[1]} {one[2]} {word} {two[0]} {two[1]} {two[2]}"
            both = all if word == "and" else any
            left = [sample for sample in samples if both(compared(sample, *part) for part in (one, two))]
            return Model(dataset.where(condition), left, f"{of.text}.where({condition!r})")
        case 7:
            names, change = draw.choice([
                ({"drop": ["b"]}, lambda name: None if name == "b" else name),
                ({"keep": ["a"]}, lambda name: name if name in ("a", "key") else None),
                ({"rename": {"a": "d"}}, lambda name: "d" if name == "a" else name),
                ({"drop": ["a"], "rename": {"b": "a"}}, lambda name: {"a": None, "b": "a"}.get(name, name)),
            ])
            named = {*names.get("drop", ()), *names.get("keep", ()), *names.get("rename", ())}
            is_taken = "rename" in names and "d" in names["rename"].values() and of.has("d")
            if not all(map(of.has, named)) or is_taken:
                return of
            left = [{new: value for name, value in sample.items() if (new := change(name))} for sample in samples]
            return Model(dataset.with_fields(**names), left, f"{of.text}.with_fields({names})")
        case 8 if not of.has("x_a"):
            other = draw.choice(bases)
            how = draw.choice(["inner", "left"])
            missing = draw.choice([{}, {"a": -7}]) if how == "left" else {}
            right = {sample["key"]: sample for sample in other.samples}
            joined = []
            for sample in samples:
                if how == "inner" and sample["key"] not in right:
                    continue
                found = right.get(sample["key"], {}).get("a", missing.get("a"))
                joined.append(sample if found is None else {**sample, "x_a": found})
            made = dataset.join(other.dataset, how, fields=["a"], prefix="x_", missing=missing)
            return Model(made, joined, f"{of.text}.join({other.text}, {how}, {missing})")
        case 9:
            by = draw.choice([None, "a"])
            if by and not of.has(by):
                return of
            seen, left = set(), []
            for sample in samples:
                if (value := sample.get(by or "key")) is None or value not in seen:
                    left.append(sample)
                    seen.add(value)
            return Model(dataset.dedupe(by=by), left, f"{of.text}.dedupe({by})")
    return of


def check(dataset, samples, text, draw):
    assert len(dataset) == len(samples), text
    assert list(dataset) == samples, text
    assert list(dataset.keys()) == [sample["key"] for sample in samples], text
    first = {}
    for index, sample in enumerate(samples):
        first.setdefault(sample["key"], index)
    for key, index in list(first.items())[:20]:
        assert dataset.find(key) == index and key in dataset, text
    assert dataset.find("absent") is None and "absent" not in dataset
    assert dataset.get_many([*first][:20]) == [samples[index] for index in list(first.values())[:20]], text
    if samples:
        indices = [draw.randrange(len(samples)) for _ in range(5)]
        assert [dataset[index] for index in indices] == dataset[indices] == [samples[index] for index in indices], text
        assert [ki.unpack(dataset.raw(index)) for index in indices] == dataset[indices], text


def test_random_datasets_have_the_samples_of_a_model(tmp_path):
    draw = random.Random(49)
    bases = base(tmp_path, draw)
    for turn in range(5000 if ALL else 300):
        made = grown(draw, bases, draw.randrange(6))
        text = f"{turn}: {made.text}"
        check(made.dataset, made.samples, text, draw)
        expected = [(first, later) for later, sample in enumerate(made.samples)
                    if (first := next(i for i, s in enumerate(made.samples) if s["key"] == sample["key"])) < later]
        assert made.dataset.duplicates() == expected, text
        if turn % 4 == 0:
            recipe = tmp_path / "some.kiste.toml"
            made.dataset.save(recipe, overwrite=True)
            again = ki.open(recipe)
            check(again, made.samples, f"{text}, saved\n{recipe.read_text()}", draw)
            assert again.path == recipe
            unpickled = pickle.loads(pickle.dumps(again))
            check(unpickled, made.samples, f"{text}, saved and pickled", draw)
            assert unpickled.path == recipe
        if turn % 4 == 1:
            check(pickle.loads(pickle.dumps(made.dataset)), made.samples, f"{text}, pickled", draw)
        if turn % 4 == 2 and made.samples:
            batches = ki.Loader(made.dataset, batch_size=7, threads=1)
            assert [sample for batch in batches for sample in batch.samples] == made.samples, text
        if turn % 4 == 3:
            # Written, as any other source. A dataset has each key once.
            out, distinct = tmp_path / "out.msgpack", made.dataset.dedupe()
            ki.filter(distinct, out, lambda sample: True, overwrite=True, durable=False)
            assert list(ki.open(out)) == list(distinct), text


# --- recipes ------------------------------------------------------------------------------------------------------


def test_a_recipe_is_a_dataset(letters, tmp_path):
    recipe = tmp_path / "some.kiste.toml"
    made = letters.where("n >= 2").with_fields(rename={"n": "number"})
    made.save(recipe)
    with pytest.raises(FileExistsError):
        made.save(recipe)
    made.save(str(recipe), overwrite=True)
    again = ki.open(recipe)
    assert list(again) == list(made) and again.path == recipe and repr(recipe.name)[1:-1] in repr(again)
    assert list(again.sources) == ["letters"] and again.info()["file"] == recipe
    assert keys(ki.open([recipe, letters.path])) == "cdeabcde" and keys(again.range(0, 1)) == "c"
    # In recipes, in functions, in other folders.
    ki.concat([again, letters]).save(tmp_path / "both.kiste.toml")
    assert keys(ki.open(tmp_path / "both.kiste.toml")) == "cdeabcde"
    assert ki.stat(recipe)["samples"] == 3
    moved = tmp_path / "moved"
    moved.mkdir()
    for file in tmp_path.iterdir():
        if file != moved:
            file.rename(moved / file.name)
    assert list(ki.open(moved / recipe.name)) == list(made)
    write(moved / "letters.msgpack", [{"key": "x", "n": 3}])
    with pytest.raises(ki.errors.ReplacedError, match="letters"):
        ki.open(moved / recipe.name)


def test_a_pickled_dataset_is_that_of_the_same_files(letters, tmp_path):
    packed = pickle.dumps(letters.where("n > 1"))
    assert keys(pickle.loads(packed)) == "cde"
    write(letters.path, [{"key": key, "n": 7, "data": b""} for key in "vwxyz"])
    with pytest.raises(ki.errors.ReplacedError):
        pickle.loads(packed)


def test_functions_take_what_was_made_as_sources(letters, tmp_path):
    some = letters.where("n != 2")
    out = tmp_path / "out.msgpack"
    options = {"overwrite": True, "durable": False}
    assert ki.filter(some, out, "n > 0", **options)["samples"] == 3 and keys(ki.open(out)) == "bde"
    assert ki.select(some, out, ["e", 0], **options)["samples"] == 2 and keys(ki.open(out)) == "ea"
    assert ki.sort(some, out, reverse=True, **options)["samples"] == 4 and keys(ki.open(out)) == "edba"
    assert ki.shuffle(some, out, seed=3, **options)["samples"] == 4 and sorted(keys(ki.open(out))) == list("abde")
    assert ki.shuffle(some, out, memory=1 << 20, **options)["samples"] == 4
    assert ki.merge([some, letters.range(2, 3)], out, **options)["samples"] == 5 and keys(ki.open(out)) == "abdec"
    parts = [tmp_path / "p0.msgpack", tmp_path / "p1.msgpack"]
    assert [part["samples"] for part in ki.split(some, at=[1], outputs=parts, **options)] == [1, 3]
    found = ki.diff(some, letters)
    assert (found["same"], found["only_right"]) == (4, 1)
    assert ki.stat(some.with_fields(keep=["n"]))["samples"] == 4
    with pytest.raises(ki.Error):
        ki.filter(some, letters.path, "n > 0", overwrite=True)
    assert keys(ki.open(letters.path)) == "abcde"


def test_recipes_open_with_progress_and_once(letters, tmp_path):
    recipe = tmp_path / "many.kiste.toml"
    ki.concat([letters] * 500).where("n >= 1").save(recipe)
    for file in (tmp_path / "many.kiste.kept").iterdir():
        file.unlink()
    calls = []
    assert len(ki.open(recipe, progress=calls.append)) == 2000
    assert any("condition" in call["phase"] for call in calls)
    calls.clear()
    assert len(ki.open(recipe, progress=calls.append)) == 2000
    assert not any("condition" in call["phase"] for call in calls)


# --- mixtures -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Three sources: 300 of web, 70 of code, 20 of books."""
    folder = tmp_path_factory.mktemp("texts")
    for name, count in {"web": 300, "code": 70, "books": 20}.items():
        write(folder / f"{name}.msgpack", [{"key": f"{name}/{n}", "n": n} for n in range(count)])
    return folder


SIZES = {"web": 300, "code": 70, "books": 20}


def mixed(folder, **options):
    weights = options.pop("weights", {"web": 5, "code": 2, "books": 1})
    return ki.Mixture({name: (folder / f"{name}.msgpack", weight) for name, weight in weights.items()}, **options)


def test_a_mixture_is_the_concatenation_in_another_order(texts):
    mixture = mixed(texts, samples=512, seed=3)
    assert isinstance(mixture, ki.Dataset) and len(mixture) == 390
    assert mixture.key(299) == "web/299" and mixture.key(300) == "code/0" and mixture.find("books/19") == 389
    assert {name: len(source) for name, source in mixture.sources.items()} == SIZES
    assert mixture.range(0, 3).sources is None and repr(mixture.range(0, 3).sampler()) == "pykiste.Sampler.sequential(3)"
    sampler = mixture.sampler()
    assert len(sampler) == 512
    seen = [mixture.key(index) for epoch in range(3) for index in sampler.order(epoch)]
    for start in range(0, len(seen), 256):
        shares = {name: sum(key.startswith(name) for key in seen[start : start + 256]) for name in SIZES}
        assert shares == {"web": 160, "code": 64, "books": 32}
    # All samples of a source come once before any comes twice.
    for name, size in SIZES.items():
        of_source = [key for key in seen if key.startswith(name)]
        for start in range(0, len(of_source) - size, size):
            assert len({*of_source[start : start + size]}) == size
    assert mixed(texts).sampler().order(0)[:].tolist() != mixed(texts, seed=1).sampler().order(0)[:].tolist()
    assert len(mixed(texts).sampler()) == 390


def orders(sampler, epochs=4):
    return [sampler.order(epoch)[:].tolist() for epoch in range(epochs)]


PHASES = {700: {"web": 1, "code": 1}, 1500: {"books": 3, "code": 1}}


def test_the_order_of_a_mixture_is_pickled_saved_and_written_in_numbers(texts, tmp_path):
    mixture = mixed(texts, samples=500, seed=7, phases=PHASES, max_passes={"web": 9}, exhausted="others")
    expected = orders(mixture.sampler())
    sampler = pickle.loads(pickle.dumps(mixture.sampler()))
    assert orders(sampler) == expected and repr(sampler) == repr(mixture.sampler())
    assert orders(eval(repr(sampler).removeprefix("pykiste."), {"Sampler": ki.Sampler})) == expected
    assert orders(pickle.loads(pickle.dumps(mixture)).sampler()) == expected
    mixture.save(tmp_path / "mixed.kiste.toml")
    again = ki.open(tmp_path / "mixed.kiste.toml")
    assert orders(again.sampler()) == expected and list(again.sources) == list(SIZES)
    assert orders(pickle.loads(pickle.dumps(again)).sampler()) == expected
    numbers = ki.Sampler.mixture([300, 70, 20], [5, 2, 1], 500, 7)
    # Before the first phase.
    assert orders(numbers, 1) == expected[:1] and orders(numbers)[1:] != expected[1:]


def test_phases_change_shares_and_nothing_before(texts):
    plain, phased = mixed(texts, samples=500), mixed(texts, samples=500, phases=PHASES)
    flat = [[index for order in orders(mixture.sampler()) for index in order] for mixture in (plain, phased)]
    assert flat[0][:700] == flat[1][:700] and flat[0][700:] != flat[1][700:]
    names = [phased.key(index).split("/")[0] for index in flat[1]]
    assert {names[700:1212].count(name) for name in ("web", "code")} == {256} and "books" not in names[700:1500]
    assert "web" not in names[1500:] and names[1500:1756].count("books") == 192
    pairs = mixed(texts, samples=500, phases=list(PHASES.items()))
    assert orders(pairs.sampler()) == orders(phased.sampler())
    with pytest.raises(ki.errors.InvalidError):
        mixed(texts, phases=[(900, {"web": 1}), (800, {"web": 1})])


def test_a_cap_on_passes_is_an_error_or_others_take_over(texts):
    capped = {"samples": 256, "max_passes": {"books": 2}}
    sampler = mixed(texts, **capped).sampler()
    assert len(sampler.order(0)) == 256
    with pytest.raises(ki.errors.InvalidError, match="used up at position"):
        sampler.order(1)
    loader = ki.Loader(mixed(texts, **capped), batch_size=32)
    assert len(list(loader)) == 8
    with pytest.raises(ki.errors.InvalidError, match="used up"):
        list(loader)
    others = mixed(texts, **capped, exhausted="others")
    seen = [others.key(index) for order in orders(others.sampler()) for index in order]
    assert sum(key.startswith("books") for key in seen) == 40 and len(seen) == 1024


def keys_of(loader):
    return [[sample["key"] for sample in batch.samples] for batch in loader]


def test_a_loader_has_a_mixture_in_its_own_order(texts):
    mixture = mixed(texts, samples=100, seed=4)
    expected = [mixture.key(index) for index in mixture.sampler().order(0)]
    assert [key for batch in keys_of(ki.Loader(mixture, batch_size=32)) for key in batch] == expected
    shuffled = ki.Loader(mixture, ki.Sampler.shuffle(390, seed=1), batch_size=32)
    assert len({key for batch in keys_of(shuffled) for key in batch}) == 390
    part = ki.Loader(mixture.range(0, 390), batch_size=32)
    assert keys_of(part)[0][0] == "web/0", "a part of a mixture is no mixture"


def test_runs_resume_with_other_ranks_threads_and_batches(texts):
    """Before a phase, at it and behind it; phases that were added after the checkpoint."""
    draw = random.Random(50)
    samples, epochs = 300, 4
    for turn in range(1000 if ALL else 60):
        seed, caps = draw.randrange(5), draw.choice([{}, {"max_passes": {"books": 3}, "exhausted": "others"}])
        change = draw.randrange(200, 900)
        phased = mixed(texts, samples=samples, seed=seed, phases={change: {"web": 1, "code": 3, "books": 1}}, **caps)
        order = [index for epoch in orders(phased.sampler(), epochs) for index in epoch]
        world, size = draw.choice([(1, 7), (2, 5), (3, 4), (1, 300)])
        goal = change + draw.choice([-1, 0, 1]) * draw.randrange(0, 150)
        # Where all ranks have done as many steps.
        epoch, position = divmod(max(0, goal), samples)
        steps = min(position // (world * size), samples // (world * size) - 1)
        started = [
            ki.Loader(phased, batch_size=size, rank=rank, world=world, threads=draw.choice([0, 1, 2]), tail="pad")
            for rank in range(world)
        ]
        states = []
        for loader in started:
            loader.set_epoch(epoch)
            seen = list(itertools.islice(iter(loader), steps))
            assert len(seen) == steps
            states.append(loader.state_dict())
            loader.close()
        assert all(state == states[0] for state in states)
        state = states[0]
        at = state["epoch"] * samples + state["position"]
        assert set(state) == {"epoch", "position", "order"} and at == epoch * samples + steps * world * size
        later = {at + 50: {"web": 1}} if change < at + 50 else {}
        resumed = mixed(
            texts, samples=samples, seed=seed, phases={change: {"web": 1, "code": 3, "books": 1}, **later}, **caps
        )
        if later:
            order = [index for epoch in orders(resumed.sampler(), epochs) for index in epoch]
        world, size = draw.choice([(1, 4), (2, 3), (4, 2)])
        parts = []
        for rank in range(world):
            loader = ki.Loader(
                resumed, batch_size=size, rank=rank, world=world, threads=draw.choice([0, 1, 3]), resume="position",
                tail="uneven",
            )
            loader.load_state_dict(pickle.loads(pickle.dumps(state)))
            batches = [batch.indices.tolist() for batch in loader]
            loader.close()
            parts.append(batches)
        rest = [index for step in itertools.zip_longest(*parts, fillvalue=[]) for batch in step for index in batch]
        end = (at // samples + 1) * samples
        assert rest == order[at:end], (turn, at, change)


def test_a_state_of_another_mixture_is_refused(texts):
    def loader(**options):
        return ki.Loader(mixed(texts, samples=500, **options), batch_size=10)

    begun = loader(phases={200: {"web": 1}})
    list(itertools.islice(iter(begun), 30))
    state = begun.state_dict()
    loader(phases={200: {"web": 1}, 400: {"code": 1}}).load_state_dict(state)
    for other in ({}, {"phases": {200: {"code": 1}}}, {"phases": {201: {"web": 1}}}, {"seed": 1, "phases": {200: {"web": 1}}}):
        with pytest.raises(ki.errors.InvalidError, match="another order"):
            loader(**other).load_state_dict(state)
    fewer = ki.Mixture({"web": (texts / "web.msgpack", 1), "code": (texts / "code.msgpack", 1)}, samples=500)
    with pytest.raises(ki.errors.InvalidError):
        ki.Loader(fewer).load_state_dict(state)


def test_the_state_of_a_dataset_that_was_made_is_of_its_samples(letters):
    state = ki.Loader(letters.select(indices=[0, 1, 4])).state_dict()
    ki.Loader(letters.where("n != 2 and n != 3")).load_state_dict({**state, "order": None})
    ki.Loader(letters.select(indices=[0, 1, 4])).load_state_dict(state)
    # Its last sample ends where that one did.
    for other in ([0, 2, 4], [1, 2, 4, 3], [0, 1]):
        with pytest.raises(ki.errors.InvalidError, match="another dataset"):
            ki.Loader(letters.select(indices=other)).load_state_dict(state)


def test_where_samples_are_seen(texts):
    mixture = mixed(texts, samples=256, seed=2, phases={300: {"books": 1, "code": 1}})
    sampler = mixture.sampler()
    index = mixture.find("books/3")
    expected = [(e, p) for e in range(3) for p, seen in enumerate(sampler.order(e)) if seen == index]
    assert mixture.where_is("books/3", epochs=range(3)) == expected
    assert mixture.where_is("books/3", epochs=1) == [pair for pair in expected if pair[0] == 1]
    assert mixture.where_is("books/3") == [pair for pair in expected if pair[0] == 0]
    assert sampler.order(1).positions_of(index) == [p for e, p in expected if e == 1]
    assert ki.Sampler.shuffle(10, seed=1).order().positions_of(3) == [ki.Sampler.shuffle(10, seed=1).order().position_of(3)]
    with pytest.raises(KeyError, match="absent"):
        mixture.where_is("absent")
    assert mixture.sources["books"].where_is("books/3") == [(0, 3)]
    with pytest.raises(TypeError, match="ends"):
        ki.Sampler.cycle(sampler).order().positions_of(3)


@pytest.mark.parametrize("resume", ["epoch", "position"])
def test_which_samples_a_step_has(texts, resume):
    mixture = mixed(texts, samples=250, seed=2)
    ranks = [ki.Loader(mixture, batch_size=8, rank=rank, world=3, tail="pad", resume=resume) for rank in range(3)]
    for position in (0, 91):
        for loader in ranks:
            loader.load_state_dict({"epoch": 1, "position": position})
        batches = [list(itertools.islice(loader, 3)) for loader in ranks]
        if resume == "position":
            for loader, seen in zip(ranks, batches, strict=True):
                seen += itertools.islice(loader, 2)
        for rank, seen in enumerate(batches):
            for batch in seen:
                found = ranks[1].keys_at(batch.step, rank)
                assert [one["key"] for one in found] == batch.sample_keys
                assert [one["index"] for one in found] == batch.indices.tolist()
                assert {one["rank"] for one in found} == {rank}
                for one in found:
                    assert one["key"].startswith(one["source"]) and one["file"] == texts / f"{one['source']}.msgpack"
                    assert (batch.step, rank) in ranks[0].where_is(one["key"])
    whole = ranks[0].keys_at(10, epoch=3)
    assert [one["rank"] for one in whole] == [0] * 8 + [1] * 8 + [2] * 8 and [one["padding"] for one in whole] == [False] * 10 + [True] * 14
    with pytest.raises(IndexError, match="step 11"):
        ranks[0].keys_at(11, epoch=3)
    with pytest.raises(ki.errors.InvalidError, match="rank"):
        ranks[0].keys_at(1, 3)
    plain = ki.Loader(mixture.sources["code"], batch_size=4)
    assert [one["source"] for one in plain.keys_at(1)] == [None] * 4


# --- trainers and other processes ---------------------------------------------------------------------------------


@pytest.fixture
def recipe(texts, tmp_path):
    """A mixture with a phase, in a file."""
    path = tmp_path / "train.kiste.toml"
    few = ki.open(texts / "web.msgpack").where("n < 100")
    sources = {"web": (few, 2), "code": (texts / "code.msgpack", 1)}
    ki.Mixture(sources, samples=120, seed=5, phases={100: {"web": 1, "code": 1}}).save(path)
    return path


def expected_keys(recipe, epoch=0):
    mixture = ki.open(recipe)
    return [mixture.key(index) for index in mixture.sampler().order(epoch)]


def first_keys(batch):
    return [sample["key"] for sample in batch]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_loader_of_torch(recipe, workers):
    pytest.importorskip("torch")
    from pykiste.torch import ResumableDataLoader, StatefulSampler

    def make():
        train = ki.open(recipe)
        context = "spawn" if workers else None
        return ResumableDataLoader(
            train, sampler=StatefulSampler(train), batch_size=10, num_workers=workers, collate_fn=first_keys,
            multiprocessing_context=context,
        )

    batches = iter(loader := make())
    seen = [key for _ in range(5) for key in next(batches)]
    state = loader.state_dict()
    assert state == {"epoch": 0, "position": 50}
    again = make()
    again.load_state_dict(state)
    assert seen + [key for batch in again for key in batch] == expected_keys(recipe)
    del batches


def test_tensors(recipe):
    pytest.importorskip("torch")
    from pykiste.torch import ColumnDataset, TensorLoader

    train = ki.open(recipe)

    def make():
        return TensorLoader(ki.Loader(train, batch_size=16, columns={"n": "int64"}, resume="position"))

    loader = make()
    seen = [key for batch in itertools.islice(loader, 3) for key in batch.sample_keys]
    again = make()
    again.load_state_dict(loader.state_dict())
    assert seen + [key for batch in again for key in batch.sample_keys] == expected_keys(recipe)
    columns = ColumnDataset(train, {"n": "int64"})
    assert columns.__getitems__([0, 105])["n"].tolist() == [0, 5]


def test_jax(recipe):
    pytest.importorskip("jax")
    from pykiste.jax import JaxLoader

    train = ki.open(recipe)

    def make():
        return JaxLoader(ki.Loader(train, batch_size=16, columns={"n": "int32"}, resume="position"))

    loader = make()
    seen = [n for batch in itertools.islice(loader, 3) for n in batch["n"].tolist()]
    again = make()
    again.load_state_dict(loader.state_dict())
    rest = [n for batch in again for n in batch["n"].tolist()]
    assert seen + rest == [int(key.split("/")[1]) for key in expected_keys(recipe)]


@pytest.mark.parametrize("workers", [0, 2])
def test_grain(recipe, workers):
    grain = pytest.importorskip("grain.python")
    pytest.importorskip("absl.flags").FLAGS.mark_as_parsed()
    train = ki.open(recipe)

    def make():
        sampler = grain.IndexSampler(len(train), grain.NoSharding(), shuffle=True, num_epochs=1, seed=2)
        return grain.DataLoader(data_source=train, sampler=sampler, worker_count=workers)

    iterator = iter(make())
    seen = [next(iterator)["key"] for _ in range(37)]
    again = iter(make())
    again.set_state(iterator.get_state())
    assert sorted(seen + [sample["key"] for sample in again]) == sorted(train.keys())
    # In the order of the mixture.
    order = train.sampler().order(0)
    pipeline = grain.MapDataset.range(len(order)).map(lambda position: train.key(order[int(position)]))
    assert list(pipeline) == expected_keys(recipe)


def test_lightning(recipe, tmp_path):
    lightning = pytest.importorskip("lightning")
    torch = pytest.importorskip("torch")
    from lightning.pytorch.callbacks import ModelCheckpoint

    from pykiste.torch import TensorLoader

    class Learner(lightning.LightningModule):
        def __init__(self, steps):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.steps, self.seen = steps, []

        def training_step(self, batch, _number):
            self.seen += batch.sample_keys
            return self.layer(batch["n"].float()[:, None]).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    def fit(steps, checkpoint=None):
        loader = ki.Loader(ki.open(recipe), batch_size=10, columns={"n": "int64"}, rank=0, world=1)
        model = Learner(steps)
        saves = ModelCheckpoint(tmp_path, filename="half", every_n_train_steps=5)
        trainer = lightning.Trainer(
            max_steps=steps, accelerator="cpu", logger=False, callbacks=[] if checkpoint else [saves],
            enable_checkpointing=not checkpoint, enable_progress_bar=False, enable_model_summary=False,
        )
        trainer.fit(model, TensorLoader(loader), ckpt_path=checkpoint)
        return model.seen

    first = fit(5)
    rest = fit(12, str(tmp_path / "half.ckpt"))
    assert first + rest == expected_keys(recipe)


def all_of(dataset):
    return [sample["key"] for sample in dataset]


@pytest.mark.parametrize("method", METHODS)
def test_what_was_made_in_other_processes(letters, texts, recipe, method):
    made = ki.concat([letters.where("n > 1"), letters.join(letters.path, prefix="x_")])
    given = [made, ki.open(recipe), letters.select(indices=[4, 0])]
    expected = [all_of(dataset) for dataset in given]
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(all_of, given) == expected


@pytest.mark.skipif("fork" not in METHODS, reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_fork_makes_others_of_what_was_made(letters, recipe):
    made = ki.concat([letters, letters]).where("n > 1")
    mixture = ki.open(recipe)
    loader = ki.Loader(mixture, batch_size=10, resume="position")
    first = keys_of(itertools.islice(loader, 4))
    ours, theirs = multiprocessing.get_context("fork").Pipe()

    def child():
        theirs.send((all_of(made.where("n < 4").dedupe()), keys_of(loader)))

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    assert ours.poll(60), "the forked process hangs"
    some, rest = ours.recv()
    process.join(60)
    assert some == ["c", "d"] and [key for batch in first + rest for key in batch] == expected_keys(recipe)


def test_ctrl_c_ends_a_condition(tmp_path):
    """In a process of its own, in which it is the only thing that happens."""
    program = f"""
import os, signal, threading
import pykiste as ki
with ki.Writer({str(tmp_path / "one.msgpack")!r}, durable=False) as writer:
    for number in range(20000):
        writer.write({{"key": str(number), "n": number}})
many = ki.concat([ki.open({str(tmp_path / "one.msgpack")!r})] * 1000)
threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    many.where("n >= 3")
except KeyboardInterrupt:
    print("stopped")
"""
    if sys.platform == "win32":
        pytest.skip("signals are different there")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout.strip() == "stopped", done.stderr
