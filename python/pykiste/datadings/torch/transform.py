"""Transforms of what is in samples."""

import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BytesIO
from typing import Any


def _parameters(transform: Any) -> list[str]:
    """The names of a transform's parameters after the first one, which takes the value."""
    spec = inspect.getfullargspec(transform)
    names = spec.args + spec.kwonlyargs
    if not callable(transform):
        raise ValueError(f"transform must be callable, not {transform!r}")
    if names and not inspect.isfunction(transform):
        if names[0] != "self":
            warnings.warn(
                f"expected first argument of {transform!r} to be 'self', but found {names[0]!r}, "
                "arguments given to this transform may be incorrect",
                stacklevel=3,
            )
        del names[0]
    if names:
        if spec.varargs:
            warnings.warn(f"varargs are ignored for {transform!r}", stacklevel=3)
        return names[1:]
    if not spec.varargs:
        raise ValueError(
            f"transforms must accept at least one argument but {transform!r} accepts none"
        )
    warnings.warn(
        f"{transform!r} only accepts varargs so it will only receive sample values", stacklevel=3
    )
    return []


class Compose:
    """Several functions as one transform, which takes a value and a dict of parameters.

    A function takes the value as its first argument. Its other arguments are parameters of their name.

    >>> def add(value, number):
    ...     return value + number
    >>> def double(value):
    ...     return 2 * value
    >>> Compose(add, double)(1, {"number": 3})
    8

    Parameters:
        transforms: functions, or one iterable of them
        prefix: what the names of parameters begin with: with `prefix="mask_"`, the argument `size` is the
            parameter `mask_size`
    """

    def __init__(self, *transforms: Any, prefix: str = "") -> None:
        if len(transforms) == 1 and isinstance(transforms[0], Iterable):
            transforms = tuple(transforms[0])
        self.transforms = transforms
        self.param_names = [
            tuple(prefix + name for name in _parameters(transform)) for transform in transforms
        ]
        self.prefix = prefix

    def __call__(self, value: Any, params: dict[str, Any]) -> Any:
        try:
            for transform, names in zip(self.transforms, self.param_names):
                start = len(self.prefix)
                given = {name[start:]: params[name] for name in names if name in params}
                value = transform(value, **given)
            return value
        except TypeError as error:
            raise KeyError(
                "Required parameters for transform function are missing. Incomplete rng function? "
                f"Missing constants? {error}"
            ) from error


def no_rng(_: Any) -> dict[str, Any]:
    """No parameters."""
    return {}


class CompressedToPIL:
    """Decodes an image into one of Pillow. Needs Pillow; JPEG is faster with the package simplejpeg."""

    def __call__(self, buf: Any) -> Any:
        from PIL import Image

        try:
            from simplejpeg import decode_jpeg

            return Image.fromarray(decode_jpeg(buf))
        except (ImportError, ValueError):
            return Image.open(BytesIO(buf)).convert("RGB")

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}()"


def dict2tuple(
    it: Iterable[dict[str, Any]], keys: Sequence[str] = ("image", "label")
) -> Iterator[tuple[Any, ...]]:
    """The values of these keys, for each sample."""
    for sample in it:
        yield tuple(sample[key] for key in keys)


Transforms = dict[str, Callable[[Any, dict[str, Any]], Any]] | Callable[[Any], Any]
