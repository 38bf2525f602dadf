"""Types of samples. Well-known data sets are written by the command `kiste catalogue`."""

from pykiste.datadings.sets.types import *  # noqa: F403
