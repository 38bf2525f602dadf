"""`ResumableDataLoader`: a `DataLoader` of torch that knows where it is."""

from torch.utils.data import DataLoader

from pykiste.errors import WrongTypeError
from pykiste.torch import StatefulSampler


class ResumableDataLoader(DataLoader):
    """A `DataLoader` whose `state_dict()` is the place after the batches that it has handed out. What its workers
    have fetched ahead does not count. `sampler` is a `StatefulSampler`.

    >>> import pykiste as ki
    >>> from pykiste.torch import ResumableDataLoader, StatefulSampler
    >>> sampler = StatefulSampler(ki.Sampler.sequential(10))
    >>> loader = ResumableDataLoader(list(range(10)), sampler=sampler, batch_size=2, num_workers=2)
    >>> batches = iter(loader)
    >>> next(batches).tolist(), next(batches).tolist(), loader.state_dict()
    ([0, 1], [2, 3], {'epoch': 0, 'position': 4})
    """

    # After the batches so far, in a loop that has not ended.
    _done = None
    # Where that loop began, and how often its sampler had been told another place.
    _loop = None

    def __init__(self, dataset, *, sampler, **options):
        if not isinstance(sampler, StatefulSampler):
            raise WrongTypeError(f"sampler: expected a StatefulSampler, found {type(sampler).__name__}")
        super().__init__(dataset, sampler=sampler, **options)

    def __iter__(self):
        sampler = self.sampler
        if self._loop is not None and self._loop[1] == sampler._told:
            # Its indices may have been taken to the end of the epoch.
            sampler._go_to(*self._loop[0])
        self._loop = (sampler._begin, sampler._told)
        epoch, start = sampler._begin
        self._done = {"epoch": epoch, "position": start}
        batches = super().__iter__()
        for number, batch in enumerate(batches, 1):
            at = start + number * (self.batch_size or 1) * sampler.world
            ends = at >= len(sampler.sampler)
            self._done = {"epoch": epoch + 1, "position": 0} if ends else {"epoch": epoch, "position": at}
            yield batch
        self._done = self._loop = None

    def state_dict(self):
        """Where the run is after the batches so far."""
        return dict(self._done or self.sampler.state_dict())

    def load_state_dict(self, state):
        """Goes on from a saved state."""
        self.sampler.load_state_dict(state)
        self._done = self._loop = None
