"""Batches that are planned by length: the same for all ranks, threads and resumes; packed rows; shapes; columns of lengths."""

import pickle
import random

import numpy as np
import pytest

import pykiste as ki

TOKENS = {"tokens": ki.Ragged("int32", pad=ki.Pad())}


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A dataset of 500 texts of 0 to 60 tokens, with their lengths in a side file."""
    path = tmp_path_factory.mktemp("texts") / "texts.msgpack"
    draw = random.Random(5)
    with ki.Writer(path) as writer:
        for number in range(500):
            length = draw.randrange(61)
            writer.write({"key": f"{number:03}", "tokens": np.full(length, number, "int32")})
    ki.index(path, lengths=["len(tokens)"])
    return ki.open(path)


@pytest.fixture(scope="module")
def lengths(texts):
    return [len(sample["tokens"]) for sample in texts]


def batchings(lengths="len(tokens)", **options):
    return [
        ki.batching.TokenBudget(200, lengths, **options),
        ki.batching.TokenBudget(200, lengths, packed=True, most=9, **options),
        ki.batching.Rows(64, 3, lengths, **options),
        ki.batching.Rows(64, 3, lengths, split=True, **options),
        ki.batching.ByLength({20: 8, 60: 4}, lengths, **options),
        ki.batching.ByLength(4, lengths, batch_size=8, **options),
    ]


def seen(loader):
    return [(batch.indices.tolist(), batch.padding) for batch in loader]


@pytest.mark.parametrize("at", range(6))
def test_any_ranks_threads_and_resumes(texts, at):
    draw = random.Random(at)
    for case in range(12):
        batching = batchings(window=draw.choice([64, 150, 65536]), seed=case)[at]
        order = ki.Sampler.shuffle(len(texts), seed=case)
        whole = seen(ki.Loader(texts, order, batching=batching, threads=0))
        assert sorted(sum((indices for indices, _ in whole), [])) == list(range(500))
        world = draw.randrange(1, 5)
        threads = draw.randrange(3)
        loaders = [
            ki.Loader(texts, order, batching=batching, rank=rank, world=world, threads=threads, columns=TOKENS)
            for rank in range(world)
        ]
        counts = {len(loader) for loader in loaders}
        assert len(counts) == 1
        # Some steps, then another number of ranks.
        steps = draw.randrange(counts.pop())
        done = []
        for _ in range(steps):
            done += [(batch.indices.tolist(), batch.padding) for batch in map(next, loaders)]
        states = [loader.state_dict() for loader in loaders]
        assert all(state == states[0] for state in states)
        state = pickle.loads(pickle.dumps(states[0]))
        others = draw.randrange(1, 5)
        rest = []
        for rank in range(others):
            loader = ki.Loader(texts, order, batching=batching, rank=rank, world=others, threads=threads, tail="uneven")
            loader.load_state_dict(state)
            assert loader.remaining == len(whole[len(done) + rank :: others])
            rest.append(seen(loader))
        assert done == whole[: len(done)]
        rest = [rest[n % others][n // others] for n in range(sum(map(len, rest)))]
        assert rest == whole[len(done) :]


def test_padding_is_whole_batches(texts):
    batching = ki.batching.TokenBudget(3000, "len(tokens)", packed=True)
    loaders = [ki.Loader(texts, batching=batching, rank=rank, world=4) for rank in range(4)]
    alone = len(ki.Loader(texts, batching=batching))
    assert alone % 4 and {len(loader) for loader in loaders} == {-(-alone // 4)}
    batches = [batch for loader in loaders for batch in loader]
    real = [batch for batch in batches if not batch.padding]
    assert len(real) == alone and all(batch.padding == len(batch) for batch in batches if batch.padding)
    assert sum(map(len, real)) == 500


def test_packed_rows_are_as_planned(texts, lengths):
    batching = ki.batching.Rows(64, 3, "len(tokens)", seed=3)
    order = ki.Sampler.shuffle(500, seed=1)
    columns = {"tokens": ki.columns.Packed("int32", 64, rows=3, split=False, fill=-1)}
    rows = 0
    for batch in ki.Loader(texts, order, batching=batching, columns=columns):
        packed = batch.packed("tokens")
        assert packed.tokens.shape == (3, 64)
        assert sum(lengths[index] for index in batch.indices) == (packed.documents >= 0).sum()
        for document, index in enumerate(batch.indices):
            places = np.argwhere(packed.documents == document)
            assert len(places) == lengths[index] and len(set(places[:, 0])) <= 1, "whole, in one row"
            assert (packed.tokens[packed.documents == document] == index).all()
        rows += 3
    assert sum(lengths) / (rows * 64) > 0.95


def test_shapes(tmp_path):
    path = tmp_path / "sizes.msgpack"
    sizes = [(640, 480), (480, 640), (500, 500), (1280, 960), (333, 500)] * 10
    with ki.Writer(path) as writer:
        for number, (width, height) in enumerate(sizes):
            writer.write({"key": str(number), "w": width, "h": height})
    ki.index(path, lengths=["w", "h"])
    shapes = [(512, 512), (576, 448), (448, 576)]
    batching = ki.batching.ByShape(shapes, 4, lengths=("w", "h"))
    found = {}
    for batch in ki.Loader(ki.open(path), batching=batching):
        for index in batch.indices:
            found[sizes[index]] = shapes[batch.bucket]
    assert found == {(640, 480): shapes[1], (480, 640): shapes[2], (500, 500): shapes[0], (1280, 960): shapes[1],
                     (333, 500): shapes[2]}
    assert ki.Loader(ki.open(path), batch_size=4).batch_size == 4


def test_lengths_may_be_arrays(texts, lengths):
    by_name = seen(ki.Loader(texts, batching=batchings()[0]))
    for given in [lengths, np.array(lengths), np.array(lengths, "uint8"), tuple(lengths)]:
        assert seen(ki.Loader(texts, batching=batchings(given)[0])) == by_name
    for wrong, says in [
        ([0.5] * 500, "expected one integer for each sample"),
        ([-1] * 500, "expected numbers from 0 to 4294967295, found -1"),
        ([1 << 32] * 500, "expected numbers from 0 to 4294967295"),
        (lengths[:-1], "expected lengths of 500 samples, found 499"),
        (np.zeros((500, 2), int), "of 2 dimensions"),
        ("len(absent)", "len(absent)"),
    ]:
        with pytest.raises(ki.errors.Error) as error:
            ki.Loader(texts, batching=batchings(wrong)[0])
        assert says in str(error.value)


def test_views_have_the_lengths_of_their_samples(texts, lengths):
    odd = texts.select(indices=range(1, 500, 2))
    for indices, _ in seen(ki.Loader(odd, ki.Sampler.shuffle(250, seed=2), batching=batchings()[0])):
        found = [len(odd[index]["tokens"]) for index in indices]
        assert found == [lengths[2 * index + 1] for index in indices]
        assert max(map(lambda length: max(length, 1), found)) * len(found) <= 200
    both = ki.concat([texts.range(0, 100), texts.range(300, 400)])
    assert sorted(sum((indices for indices, _ in seen(ki.Loader(both, batching=batchings()[1]))), [])) == list(range(200))


def test_what_does_not_fit(texts, lengths):
    def loader(**options):
        return ki.Loader(texts, batching=ki.batching.TokenBudget(40, "len(tokens)", **options))

    with pytest.raises(ki.errors.InvalidError, match="expected a length of at most 40"):
        list(loader())
    left = sum(length > 40 for length in lengths)
    assert sum(map(len, loader(longer="leave-out"))) == 500 - left
    assert sum(map(len, loader(longer="cut"))) == 500
    with pytest.raises(ki.errors.InvalidError, match="expected error, cut or leave-out"):
        loader(longer="drop")
    with pytest.raises(ki.errors.InvalidError, match="expected none, as batches are planned"):
        ki.Loader(texts, batch_size=4, batching=batchings()[0])
    with pytest.raises(ki.errors.WrongTypeError, match="expected one of pykiste.batching"):
        ki.Loader(texts, batching=4)


def test_a_run_is_not_resumed_with_other_batches(texts, lengths):
    order = ki.Sampler.shuffle(500, seed=1)
    loader = ki.Loader(texts, order, batching=batchings()[0])
    next(loader)
    state = loader.state_dict()
    others = [*batchings()[1:], *batchings(window=100)[:1], *batchings(seed=1)[:1], *batchings([1] * 500)[:1]]
    for batching in others:
        with pytest.raises(ki.errors.InvalidError):
            ki.Loader(texts, order, batching=batching).load_state_dict(state)
    with pytest.raises(ki.errors.InvalidError):
        ki.Loader(texts, ki.Sampler.shuffle(500, seed=2), batching=batchings()[0]).load_state_dict(state)


def test_which_samples_a_step_has(texts):
    batching = batchings()[2]
    loaders = [ki.Loader(texts, batching=batching, rank=rank, world=3) for rank in range(3)]
    steps = [[batch.indices.tolist() for batch in loader] for loader in loaders]
    for step in (0, 3, len(steps[0]) - 1):
        found = loaders[0].keys_at(step, epoch=0)
        assert [seen["index"] for seen in found] == sum((steps[rank][step] for rank in range(3)), [])
    index = steps[1][2][0]
    assert loaders[0].where_is(f"{index:03}", epoch=0) == [(2, 1)]
    with pytest.raises(IndexError):
        loaders[0].keys_at(10_000, epoch=0)


def test_epochs_differ(texts):
    loader = ki.Loader(texts, ki.Sampler.shuffle(500, seed=1), batching=batchings()[0])
    first, second = seen(loader), seen(loader)
    assert first != second
    loader.set_epoch(0)
    assert seen(loader) == first


def test_batchings_are_values():
    for batching in batchings([1, 2]):
        assert pickle.loads(pickle.dumps(batching))._text() == batching._text()


def test_mixtures_by_tokens(tmp_path):
    for name, length in [("long", 300), ("short", 100)]:
        with ki.Writer(tmp_path / f"{name}.msgpack") as writer:
            for number in range(2000):
                writer.write({"key": f"{name}{number}", "tokens": [0] * length})
        ki.index(tmp_path / f"{name}.msgpack", lengths=["len(tokens)"])
    sources = {"long": (tmp_path / "long.msgpack", 1), "short": (tmp_path / "short.msgpack", 1)}
    mixture = ki.Mixture(sources, samples=4000, tokens="len(tokens)")
    indices = mixture.sampler().order(0)[:]
    # As many tokens of both: one long sample to three short ones.
    assert (indices < 2000).sum() == 1000
    mixture.save(tmp_path / "mixture.kiste.toml")
    assert 'tokens = "len(tokens)"' in (tmp_path / "mixture.kiste.toml").read_text()
    again = ki.open(tmp_path / "mixture.kiste.toml")
    assert (again.sampler().order(0)[:] == indices).all()
    assert (pickle.loads(pickle.dumps(mixture)).sampler().order(0)[:] == indices).all()
    with pytest.raises(ki.errors.NotFoundError, match="len.text"):
        ki.Mixture(sources, tokens="len(text)")


def test_a_sample_that_no_batch_has_room_for_is_named(texts, lengths):
    longest = max(lengths)
    order = ki.Sampler.shuffle(len(texts), seed=1)
    loader = ki.Loader(texts, order, batching=ki.batching.TokenBudget(longest - 1, "len(tokens)"))
    for failing in (lambda: next(loader), lambda: len(loader)):
        with pytest.raises(ki.errors.InvalidError, match="expected a length of at most") as raised:
            failing()
        assert raised.value.path == texts.path
        assert len(texts[raised.value.key]["tokens"]) == longest
