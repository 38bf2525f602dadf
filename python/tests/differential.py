"""The same calls to datadings and to pykiste.datadings, with the same outcome."""

import numpy as np
from conftest import same


def outcome(call):
    """What a call returns, and the exception that it raises instead."""
    try:
        return call(), None
    except Exception as error:
        return None, error


def alike(theirs, ours):
    """Whether two exceptions are caught by the same `except` clauses of the built-in classes."""
    if theirs is None or ours is None:
        return theirs is ours
    kind = next(kind for kind in type(theirs).__mro__ if kind.__module__ == "builtins")
    # Of damaged messages, all that we say is that they are.
    return isinstance(ours, ValueError if kind is UnicodeDecodeError else kind)


def equal(one, other):
    """Whether two results are equal: samples, pairs of key and sample, packed bytes."""
    if isinstance(one, memoryview) or isinstance(other, memoryview):
        return type(one) is type(other) and one.readonly and other.readonly and one == other
    if isinstance(one, tuple) and isinstance(other, tuple) and type(one) is type(other):
        return len(one) == len(other) and all(map(equal, one, other))
    return same(one, other)


class Pair:
    """Two readers of the same samples, with the iterators that were made of them."""

    def __init__(self, theirs, ours):
        self.theirs = theirs
        self.ours = ours
        self.iterators = []

    def same(self, call, what):
        """Calls both, and returns the result if there is one."""
        (result, error), (found, failure) = outcome(lambda: call(self.theirs)), outcome(
            lambda: call(self.ours)
        )
        assert alike(error, failure), (what, error, failure)
        if error is None:
            assert equal(result, found), (what, result, found)
        self.same_position(what)
        return found

    def same_position(self, what):
        theirs, ours = (getattr(reader, "_i", None) for reader in (self.theirs, self.ours))
        assert theirs == ours, (what, theirs, ours)

    def begin(self, call, what):
        """Makes an iterator of each. They are generators, which do nothing yet."""
        (theirs, error), (ours, failure) = outcome(lambda: call(self.theirs)), outcome(
            lambda: call(self.ours)
        )
        assert alike(error, failure), (what, error, failure)
        if error is None:
            self.iterators.append((theirs, ours, what))
            del self.iterators[:-3]

    def advance(self, iterator, steps):
        """Takes some items of a pair of iterators."""
        theirs, ours, what = iterator
        for step in range(steps):
            (result, error), (found, failure) = outcome(lambda: next(theirs)), outcome(
                lambda: next(ours)
            )
            assert alike(error, failure), (what, step, error, failure)
            if error is not None:
                self.iterators.remove(iterator)
                break
            assert equal(result, found), (what, step, result, found)
            self.same_position((what, step))
        self.same_position(what)


def an_int(rng, samples):
    """An index that may be out of range, as one of many types."""
    number = rng.choice([0, samples - 1, samples, samples + 1, rng.randrange(samples + 1)])
    return rng.choice([int, int, int, np.int64, np.int32, np.uint64])(number)


def odd(rng):
    """What is no index."""
    return rng.choice([None, True, 1.5, np.float32(2), np.float64(1), "1", b"1", (1,), [0]])


def flags(rng):
    """Random keyword arguments that all methods have."""
    return {
        name: rng.random() < 0.5 for name in ("yield_key", "raw", "copy") if rng.random() < 0.5
    }
