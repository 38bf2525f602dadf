"""The natural order of labels, in which `item 2` is before `item 10`, as in the package natsort."""

import re
import unicodedata
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any


def natural_key(value: Any) -> tuple[Any, ...]:
    """Sorts values in natural order. Numbers are before all strings.

    >>> sorted(["b", "item 10", "item 2", "2", 3], key=natural_key)
    ['2', 3, 'b', 'item 2', 'item 10']
    """
    if isinstance(value, (str, PurePath)):
        return _text_key(str(value))
    if isinstance(value, bytes):
        return (value,)
    if isinstance(value, Iterable):
        return tuple(map(natural_key, value))
    lowest = float("-inf")
    if value != value:
        return ("", lowest, "1")
    if value is None:
        return ("", lowest, "2")
    return ("", value, "3") if value == lowest else ("", value)


def _text_key(text: str) -> tuple[str | int, ...]:
    parts: list[str | int] = []
    # Runs of decimal digits are numbers, and so is each other digit, as `²`.
    for part in re.findall(r"\d+|\D", unicodedata.normalize("NFD", text)):
        if part.isdigit():
            # Strings and numbers take turns, so that only alike are compared.
            if not parts or isinstance(parts[-1], int):
                parts.append("")
            parts.append(int(part) if part.isdecimal() else unicodedata.digit(part))
        elif parts and isinstance(parts[-1], str):
            parts[-1] += part
        else:
            parts.append(part)
    return tuple(parts)
