from typing import Any

from pykiste import Loader
from pykiste._batches import Batches

__all__ = ["JaxLoader"]

class JaxLoader(Batches):
    device: Any
    def __init__(self, loader: Loader, device: Any = None, *, mask: str | None = None) -> None: ...
