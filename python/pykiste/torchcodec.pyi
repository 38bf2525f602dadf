from collections.abc import Sequence
from typing import Any, Literal

from pykiste import Batch
from pykiste.columns import Map

__all__ = ["audio", "decode_jpeg", "video"]

def video(
    field: str,
    *,
    frames: int,
    size: Sequence[int],
    stride: int = 1,
    at: Literal["start", "center", "random"] = "start",
    seed: int | None = None,
    short: Literal["error", "repeat"] = "error",
    truncated: Literal["error", "take"] = "error",
) -> Map: ...
def audio(
    field: str,
    *,
    samples: int,
    rate: int,
    channels: int = 1,
    at: Literal["start", "center", "random"] = "start",
    seed: int | None = None,
    short: Literal["error", "zeros"] = "error",
    truncated: Literal["error", "take"] = "error",
) -> Map: ...
def decode_jpeg(
    batch: Batch,
    name: str,
    *,
    device: Any = "cpu",
    mode: Literal["RGB", "GRAY", "UNCHANGED"] = "RGB",
) -> list[Any]: ...
