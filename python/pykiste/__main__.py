"""The command `kiste`, which pip installs: the program that `cargo install` builds, in the process of Python.

Most of both is the library, so a program of its own would double the size of the wheel.
"""

import os
import signal
import sys

from pykiste._core import run_command


def main() -> int:
    # A program in Rust opens these if they are closed, so that no dataset takes the place of standard output.
    for standard in range(3):
        try:
            os.fstat(standard)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    # Ctrl-C ends the process, or is heard by the command, and does not wait for Python.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run_command(sys.argv)


if __name__ == "__main__":
    sys.exit(main())
