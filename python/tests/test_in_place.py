"""Samples that stay in tar archives, JSON lines and Arrow files: as the real writers write them, in loops, recipes and views."""

import json
import multiprocessing
import os
import pickle
import random

import numpy as np
import pytest
from test_remote import served  # noqa: F401

import pykiste as ki

ALL = bool(os.environ.get("KISTE_TEST_ALL"))


def same(one, other):
    """Whether two values are equal, arrays and the types of numbers too."""
    if isinstance(one, np.ndarray) or isinstance(one, np.generic):
        return type(one) is type(other) and one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def check(sources, folder, **options):
    """The dataset in place, whose samples are those of a conversion."""
    index, converted = folder / "x.inplace.json", folder / "x.msgpack"
    report = ki.index(sources, output=index, overwrite=True, **options)
    ki.convert(sources, converted, overwrite=True, **options)
    place, expected = ki.open(index), ki.open(converted)
    assert len(place) == len(expected) == report["samples"]
    assert list(place.keys()) == list(expected.keys())
    for number, sample in enumerate(expected):
        assert same(place[number], sample)
        assert same(place[sample["key"]], sample)
    assert ki.verify(index)["good"]
    return place


@pytest.mark.parametrize("seed", range(40 if ALL else 8))
def test_archives_of_webdataset(tmp_path, seed):
    wds = pytest.importorskip("webdataset")
    draw = random.Random(seed)
    shards, samples = draw.randrange(1, 5), []
    for shard in range(shards):
        with wds.TarWriter(str(tmp_path / f"w-{shard}.tar")) as writer:
            for number in range(draw.randrange(0, 30)):
                sample = {"__key__": f"{shard}/{number:03}" + "x" * draw.choice([0, 3, 120])}
                fields = {
                    "jpg": draw.randbytes(draw.randrange(2000)),
                    "cls": draw.randrange(10),
                    "txt": "ü" * draw.randrange(9),
                    "json": {"a": [1, None, {"b": draw.random()}]},
                    "mask.npy": np.arange(draw.randrange(20), dtype=draw.choice(["<f4", "|u1", "<i8"])),
                    "seg.png": b"",
                }
                sample.update({name: fields[name] for name in fields if draw.random() < 0.8} or {"cls": 1})
                writer.write(sample)
                samples.append(sample)
    if not samples:
        return
    place = check([tmp_path / f"w-{shard}.tar" for shard in range(shards)], tmp_path)
    for found, written in zip(place, samples, strict=True):
        assert found["key"] == written["__key__"]
        for name in written.keys() - {"__key__"}:
            assert np.array_equal(found[name], written[name])


def test_files_of_arrow(tmp_path):
    datasets = pytest.importorskip("datasets")
    rows = {"n": list(range(250)), "text": ["ü" * (n % 7) for n in range(250)], "list": [[n, n + 1] for n in range(250)]}
    datasets.Dataset.from_dict(rows).save_to_disk(tmp_path / "saved", num_shards=3)
    try:
        place = check(tmp_path / "saved", tmp_path)
    except ki.errors.UnsupportedError as error:
        pytest.skip(str(error))
    assert [sample["n"] for sample in place] == rows["n"]


def lines(path, numbers):
    path.write_text("".join(json.dumps({"key": f"{n:04}", "n": n, "data": "x" * n}) + "\n" for n in numbers))
    return path


@pytest.fixture
def index(tmp_path):
    """200 samples in four files."""
    sources = [lines(tmp_path / f"part-{at}.jsonl", range(at * 50, at * 50 + 50)) for at in range(4)]
    ki.index(sources, output=tmp_path / "numbers.inplace.json")
    return tmp_path / "numbers.inplace.json"


def test_an_epoch_is_resumed_on_other_ranks(index):
    place = ki.open(index)

    def epoch(rank, world, state=None, batches=None):
        loader = ki.Loader(place, ki.Sampler.shuffle(200, 3), batch_size=8, rank=rank, world=world, tail="uneven")
        if state is not None:
            loader.load_state_dict(state)
        found = []
        for batch in loader:
            found.extend(batch.indices.tolist())
            if batches and len(found) >= batches * 8:
                break
        return found, loader.state_dict()

    whole, _ = epoch(0, 1)
    assert sorted(whole) == list(range(200))
    first, state = epoch(0, 1, batches=10)
    rest = [epoch(rank, 2, state)[0] for rank in range(2)]
    assert first == whole[:80] and sorted(first + rest[0] + rest[1]) == list(range(200))


def test_columns_of_a_loop(index):
    columns = {"n": "int64", "data": "bytes"}
    batches = ki.Loader(ki.open(index), ki.Sampler.shuffle(200, 1), batch_size=50, columns=columns, threads=2)
    seen = np.concatenate([np.asarray(batch["n"]) for batch in batches])
    assert sorted(seen.tolist()) == list(range(200))


def test_views_and_recipes(index, tmp_path):
    place = ki.open(index)
    chosen = place.where("n >= 190 or n < 2")
    assert [sample["n"] for sample in chosen] == [0, 1, *range(190, 200)]
    with ki.Writer(tmp_path / "more.msgpack") as writer:
        for n in range(0, 200, 3):
            writer.write({"key": f"{n:04}", "label": n % 2})
    joined = place.join(ki.open(tmp_path / "more.msgpack"))
    assert len(joined) == 67 and joined["0006"] == {"key": "0006", "n": 6, "data": "x" * 6, "label": 0}
    chosen.save(tmp_path / "some.kiste.toml")
    again = ki.open(tmp_path / "some.kiste.toml")
    assert list(again.keys()) == list(chosen.keys())
    assert pickle.loads(pickle.dumps(again))["0199"]["n"] == 199
    mixed = ki.concat([place, ki.open(tmp_path / "more.msgpack").range(0, 0)])
    assert len(mixed) == 200
    # Another index under the same name is another dataset.
    lines(tmp_path / "part-4.jsonl", range(200, 210))
    ki.index(tmp_path / "part-4.jsonl", output=index, append=True)
    with pytest.raises(ki.Error, match="changed"):
        ki.open(tmp_path / "some.kiste.toml")


def numbers(dataset, at):
    return [dataset[n]["n"] for n in at]


@pytest.mark.parametrize("method", [m for m in ("fork", "spawn") if m in multiprocessing.get_all_start_methods()])
def test_other_processes(index, method):
    place = ki.open(index)
    assert place[7]["n"] == 7
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.starmap(numbers, [(place, [1, 150]), (place, [199])]) == [[1, 150], [199]]


@pytest.mark.parametrize("method", [m for m in ("fork", "spawn") if m in multiprocessing.get_all_start_methods()])
def test_other_processes_open_an_index_of_many_files(tmp_path, method):
    """A large index is parsed on several threads, of which a forked process has only one."""
    files = [lines(tmp_path / f"{n}.jsonl", [n]) for n in range(2100)]
    ki.index(files, output=tmp_path / "many.inplace.json")
    place = ki.open(tmp_path / "many.inplace.json")
    with multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.starmap_async(numbers, [(place, [1, 1500]), (place, [2099])])
        assert found.get(60) == [[1, 1500], [2099]]


def test_what_changed(index, tmp_path):
    place = ki.open(index)
    lines(tmp_path / "part-2.jsonl", [*range(100, 150), *range(300, 310)])
    assert place[149 - 100]["n"] == 49
    with pytest.raises(ki.Error, match="part-2.jsonl: the file has changed since it was indexed"):
        place[120]
    report = ki.index(index, refresh=True)
    assert (report["samples"], report["kept"]) == (210, 3)
    assert ki.open(index)["0309"]["n"] == 309


def test_what_cannot_be(index, tmp_path):
    with pytest.raises(ki.Error, match="already"):
        ki.index(tmp_path / "part-0.jsonl", output=index)
    with pytest.raises(ki.Error, match="inplace.json"):
        ki.index(tmp_path / "part-0.jsonl", output=tmp_path / "x.msgpack")
    with pytest.raises(ki.Error, match="without output"):
        ki.index(tmp_path / "part-0.jsonl", output=tmp_path / "y.inplace.json", force=True)
    with pytest.raises(ki.Error, match="same key"):
        ki.index([tmp_path / "part-0.jsonl", lines(tmp_path / "z.jsonl", range(3))], output=tmp_path / "y.inplace.json")
    assert not (tmp_path / "y.inplace.json").exists()


def test_behind_a_server(index, served):  # noqa: F811
    url = served[1].rsplit("/", 1)[0]
    place = ki.open(f"{url}/{index.name}")
    assert len(place) == 200 and place["0150"]["n"] == 150
    assert [sample["n"] for sample in place] == list(range(200))
    # An index on this machine of files behind the server.
    here = index.parent / "here.inplace.json"
    ki.index([f"{url}/part-1.jsonl", f"{url}/part-3.jsonl"], output=here)
    assert [sample["n"] for sample in ki.open(here)] == [*range(50, 100), *range(150, 200)]
    assert url in here.read_text()
