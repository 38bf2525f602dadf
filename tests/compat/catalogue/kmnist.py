"""Files of the form of MNIST: see `mnist.py`."""

from mnist import MODULE, build, check  # noqa: F401
