"""Progress bars, by the package tqdm. Without it there are none."""

import sys
from types import TracebackType
from typing import Any, Self

try:
    import tqdm
except ImportError:
    tqdm = None

BAR_FORMAT = "{desc} {percentage:3.0f}% {elapsed}<{remaining}, {rate_fmt}{postfix}"
"""The usual form of a line of progress, for tqdm."""
DOWNLOAD_BAR = "{rate_fmt}, {n_fmt} of {total_fmt} ({percentage:3.0f}%) {elapsed}<{remaining}"
"""The form of that line while a file is fetched."""


class _Counter:
    """What stands for a progress bar without tqdm: it counts."""

    def __init__(self, *args: Any, total: int | None = None, initial: int = 0, **kwargs: Any) -> None:
        self.total = total
        self.n: float = initial

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.close()

    def update(self, n: float = 1) -> None:
        self.n += n

    def close(self) -> None:
        pass


_Bar: Any = _Counter if tqdm is None else tqdm.tqdm


class ProgressPrinter(_Bar):
    """A progress bar that is called for each step."""

    monitor_interval = 0
    __call__ = _Bar.update


def make_printer(
    bar_format: str = BAR_FORMAT,
    miniters: int = 0,
    mininterval: float = 0.5,
    smoothing: float = 0.1,
    **kwargs: Any,
) -> ProgressPrinter:
    """A progress bar. Arguments are those of `tqdm.tqdm`."""
    return ProgressPrinter(
        bar_format=bar_format,
        miniters=miniters,
        mininterval=mininterval,
        smoothing=smoothing,
        **kwargs,
    )


def print_over(*args: Any, **kwargs: Any) -> None:
    """Prints over the current line of the terminal. Arguments are those of `print`."""
    end, flush = kwargs.pop("end", "\n"), kwargs.pop("flush", False)
    file = kwargs.pop("file", None) or sys.stdout
    print("\r", *args, **kwargs, file=file, end="")
    print("\033[K", file=file, end=end, flush=flush)
