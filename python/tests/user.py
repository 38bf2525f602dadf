"""A program of a user, which type checkers read: see test_typing.py. It is never run."""

from pathlib import Path
from typing import Any, assert_type

import numpy as np


import pykiste as ki
from pykiste.reports import Consumer, Made, Progress, Version


def show(progress: Progress) -> None:
    print(progress["phase"], progress["samples"], progress["total_samples"])


class Third:
    def __index__(self) -> int:
        return 3


def datasets(path: Path) -> None:
    with ki.Writer(path, overwrite=True) as writer:
        writer.write({"key": "a", "label": 1})
    with ki.open(path) as dataset:
        print(dataset[0]["label"], dataset[1:3][0]["label"], dataset[["a", "b"]], dataset[np.arange(3)])
        assert_type(len(dataset), int)
        assert_type(dataset.find("a"), int | None)
        assert_type(list(dataset.keys()), list[str])
        assert_type(dataset[np.int64(3)], dict[str, Any])
        assert_type(dataset[np.arange(3)], list[dict[str, Any]])
        assert_type(dataset[[True, False]], list[dict[str, Any]])
        assert_type(dataset[Third()], dict[str, Any])
        assert_type(dataset.labels, list[str] | None)
        assert_type(dataset.schema["label"].shape, tuple[int | None, ...] | None)
        assert_type(dataset.info()["samples"], int)
        assert_type([key for key, sample in dataset.items() if sample["label"]], list[str])
        assert_type("a" in dataset.keys(), bool)
    assert_type(ki.shuffle(path, "b.msgpack", seed=1, progress=show, overwrite=True), Made)
    assert_type(ki.split(path, ratios=[0.8, 0.2])[0]["samples"], int)
    assert_type(ki.merge([path, dataset], "c.msgpack")["skipped_duplicates"], int)
    assert_type(ki.diff(path, dataset)["differences"][0]["key"], str)
    assert_type(ki.verify(path, progress=show)["good"], bool)
    ki.index(path, progress=show)
    assert_type(ki.features()["parquet"], bool)
    assert_type(ki.__version__, str)
    ki.filter(path, "d.msgpack", lambda sample: sample["label"] == 3)
    ki.select(path, "e.msgpack", slice(3))
    ki.select(path, "e.msgpack", ["a", 1])
    assert_type(ki.convert(path, "f.jsonl", limit=3)["outputs"][0]["samples"], int)


def loading(dataset: ki.Dataset) -> None:
    sampler = ki.Sampler.shuffle(len(dataset), seed=1)
    buffers = [{"x": np.empty((8, 2))} for _ in range(4)]
    loader = ki.Loader(
        dataset,
        sampler,
        batch_size=8,
        columns={
            "x": ("float64", (2,)),
            "label": "int64",
            "data": bytes,
            "image": ki.Pipeline("center_crop(8)"),
            "view": (ki.Pipeline(["center_crop(8)"], seed=1), "image"),
            "window": ki.Window("int32", 8, at="random", seed=3),
            "mask": (ki.Mask(fill=255), "segmentation"),
            "boxes": ki.Boxes(format="xywh", min_size=1),
            "labels": ki.Labels("int64", pad=ki.Pad(multiple=8, fill=-1)),
            "kept": ki.Kept(),
            "tokens": ki.Packed("int32", 2048, split=False, longer="cut"),
            "words": ki.Ragged(np.int64, (2,), pad=ki.Pad(buckets=[64, 128])),
        },
        buffers=buffers,
    )
    for batch in loader:
        assert_type(batch, ki.Batch)
        assert_type(batch.state, dict[str, Any])
        print(batch["x"].shape, batch.samples)
        assert_type(batch.packed("tokens").max_seqlen, int)
        print(batch.lengths("words").sum(), batch.ragged("boxes")[1])
    loader.load_state_dict(loader.state_dict())


def arrays(path: Path) -> None:
    with ki.ArrayStore.create(path, (0, 3), np.float32, chunks=(10, 3), attrs={"a": 1}) as store:
        assert_type(store.append([[1, 2, 3]]), Version)
        store[0, :] = 3.0
        with store.stage("more") as staged:
            staged[..., 1] = np.zeros(1)
        assert_type(store.shape, tuple[int, ...])
        assert_type(store.at(-1), ki.ChunkedArray)
    print(np.asarray(ki.ChunkedArray(path)).sum(), ki.PackedArray.pack(np.zeros(3))[1:])


def adapters(loader: ki.Loader, path: Path) -> None:
    from pykiste.hf import from_dataset, to_iterable
    from pykiste.jax import JaxLoader
    from pykiste.torch import StatefulSampler, TensorLoader, buffers

    assert_type(loader.report()["workers"]["threads"], int)
    assert_type(loader.report()["consumer"], Consumer)
    for tensors in TensorLoader(loader):
        print(tensors["x"])
    print(buffers({"x": "float32"}, 64), list(StatefulSampler(ki.Sampler.sequential(3))))
    print([arrays["x"] for arrays in JaxLoader(loader)])
    assert_type(from_dataset(to_iterable(path), path)["samples"], int)


def errors(path: Path) -> None:
    try:
        ki.open(path)
    except ki.errors.DamagedError as error:
        print(error.path, error.index, error.key, error.range)
    except ki.Error as error:
        print(error.field)
