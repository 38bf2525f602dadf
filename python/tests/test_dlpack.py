"""DLPack: views stay read-only and keep the map, batches are shared without a copy."""

import gc

import numpy as np
import pytest

import pykiste as ki


@pytest.fixture
def views(numbers):
    """Samples whose arrays and bytes are in the map."""
    return ki.open(numbers, copy=False)


def test_a_view_is_shared_read_only_and_keeps_the_map(views):
    image = views[7]["image"]
    shared = np.from_dlpack(image)
    assert np.shares_memory(shared, image) and not shared.flags.writeable
    data = views[7]["data"]
    as_bytes = np.from_dlpack(np.asarray(data))
    assert np.shares_memory(as_bytes, np.asarray(data)) and not as_bytes.flags.writeable
    empty = np.from_dlpack(np.asarray(views[0]["data"]))
    assert empty.shape == (0,)
    # Its owner is the whole map.
    whole = np.from_dlpack(data.obj)
    assert whole.shape == (views.data_size,) and np.shares_memory(whole, data)
    views.close()
    del image, data, views
    gc.collect()
    assert shared.tolist() == [[7.0] * 3] * 4 and as_bytes.tobytes() == b"\7" * 7


def test_a_consumer_that_knows_no_read_only_memory_is_refused(views):
    for view in [views[7]["image"], views[7]["data"].obj]:
        assert view.__dlpack_device__() == (1, 0)
        with pytest.raises(BufferError, match="readonly"):
            view.__dlpack__()
        assert "dltensor_versioned" in repr(view.__dlpack__(max_version=(1, 0)))


def test_batches_are_shared_with_torch(numbers):
    torch = pytest.importorskip("torch")
    columns = {"label": "int64", "image": ("float32", (4, 3))}
    loader = ki.Loader(ki.open(numbers), batch_size=10, columns=columns)
    batch = next(loader)
    image = torch.from_dlpack(batch["image"])
    assert image.data_ptr() == batch["image"].ctypes.data
    image += 1
    assert (batch["image"][:, 0, 0] == batch["label"] + 1).all()
    del batch
    for _ in range(3):
        list(loader)
    assert image[:, 0, 0].tolist() == list(range(1, 11)), "the tensor keeps its memory"


def test_samples_that_own_their_memory_are_writable_tensors(numbers):
    torch = pytest.importorskip("torch")
    image = ki.open(numbers)[5]["image"]
    tensor = torch.from_dlpack(image)
    tensor.zero_()
    assert (image == 0).all()
