from collections.abc import Iterator
from typing import Any

from pykiste import Loader

__all__ = ["JaxLoader"]

class JaxLoader:
    loader: Loader
    device: Any
    def __init__(self, loader: Loader, device: Any = None) -> None: ...
    def __iter__(self) -> Iterator[dict[str, Any]]: ...
    def state_dict(self) -> dict[str, int]: ...
    def load_state_dict(self, state: dict[str, int]) -> None: ...
