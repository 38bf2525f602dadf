"""Columns of images: decoded and augmented on the threads of the loader."""

import io
import pickle

import numpy as np
import pytest

import pykiste as ki

TRAIN = "random_resized_crop(16) | hflip | color_jitter(0.4, 0.4, 0.4, 0.1) | to(f32, chw) | normalize(imagenet)"
COUNT = 40


def picture(number, width=24, height=18):
    rows, columns = np.mgrid[:height, :width]
    pixels = np.stack([rows * 9 + number, columns * 7, rows * columns + 3 * number], -1)
    return b"P6 %d %d 255\n" % (width, height) + (pixels % 256).astype("uint8").tobytes()


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "pictures.msgpack"
    with ki.Writer(path) as writer:
        for number in range(COUNT):
            image = picture(number, 24 + number % 5, 18 + number % 3)
            writer.write({"key": str(number), "image": image, "label": number})
    return path


def epoch(path, pipeline, **options):
    dataset = ki.open(path)
    sampler = ki.Sampler.shuffle(len(dataset), seed=5)
    columns = {"image": pipeline, "label": "int64"}
    loader = ki.Loader(dataset, sampler, batch_size=16, columns=columns, tail="uneven", **options)
    return [(batch["image"].copy(), batch["label"].copy()) for batch in loader]


def same(left, right):
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_batch_has_what_the_pipeline_makes_of_each_image(path):
    pipeline = ki.Pipeline(TRAIN, seed=3)
    dataset = ki.open(path)
    position = 0
    for images, labels in epoch(path, pipeline):
        assert (images.dtype, images.shape[1:]) == (np.float32, (3, 16, 16))
        for image, label in zip(images, labels, strict=True):
            encoded = dataset[str(label)]["image"]
            assert np.array_equal(image, pipeline(encoded, position=position))
            position += 1
    assert position == COUNT


def test_threads_and_seeds(path):
    pipeline = ki.Pipeline(TRAIN, seed=3)
    once = epoch(path, pipeline, threads=1)
    same(once, epoch(path, pipeline, threads=4))
    other = epoch(path, ki.Pipeline(TRAIN, seed=4))
    assert not np.array_equal(once[0][0], other[0][0])


@pytest.mark.parametrize("dtype", ["u8", "f16", "f32"])
def test_types_and_buffers_of_the_caller(path, dtype):
    pipeline = ki.Pipeline(f"center_crop(12) | to({dtype}, hwc)")
    expected = {"u8": "uint8", "f16": "float16", "f32": "float32"}[dtype]
    assert (pipeline.dtype, pipeline.shape) == (np.dtype(expected), (12, 12, 3))
    given = [
        {"image": np.empty((16, 12, 12, 3), expected), "label": np.empty(16, "int64")}
        for _ in range(4)
    ]
    same(epoch(path, pipeline), epoch(path, pipeline, buffers=given))


def test_two_views_of_one_image(path):
    dataset = ki.open(path)
    views = {
        "first": (ki.Pipeline("random_crop(8)", seed=1), "image"),
        "second": (ki.Pipeline("random_crop(8)", seed=2), "image"),
        "again": (ki.Pipeline("random_crop(8)", seed=1), "image"),
    }
    batch = next(ki.Loader(dataset, batch_size=COUNT, columns=views))
    assert np.array_equal(batch["first"], batch["again"])
    assert not np.array_equal(batch["first"], batch["second"])


def test_a_run_resumes_with_the_same_pictures(path):
    def loader():
        dataset = ki.open(path)
        sampler = ki.Sampler.shuffle(len(dataset), seed=5)
        return ki.Loader(dataset, sampler, batch_size=8, columns={"image": ki.Pipeline(TRAIN)})

    whole = [batch["image"].copy() for batch in loader()]
    first = loader()
    next(first)
    second = loader()
    second.load_state_dict(first.state_dict())
    rest = [batch["image"].copy() for batch in second]
    assert all(np.array_equal(a, b) for a, b in zip(whole[1:], rest, strict=True))


def test_crops_and_flips_are_exact():
    image = picture(3)
    pixels = np.frombuffer(image[-24 * 18 * 3 :], "uint8").reshape(18, 24, 3)
    assert np.array_equal(ki.Pipeline([])(image), pixels)
    assert np.array_equal(ki.Pipeline("hflip(1)")(image), pixels[:, ::-1])
    assert np.array_equal(ki.Pipeline("to(u8, chw)")(image), pixels.transpose(2, 0, 1))
    cropped = ki.Pipeline("center_crop(10)")
    assert np.array_equal(cropped(image), pixels[4:14, 7:17])
    assert cropped.plan(image) == "crop(top=4, left=7, height=10, width=10)"


def test_jpeg_as_pillow_decodes_it():
    pillow = pytest.importorskip("PIL.Image")
    pixels = np.frombuffer(picture(3, 64, 48)[-64 * 48 * 3 :], "uint8").reshape(48, 64, 3)
    encoded = io.BytesIO()
    pillow.fromarray(pixels).save(encoded, "JPEG", quality=90)
    expected = np.asarray(pillow.open(encoded).convert("RGB")).astype(int)
    found = ki.Pipeline([])(encoded.getvalue()).astype(int)
    assert abs(found - expected).mean() < 1


def test_what_cannot_be_decoded(path, tmp_path):
    other = tmp_path / "broken.msgpack"
    with ki.Writer(other) as writer:
        writer.write({"key": "good", "image": picture(1)})
        writer.write({"key": "bad", "image": b"no image"})
    columns = {"image": ki.Pipeline("center_crop(8)")}
    with pytest.raises(ki.Error, match="bad") as raised:
        next(ki.Loader(ki.open(other), batch_size=2, columns=columns))
    assert raised.value.field == "image"
    batch = next(
        ki.Loader(ki.open(other), batch_size=2, columns=columns, on_error="skip", tail="uneven")
    )
    assert len(batch) == 1 and [failure[1] for failure in batch.failures] == ["bad"]


def test_wrong_pipelines():
    with pytest.raises(ki.Error, match="random_resized_crop"):
        ki.Pipeline("random_resize_crop(3)")
    with pytest.raises(ki.Error, match="normalize"):
        ki.Pipeline("normalize(imagenet)")
    with pytest.raises(TypeError):
        ki.Pipeline(3)


def test_a_column_needs_one_size(path):
    with pytest.raises(ValueError, match="center_crop"):
        ki.Loader(ki.open(path), columns={"image": ki.Pipeline("hflip")})


def test_a_pipeline_is_its_text():
    pipeline = ki.Pipeline(TRAIN, seed=9)
    assert str(pipeline).startswith("seed(9) | random_resized_crop(16) | hflip | ")
    assert pickle.loads(pickle.dumps(pipeline)) == pipeline == ki.Pipeline(str(pipeline))
    assert pipeline != ki.Pipeline(TRAIN) and len({pipeline, ki.Pipeline(str(pipeline))}) == 1
    assert eval(repr(pipeline), {"Pipeline": ki.Pipeline}) == pipeline
    assert len({ki.Pipeline("hflip(0)"), ki.Pipeline("hflip(-0)")}) == 1 + (
        ki.Pipeline("hflip(0)") != ki.Pipeline("hflip(-0)")
    )
    assert pipeline.steps[1] == "hflip" and pipeline.seed == 9


def test_scaled_decoding_is_carried_out_or_refused():
    pipeline = ki.Pipeline("decode(scaled=true) | resize((9, 12))")
    assert str(pipeline) == "decode(scaled=true) | resize((9, 12))"
    assert pickle.loads(pickle.dumps(pipeline)) == pipeline
    assert pipeline.plan(picture(1)) == "resize(9, 12)"
    try:
        found = pipeline(picture(1))
    except ki.errors.UnsupportedError as error:
        assert "feature turbo" in str(error)
        return
    # Only of JPEG there are fewer pixels to decode.
    assert np.array_equal(found, ki.Pipeline("resize((9, 12))")(picture(1)))


LATER = "grayscale(0.5) | gaussian_blur(3) | random_erasing(0.5) | rotate(30, bilinear) | affine(20, (0.1, 0.1), shear=5)"


def test_later_steps_are_planned_printed_and_repeated():
    image = picture(7)
    pipeline = ki.Pipeline(LATER, seed=11)
    assert ki.Pipeline(str(pipeline)) == pipeline
    assert [step.split("(")[0] for step in pipeline.steps] == [
        "grayscale",
        "gaussian_blur",
        "random_erasing",
        "rotate",
        "affine",
    ]
    plans = [pipeline.plan(image, position=position) for position in range(20)]
    assert len(set(plans)) == 20
    assert all(name in " ".join(plans) for name in ("grayscale | ", "erase(top=", "rotate(", "affine("))
    for position in (0, 5):
        again = ki.Pipeline(str(pipeline))
        assert again.plan(image, position=position) == plans[position]
        found = again(image, position=position)
        assert found.shape == (18, 24, 3)
        assert np.array_equal(found, pipeline(image, position=position))
    assert ki.Pipeline("rotate((90, 90), expand=true)").plan(image) == "rotate(90.0000, nearest, expand, fill=0)"


def test_turns_of_whole_quarters_are_those_of_numpy():
    pixels = np.arange(5 * 7 * 3, dtype="uint8").reshape(5, 7, 3)
    for turns in range(4):
        pipeline = ki.Pipeline(f"rotate(({90 * turns}, {90 * turns}), expand=true)")
        assert np.array_equal(pipeline(pixels), np.rot90(pixels, turns))


def test_arrays_are_images():
    image = picture(3)
    pixels = np.frombuffer(image[-24 * 18 * 3 :], "uint8").reshape(18, 24, 3)
    for steps in (TRAIN, LATER, "decode(gray)", "decode(rgba) | hflip(1)"):
        pipeline = ki.Pipeline(steps, seed=5)
        assert np.array_equal(pipeline(pixels, position=4), pipeline(image, position=4))
        assert pipeline.plan(pixels, position=4) == pipeline.plan(image, position=4)
    # Of a view, such as a crop, only what it shows.
    assert np.array_equal(ki.Pipeline("")(pixels[2:9, ::-1]), pixels[2:9, ::-1])
    gray = np.ascontiguousarray(pixels[..., 0])
    assert np.array_equal(ki.Pipeline("")(gray), np.repeat(gray[..., None], 3, -1))
    assert np.array_equal(ki.Pipeline("decode(gray)")(gray[..., None])[..., 0], gray)
    # One dimension is still the bytes of an encoded image.
    assert np.array_equal(ki.Pipeline("")(np.frombuffer(image, "uint8")), pixels)


def test_arrays_that_are_no_images():
    pipeline = ki.Pipeline("")
    expected = r"\(height, width\), \(height, width, 1\) or \(height, width, 3\), found \[4, 4, 2\]"
    with pytest.raises(ki.Error, match=expected):
        pipeline(np.zeros((4, 4, 2), "uint8"))
    with pytest.raises(ki.Error, match="pixels"):
        pipeline(np.zeros((0, 4), "uint8"))
    with pytest.raises((BufferError, TypeError)):
        pipeline(np.zeros((4, 4), "float32"))


def test_a_column_takes_fields_of_both_forms(tmp_path):
    path = tmp_path / "both.msgpack"
    images = [picture(number) for number in range(6)]
    arrays = [np.frombuffer(image[-24 * 18 * 3 :], "uint8").reshape(18, 24, 3) for image in images]
    with ki.Writer(path) as writer:
        for number, (image, array) in enumerate(zip(images, arrays, strict=True)):
            mask = array[..., 1].copy()
            boxes = np.array([[1.0, 2.0, 9.0, 8.0]])
            sample = {"encoded": image, "array": array, "mask": mask, "boxes": boxes}
            writer.write({"key": str(number), **sample})
    train = ki.Pipeline("random_crop(16) | rotate(30) | hflip | random_erasing", seed=2)
    columns = {}
    for name in ("encoded", "array"):
        columns[name] = train
        columns[f"{name} mask"] = (ki.Mask("uint8", of=name), "mask")
        columns[f"{name} boxes"] = (ki.Boxes(of=name), "boxes")
    batch = next(ki.Loader(ki.open(path), batch_size=6, columns=columns))
    assert np.array_equal(batch["encoded"], batch["array"])
    assert np.array_equal(batch["encoded mask"], batch["array mask"])
    assert np.array_equal(batch.ragged("encoded boxes")[0], batch.ragged("array boxes")[0])
