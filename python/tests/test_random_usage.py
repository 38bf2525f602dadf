"""Random calls of everything that the stubs name: each returns, or raises what the documentation says, with words."""

import ast
import inspect
import random
from pathlib import Path

import numpy as np
import pytest

import pykiste as ki

STUBS = Path(ki.__file__).with_name("__init__.pyi")
CALLS = 150

# What Python itself raises for arguments that a function does not take.
OF_PYTHON = (TypeError, OverflowError)

NUMBERS = [-(2**63), -7, -1, 0, 1, 2, 3, 64, 1000, 2**31, 2**63, 2**64, True, 1.5, float("nan"), float("inf"), -0.0]
TEXTS = ["", "a", "label", "key", "ä", "\0", "x" * 300, "../x", "int64", "float32", "resize(8)", "label == 3", "\ud800"]
ARRAYS = [np.array(3), np.arange(3), np.zeros((2, 3), "float32"), np.array([True, False]), np.array(["a"]), np.empty(0)]
OTHERS = [
    None, b"", b"\xff", b"\x81\xa3key\xa1a", (), [], {}, [0, 1], ["a", "b"], [0, "a"], {"label": "int64"}, {"a": 0.5, "b": 0.5},
    slice(None), slice(-1, 5, 2), ..., object(), int, str, np.int64(3), np.float32(1), np.datetime64("2026-01-01"), print,
    Path("x"), memoryview(b"abc"), range(3), 1j, ki.Timestamp(1, 2), ki.Extension(5, b"x"),
]
# Of these a large number is not refused, but done.
SMALL = {"threads", "queue", "batch_size", "chunks", "shape", "memory", "count", "times", "shard_samples", "shards", "limit"}


def signatures():
    """The functions and methods of the stubs, with the names of their parameters."""
    for node in ast.parse(STUBS.read_text()).body:
        if isinstance(node, ast.FunctionDef) and hasattr(ki, node.name):
            yield None, node.name, parameters(node)
        elif isinstance(node, ast.ClassDef) and inspect.isclass(getattr(ki, node.name, None)):
            for method in node.body:
                if isinstance(method, ast.FunctionDef):
                    decorators = {decorator.id for decorator in method.decorator_list if isinstance(decorator, ast.Name)}
                    kind = "property" if "property" in decorators else "class" if "classmethod" in decorators else "method"
                    yield node.name, method.name, (kind, parameters(method))


def parameters(node):
    arguments = node.args
    named = [argument.arg for argument in arguments.kwonlyargs]
    placed = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args) if argument.arg not in ("self", "cls")]
    return placed, named


@pytest.fixture
def made(tmp_path, monkeypatch):
    """An object of each class, made again for each call, which may close it."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "x.msgpack"
    with ki.Writer(path) as writer:
        for number in range(10):
            writer.write({"key": str(number), "label": number, "a": np.arange(3, dtype="int32")})
    numbers = iter(range(10**9))
    columns = {"label": "int64", "a": ("int32", 3)}

    def store():
        return ki.ArrayStore.create(tmp_path / f"array{next(numbers)}", (4, 3), "int32", (2, 3), durable=False)

    return {
        "Dataset": lambda: ki.open(path),
        "Writer": lambda: ki.Writer(tmp_path / f"w{next(numbers)}.msgpack", durable=False),
        "Sampler": lambda: ki.Sampler.shuffle(10, 1),
        "Order": lambda: ki.Sampler.shuffle(10, 1).order(0),
        "Loader": lambda: ki.Loader(ki.open(path), batch_size=4, columns=columns, threads=0),
        "Batch": lambda: next(iter(ki.Loader(ki.open(path), batch_size=4, columns=columns, threads=0))),
        "ArrowTable": lambda: ki.open(path).to_arrow(),
        "Pipeline": lambda: ki.Pipeline("center_crop(2)"),
        "ArrayStore": store,
        "ChunkedArray": lambda: store().array,
        "StagedVersion": lambda: store().stage(),
        "PackedArray": lambda: ki.PackedArray.pack(np.arange(12).reshape(4, 3)),
        "View": lambda: memoryview,
    }


def value(draw, name, made):
    if name in ("path", "output", "source", "left", "right"):
        return draw.choice([draw.choice(TEXTS), "x.msgpack", Path("x.msgpack"), Path("out.msgpack"), made["Dataset"]()])
    if name == "sources":
        return draw.choice([["x.msgpack"], [], ["x.msgpack", "x.msgpack"], "x.msgpack", draw.choice(OTHERS)])
    if name == "dataset":
        return draw.choice([made["Dataset"](), draw.choice(OTHERS)])
    if name == "sampler":
        return draw.choice([made["Sampler"](), None, draw.choice(OTHERS)])
    pool = draw.choice([NUMBERS, TEXTS, ARRAYS, OTHERS])
    chosen = draw.choice(pool)
    if name in SMALL and isinstance(chosen, int) and chosen > 1000:
        return 3
    return chosen


def call(target, placed, named, draw, made):
    given = [value(draw, name, made) for name in placed[: draw.choice([len(placed), len(placed), draw.randint(0, len(placed))])]]
    chosen = draw.sample(named, draw.randint(0, min(2, len(named))))
    options = {name: value(draw, name, made) for name in chosen}
    try:
        target(*given, **options)
    except ki.Error as error:
        assert str(error).strip(), f"{target} {given} {options}: an error without words"
    except (*OF_PYTHON, BufferError, StopIteration) as error:
        assert isinstance(error, StopIteration) or str(error).strip(), f"{target} {given} {options}"
    except (UnicodeError, AttributeError) as error:
        # Of the value that was given: text that is none, an object without what is asked of it.
        assert "surrogates" in str(error) or "object has no attribute" in str(error), f"{target} {given} {options}: {error!r}"


ALL = list(signatures())


@pytest.mark.parametrize("owner, name, what", ALL, ids=[f"{owner or ''}.{name}" for owner, name, _ in ALL])
@pytest.mark.timeout(120)
def test_any_call_returns_or_says_why(owner, name, what, made):
    draw = random.Random(f"{owner}.{name}")
    for _ in range(CALLS if owner not in ("ArrayStore", "ChunkedArray", "StagedVersion") else CALLS // 5):
        if owner is None:
            call(getattr(ki, name), *what, draw, made)
            continue
        kind, (placed, named) = what
        if kind == "class" or name == "__new__":
            target = getattr(ki, owner) if name == "__new__" else getattr(getattr(ki, owner), name)
            call(target, placed, named, draw, made)
        elif owner != "View":
            one = made[owner]()
            target = (lambda: getattr(one, name)) if kind == "property" else getattr(one, name)
            call(target, placed, named, draw, made)
