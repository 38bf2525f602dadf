"""Loaders give every sample once, in the order of their sampler, and resume exactly."""

import gc
import pickle
import time

import numpy as np
import pytest
from conftest import place

import pykiste as ki

COLUMNS = {"label": "int64", "image": ("float32", (4, 3)), "data": bytes}


def test_columns_are_what_the_samples_have(numbers):
    dataset = ki.open(numbers)
    sampler = ki.Sampler.shuffle(100, 3)
    seen = []
    for batch in ki.Loader(dataset, sampler, batch_size=16, columns=COLUMNS, threads=2):
        label, image, data = batch["label"], batch["image"], batch["data"]
        assert label.dtype == np.int64 and image.dtype == np.float32
        assert image.shape == (len(batch), 4, 3) and len(data) == len(batch)
        for row, number in enumerate(label):
            assert (image[row] == number).all() and data[row] == bytes([number]) * number
        assert list(batch.indices) == list(label)
        assert batch.keys() == ["label", "image", "data"] and "label" in batch
        seen.extend(label.tolist())
    assert seen == sampler.order(0)[:].tolist() and sorted(seen) == list(range(100))


def test_a_loop_is_an_epoch_and_the_next_one_the_next(numbers):
    dataset, sampler = ki.open(numbers), ki.Sampler.shuffle(100, 1)
    loader = ki.Loader(dataset, sampler, batch_size=30, columns={"label": int})
    epochs = [[n for batch in loader for n in batch["label"].tolist()] for _ in range(3)]
    assert epochs == [sampler.order(epoch)[:].tolist() for epoch in range(3)]
    assert place(loader.state_dict()) == (3, 0)


@pytest.mark.parametrize("world", [1, 2, 3])
def test_a_run_resumes_on_another_number_of_ranks(numbers, world):
    dataset, sampler = ki.open(numbers), ki.Sampler.shuffle(100, 9)
    first = ki.Loader(dataset, sampler, batch_size=8, columns={"label": "int64"})
    seen = [number for _, batch in zip(range(5), first) for number in batch["label"].tolist()]
    state = pickle.loads(pickle.dumps(first.state_dict()))
    assert place(state) == (0, 40)
    rest = []
    for rank in range(world):
        loader = ki.Loader(
            dataset, sampler, batch_size=5, rank=rank, world=world, tail="uneven",
            columns={"label": "int64"},
        )
        loader.load_state_dict(state)
        rest += [number for batch in loader for number in batch["label"].tolist()]
    assert sorted(seen + rest) == list(range(100))


def test_memory_is_used_again_once_a_batch_is_gone(numbers):
    dataset = ki.open(numbers)
    loader = ki.Loader(dataset, batch_size=10, columns={"image": COLUMNS["image"]}, threads=1, queue=2)
    places = set()
    for _ in range(10):
        for batch in loader:
            image = batch["image"]
            places.add(image.ctypes.data)
            image += 1
        del batch, image
        gc.collect()
    assert len(places) <= 12, "a loop of 100 batches has new memory for each"


def test_an_array_keeps_its_memory(numbers):
    loader = ki.Loader(ki.open(numbers), batch_size=10, columns={"image": COLUMNS["image"]})
    kept = [batch["image"] for batch in loader]
    gc.collect()
    for nth, image in enumerate(kept):
        assert (image[:, 0, 0] == np.arange(10 * nth, 10 * nth + 10)).all()


def test_samples_without_columns(numbers):
    loader = ki.Loader(ki.open(numbers), batch_size=7)
    labels = [sample["label"] for batch in loader for sample in batch.samples]
    assert labels == list(range(100))
    batch = next(iter(loader))
    assert batch[0]["label"] == 0 and batch[-1]["label"] == 6
    with pytest.raises(IndexError):
        batch[7]
    with pytest.raises(KeyError):
        batch["label"]


def test_what_does_not_fit_is_an_error_with_its_place(numbers):
    loader = ki.Loader(ki.open(numbers), batch_size=10, columns={"image": ("float16", (4, 3))})
    with pytest.raises(ki.Error) as caught:
        next(iter(loader))
    assert caught.value.field == "image" and caught.value.index == 0
    for columns in [{"label": "U3"}, {"label": ">i4"}]:
        with pytest.raises(TypeError):
            ki.Loader(ki.open(numbers), columns=columns)
    with pytest.raises(ValueError, match="tail"):
        ki.Loader(ki.open(numbers), tail="x")


def test_bad_samples_are_skipped_and_listed(tmp_path):
    path = tmp_path / "x.msgpack"
    with ki.Writer(path) as writer:
        for number in range(10):
            writer.write({"key": str(number), "n": "text" if number == 4 else number})
    loader = ki.Loader(ki.open(path), batch_size=10, columns={"n": "int64"}, on_error="skip")
    batch = next(iter(loader))
    assert batch["n"].tolist() == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    [(index, key, message)] = batch.failures
    assert (index, key) == (4, "4") and "found" in message


def test_samplers_are_functions_of_their_arguments():
    for sampler in [
        ki.Sampler.sequential(10),
        ki.Sampler.shuffle(10, 2**63),
        ki.Sampler.block_shuffle(1000, 10, 100, 5),
        ki.Sampler.datadings_shuffle(10, 7),
        ki.Sampler.datadings_shuffle(10, None),
        ki.Sampler.datadings_quasi_shuffle(1000, 0.1, 4, 7),
        ki.Sampler.repeat(ki.Sampler.shuffle(5, 1), 3),
    ]:
        again = pickle.loads(pickle.dumps(sampler))
        assert repr(again) == repr(sampler) and len(again) == len(sampler)
        if "None" not in repr(sampler):
            order = sampler.order(2)
            assert again.order(2)[:].tolist() == order[:].tolist()
            assert order[3] == order[:][3] and order[-1] == order[:].tolist()[-1]
            assert order[::-1].tolist() == order[:].tolist()[::-1]
            assert order.position_of(order[3]) in (3, None)
    with pytest.raises(OverflowError):
        len(ki.Sampler.cycle(ki.Sampler.shuffle(5, 1)))
    with pytest.raises(IndexError):
        ki.Sampler.sequential(3).order()[3]


def test_the_shuffle_of_datadings():
    reader = pytest.importorskip("datadings.reader")
    samples = [{"key": str(n), "n": n} for n in range(50)]
    theirs = [s["n"] for s in reader.Shuffler(reader.ListReader(samples), seed=5)]
    assert ki.Sampler.datadings_shuffle(50, 5).order(0)[:].tolist() == theirs


def buffers(count=4, batch_size=10, **replaced):
    """Sets of buffers for a batch, of which one may be another array than the loader expects."""
    made = [
        {"label": np.empty(batch_size, np.int64), "image": np.empty((batch_size, 4, 3), np.float32)}
        for _ in range(count)
    ]
    made[1].update(replaced)
    return made


@pytest.mark.parametrize("threads", [0, 1, 3])
@pytest.mark.parametrize("count", [3, 4, 8])
def test_batches_are_in_the_buffers_of_the_caller(numbers, threads, count):
    given = buffers(count)
    loader = ki.Loader(
        ki.open(numbers), ki.Sampler.shuffle(100, 3), batch_size=10, columns=COLUMNS,
        threads=threads, buffers=given,
    )
    assert loader.has_buffers
    for epoch in range(3):
        seen = []
        for batch in loader:
            label, image, data = batch["label"], batch["image"], batch["data"]
            assert any(np.shares_memory(label, one["label"]) for one in given)
            assert any(np.shares_memory(image, one["image"]) for one in given)
            assert (image[:, 2, 1] == label).all()
            assert data == [bytes([n]) * n for n in label.tolist()]
            seen += label.tolist()
        assert seen == ki.Sampler.shuffle(100, 3).order(epoch)[:].tolist()
        del batch, label, image
    # A run that is left in the middle gives its buffers back.
    for _ in range(5):
        loader.load_state_dict({"epoch": 1, "position": 30})
        assert next(iter(loader))["label"].tolist() == ki.Sampler.shuffle(100, 3).order(1)[30:40].tolist()


def test_buffers_are_not_overwritten_while_an_array_is_held(numbers):
    given = buffers(4)
    columns = {name: COLUMNS[name] for name in ("label", "image")}
    loader = ki.Loader(ki.open(numbers), batch_size=10, columns=columns, queue=1, buffers=given)
    held = [next(loader)["label"], next(loader)["label"]]
    held.append(next(loader)["label"])
    with pytest.raises(BufferError, match="at most 2 batches in use with 4 buffers, found 3"):
        next(loader)
    assert [label.tolist() for label in held] == [list(range(n, n + 10)) for n in (0, 10, 20)]
    # Nothing was lost: the next batch comes once there is room.
    del held[0]
    assert next(loader)["label"].tolist() == list(range(30, 40))
    assert [label.tolist() for label in held] == [list(range(n, n + 10)) for n in (10, 20)]


def test_a_warm_loop_has_no_new_memory(numbers):
    given = buffers(4)
    columns = {name: COLUMNS[name] for name in ("label", "image")}
    loader = ki.Loader(ki.open(numbers), batch_size=10, columns=columns, buffers=given, threads=2)
    known = {one["image"].ctypes.data for one in given}
    assert {batch["image"].ctypes.data for _ in range(10) for batch in loader} <= known


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("label", np.empty(10, np.int32), r"buffer 1 of column 'label': expected type int64, found dtype\('int32'\)"),
        ("label", np.empty(10, ">i8"), "expected type int64"),
        ("label", np.empty(9, np.int64), r"expected shape \[10\], found \[9\]"),
        ("label", np.empty(20, np.int64)[::2], "contiguous"),
        ("image", np.empty((10, 3, 4), np.float32).transpose(0, 2, 1), "contiguous"),
        ("label", np.frombuffer(bytes(80), np.int64), "writable"),
        ("label", np.frombuffer(bytearray(81), np.uint8)[1:].view(np.int64), "contiguous"),
        ("label", [0] * 10, "found list"),
        ("data", np.empty(10, np.uint8), "memory of the loader"),
        ("other", np.empty(10), "no such column"),
    ],
)
def test_a_buffer_that_does_not_fit_is_refused(numbers, name, array, message):
    given = buffers(3, **{name: array})
    with pytest.raises(ValueError, match=message.replace("'", '["\']')):
        ki.Loader(ki.open(numbers), batch_size=10, columns=COLUMNS, buffers=given)


def test_buffers_cannot_be_resized_while_a_loader_has_them(numbers):
    whole = np.empty(40, np.int64)
    given = [{"label": whole[10 * nth : 10 * nth + 10], "image": one["image"]} for nth, one in enumerate(buffers(4))]
    loader = ki.Loader(ki.open(numbers), batch_size=10, columns=COLUMNS, buffers=given)
    for array in whole, given[0]["image"], given[3]["image"]:
        with pytest.raises(ValueError, match="cannot resize"):
            array.resize(10_000_000, refcheck=False)
    assert [n for batch in loader for n in batch["label"].tolist()] == list(range(100))
    del loader
    gc.collect()
    given[0]["image"].resize(10, refcheck=False)


def test_a_loader_that_is_gone_writes_no_more_to_its_buffers(numbers):
    given = buffers(4)
    for _ in range(20):
        loader = ki.Loader(ki.open(numbers), batch_size=10, columns=COLUMNS, buffers=given, threads=2)
        next(loader)
        del loader
        for one in given:
            one["label"][:] = -1
        assert all((one["label"] == -1).all() for one in given)


def test_columns_are_at_least_one(numbers):
    with pytest.raises(ki.errors.InvalidError, match="at least one"):
        ki.Loader(ki.open(numbers), columns={})
    assert ki.Loader(ki.open(numbers), columns={"label": "int64"}).has_columns
    assert not ki.Loader(ki.open(numbers)).has_columns


def test_buffers_need_columns_and_memory_of_their_own(numbers):
    dataset = ki.open(numbers)
    with pytest.raises(ValueError, match="columns"):
        ki.Loader(dataset, batch_size=10, buffers=buffers())
    with pytest.raises(ki.errors.InvalidError, match="at least 3 sets"):
        ki.Loader(dataset, batch_size=10, columns=COLUMNS, buffers=buffers(2))
    with pytest.raises(ki.errors.InvalidError, match="memory for it"):
        ki.Loader(dataset, batch_size=10, columns=COLUMNS, buffers=[{"label": np.empty(10, int)} for _ in range(3)])
    with pytest.raises(ValueError, match="overlap"):
        ki.Loader(dataset, batch_size=10, columns=COLUMNS, buffers=[buffers()[0]] * 3)


def test_bytes_without_a_copy(tmp_path):
    path = tmp_path / "words.msgpack"
    words = [b"", b"one", "zwölf".encode(), b"", b"three" * 1000, b""]
    with ki.Writer(path) as writer:
        for number, word in enumerate(words):
            writer.write({"key": str(number), "word": word, "n": number})
    columns = {"word": bytes, "n": "int64"}
    for batch_size in [1, 4, 6]:
        found = []
        for batch in ki.Loader(ki.open(path), batch_size=batch_size, columns=columns, tail="uneven"):
            data, offsets = batch.ragged("word")
            assert (data.dtype, offsets.dtype) == (np.uint8, np.int64)
            assert len(offsets) == len(batch) + 1 and data.flags.writeable
            found += [bytes(data[start:end]) for start, end in zip(offsets[:-1], offsets[1:])]
            if len(data):
                # One memory for all who ask, and offsets that nobody can break.
                data[0] ^= 1
                offsets[:] = 1 << 60
                assert bytes(batch.ragged("word")[0]) == bytes(data)
                assert b"".join(batch["word"]) == bytes(data)
        assert found == words
    # The array keeps its memory when the batch and the loader are gone.
    batch = next(ki.Loader(ki.open(path), batch_size=6, columns=columns))
    data = batch.ragged("word")[0]
    del batch
    assert bytes(data) == b"".join(words)
    loader = ki.Loader(ki.open(path), batch_size=6, columns=columns)
    with pytest.raises(ki.errors.Error, match="column \"n\": expected bytes of any length, found"):
        next(loader).ragged("n")
    with pytest.raises(KeyError):
        next(iter(ki.Loader(ki.open(path), batch_size=6))).ragged("word")


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("columns", [None, COLUMNS])
def test_a_report_is_of_one_epoch(numbers, threads, columns):
    loader = ki.Loader(ki.open(numbers), batch_size=10, columns=columns, threads=threads)
    assert loader.report()["limit"] == "unknown"
    for epoch in range(3):
        for batch in loader:
            assert loader.report()["batches"] == batch.step + 1
        report = loader.report()
        # The epoch has ended: validation is not part of it.
        assert loader.report() == report
        assert (report["batches"], report["samples"], report["failures"]) == (10, 100, 0)
        assert report["bytes"] > 0 and report["workers"]["threads"] == threads
        assert (report["consumer"]["first"] > 0) == (epoch == 0)
        parts = sum(report["consumer"][part] for part in ("first", "waiting", "busy"))
        assert report["seconds"] == pytest.approx(parts)
        assert report["advice"] in report["summary"]
    loader.close()
    assert loader.report() == report
    iter(loader)
    assert loader.report() == report
    assert next(loader).epoch == 3 and loader.report()["batches"] == 1
    loader.load_state_dict({"epoch": 7, "position": 50})
    assert loader.report()["batches"] == 0
    assert sum(1 for _ in loader) == 5 and loader.report()["batches"] == 5
    # A slow loop is the limit, once other programs leave it a core.
    for _ in range(50):
        for batch in loader:
            time.sleep(0.004)
        report = loader.report()
        assert report["consumer"]["busy"] >= 0.04
        if report["limit"] == "consumer":
            break
    assert report["limit"] == "consumer" and "the loader keeps up" in report["advice"]


@pytest.mark.parametrize("packed", [False, True])
def test_windows_are_rows_of_an_array(tmp_path, packed):
    path = tmp_path / "volumes.msgpack"
    volume = np.arange(60 * 4, dtype="float32").reshape(60, 4)
    with ki.Writer(path) as writer:
        for number in range(12):
            array = bytes(ki.PackedArray.pack(volume)) if packed else volume
            writer.write({"key": str(number), "volume": array})
    dataset = ki.open(path)

    def windows(threads=2, **window):
        columns = {"volume": ki.Window("float32", 5, [4], **window)}
        buffers = [{"volume": np.empty((3, 5, 4), "float32")} for _ in range(4)]
        loader = ki.Loader(dataset, batch_size=3, columns=columns, threads=threads, buffers=buffers)
        return np.concatenate([batch["volume"].copy() for batch in loader])

    assert (windows() == volume[:5]).all()
    assert (windows(at="center") == volume[27:32]).all()
    random = windows(at="random", seed=7)
    assert (random == windows(0, at="random", seed=7)).all()
    two = {"a": (ki.Window("float32", 5, [4]), "volume"), "volume": ki.Window("float32", 5, [4])}
    batch = next(ki.Loader(dataset, columns=two))
    assert (batch["a"] == batch["volume"]).all()
    starts = random[:, 0, 0].astype(int) // 4
    assert len(set(starts)) > 1
    assert all((window == volume[start : start + 5]).all() for window, start in zip(random, starts))
    with pytest.raises(ki.Error, match="at least 61 rows, found 60"):
        next(ki.Loader(dataset, columns={"volume": ki.Window("float32", 61, (4,))}))
    for wrong in [{"at": "random"}, {"seed": 7}, {"at": "end"}]:
        with pytest.raises(ValueError, match="expected"):
            ki.Window("float32", 5, **wrong)
