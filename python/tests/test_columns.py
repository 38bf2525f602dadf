"""Columns whose samples have any length, and masks and boxes that move with images."""

import io
import pickle
import threading
import types

import numpy as np
import pytest

import pykiste as ki

VALUES = [
    ki.Window("int32", 5, (2,), at="random", seed=3),
    ki.Ragged("float32", [4], pad=ki.Pad(multiple=8, fill=-1)),
    ki.Packed("int64", 16, split=False, rows=3, longer="cut"),
    ki.Packed("int64", 16, rows=3, longer="cut"),
    ki.Mask("uint16", of="picture", fill=7, upright=True),
    ki.Boxes(format="cxcywh", min_size=2, pad=ki.Pad(buckets=[3, 9], longer="cut")),
    ki.Labels(np.int8, of="b"),
    ki.Kept(),
]


@pytest.mark.parametrize("column", VALUES, ids=lambda column: type(column).__name__)
def test_columns_are_values(column):
    again = pickle.loads(pickle.dumps(column))
    assert (again, hash(again)) == (column, hash(column))
    names = {name: getattr(np, name) for name in ("float32", "int8")}
    scope = {**vars(ki), **names, "dtype": np.dtype}
    assert eval(repr(column), scope) == column
    assert column != ki.Kept(of="others")


def test_columns_that_make_no_sense():
    for make, part in [
        (lambda: ki.Window("no type", 5), "no type"),
        (lambda: ki.Window("int8", 5, at="end"), "expected 'start', 'center' or 'random'"),
        (lambda: ki.Pad(longer="drop"), "expected 'error' or 'cut'"),
        (lambda: ki.Pad(longer="cut"), "expected buckets"),
        (lambda: ki.Pad(multiple=8, buckets=[4]), "found both"),
        (lambda: ki.Packed("int8", 4, longer="cut"), "expected split=False or rows"),
        (lambda: ki.Boxes(format="xyx"), "expected 'xyxy', 'xywh' or 'cxcywh'"),
    ]:
        with pytest.raises((TypeError, ValueError), match=part):
            make()


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.msgpack"
    with ki.Writer(path) as writer:
        for number, length in enumerate([3, 0, 5, 2]):
            tokens = np.arange(length, dtype="int32") + 100 * number
            writer.write({"key": str(number), "tokens": tokens, "pairs": np.stack([tokens, -tokens], 1)})
    return ki.open(path)


def one(dataset, columns, **options):
    [batch] = ki.Loader(dataset, columns=columns, tail="uneven", **options)
    return batch


def test_ragged(texts):
    batch = one(texts, {"pairs": ki.Ragged("int32", (2,))})
    assert [len(rows) for rows in batch["pairs"]] == [3, 0, 5, 2]
    assert batch["pairs"][2].tolist() == [[200 + n, -200 - n] for n in range(5)]
    data, offsets = batch.ragged("pairs")
    assert (data.shape, offsets.tolist()) == ((10, 2), [0, 3, 3, 8, 10])
    assert np.shares_memory(data, batch["pairs"][0])
    assert batch.lengths("pairs").tolist() == [3, 0, 5, 2]
    first = batch["pairs"][0]
    del batch, data
    assert first.tolist() == [[0, 0], [1, -1], [2, -2]]


def test_padded(texts):
    batch = one(texts, {"tokens": ki.Ragged("int32", pad=ki.Pad(multiple=4, fill=-1))})
    assert batch["tokens"].shape == (4, 8)
    assert batch["tokens"][3].tolist() == [300, 301, -1, -1, -1, -1, -1, -1]
    assert batch.lengths("tokens").tolist() == [3, 0, 5, 2]
    buckets = ki.Pad(buckets=[2, 4])
    with pytest.raises(ki.errors.InvalidError, match="expected up to 4 rows, found 5") as raised:
        one(texts, {"tokens": ki.Ragged("int32", pad=buckets)})
    assert raised.value.field == "tokens"
    cut = one(texts, {"tokens": ki.Ragged("int32", pad=ki.Pad(buckets=[2, 4], longer="cut"))})
    assert (cut["tokens"].shape, cut.lengths("tokens").tolist()) == ((4, 4), [3, 0, 4, 2])
    with pytest.raises(ValueError, match="fill: expected a number of type int32, found 0.5"):
        one(texts, {"tokens": ki.Ragged("int32", pad=ki.Pad(fill=0.5))})
    for name in ["tokens", "no such"]:
        with pytest.raises(KeyError, match=name):
            one(texts, {"tokens": ("int32", 3)}, on_error="skip").lengths(name)


def test_packed(texts):
    batch = one(texts, {"tokens": ki.Packed("int32", 4, fill=-9)})
    packed = batch.packed("tokens")
    assert np.shares_memory(packed.tokens, batch["tokens"])
    assert packed.tokens.tolist() == [[0, 1, 2, 200], [201, 202, 203, 204], [300, 301, -9, -9]]
    assert packed.documents.tolist() == [[0, 0, 0, 2], [2, 2, 2, 2], [3, 3, -1, -1]]
    assert packed.positions.tolist() == [[0, 1, 2, 0], [0, 1, 2, 3], [0, 1, 0, 0]]
    assert packed.cu_seqlens.tolist() == [0, 3, 4, 8, 10, 12]
    assert (packed.max_seqlen, packed.cu_seqlens.dtype) == (4, np.int32)
    assert one(texts, {"tokens": ki.Packed("int32", 5, split=False, rows=4)})["tokens"].shape == (4, 5)
    with pytest.raises(KeyError, match="tokens"):
        one(texts, {"tokens": ki.Ragged("int32")}).packed("tokens")
    assert (one(texts, {"t": (ki.Packed("int32", 4, fill=-9), "tokens")})["t"] == batch["tokens"]).all()


def picture(height, width):
    """The row and the column of each pixel."""
    rows, columns = np.mgrid[:height, :width].astype("uint8")
    return np.stack([rows, columns, np.zeros_like(rows)], -1)


@pytest.fixture
def pictures(tmp_path):
    path = tmp_path / "pictures.msgpack"
    with ki.Writer(path) as writer:
        for number, (height, width) in enumerate([(20, 30), (40, 24), (16, 16)]):
            image = picture(height, width)
            header = b"P6 %d %d 255\n" % (width, height)
            sample = {"image": header + image.tobytes(), "classes": image[..., 1] % 7}
            boxes = np.array([[1, 2, 9, 12], [0, 0, 1, 1], [3, 3, 15, 16]], "float64")
            writer.write({"key": str(number), **sample, "boxes": boxes, "labels": [5, 6, 7]})
    return ki.open(path)


def test_masks_and_boxes_move_with_their_image(pictures):
    pipeline = ki.Pipeline("random_crop(12) | hflip | vflip | resize((24, 24), nearest)", seed=4)
    columns = {
        # In any order.
        "labels": ki.Labels("int16"),
        "kept": ki.Kept(),
        "boxes": ki.Boxes(min_size=4),
        "classes": ki.Mask(fill=255),
        "again": (ki.Mask("int64"), "classes"),
        "image": pipeline,
    }
    for _ in range(3):
        loader = ki.Loader(pictures, columns=columns)
        for _ in range(4):
            [batch] = loader
            assert batch.keys() == list(columns)
            assert batch["classes"].shape == (3, 24, 24)
            assert np.array_equal(batch["classes"], batch["image"][..., 1] % 7)
            assert np.array_equal(batch["classes"], batch["again"])
            for boxes, kept, labels in zip(batch["boxes"], batch["kept"], batch["labels"], strict=True):
                assert labels.tolist() == [5 + number for number in kept]
                assert ((boxes >= 0) & (boxes <= 24)).all()
                assert (boxes[:, 2:] - boxes[:, :2] >= 4).all()


def test_the_same_as_torchvision(pictures):
    torch = pytest.importorskip("torch")
    tv_tensors = pytest.importorskip("torchvision.tv_tensors")
    v2 = pytest.importorskip("torchvision.transforms.v2")
    steps = [v2.CenterCrop(14), v2.RandomHorizontalFlip(1), v2.Pad((3, 1)), v2.Resize((30, 41))]
    text = "center_crop(14) | hflip(1) | pad((3, 1)) | resize((30, 41))"
    columns = {"image": ki.Pipeline(text), "classes": ki.Mask(), "boxes": ki.Boxes(min_size=1, min_area=1)}
    columns["labels"] = ki.Labels("int64")
    batch = one(pictures, columns)
    transform = v2.Compose([*steps, v2.SanitizeBoundingBoxes(min_size=1)])
    for at, sample in enumerate(pictures):
        size = sample["classes"].shape
        given = {
            "image": tv_tensors.Image(torch.zeros((3, *size))),
            "mask": tv_tensors.Mask(torch.from_numpy(sample["classes"].copy())),
            "boxes": tv_tensors.BoundingBoxes(sample["boxes"], format="XYXY", canvas_size=size),
            "labels": torch.tensor(sample["labels"]),
        }
        made = transform(given)
        assert np.array_equal(made["mask"].numpy(), batch["classes"][at])
        np.testing.assert_allclose(batch["boxes"][at], made["boxes"].numpy(), atol=1e-4)
        assert batch["labels"][at].tolist() == made["labels"].tolist()


def test_followers_need_what_they_follow(pictures):
    with pytest.raises(ki.errors.InvalidError, match="expected a column of images before it"):
        one(pictures, {"classes": ki.Mask()})
    with pytest.raises(ki.errors.InvalidError, match="expected a column of boxes before it"):
        one(pictures, {"image": ki.Pipeline("center_crop(8)"), "labels": ki.Labels("int64", of="box")})


def test_buffers_of_torch(pictures):
    torch = pytest.importorskip("torch")
    from pykiste.torch import TensorLoader, buffers

    columns = {
        "image": ki.Pipeline("center_crop(8) | to(f32, chw)"),
        "classes": ki.Mask("int64"),
        "boxes": ki.Boxes(pad=ki.Pad(fill=-1)),
        "labels": ki.Labels("int64"),
    }
    given = buffers(columns, 2)
    assert {name: tuple(tensor.shape) for name, tensor in given[0].items()} == {
        "image": (2, 3, 8, 8),
        "classes": (2, 8, 8),
    }
    expected = [{"classes": batch["classes"].copy()} for batch in ki.Loader(pictures, columns=columns, batch_size=2)]
    loader = TensorLoader(ki.Loader(pictures, columns=columns, batch_size=2, buffers=given))
    shapes = []
    for tensors, other in zip(loader, expected, strict=True):
        assert np.array_equal(tensors["classes"].numpy(), other["classes"])
        shapes.append(tuple(tensors["boxes"].shape))
        assert [labels.tolist() for labels in tensors["labels"]] == [[5, 6, 7]] * len(tensors["classes"])
        del tensors
    assert shapes == [(2, 3, 4), (1, 3, 4)]
    with pytest.raises(ValueError, match="gives all images one size"):
        buffers({"image": ki.Pipeline("hflip")}, 2)
    with pytest.raises(ValueError, match="expected a column of images"):
        buffers({"mask": ki.Mask()}, 2)
    # Tensors that are used again have the length of each batch.
    columns = {"boxes": ki.Boxes(pad=ki.Pad()), "image": columns["image"]}
    for reuse in [False, True]:
        loader = TensorLoader(ki.Loader(pictures, columns=columns, batch_size=2), reuse=reuse)
        assert [tuple(tensors["boxes"].shape) for tensors in loader] == shapes
    assert torch.from_numpy(np.zeros(3, "uint16")).view(torch.bfloat16).dtype == torch.bfloat16


def test_bfloat16(pictures):
    torch = pytest.importorskip("torch")
    steps = "center_crop(8) | to({}, chw) | normalize(imagenet)"
    whole, half = ki.Pipeline(steps.format("f32")), ki.Pipeline(steps.format("bf16"))
    assert half.dtype == np.uint16
    image = pictures[0]["image"]
    batch = one(pictures, {"image": half})
    for made in (half(image), batch["image"][0].copy()):
        expected = torch.from_numpy(whole(image)).to(torch.bfloat16)
        assert torch.equal(torch.from_numpy(made).view(torch.bfloat16), expected)


def test_bytes_of_an_image(pictures):
    image, pipeline = pictures[0]["image"], ki.Pipeline("center_crop(8)")
    for form in (bytearray(image), memoryview(image), np.frombuffer(image, "uint8")):
        assert np.array_equal(pipeline(form), pipeline(image))
        assert pipeline.plan(form) == pipeline.plan(image)
    for wrong in ("text", 7, np.zeros(3)):
        with pytest.raises((TypeError, BufferError)):
            pipeline(wrong)


def test_a_report_while_a_batch_is_waited_for(tmp_path):
    """A loop that waits must not keep others from asking what it waits for."""
    path = tmp_path / "numbers.msgpack"
    with ki.Writer(path) as writer:
        for number in range(20_000):
            writer.write({"key": str(number), "n": number})
    loader = ki.Loader(ki.open(path), columns={"n": "int64"}, batch_size=10, threads=1)
    failed, done = [], threading.Event()

    def watch():
        seen = 0
        while not done.is_set():
            try:
                samples = loader.report()["samples"]
                assert samples >= seen
                seen = samples
                loader.state_dict()
            except Exception as error:
                failed.append(error)
                return

    threads = [threading.Thread(target=watch) for _ in range(2)]
    for thread in threads:
        thread.start()
    total = sum(int(batch["n"].sum()) for batch in loader)
    done.set()
    for thread in threads:
        thread.join()
    assert (failed, total) == ([], sum(range(20_000)))
    assert loader.report()["samples"] == 20_000


def test_masks_with_a_palette(tmp_path):
    Image = pytest.importorskip("PIL.Image")
    numbers = (np.arange(48).reshape(6, 8) % 5).astype("uint8")
    picture = Image.fromarray(numbers, "P")
    picture.putpalette(bytes(range(200, 215)))
    out = io.BytesIO()
    picture.save(out, "PNG")
    path = tmp_path / "masks.msgpack"
    with ki.Writer(path) as writer:
        image = b"P5 8 6 255\n" + bytes(48)
        writer.write({"key": "a", "image": image, "mask": out.getvalue()})
    columns = {"image": ki.Pipeline("center_crop((6, 8))"), "mask": ki.Mask("int64")}
    assert np.array_equal(one(ki.open(path), columns)["mask"][0], numbers)


def test_a_class_is_no_column(texts):
    for column in (ki.Mask, (ki.Mask, "tokens"), ki.Ragged):
        with pytest.raises(TypeError, match=r'column "tokens": expected \w+\(…\), found the class'):
            ki.Loader(texts, columns={"tokens": column})


def written(path, samples):
    with ki.Writer(path) as writer:
        for number, sample in enumerate(samples):
            writer.write({"key": str(number), **sample})
    return ki.open(path)


def test_columns_as_people_write_them(tmp_path):
    samples = [{"n": number, "text": "ä" * number, "x": np.float32(number)} for number in range(5)]
    dataset = written(tmp_path / "x.msgpack", samples)
    columns = {
        "n": "int64",
        "again": ("n", "int16"),
        "float": ("n", np.float32),
        "text": str,
        "raw": ("text", bytes),
        "words": ("text", str),
        "x": float,
        "y": ("x", "float32"),
        "flat": ("x", "float32", ()),
    }
    [batch] = ki.Loader(dataset, columns=types.MappingProxyType(columns))
    for name in ("n", "again", "float", "x", "y", "flat"):
        assert batch[name].tolist() == [0, 1, 2, 3, 4], name
    assert batch["again"].dtype == np.int16 and batch["float"].dtype == np.float32
    assert batch["text"] == batch["words"] == [sample["text"] for sample in samples]
    assert batch["raw"] == [sample["text"].encode() for sample in samples]
    torch = pytest.importorskip("torch")
    [batch] = ki.Loader(dataset, columns={"n": torch.int64, "f": ("n", torch.float32)})
    assert batch["n"].dtype == np.int64 and batch["f"].dtype == np.float32


def test_text_is_text(tmp_path):
    dataset = written(tmp_path / "x.msgpack", [{"t": b"\xff"}])
    [batch] = ki.Loader(dataset, columns={"t": str})
    with pytest.raises(ki.errors.InvalidError, match='column "t": expected text'):
        batch["t"]


@pytest.mark.parametrize("stored, column", [
    ("uint8", "float32"), ("int32", "int64"), ("uint16", "int64"), ("bool", "int64"), ("float16", "float32"),
    (">i2", "float32"), ("int8", "float16"), ("uint8", "uint8"), ("bool", "uint8"),
])
def test_a_column_has_all_values_of_a_narrower_type(tmp_path, stored, column):
    array = np.array([[0, 1], [1, 0], [1, 1]]).astype(stored)
    packed = bytes(ki.PackedArray.pack(array.astype(array.dtype.newbyteorder("="))))
    samples = [{"a": array, "p": packed, "s": array[0, 1], "w": array}]
    dataset = written(tmp_path / "x.msgpack", samples)
    columns = {
        "a": (column, (3, 2)),
        "p": (column, (3, 2)),
        "s": column,
        "rows": ("w", column, (3, 2)),
        "ragged": (ki.Ragged(column, (2,)), "a"),
        "w": ki.Window(column, 2, (2,)),
    }
    [batch] = ki.Loader(dataset, columns=columns)
    assert batch["a"].dtype == column and (batch["a"][0] == array).all() and (batch["p"][0] == array).all()
    assert batch["s"].tolist() == [1] and (batch["rows"][0] == array).all()
    assert (batch["ragged"][0] == array).all() and (batch["w"][0] == array[:2]).all()


@pytest.mark.parametrize("stored, column", [
    ("int64", "int32"), ("int64", "float64"), ("uint16", "int16"), ("float64", "float32"), ("float32", "int64"),
    ("int32", "float32"), ("uint8", "bool"), ("int8", "uint64"),
])
def test_a_type_that_would_lose_values_is_refused(tmp_path, stored, column):
    dataset = written(tmp_path / "x.msgpack", [{"a": np.zeros(3, stored)}])
    for form in (column, 3), ki.Ragged(column):
        with pytest.raises(ki.errors.InvalidError, match="expected an array of type"):
            next(ki.Loader(dataset, columns={"a": form}))


def test_lists_of_integers_stay_integers(tmp_path):
    large = 2**53 + 1
    dataset = written(tmp_path / "x.msgpack", [{"a": [large, -large]}])
    [batch] = ki.Loader(dataset, columns={"a": ("int64", 2)})
    assert batch["a"].tolist() == [[large, -large]]


def noise(record):
    return record.rng.random(2) + record["n"]


def test_a_function_makes_a_column(tmp_path):
    dataset = written(tmp_path / "x.msgpack", [{"n": number} for number in range(40)])
    sampler = ki.Sampler.shuffle(40, 1)

    def run(threads, rank=0, world=1, at=None):
        loader = ki.Loader(
            dataset, sampler, batch_size=4, threads=threads, rank=rank, world=world,
            columns={"noise": ki.Map(noise, "float32", 2, seed=3), "n": "int64"},
        )
        if at is not None:
            loader.load_state_dict(at)
        return [(n, tuple(row)) for batch in loader for n, row in zip(batch["n"].tolist(), batch["noise"].tolist(), strict=True)]

    whole = run(0)
    assert whole == run(3) and len(set(whole)) == 40
    assert all(n <= value < n + 1 for n, row in whole for value in row)
    assert sorted(run(2, 0, 2) + run(2, 1, 2)) == sorted(whole)
    assert run(2, at={"epoch": 0, "position": 20}) == whole[20:]
    # Another epoch has others.
    assert not set(run(2, at={"epoch": 1, "position": 0})) & set(whole)


def test_what_a_function_may_return(tmp_path):
    dataset = written(tmp_path / "x.msgpack", [{"n": 3, "a": np.arange(6, dtype="int32")}])

    def load(function, *form):
        [batch] = ki.Loader(dataset, columns={"x": ki.Map(function, *form)})
        return batch["x"][0].tolist()

    assert load(lambda record: record["a"].reshape(2, 3)[:, ::-1], "int64", (2, 3)) == [[2, 1, 0], [5, 4, 3]]
    assert load(lambda record: True, "bool") is True
    assert load(lambda record: record["n"], "float64") == 3.0
    assert load(lambda record: [record.index, record.epoch, record.position, len(record.key)], "int8", 4) == [0, 0, 0, 1]
    assert load(lambda record: sorted(record.keys()) == ["a", "key", "n"] and "a" in record, "bool") is True

    def fails(function, match, cause, *form):
        with pytest.raises(ki.Error, match=match) as caught:
            load(function, *form)
        assert isinstance(caught.value.__cause__, cause) and caught.value.key == "0"

    fails(lambda record: record["missing"], "missing", KeyError, "int64")
    fails(lambda record: 1 / 0, "division by zero", ZeroDivisionError, "int64")
    fails(lambda record: 1.5, "Cannot cast", TypeError, "int64")
    fails(lambda record: [1, 2], "expected an array of shape", ki.Error, "int64")
    fails(lambda record: "text", ".", Exception, "int64")
    with pytest.raises(TypeError, match="expected a function, found int"):
        ki.Map(3, "int64")
    with pytest.raises(ki.Error, match="expected Map without the name of a field"):
        load_named = {"x": (ki.Map(noise, "float32", 2), "n")}
        ki.Loader(dataset, columns=load_named)


def test_label_names(tmp_path):
    path = tmp_path / "pets.msgpack"
    with ki.Writer(path) as writer:
        for number in range(6):
            writer.write({"key": str(number), "label": number % 3})
        writer.set_labels(["cat", "Hündin", ""])
    pets = ki.open(path)
    columns = {"label": "int32", "name": (ki.LabelNames(pets.labels), "label"), "id": ("key", "str")}
    buffers = [{"label": np.empty(4, "int32")} for _ in range(3)]
    for options in {}, {"buffers": buffers}:
        for batch in ki.Loader(pets, batch_size=4, columns=columns, tail="even", **options):
            assert batch["name"] == [pets.labels[label] for label in batch["label"]]
            assert batch["id"] == [str(index) for index in batch.indices]
    [batch] = ki.Loader(pets, columns={"label": ki.LabelNames(["cat", "dog"])})
    with pytest.raises(ki.errors.InvalidError, match='column "label": expected a label of 0 to 1, found 2 in sample 2'):
        batch["label"]
    for wrong in None, [], "cat":
        with pytest.raises(ki.errors.InvalidError, match="expected at least one in a list"):
            ki.LabelNames(wrong)
    with pytest.raises(ki.errors.WrongTypeError, match="expected texts, found 3"):
        ki.LabelNames(["cat", 3])
    assert pickle.loads(pickle.dumps(ki.LabelNames(["a"]))) == ki.LabelNames(("a",))


def test_one_set_of_buffers_is_enough_without_threads(tmp_path):
    path = tmp_path / "numbers.msgpack"
    with ki.Writer(path) as writer:
        for number in range(10):
            writer.write({"key": str(number), "label": number})
    buffers = [{"label": np.empty(5, "int64")}]
    sums = []
    for batch in ki.Loader(ki.open(path), batch_size=5, columns={"label": "int64"}, threads=0, buffers=buffers):
        sums.append(int(batch["label"].sum()))
        del batch
    assert sums == [10, 35]
    with pytest.raises(ki.errors.InvalidError, match="at least 3 sets"):
        ki.Loader(ki.open(path), batch_size=5, columns={"label": "int64"}, threads=1, buffers=buffers)
