from collections.abc import Callable, Sequence
from typing import Any, Literal

from pykiste.types import Path

__all__ = ["from_dataset", "to_dataset", "to_iterable"]

def to_dataset(
    paths: Path | Sequence[Path],
    *,
    features: Any = None,
    label: str = "label",
    num_proc: int | None = None,
    **options: Any,
) -> Any: ...
def to_iterable(paths: Path | Sequence[Path], *, features: Any = None, **options: Any) -> Any: ...
def from_dataset(
    dataset: Any,
    path: Path,
    *,
    key: str | Callable[[dict[str, Any], int], str] = "key",
    labels: str | Sequence[str] | Literal[False] | None = None,
    progress: Callable[[int], object] | None = None,
    **options: Any,
) -> dict[str, int]: ...
