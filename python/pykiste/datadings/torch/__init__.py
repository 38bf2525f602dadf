"""PyTorch: datasets of readers, and transforms of samples.

The parameters of transforms come from a function that is called once for each sample, so that those of
an image and of its label image are the same.
"""

from pykiste.datadings.torch.dataset import Dataset, DatasetBase, IterableDataset
from pykiste.datadings.torch.transform import CompressedToPIL, Compose, dict2tuple, no_rng

__all__ = [
    "Compose",
    "CompressedToPIL",
    "Dataset",
    "DatasetBase",
    "IterableDataset",
    "dict2tuple",
    "no_rng",
]
