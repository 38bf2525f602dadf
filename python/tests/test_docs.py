"""The examples in the documentation of native classes and functions run."""

import doctest

import pytest

import pykiste as ki


def documented():
    """Everything with an example: functions, classes, and the methods of classes."""
    for name in [*ki.__all__, "filter"]:
        item = getattr(ki, name)
        yield name, item
        if isinstance(item, type):
            yield from ((f"{name}.{method}", getattr(item, method)) for method in vars(item))


EXAMPLES = {name: item.__doc__ for name, item in documented() if ">>>" in (item.__doc__ or "")}
NAMES = sorted(EXAMPLES)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs(name, request):
    shown = {**vars(ki), "getfixture": request.getfixturevalue}
    example = doctest.DocTestParser().get_doctest(EXAMPLES[name], shown, name, None, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert runner.run(example).failed == 0


def test_native_functions_have_examples():
    assert {"diff", "filter", "merge", "select", "shuffle", "sort", "split", "stat"} <= set(NAMES)
    assert {"Batch.ragged", "Loader.report"} <= set(NAMES)
    assert {"Dataset.info", "Dataset.items", "Dataset.keys", "Dataset.labels", "Dataset.schema"} <= set(NAMES)
    assert {"features", "index", "pack", "verify"} <= set(NAMES)
