"""Readers of directories and archives find the files that those of datadings find."""

import copy
import json
import os
import pickle
import random
import zipfile
from pathlib import Path

import pytest
from conftest import GOLDEN
from differential import Pair, flags, outcome

import pykiste.datadings.reader as own
from pykiste.datadings.reader.natural import natural_key
from pykiste.errors import InvalidError

datadings = pytest.importorskip("datadings.reader")
natsort = pytest.importorskip("natsort")


def a_tree(root, rng):
    """Files in directories, with an archive and a list of them."""
    names = []
    for label in rng.sample(["cat", "dog", "é10", "é9", "tree"], k=3):
        for name in rng.sample(["1.jpg", "2.png", "tree/3.jpg", ".hidden", "a b.jpg"], k=3):
            names.append(f"tree/{label}/{name}")
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(rng.randbytes(rng.randrange(9)))
    with zipfile.ZipFile(root / "tree.zip", "w") as archive:
        archive.writestr("tree/", b"")
        for name in names:
            archive.write(root / name, name)
    lines = [rng.choice([name, f"{name}\tx", f"{name}\ty\tmore\tand"]) for name in names]
    (root / "list.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (root / "list.csv").write_text("\n".join(f"{name};z" for name in names), encoding="utf-8")
    (root / "labels.txt").write_text("x\ny\nz\n", encoding="utf-8")
    return names


def same_readers(make, rng, what):
    (theirs, error), (ours, failure) = (
        outcome(lambda: make(package)) for package in (datadings, own)
    )
    assert type(error) is type(failure) and str(error) == str(failure), (what, error, failure)
    if error is not None:
        return 0
    assert theirs._samples == ours._samples and theirs.labels == ours.labels, what
    pair = Pair(theirs, ours)
    if not len(ours):
        return 0
    for _ in range(5):
        options = flags(rng)
        pair.begin(lambda reader: reader.iter(**options), (what, options))
        pair.advance(pair.iterators[-1], rng.choice([1, 100]))
        assert theirs.bytes_read == ours.bytes_read
    for sample in ours._samples:
        pair.same(lambda reader: reader.find_index(sample["key"]), what)
    return len(ours)


@pytest.mark.parametrize("seed", range(10))
def test_random_patterns(seed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = random.Random(seed)
    a_tree(tmp_path, rng)
    found = 0
    for _ in range(40):
        patterns = [
            "tree/{LABEL}/**", "tree/{LABEL}/*", "{LABEL}/**", "{LABEL}/*/*.jpg", "tree/**", "*", "",
            "tree/{LABEL}/tree/*", "tree/{LABEL}x/*", f"{tmp_path}/tree/{{LABEL}}/**", "**/*.png",
            "tree/cat/**", "tree/dog/**", "list.tsv", "list.csv", "no/such/*", "tree/c*/{LABEL}",
        ]
        chosen = rng.choice([rng.choice(patterns), rng.sample(patterns, k=2), rng.sample(patterns, k=3)])
        given = {"initfun": lambda sample: sample.setdefault("more", 1)}
        if rng.random() < 0.6:
            given["labels"] = rng.choice([["x", "y", None], "labels.txt", [None, "cat", "dog"]])
        if rng.random() < 0.4:
            given["numeric_labels"] = False
        if rng.random() < 0.4:
            given["include"] = rng.choice([["*.jpg"], ("*.png", "*.jpg"), ["*/[!c]*/*"], []])
        if rng.random() < 0.3:
            given["exclude"] = rng.choice([["*.png"], ["*tree*tree*"], ["*"], [".*"]])
        if rng.random() < 0.2:
            given["separator"] = ";"
        if rng.random() < 0.3:
            given["convertfun"] = lambda sample: sample.pop("path")
        found += same_readers(
            lambda package: package.ZipFileReader("tree.zip", chosen, **given), rng, (chosen, given)
        )
        if rng.random() < 0.2:
            given["root_dir"] = str(tmp_path)
        found += same_readers(
            lambda package: package.DirectoryReader(chosen, **given), rng, (chosen, given)
        )
    assert found > 100


def test_the_golden_archive():
    archive = GOLDEN / "tree.zip"
    theirs, ours = (package.ZipFileReader(archive) for package in (datadings, own))
    assert len(ours) > 3 and list(theirs) == list(ours) and theirs.labels == ours.labels


def test_what_datadings_does_wrong(tmp_path, monkeypatch):
    """The table of docs/from-datadings.md: what datadings does, and what we do."""
    monkeypatch.chdir(tmp_path)
    a_tree(tmp_path, random.Random(3))
    # Copies and pickles of archives.
    theirs, ours = (
        package.ZipFileReader("tree.zip", "tree/{LABEL}/*") for package in (datadings, own)
    )
    assert outcome(lambda: list(copy.copy(theirs)))[0] != list(theirs)
    samples = list(ours)
    for twin in copy.copy(ours), pickle.loads(pickle.dumps(ours)):
        ours.bytes_read = 0
        assert list(twin) == samples and ours.bytes_read == 0 and twin.bytes_read > 0
    # Patterns that are paths.
    pattern = Path("tree") / "{LABEL}" / "*"
    with pytest.raises(AttributeError):
        datadings.DirectoryReader(pattern)
    assert len(own.DirectoryReader(pattern)) == len(own.DirectoryReader(str(pattern))) > 0
    # Labels that are equal in natural order.
    many = [{"label": label} for label in ("01", "1", "001", "1x")]
    assert own.ListReader(many).labels == ["001", "01", "1", "1x"]


def test_a_list_stays_in_the_folder_that_it_was_given(tmp_path, monkeypatch):
    """Without `root_dir` any file is read, as by datadings, unless the option says otherwise."""
    folder, far = tmp_path / "folder", tmp_path / "far.jpg"
    (folder / "sub").mkdir(parents=True)
    far.write_bytes(b"secret")
    (folder / "in.jpg").write_bytes(b"for all")
    names = ["in.jpg", "sub/../in.jpg", str(folder / "in.jpg")]
    ways_out = [str(far), "../far.jpg", "sub/../../far.jpg", str(folder / ".." / "far.jpg"), "/no/such/file"]
    if os.name == "posix":
        (folder / "link.jpg").symlink_to(far)
        (folder / "up").symlink_to(tmp_path)
        (folder / "same.jpg").symlink_to("in.jpg")
        names.append("same.jpg")
        ways_out += ["link.jpg", "up/far.jpg"]
    listed = tmp_path / "list.tsv"
    monkeypatch.chdir(folder)

    def read(name, **given):
        listed.write_text(f"{name}\tx\n")
        reader = own.DirectoryReader(listed, **given)
        return reader.get(0)["data"] if os.path.exists(reader._samples[0]["path"]) else None

    for given in {"root_dir": str(folder)}, {"allow_outside": False}, {"root_dir": "../folder"}:
        for name in names:
            assert read(name, **given) == b"for all", name
        for name in ways_out:
            with pytest.raises(InvalidError, match="leads out of it; allow_outside=True reads it") as caught:
                read(name, **given)
            assert caught.value.path == str(listed) and repr(name) in str(caught.value)
            assert read(name, **given | {"allow_outside": True}) in (b"secret", None)
            listed.write_text(f"in.jpg\tx\n{name}\tx\n")
            assert len(own.DirectoryReader(listed, exclude=[name], **given)) == 1
    for name in names + ways_out:
        assert read(name) in (b"for all", b"secret", None)


def test_natural_order():
    golden = json.loads((GOLDEN / "natsort.json").read_text())
    assert golden
    rng = random.Random(1)
    pieces = ["", "a", "B", "é", "e\u0301", "0", "10", "9", "²", "٣", "½", "①", " ", "-", ".", "\n", "漢"]
    for _ in range(500):
        texts = {"".join(rng.choices(pieces, k=rng.randrange(6))) for _ in range(6)}
        values = list(texts) + rng.choice([[], [1, 2.5, -3], [float("nan")], [float("-inf"), 7]])
        assert sorted(values, key=natural_key) == natsort.natsorted(values)
    for values in [b"b", b"a10"], [(1, "b2"), (1, "b10")], [Path("a10"), Path("a9")]:
        assert sorted(values, key=natural_key) == natsort.natsorted(values)


def test_paths_that_are_no_utf_8(tmp_path):
    if os.name != "posix":
        pytest.skip("names are bytes on POSIX only")
    name = os.fsdecode(b"caf\xe9.jpg")
    (tmp_path / "a").mkdir()
    try:
        (tmp_path / "a" / name).write_bytes(b"x")
    except OSError:
        pytest.skip("the file system has no such names")
    pattern = f"{tmp_path}/{{LABEL}}/*"
    for package in datadings, own:
        reader = package.DirectoryReader(pattern)
        assert reader.find_key(0) == f"a/{name}" and reader.get(0)["data"] == b"x"
        with pytest.raises(UnicodeEncodeError):
            reader.get(0, raw=True)
