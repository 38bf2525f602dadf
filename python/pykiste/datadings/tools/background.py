"""Generators that run in a thread or a process of their own."""

import multiprocessing
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from queue import Empty, Full, Queue
from typing import Any, TypeVar

T = TypeVar("T")

_AHEAD = 3
"""How many items are kept ready."""


class SentinelEnd:
    """Comes after the last item of another process."""


class SentinelError:
    """Comes if the generator of another process raised an exception."""


def _feed(
    items: Iterable[Any], queue: Any, is_running: Callable[[], bool], end: Any, error: Any
) -> None:
    def put(item: Any) -> None:
        # Whoever reads may be slow, or gone.
        while is_running():
            try:
                return queue.put(item, timeout=1)
            except Full:
                pass

    last = error
    try:
        for item in items:
            if not is_running():
                return
            put(item)
        last = end
    finally:
        put(last)


def _take(
    queue: Any, is_alive: Callable[[], bool], is_end: Callable[[Any], bool], is_error: Callable[[Any], bool]
) -> Iterator[Any]:
    while True:
        was_alive = is_alive()
        try:
            item = queue.get(timeout=1)
        except Empty:
            if was_alive:
                continue
            # Killed, perhaps for want of memory.
            raise RuntimeError from None
        if is_end(item):
            return
        if is_error(item):
            raise RuntimeError
        yield item


class Yielder(threading.Thread):
    """A thread that puts the items of a generator into a queue, and then `end` or `error`."""

    def __init__(self, gen: Iterable[Any], queue: Any, end: Any, error: Any) -> None:
        super().__init__(daemon=True)
        self.running = True
        self.gen = gen
        self.queue = queue
        self.end = end
        self.error = error

    def run(self) -> None:
        """What the thread does."""
        _feed(self.gen, self.queue, lambda: self.running, self.end, self.error)

    def stop(self) -> None:
        """Ends the thread at the next item."""
        self.running = False


def yield_threaded(gen: Iterable[T]) -> Iterator[T]:
    """Runs a generator in another thread. If it raises, `RuntimeError` is raised here.

    >>> list(yield_threaded(iter("abc")))
    ['a', 'b', 'c']
    """
    end, error = object(), object()
    yielder = Yielder(gen, Queue(_AHEAD), end, error)
    try:
        yielder.start()
        yield from _take(
            yielder.queue, yielder.is_alive, lambda item: item is end, lambda item: item is error
        )
    finally:
        yielder.stop()


# A generator cannot be pickled: it reaches another process only by fork.
_context: Any = multiprocessing.get_context(None if sys.platform == "win32" else "fork")


class YielderProc(_context.Process):
    """A process that puts the items of a generator into a queue."""

    def __init__(self, gen: Iterable[Any], queue: Any) -> None:
        super().__init__(daemon=True)
        self.running = _context.Value("b", True)
        self.gen = gen
        self.queue = queue

    def run(self) -> None:
        """What the process does."""
        is_running = lambda: bool(self.running.value)
        _feed(self.gen, self.queue, is_running, SentinelEnd(), SentinelError())

    def stop(self) -> None:
        """Ends the process at the next item."""
        self.running.value = False


def yield_process(gen: Iterable[T]) -> Iterator[T]:
    """Runs a generator in another process. If it raises, `RuntimeError` is raised here."""
    yielder = YielderProc(gen, _context.Queue(_AHEAD))
    try:
        yielder.start()
        yield from _take(
            yielder.queue,
            yielder.is_alive,
            lambda item: isinstance(item, SentinelEnd),
            lambda item: isinstance(item, SentinelError),
        )
    finally:
        yielder.stop()
