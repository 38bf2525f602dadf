from collections.abc import Iterator
from typing import Any

from pykiste import Loader
from pykiste.types import BatchInfo

class Batches:
    loader: Loader
    mask: str | None
    last: BatchInfo | None
    def __init__(self, loader: Loader, mask: str | None) -> None: ...
    def __iter__(self) -> Iterator[dict[str, Any]]: ...
    def state_dict(self) -> dict[str, int]: ...
    def load_state_dict(self, state: dict[str, int]) -> None: ...
