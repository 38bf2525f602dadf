"""Arguments that writing scripts have in common.

`argument_indir(parser)` adds the argument `indir`, and so on. Keyword arguments replace those that an
argument has.

>>> parser = make_parser("Writes a data set.")
>>> parser.parse_args(["images", "--shuffle", "no"]).shuffle
False
"""

import argparse
import os
from collections.abc import Callable
from typing import Any


class YesNoAction(argparse.Action):
    """Stores whether the value is `yes`."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        yesno: Any,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, yesno == "yes")


class MinMaxAction(argparse.Action):
    """Stores a number that is at least `min_value` and at most `max_value`, which 0 stands for."""

    min_value: Any = None
    max_value: Any = None

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        value: Any,
        option_string: str | None = None,
    ) -> None:
        value = max(self.min_value, value or self.max_value)
        setattr(namespace, self.dest, min(value, self.max_value))


def make_parser(
    description: str | None,
    indir: bool = True,
    outdir: bool = True,
    no_confirm: bool = True,
    skip_verification: bool = True,
    shuffle: bool = True,
    formatter_class: Any = argparse.RawDescriptionHelpFormatter,
    **kwargs: Any,
) -> argparse.ArgumentParser:
    """A parser with the arguments of a writing script."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=formatter_class, **kwargs
    )
    wanted = [
        (indir, argument_indir),
        (outdir, argument_outdir),
        (no_confirm, argument_no_confirm),
        (skip_verification, argument_skip_verification),
        (shuffle, argument_shuffle),
    ]
    for is_wanted, add in wanted:
        if is_wanted:
            add(parser)
    return parser


def make_parser_simple(
    description: str | None,
    indir: bool = False,
    outdir: bool = False,
    no_confirm: bool = False,
    skip_verification: bool = False,
    shuffle: bool = False,
    formatter_class: Any = argparse.RawDescriptionHelpFormatter,
    **kwargs: Any,
) -> argparse.ArgumentParser:
    """The same without any arguments, unless they are asked for."""
    return make_parser(
        description,
        indir,
        outdir,
        no_confirm,
        skip_verification,
        shuffle,
        formatter_class,
        **kwargs,
    )


def _argument(*names: str, **usual: Any) -> Callable[..., None]:
    def add(parser: argparse.ArgumentParser, *args: Any, **kwargs: Any) -> None:
        parser.add_argument(*names, *args, **(usual | kwargs))

    add.__doc__ = f"Adds the argument {names[-1]}. {usual['help']}"
    return add


argument_indir = _argument(
    "indir",
    type=str,
    default=".",
    metavar="INDIR",
    help="Directory that contains dataset source files.",
)

argument_outdir = _argument(
    "-o",
    "--outdir",
    type=str,
    default=None,
    metavar="PATH",
    help="Output directory. Defaults to indir.",
)

argument_infile = _argument("infile", type=str, default=None, help="Input file.")

argument_outfile = _argument(
    "-o", "--outfile", type=str, default=None, metavar="PATH", help="Output file."
)

argument_outfile_positional = _argument("outfile", type=str, help="Output file.")

argument_outfiles = _argument(
    "-o", "--outfiles", type=str, default=None, metavar="PATH", help="Output files.", nargs="+"
)

argument_no_confirm = _argument(
    "-y",
    "--no-confirm",
    dest="no_confirm",
    action="store_true",
    help="Don’t require user interaction.",
)

argument_skip_verification = _argument(
    "-s",
    "--skip-verification",
    action="store_true",
    help="Skip verification of source files.",
)

argument_shuffle = _argument(
    "--shuffle",
    default="yes",
    choices=["yes", "no"],
    action=YesNoAction,
    help="Write samples in random order. (default: yes)",
)

argument_calculate_weights = _argument(
    "--calculate-weights",
    action="store_true",
    help="Calculate median-frequency class weights.",
)


def argument_threads(
    parser: argparse.ArgumentParser, default: int = 1, max_threads: int = 0
) -> None:
    """Adds the argument `--threads`.

    Parameters:
        parser: where it is added
        default: threads without it
        max_threads: the highest number; 0 for that of the processors, -2 for twice that
    """
    processors = os.cpu_count() or 1
    limit = processors * -max_threads if max_threads < 0 else max_threads or processors

    class Clamp(MinMaxAction):
        min_value = 1
        max_value = limit

    default = min(default, limit)
    parser.add_argument(
        "-t",
        "--threads",
        default=default,
        metavar=f"0-{limit}",
        type=int,
        action=Clamp,
        help="Number of threads for conversion. "
        f"0 uses all available CPUs (default {default}).",
    )
