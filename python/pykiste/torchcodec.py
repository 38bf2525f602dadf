"""torchcodec: clips of videos and pieces of recordings as columns, and JPEG on a GPU.

`video` and `audio` make `pykiste.Map` columns of a fixed shape. The threads of the loader decode, as torchcodec gives up
Python's lock while it works. Which frames are taken follows from the seed, the epoch and the position of the sample alone, so a
run that is resumed, or that has another number of ranks or threads, gets the same clips. `decode_jpeg` is for a whole batch, as a
GPU is fast if it gets many images at once. The module needs torchcodec 0.16 or later, and FFmpeg where torchcodec finds it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pykiste.columns import Map
from pykiste.errors import DamagedError, Error, InvalidError, MissingPackageError, WrongTypeError

__all__ = ["audio", "decode_jpeg", "video"]


def video(field, *, frames, size, stride=1, at="start", seed=None, short="error", truncated="error"):
    """A column of clips: `uint8`, of the shape `(frames, 3, height, width)`, in RGB.

    Parameters:
        field: the field with a video, as bytes of a file of any format that FFmpeg reads.
        frames: how many frames a clip has.
        size: height and width of the frames, which are cut around their center to this aspect ratio, and resized.
        stride: 1 takes neighbours, 2 every second frame, and so on.
        at: where a clip begins: "start", "center" or "random", which takes a `seed`.
        short: what happens to a video with fewer frames than a clip spans: "error", or "repeat", which repeats its last frame.
        truncated: what happens to a file that has less than it tells: "error", or "take", which takes what is there.

    An empty or damaged file, or one without a video or without frames, is an error of the sample. A truncated file cannot
    always be told from a shorter one: MP4 tells how long it is, Matroska and WebM do not.

    >>> import torch, torchcodec
    >>> import pykiste as ki
    >>> from pykiste.torchcodec import video
    >>> path = getfixture("tmp_path") / "videos.msgpack"
    >>> with ki.Writer(path) as writer:
    ...     pictures = torch.zeros((20, 3, 48, 64), dtype=torch.uint8)
    ...     encoded = torchcodec.encoders.VideoEncoder(pictures, frame_rate=10).to_tensor("mp4")
    ...     writer.write({"key": "black", "video": encoded.numpy().tobytes()})
    >>> columns = {"clip": video("video", frames=8, stride=2, size=(32, 32), at="random", seed=7)}
    >>> [batch] = ki.Loader(ki.open(path), columns=columns)
    >>> batch["clip"].shape, batch["clip"].dtype
    ((1, 8, 3, 32, 32), dtype('uint8'))
    """
    if not isinstance(size, Sequence) or len(size) != 2:
        raise InvalidError(f"size: expected height and width, found {size!r}")
    height, width = (_count("size", side) for side in size)
    frames, stride = _count("frames", frames), _count("stride", stride)
    _choice("short", short, ("error", "repeat"))
    clip = _Video(field, at, seed, short, truncated, frames, stride, (height, width))
    return Map(clip, "uint8", (frames, 3, height, width), seed=seed or 0)


def audio(field, *, samples, rate, channels=1, at="start", seed=None, short="error", truncated="error"):
    """A column of pieces of recordings: `float32`, of the shape `(channels, samples)`, between -1 and 1.

    A recording is decoded as a whole, since only then is its exact length known. With the same seed, clips of `video` and pieces
    of `audio` are drawn at the same relative place of a sample.

    Parameters:
        field: the field with a recording, or with a video that has one, as bytes of a file of any format that FFmpeg reads.
        samples: how many samples a piece has at `rate`.
        rate: samples in a second. A recording with another rate is resampled.
        channels: to how many channels it is mixed.
        at: where a piece begins: "start", "center" or "random", which takes a `seed`.
        short: what happens to a recording that is shorter: "error", or "zeros", which adds silence at its end.
        truncated: as for `video`.

    Errors are those of `video`. A truncated WAV file is not found, as its length is that of what is there.

    >>> import torch, torchcodec
    >>> import pykiste as ki
    >>> from pykiste.torchcodec import audio
    >>> path = getfixture("tmp_path") / "sounds.msgpack"
    >>> with ki.Writer(path) as writer:
    ...     encoded = torchcodec.encoders.AudioEncoder(torch.zeros(1, 8000), sample_rate=8000).to_tensor("wav")
    ...     writer.write({"key": "silence", "sound": encoded.numpy().tobytes()})
    >>> columns = {"piece": audio("sound", samples=2000, rate=8000, at="random", seed=7)}
    >>> [batch] = ki.Loader(ki.open(path), columns=columns)
    >>> batch["piece"].shape, batch["piece"].dtype
    ((1, 1, 2000), dtype('float32'))
    """
    samples, rate, channels = _count("samples", samples), _count("rate", rate), _count("channels", channels)
    _choice("short", short, ("error", "zeros"))
    piece = _Audio(field, at, seed, short, truncated, samples, rate, channels)
    return Map(piece, "float32", (channels, samples), seed=seed or 0)


def decode_jpeg(batch, name, *, device="cpu", mode="RGB"):
    """The JPEG images in a column of `bytes` of a batch: a list of `uint8` tensors of the shape `(channels, height, width)`.

    The decoder reads the memory of the batch: no `bytes` are made for each image. A CUDA device decodes all of them in one call
    of nvJPEG. EXIF orientation is left alone. An image that cannot be decoded is a `DamagedError` with its key.

    Parameters:
        batch: a `pykiste.Batch`; `name` is that of the column.
        device: where to decode, and where the tensors are.
        mode: "RGB", "GRAY" or "UNCHANGED", as torchcodec has it.

    >>> import torch, torchcodec
    >>> import pykiste as ki
    >>> from pykiste.torchcodec import decode_jpeg
    >>> path = getfixture("tmp_path") / "images.msgpack"
    >>> with ki.Writer(path) as writer:
    ...     encoded = torchcodec.encoders.JpegEncoder(torch.zeros((3, 20, 30), dtype=torch.uint8)).to_tensor()
    ...     writer.write({"key": "black", "image": encoded.numpy().tobytes()})
    >>> batch = next(ki.Loader(ki.open(path), columns={"image": bytes}))
    >>> [tuple(image.shape) for image in decode_jpeg(batch, "image")]
    [(3, 20, 30)]
    """
    torch, decoders = _packages()
    _choice("mode", mode, ("RGB", "GRAY", "UNCHANGED"))
    data, offsets = batch.ragged(name)
    images = [torch.from_numpy(data[start:end]) for start, end in zip(offsets[:-1], offsets[1:], strict=True)]
    if not images:
        return []
    try:
        return decoders.decode_jpeg(images, mode=mode, device=device)
    except (RuntimeError, ValueError):
        # It does not say which one of them it was.
        for key, image in zip(batch.sample_keys, images, strict=True):
            try:
                decoders.decode_jpeg(image, mode=mode)
            except (RuntimeError, ValueError) as error:
                message = f"sample {key!r}, field {name!r}: expected a JPEG image: {_line(error)}"
                raise DamagedError(message, key=key, field=name) from error
        raise


@dataclass(frozen=True)
class _Piece:
    """What a loader calls for each sample. It pickles, and finds torchcodec where it runs."""

    field: str
    at: str
    seed: int | None
    short: str
    truncated: str

    def __post_init__(self):
        _choice("at", self.at, ("start", "center", "random"))
        _choice("truncated", self.truncated, ("error", "take"))
        if (self.at == "random") != (self.seed is not None):
            raise InvalidError(f"seed: expected one for random pieces and none for others, found {self.seed!r}")
        _packages()

    def __call__(self, record):
        torch, decoders = _packages()
        value = record[self.field]
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise self._error(WrongTypeError, record, f"expected {self.kind} as bytes, found {type(value).__name__}")
        if not value:
            raise self._error(DamagedError, record, f"expected {self.kind}, found no bytes")
        try:
            # A copy: torch warns of memory that is read-only, and torchcodec would turn warnings off for all threads.
            return self._decoded(record, torch, decoders, torch.frombuffer(bytearray(value), dtype=torch.uint8))
        except Error:
            raise
        except (RuntimeError, ValueError, IndexError) as error:
            raise self._error(DamagedError, record, f"expected {self.kind}: {_line(error)}") from error

    def _error(self, kind, record, what):
        # The loader names the sample.
        return kind(f"field {self.field!r}: {what}", index=record.index, key=record.key, field=self.field)

    def _start(self, record, there, wanted, unit, seconds, told):
        """Where a piece begins that has `wanted` of all that is there. A file that lacks its end has less than it tells."""
        if there == 0:
            raise self._error(DamagedError, record, f"expected {self.kind}, found no {unit}")
        # What a file tells is rounded, or estimated from its first part.
        if self.truncated == "error" and told is not None and seconds < 0.95 * told - 0.1:
            raise self._error(DamagedError, record, f"expected {told:.2f} s as the file tells, found {seconds:.2f} s")
        if there < wanted and self.short == "error":
            raise self._error(InvalidError, record, f"expected at least {wanted} {unit}, found {there}")
        room = max(there - wanted, 0)
        if self.at != "random":
            return room // 2 if self.at == "center" else 0
        # Not by NumPy's distributions, which may change between its versions.
        return int(record.rng.bit_generator.random_raw()) * (room + 1) >> 64


@dataclass(frozen=True)
class _Video(_Piece):
    frames: int
    stride: int
    size: tuple[int, int]
    kind: ClassVar[str] = "a video"

    def _decoded(self, record, torch, decoders, data):
        decoder = decoders.VideoDecoder(data)
        there, known = len(decoder), decoder.metadata
        seconds = (known.end_stream_seconds_from_content or 0) - (known.begin_stream_seconds_from_content or 0)
        span = (self.frames - 1) * self.stride + 1
        start = self._start(record, there, span, "frames", seconds, known.duration_seconds_from_header)
        clip = decoder.get_frames_at([min(start + at, there - 1) for at in range(0, span, self.stride)]).data
        (rows, columns), (height, width) = clip.shape[2:], self.size
        high, wide = min(rows, max(1, columns * height // width)), min(columns, max(1, rows * width // height))
        top, left = (rows - high) // 2, (columns - wide) // 2
        clip = clip[..., top : top + high, left : left + wide]
        if clip.shape[2:] != self.size:
            clip = torch.nn.functional.interpolate(clip, self.size, mode="bilinear", antialias=True)
        return clip.numpy()


@dataclass(frozen=True)
class _Audio(_Piece):
    samples: int
    rate: int
    channels: int
    kind: ClassVar[str] = "a recording"

    def _decoded(self, record, torch, decoders, data):
        decoder = decoders.AudioDecoder(data, sample_rate=self.rate, num_channels=self.channels)
        sound = decoder.get_all_samples().data
        there, told = sound.shape[1], decoder.metadata.duration_seconds_from_header
        start = self._start(record, there, self.samples, "samples of sound", there / self.rate, told)
        piece = sound[:, start : start + self.samples].numpy()
        return np.pad(piece, ((0, 0), (0, self.samples - piece.shape[1])))


def _packages():
    try:
        import torch
        from torchcodec import decoders
    except (ImportError, OSError, RuntimeError) as error:  # The last one without FFmpeg.
        message = f"pykiste.torchcodec needs PyTorch, torchcodec and FFmpeg: pip install torchcodec ({_line(error)})"
        raise MissingPackageError(message) from error
    return torch, decoders


def _count(name, value):
    if isinstance(value, bool) or not hasattr(value, "__index__") or value.__index__() < 1:
        raise InvalidError(f"{name}: expected an integer of at least 1, found {value!r}")
    return value.__index__()


def _choice(name, value, choices):
    if value not in choices:
        *others, last = map(repr, choices)
        raise InvalidError(f"{name}: expected {', '.join(others)} or {last}, found {value!r}")


def _line(error):
    """What an error of torchcodec says, without the places in C++ before and after it."""
    return re.sub(r"^.*?\.cpp:\d+, ", "", (str(error).strip() or type(error).__name__).splitlines()[0])
