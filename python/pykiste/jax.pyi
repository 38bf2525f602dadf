from typing import Any

from pykiste import Loader
from pykiste._batches import BatchColumns, Batches

__all__ = ["JaxBatch", "JaxLoader"]

class JaxBatch(BatchColumns): ...

class JaxLoader(Batches[JaxBatch]):
    device: Any
    def __init__(self, loader: Loader, device: Any = None, *, mask: str | None = None) -> None: ...
