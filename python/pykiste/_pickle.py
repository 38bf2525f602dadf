"""How objects are made again that were pickled. Names here are in pickles: they stay."""

from pykiste._core import ArrayStore, ChunkedArray, Dataset, Sampler, _described
from pykiste.errors import ReplacedError


def reopen(path, copy, samples, size, options=None, identity=None):
    """The dataset of this path, which must be the one that was pickled. Pickles of 0.1.0 have no more than its size."""
    dataset = Dataset(path, copy=copy, **options or {})
    if len(dataset) != samples or dataset.data_size != size:
        message = (
            f"{path}: expected the dataset that was pickled, with {samples} samples in {size} bytes, "
            f"found one with {len(dataset)} samples in {dataset.data_size} bytes"
        )
        raise ReplacedError(message, path=path)
    if identity is not None and not dataset._has_identity(identity):
        message = f"{path}: expected the dataset that was pickled, found another one of the same size"
        raise ReplacedError(message, path=path)
    return dataset


def compose(recipe, selections, sources, copy, path, options):
    """The dataset that was made of others as this recipe says, of the same files as before."""
    return _described(recipe, selections, sources, copy, path, **options)


def sampler(parts):
    """A sampler from its constructor's name and arguments."""
    name, *arguments = parts
    arguments = [sampler(part) if isinstance(part, tuple) else part for part in arguments]
    return getattr(Sampler, name)(*arguments)


def chunked(path, version, identity, fields):
    """A version of an array, or a column of it, which must be the one that was pickled."""
    array = ChunkedArray(path, version)
    if array._identity() != tuple(identity):
        message = f"{path}: expected version {version} of the array that was pickled, found another one of this number"
        raise ReplacedError(message, path=path)
    for field in fields:
        array = array[field]
    return array


def store(array, durable):
    """The store of an array, which takes the lock of a writer with its first change."""
    return ArrayStore._later(array, durable)
