"""The examples in the documentation of native classes and functions run."""

import doctest

import pytest

import pykiste as ki

NAMES = sorted(name for name in ki.__all__ if ">>>" in (getattr(ki, name).__doc__ or ""))


@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs(name, request):
    shown = {**vars(ki), "getfixture": request.getfixturevalue}
    example = doctest.DocTestParser().get_doctest(getattr(ki, name).__doc__, shown, name, None, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert runner.run(example).failed == 0


def test_native_functions_have_examples():
    assert {"diff", "filter", "merge", "select", "shuffle", "sort", "split", "stat"} <= set(NAMES)
