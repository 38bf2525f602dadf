"""Augments of the drop-in have the orders, positions and exceptions of datadings."""

import json
import random
from itertools import accumulate

import pytest
from conftest import GOLDEN
from differential import Pair, equal, flags, outcome

import pykiste.datadings.reader as own
from pykiste.datadings.reader import ListReader, MsgpackReader, QuasiShuffler, Shuffler

datadings = pytest.importorskip("datadings.reader")


def numbers_from(package, samples):
    return package.ListReader([{"key": f"k{number}", "v": number} for number in range(samples)])


def pair_of(make, samples):
    """An augment of each package."""
    return Pair(
        make(datadings, numbers_from(datadings, samples)), make(own, numbers_from(own, samples))
    )


def run(pair, rng, rounds, options=flags, steps=(1, 3, 50), interleaved=False):
    """Iterators that are dropped, and others that go on where those stopped."""
    for _ in range(rounds):
        if not interleaved:
            # Two of them can move the position of a reader behind its end, where datadings loops for ever.
            pair.iterators.clear()
        given = options(rng)
        pair.begin(lambda reader: reader.iter(**given), given)
        pair.advance(pair.iterators[-1], rng.choice(steps))
        if rng.random() < 0.2:
            pair.begin(lambda reader: reader.rawiter(yield_key=True), "rawiter")
            pair.advance(pair.iterators[-1], rng.choice(steps))
        if rng.random() < 0.2 and pair.iterators:
            pair.advance(rng.choice(pair.iterators), 2)
        assert len(pair.theirs) == len(pair.ours)


@pytest.mark.parametrize("seed", range(40))
def test_shufflers(seed):
    rng = random.Random(seed)
    samples = rng.choice([1, 2, 7, 40, 300])
    given = rng.choice([None, 0, seed, -5, 2**70, 1.5, "text", b"bytes"])
    if isinstance(given, (str, bytes)):
        with pytest.raises(TypeError):
            list(Shuffler(numbers_from(own, samples), given))
        return
    pair = pair_of(lambda package, reader: package.Shuffler(reader, given), samples)
    run(pair, rng, 10, interleaved=True)
    for _ in range(5):
        # datadings counts positions of later passes from the beginning of the first one.
        to = rng.randrange(samples)
        for shuffler in pair.theirs, pair.ours:
            shuffler.seek(to)
        assert pair.theirs._offset == pair.ours._offset
        run(pair, rng, 4)


@pytest.mark.parametrize("seed", range(60))
def test_quasi_shufflers(seed):
    rng = random.Random(seed)
    samples = rng.choice([1, 15, 16, 17, 100, 431])
    arguments = {"seed": rng.choice([None, 0, seed, 2.5])}
    if rng.random() < 0.7:
        arguments |= {"buf_size": rng.choice([0.01, 0.5, 1, 4, 20.7, 33, 1000])}
    if rng.random() < 0.7:
        arguments |= {"chunk_size": rng.choice([1, 2, 3, 7, 16, 500])}
    pair = pair_of(lambda package, reader: package.QuasiShuffler(reader, **arguments), samples)
    for name in "buf_size", "chunk_size", "num_chunks", "_seed":
        assert getattr(pair.theirs, name) == getattr(pair.ours, name)
    # Dropped iterators at the end of a chunk are where datadings reads a sample twice.
    run(pair, rng, 6, steps=(1000,))
    for _ in range(5):
        to = rng.randrange(samples) + rng.randrange(3) * samples
        full = order_of(pair.ours, to)
        assert full == whole_order(own, samples, arguments, to)
        if not is_end_of_chunk(pair.ours, to):
            assert order_of(pair.theirs, to) == full, to


def order_of(shuffler, to):
    shuffler.seek(to)
    found = [sample["v"] for sample in shuffler]
    shuffler.seek(0)
    return found


def whole_order(package, samples, arguments, to):
    """The same from passes that nothing interrupts."""
    shuffler = package.QuasiShuffler(numbers_from(package, samples), **arguments)
    for _ in range(to // samples):
        list(shuffler)
    return [sample["v"] for sample in shuffler][to % samples :]


def is_end_of_chunk(shuffler, to):
    """Whether a position is just behind a chunk that goes through the buffer."""
    samples, chunk = len(shuffler), shuffler.chunk_size
    order = list(range(shuffler.num_chunks))
    random.Random(shuffler._seed + to // samples * samples).shuffle(order)
    sizes = [min(samples, (number + 1) * chunk) - number * chunk for number in order]
    return to % samples in accumulate(sizes[shuffler.buf_size // chunk :])


def test_no_quasi_shuffler_repeats_samples_from_any_position():
    wrong = 0
    for samples, buffer, chunk in (40, 8, 4), (41, 8, 4), (30, 16, 16), (10, 20, 3):
        arguments = {"buf_size": buffer, "chunk_size": chunk, "seed": 3}
        ours = QuasiShuffler(numbers_from(own, samples), **arguments)
        theirs = datadings.QuasiShuffler(numbers_from(datadings, samples), **arguments)
        for to in range(2 * samples):
            expected = whole_order(datadings, samples, arguments, to)
            assert order_of(ours, to) == expected, (samples, buffer, chunk, to)
            if order_of(theirs, to) != expected:
                assert is_end_of_chunk(ours, to)
                wrong += 1
    # Behind the end of a chunk, datadings reads its last sample again.
    assert wrong > 0


def test_an_interrupted_pass_goes_on():
    for kind in Shuffler, QuasiShuffler:
        whole = [sample["v"] for sample in kind(numbers_from(own, 50), seed=4)]
        for stop in range(51):
            shuffler = kind(numbers_from(own, 50), seed=4)
            samples = iter(shuffler)
            first = [next(samples)["v"] for _ in range(stop)]
            # The sample that an iterator yielded last counts once the next one is asked for.
            shuffler.seek(stop)
            rest = [sample["v"] for sample in shuffler] if stop < 50 else []
            assert first + rest == whole


def test_golden_orders():
    golden = json.loads((GOLDEN / "orders.json").read_text())
    values = lambda samples: [sample["v"] for sample in samples]
    for name, kind in ("shuffler", Shuffler), ("quasi", QuasiShuffler):
        for case in golden[name]:
            options = {key: case[key] for key in ("buf_size", "chunk_size") if key in case}
            shuffler = kind(numbers_from(own, case["n"]), seed=case["seed"], **options)
            # Of long orders it has only the beginnings.
            for expected in case.get("epochs") or case["epochs_first"]:
                found = values(shuffler)
                assert len(found) == case["n"] and found[: len(expected)] == expected
    for case in golden["quasi_seek"]:
        sizes = case["buf_size"], case["chunk_size"]
        shuffler = QuasiShuffler(numbers_from(own, case["n"]), *sizes, case["seed"])
        for seek in case["seeks"]:
            shuffler.seek(seek["i"])
            assert values(shuffler) == case["full"][seek["i"] % case["n"] :]
            shuffler.seek(0)


@pytest.mark.parametrize("seed", range(30))
def test_ranges_repeaters_and_cyclers(seed):
    rng = random.Random(seed)
    samples = rng.choice([1, 2, 20, 50])
    start, stop, times = (rng.randrange(-samples - 2, samples + 2) for _ in range(3))
    makers = [
        lambda package, reader: package.Range(reader, start),
        lambda package, reader: package.Range(reader, start, stop),
        lambda package, reader: package.Range(reader, stop=stop),
        lambda package, reader: package.Repeater(reader, times),
        lambda package, reader: package.Cycler(reader),
        lambda package, reader: package.Repeater(package.Cycler(reader), 2),
        lambda package, reader: package.Cycler(package.Shuffler(reader, seed)),
        lambda package, reader: package.Repeater(package.QuasiShuffler(reader, seed=seed), 2),
    ]

    def options(rng):
        given = flags(rng)
        return given | {"chunk_size": rng.choice([1, 4, 16])} if rng.random() < 0.3 else given

    for number, make in enumerate(makers):
        pairs = [
            outcome(lambda: make(package, numbers_from(package, samples)))
            for package in (datadings, own)
        ]
        (theirs, error), (ours, failure) = pairs
        assert type(error) is type(failure) and str(error) == str(failure)
        if error is not None:
            continue
        pair = Pair(theirs, ours)
        # An interrupted QuasiShuffler of datadings may repeat a sample.
        is_quasi = number == len(makers) - 1
        steps = (130,) if is_quasi else (1, 5, 130)
        run(pair, rng, 4, (lambda _: {}) if number > 5 else options, steps)
        to = rng.randrange(-samples, 2 * samples)
        if number < 6:
            pair.same(lambda reader: reader.seek(to), ("seek", to))
        pair.iterators.clear()
        with pair.theirs as theirs, pair.ours as ours:
            assert (theirs, ours) == (pair.theirs, pair.ours)
        run(pair, rng, 2, lambda _: {}, steps)


def test_datasets_are_shuffled_as_lists_are(numbers):
    for make in (
        lambda package, reader: package.Shuffler(reader, seed=5),
        lambda package, reader: package.QuasiShuffler(reader, 20, 4),
        lambda package, reader: package.Cycler(reader),
    ):
        pair = Pair(make(datadings, datadings.MsgpackReader(numbers)), make(own, MsgpackReader(numbers)))
        run(pair, random.Random(6), 8, steps=(200,))


def test_what_datadings_does_wrong():
    """The table of docs/from-datadings.md: what datadings does, and what we do."""
    samples = 40
    # Positions of later passes.
    theirs, ours = (kind(numbers_from(package, samples)) for package, kind in
                    ((datadings, datadings.Shuffler), (own, Shuffler)))
    list(datadings.Shuffler(numbers_from(datadings, samples)))
    second = datadings.Shuffler(numbers_from(datadings, samples))
    list(second)
    expected = [sample["v"] for sample in second][5:]
    for shuffler in theirs, ours:
        shuffler.seek(samples + 5)
    assert list(theirs) == [] and [sample["v"] for sample in ours] == expected
    # Chunks of another size than the shuffler's.
    arguments = {"buf_size": 8, "chunk_size": 4, "seed": 1}
    theirs = datadings.QuasiShuffler(numbers_from(datadings, samples), **arguments)
    ours = QuasiShuffler(numbers_from(own, samples), **arguments)
    with pytest.raises(ValueError):
        list(datadings.Cycler(theirs).iter())
    usual = [sample["v"] for sample in QuasiShuffler(numbers_from(own, samples), **arguments)]
    assert [sample["v"] for sample in own.Repeater(ours, 1)] == usual
    # No samples.
    with pytest.raises(IndexError):
        next(iter(datadings.Cycler(datadings.ListReader([]))))
    assert list(own.Cycler(ListReader([]))) == list(own.Range(ListReader([]))) == []


def test_augments_of_other_readers_see_only_their_methods():
    """As of scripts that wrap readers."""

    class Counted(own.ListReader):
        calls = 0

        def get(self, *args, **kwargs):
            self.calls += 1
            return super().get(*args, **kwargs)

    reader = Counted([{"v": number} for number in range(30)])
    assert equal(sorted(sample["v"] for sample in own.Shuffler(reader)), list(range(30)))
    assert reader.calls == 30
