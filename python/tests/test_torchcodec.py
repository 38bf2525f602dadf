"""torchcodec: clips, pieces of recordings and JPEG, compared with what it decodes itself."""

import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest

import pykiste as ki

torch = pytest.importorskip("torch")
try:
    decoders = pytest.importorskip("torchcodec.decoders")
    encoders = pytest.importorskip("torchcodec.encoders")
except (OSError, RuntimeError):
    pytest.skip("torchcodec finds no FFmpeg", allow_module_level=True)

from pykiste.torchcodec import audio, decode_jpeg, video  # noqa: E402

RATE = 8000
SAMPLES = 8


def encoded_video(frames, rows=48, columns=64, format="mp4"):
    """Frames whose grey tells their number, in steps that lossy compression keeps apart."""
    grey = torch.arange(frames, dtype=torch.uint8) * 4
    pictures = grey[:, None, None, None].expand(frames, 3, rows, columns).contiguous()
    return encoders.VideoEncoder(pictures, frame_rate=10).to_tensor(format).numpy().tobytes()


def encoded_audio(samples, format="wav"):
    sound = torch.linspace(-0.9, 0.9, max(samples, 1))[:samples]
    return encoders.AudioEncoder(sound[None], sample_rate=RATE).to_tensor(format).numpy().tobytes()


@pytest.fixture(scope="module")
def media(tmp_path_factory):
    path = tmp_path_factory.mktemp("media") / "media.msgpack"
    with ki.Writer(path) as writer:
        for number in range(SAMPLES):
            sample = {"video": encoded_video(40 + number), "sound": encoded_audio(8000 + 100 * number)}
            image = torch.full((3, 20 + number, 30), 30 * number, dtype=torch.uint8)
            writer.write({"key": f"{number}", **sample, "image": encoders.JpegEncoder(image).to_tensor().numpy().tobytes()})
    return path


def one(sample, column, path):
    """The only row of a dataset with one sample."""
    with ki.Writer(path, overwrite=True) as writer:
        writer.write({"key": "a", **sample})
    return next(iter(ki.Loader(ki.open(path), columns={"made": column})))["made"][0]


def refused(sample, column, path, message):
    """The error of a sample names it and the field; its cause is that of the adapter."""
    with pytest.raises(ki.Error, match=message) as raised:
        one(sample, column, path)
    assert (raised.value.key, raised.value.index) == ("a", 0)
    cause = raised.value.__cause__
    assert (cause.key, cause.field) == ("a", column.function.field) and f"field {cause.field!r}" in str(raised.value)
    return cause


@pytest.mark.parametrize(("at", "first"), [("start", 0), ("center", 13)])
def test_a_clip_has_the_frames_of_the_decoder(media, at, first):
    data = ki.open(media)["0"]["video"]
    column = video("video", frames=5, stride=3, size=(48, 64), at=at)
    batch = next(iter(ki.Loader(ki.open(media), batch_size=2, columns={"clip": column})))
    assert batch["clip"].shape == (2, 5, 3, 48, 64)
    wanted = decoders.VideoDecoder(data).get_frames_at([*range(first, 40, 3)][:5]).data.numpy()
    assert np.array_equal(batch["clip"][0], wanted)


def numbers(clips):
    """Which frames these are, from their grey."""
    return np.rint(clips.astype("float64").mean(axis=(2, 3, 4)) / 4).astype(int).tolist()


def draws(path, *, world=1, threads=None, stop=None, state=None, epochs=2, seed=7):
    """The frames and the first sample of sound that come at each place of a run."""
    columns = {
        "clip": video("video", frames=3, stride=2, size=(8, 8), at="random", seed=seed),
        "sound": audio("sound", samples=800, rate=RATE, at="random", seed=seed),
    }
    found, left = {}, None
    for rank in range(world):
        options = {"batch_size": 2, "rank": rank, "world": world, "threads": threads, "columns": columns}
        loader = ki.Loader(ki.open(path), ki.Sampler.shuffle(SAMPLES, 1), **options)
        if state:
            loader.load_state_dict(state)
        steps = 0
        while loader.state_dict()["epoch"] < epochs and steps != stop:
            for batch in loader:
                rows = zip(batch.indices.tolist(), numbers(batch["clip"]), batch["sound"][:, 0, 0].tolist(), strict=True)
                found |= {(batch.epoch, index): (frames, first) for index, frames, first in rows}
                left, steps = loader.state_dict(), steps + 1
                if steps == stop:
                    break
    return found, left


def test_draws_are_those_of_the_position_alone(media):
    whole, _ = draws(media, threads=1)
    assert len(whole) == 2 * SAMPLES
    starts = [frames[0] for frames, _ in whole.values()]
    assert len(set(starts)) > 3, "random clips begin at different frames"
    assert all(frames == [frames[0], frames[0] + 2, frames[0] + 4] for frames, _ in whole.values())
    assert draws(media, threads=4)[0] == whole
    assert draws(media, world=2)[0] == whole
    before, state = draws(media, stop=2)
    after, _ = draws(media, state=state)
    assert before | after == whole and not set(before) & set(after)
    assert draws(media, seed=8)[0] != whole


def test_sound_and_picture_are_drawn_at_the_same_relative_place(media):
    for (_, index), (frames, first) in draws(media)[0].items():
        room = 40 + index - 5
        relative = (first + 0.9) / 1.8 * (8000 + 100 * index) / (7200 + 100 * index)
        assert abs(frames[0] / room - relative) < 2 / room


def test_the_center_of_a_frame_is_resized(tmp_path):
    wide = torch.zeros((4, 3, 40, 80), dtype=torch.uint8)
    wide[..., 20:60] = 200
    data = encoders.VideoEncoder(wide, frame_rate=10).to_tensor("mp4").numpy().tobytes()
    square = one({"video": data}, video("video", frames=1, size=(20, 20)), tmp_path / "a.msgpack")
    assert square.mean() > 190, "the center alone"
    whole = one({"video": data}, video("video", frames=1, size=(20, 40)), tmp_path / "a.msgpack")
    assert whole[..., :7].mean() < 20 and whole[..., 13:27].mean() > 190


def test_sound_is_that_of_the_decoder(tmp_path):
    data = encoded_audio(8000)
    piece = one({"sound": data}, audio("sound", samples=1000, rate=4000, channels=2), tmp_path / "a.msgpack")
    wanted = decoders.AudioDecoder(data, sample_rate=4000, num_channels=2).get_all_samples().data.numpy()
    assert piece.shape == (2, 1000) and np.array_equal(piece, wanted[:, :1000])


def test_what_is_short_is_refused_or_filled_up(tmp_path):
    path = tmp_path / "a.msgpack"
    sample = {"video": encoded_video(4), "sound": encoded_audio(100)}
    cause = refused(sample, video("video", frames=3, stride=2, size=(8, 8)), path, "at least 5 frames, found 4")
    assert isinstance(cause, ki.errors.InvalidError)
    repeated = one(sample, video("video", frames=4, stride=2, size=(8, 8), short="repeat"), path)
    assert numbers(repeated[None]) == [[0, 2, 3, 3]]
    refused(sample, audio("sound", samples=101, rate=RATE), path, "at least 101 samples of sound, found 100")
    filled = one(sample, audio("sound", samples=150, rate=RATE, short="zeros"), path)
    assert filled.shape == (1, 150) and filled[0, 99] != 0 and not filled[0, 100:].any()


def test_damage_is_an_error_of_the_sample(tmp_path):
    path = tmp_path / "a.msgpack"
    clip, piece = video("video", frames=1, size=(8, 8)), audio("video", samples=10, rate=RATE)
    whole = encoded_video(40, format="avi")
    damage = {"no bytes": b"", "Invalid data": b"garbage" * 99}
    for message, data in damage.items():
        for column in (clip, piece):
            assert isinstance(refused({"video": data}, column, path, message), ki.errors.DamagedError)
    refused({"video": encoded_audio(100)}, clip, path, "expected a video")
    refused({"video": whole}, piece, path, "expected a recording")
    refused({"video": encoded_audio(100)[:44]}, piece, path, "expected a recording")
    refused({"video": 7}, clip, path, "expected a video as bytes, found int")
    with pytest.raises(ki.Error, match='there is no field "video"'):
        one({"other": b""}, clip, path)


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="moves the index of a file to its start by ffmpeg")
def test_a_truncated_file_is_refused_or_taken(tmp_path):
    path, made = tmp_path / "a.msgpack", tmp_path / "made.mp4"
    inputs = ["-f", "lavfi", "-i", "testsrc=size=64x48:rate=25:duration=2", "-f", "lavfi", "-i", "sine=duration=2"]
    command = ["ffmpeg", "-loglevel", "error", *inputs, "-c:v", "mpeg4", "-c:a", "aac", "-movflags", "+faststart", made]
    subprocess.run(command, check=True, timeout=60)
    whole = made.read_bytes()
    clip = {"frames": 2, "size": (48, 64), "at": "center"}
    found = one({"video": whole}, video("video", **clip), path)
    assert np.array_equal(found, decoders.VideoDecoder(whole).get_frames_at([24, 25]).data.numpy())
    lost = {"video": whole[: len(whole) // 2]}
    cause = refused(lost, video("video", **clip), path, "expected 2.00 s as the file tells, found")
    assert isinstance(cause, ki.errors.DamagedError)
    assert one(lost, video("video", **clip, truncated="take"), path).shape == (2, 3, 48, 64)
    refused(lost, audio("video", samples=10, rate=RATE), path, "expected a recording")


def test_a_bad_sample_is_skipped(media, tmp_path):
    path = tmp_path / "a.msgpack"
    with ki.Writer(path) as writer:
        writer.write({"key": "bad", "video": b"none"})
        writer.write({"key": "good", "video": ki.open(media)["0"]["video"]})
    columns = {"clip": video("video", frames=1, size=(8, 8))}
    [batch] = ki.Loader(ki.open(path), columns=columns, on_error="skip")
    assert batch["clip"].shape[0] == 1 and [key for _, key, _ in batch.failures] == ["bad"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"frames": 0}, "frames: expected an integer of at least 1, found 0"),
        ({"stride": True}, "stride: expected an integer"),
        ({"size": 8}, "size: expected height and width, found 8"),
        ({"at": "middle"}, "at: expected 'start', 'center' or 'random', found 'middle'"),
        ({"at": "random"}, "seed: expected one for random pieces and none for others, found None"),
        ({"seed": 3}, "seed: expected one for random pieces and none for others, found 3"),
        ({"short": "zeros"}, "short: expected 'error' or 'repeat', found 'zeros'"),
        ({"truncated": "cut"}, "truncated: expected 'error' or 'take', found 'cut'"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(ki.errors.InvalidError, match=message):
        video("video", **{"frames": 1, "size": (8, 8), **options})


def test_columns_are_values():
    column = video("video", frames=2, size=(8, 8), at="random", seed=3)
    assert pickle.loads(pickle.dumps(column)) == column == video("video", frames=2, size=(8, 8), at="random", seed=3)
    assert column != video("video", frames=2, size=(8, 8)) and hash(column)


def test_jpeg_of_a_batch(media, tmp_path):
    dataset = ki.open(media)
    batch = next(iter(ki.Loader(dataset, batch_size=4, columns={"image": bytes})))
    images = decode_jpeg(batch, "image")
    for image, sample in zip(images, dataset[:4], strict=True):
        assert torch.equal(image, decoders.decode_jpeg(sample["image"]))
    assert decode_jpeg(batch, "image", mode="GRAY")[1].shape == (1, 21, 30)
    with pytest.raises(ki.errors.InvalidError, match="mode: expected 'RGB', 'GRAY' or 'UNCHANGED', found 'BGR'"):
        decode_jpeg(batch, "image", mode="BGR")
    good = dataset["0"]["image"]
    for number, bad in enumerate([b"", b"none", good[:50]]):
        path = tmp_path / f"{number}.msgpack"
        with ki.Writer(path) as writer:
            writer.write({"key": "good", "image": good})
            writer.write({"key": "bad", "image": bad})
        batch = next(iter(ki.Loader(ki.open(path), columns={"image": bytes})))
        with pytest.raises(ki.errors.DamagedError, match="sample 'bad', field 'image': expected a JPEG image") as raised:
            decode_jpeg(batch, "image")
        assert (raised.value.key, raised.value.field) == ("bad", "image")


def test_a_missing_package_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchcodec", None)
    with pytest.raises(ki.errors.MissingPackageError, match="pip install torchcodec"):
        video("video", frames=1, size=(8, 8))
