"""Questions to the user, and docstrings of sample types."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any


def query_user(
    question: str,
    default: str | None = "yes",
    answers: Sequence[str] = ("yes", "no", "abort"),
) -> str:
    """Asks on the terminal until one of the answers, or the beginning of one, is given.

    Parameters:
        question: what is asked
        default: the answer that an empty line stands for; None for none
        answers: possible answers
    """
    if default is not None and default not in answers:
        raise ValueError(f"invalid default answer: '{default}'")
    known = {"": default}
    for answer in answers:
        known |= {answer[:length]: answer for length in range(1, len(answer) + 1)}
    letters = [answer[0].upper() if answer == default else answer[0] for answer in answers]
    while True:
        print(f"{question} [{'/'.join(letters)}/?]", flush=True, end=" ")
        if found := known.get(input().lower()):
            return found
        print("You can choose", ", ".join(answers), flush=True)


def document_keys(
    typefun: Callable[..., dict[str, Any]],
    block: str = "Important:",
    prefix: str = "Samples have the following keys:",
    postfix: str = "",
) -> str:
    """A paragraph for a docstring that lists the keys of a type of `sets.types`.

    Parameters:
        typefun: the function that makes samples
        block: the first line
        prefix: the text before the list
        postfix: the text after it
    """
    sample = typefun(*[1] * len(inspect.signature(typefun).parameters))
    keys = "\n    - ".join(f'``"{key}"``' for key in sample)
    return f"{block}\n    {prefix}\n\n    - {keys}\n{postfix}"
