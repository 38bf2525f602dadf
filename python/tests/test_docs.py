"""The examples in the documentation of native classes and functions run."""

import doctest
import importlib.util
import inspect
from pathlib import Path

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


def test_the_site_finds_the_docstrings_of_native_items():
    """Their comments in Rust, without a module that was compiled."""
    place = Path(__file__).parents[2] / "docs/site/reference.py"
    spec = importlib.util.spec_from_file_location("reference", place)
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    docs = reference.native_docs()
    native = {name: item for name, item in documented() if name.split(".")[0] in vars(ki._core)}
    shown = {name: inspect.cleandoc(item.__doc__) for name, item in native.items() if not name.split(".")[-1].startswith("_")}
    assert len(shown) > 100
    assert {name: inspect.cleandoc(docs.get(name, "")) for name in shown} == shown
