"""Loops over a loader as trainers write them: left and begun again, resumed, with ranks, errors and other datasets."""

import json
import os
import pickle
import subprocess
import sys
import types
import warnings

import numpy as np
import pytest
from conftest import place

import pykiste as ki

COLUMNS = {"label": "int64"}


def make(path, **options):
    dataset = ki.open(path)
    options = {"batch_size": 10, "columns": COLUMNS, **options}
    return ki.Loader(dataset, options.pop("sampler", ki.Sampler.shuffle(len(dataset), 3)), **options)


def labels(batches):
    return [label for batch in batches for label in batch["label"].tolist()]


@pytest.mark.parametrize("threads", [0, 2])
def test_a_loop_that_was_left_begins_again(numbers, threads):
    order = [ki.Sampler.shuffle(100, 3).order(epoch)[:].tolist() for epoch in range(3)]
    loader = make(numbers, threads=threads)
    for batch in loader:
        assert batch["label"].tolist() == order[0][:10]
        break
    # Where the run is does not depend on what the next loop does.
    assert place(loader.state_dict()) == (0, 10)
    assert labels(loader) == order[0] and place(loader.state_dict()) == (1, 0)
    # One that has seen all batches has not asked for the end.
    for batch, _ in zip(loader, range(10), strict=False):
        pass
    assert labels(loader) in (order[1], order[2])
    # An iterator goes on where it is, as in Python.
    loader.set_epoch(2)
    batches = iter(loader)
    first = next(batches)
    assert iter(batches) is batches
    assert first["label"].tolist() + labels(batches) == order[2]


def test_a_resumed_loop_begins_where_it_was_resumed(numbers):
    order = ki.Sampler.shuffle(100, 3).order(5)[:].tolist()
    loader = make(numbers)
    loader.load_state_dict({"epoch": 5, "position": 40})
    for _ in loader:
        break
    assert loader.remaining == 5 and len(loader) == 10
    assert labels(loader) == order[40:]


def test_a_loop_can_go_on(numbers):
    loader = make(numbers, resume="position")
    seen = []
    while place(loader.state_dict())[0] == 0:
        for batch in loader:
            seen += batch["label"].tolist()
            break
    assert seen == ki.Sampler.shuffle(100, 3).order(0)[:].tolist()
    with pytest.raises(ki.errors.InvalidError, match="resume: expected 'position' or 'epoch', found"):
        make(numbers, resume="place")


def test_an_epoch_can_be_set(numbers):
    loader = make(numbers)
    loader.set_epoch(7)
    assert labels(loader) == ki.Sampler.shuffle(100, 3).order(7)[:].tolist()
    loader.load_state_dict({"epoch": 7, "position": 50})
    # As trainers do before each epoch, resumed or not.
    loader.set_epoch(7)
    assert len(labels(loader)) == 50


def test_a_loader_has_one_loop_at_a_time(numbers):
    loader = make(numbers)
    first, second = iter(loader), iter(loader)
    next(second)
    with pytest.raises(ki.errors.FaultError, match="a loader has one at a time"):
        next(first)
    assert len(list(second)) == 9


@pytest.mark.parametrize("tail, lengths", [
    (None, [[10, 10, 10, 10], [10, 10, 10, 10], [10, 10, 10, 10]]),
    ("even", [[10, 10, 10, 4], [10, 10, 10, 4], [10, 10, 10, 4]]),
    ("drop", [[10, 10, 10], [10, 10, 10], [10, 10, 10]]),
    ("uneven", [[10, 10, 10, 10], [10, 10, 10], [10, 10, 10]]),
])
def test_ranks_end_an_epoch_as_the_tail_says(numbers, tail, lengths):
    seen, padding = [], 0
    for rank in range(3):
        loader = make(numbers, rank=rank, world=3, tail=tail)
        batches = list(loader)
        assert [len(batch) for batch in batches] == lengths[rank] and len(loader) == len(batches)
        seen += labels(batches)
        padding += sum(batch.padding for batch in batches)
    dropped = 10 if tail == "drop" else 0
    assert len(seen) - padding == len(set(seen)) == 100 - dropped
    assert padding == {None: 20, "even": 2}.get(tail, 0)


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_loop_that_was_left_after_its_last_batch_has_ended(numbers, rank):
    loader = make(numbers, rank=rank, world=3, tail="uneven")
    for _ in zip(range(len(loader)), loader, strict=False):
        pass
    # As trainers do that count batches: some ranks have one less than others in this epoch.
    assert [batch.epoch for batch in loader] == [1] * len(loader)


def test_ranks_are_those_that_are_set_up(numbers, monkeypatch):
    state = {"up": False}
    fake = types.SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: state["up"], get_rank=lambda: 1, get_world_size=lambda: 2
    )
    monkeypatch.setitem(sys.modules, "torch.distributed", fake)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    loader = make(numbers)
    assert (loader.rank, loader.world, len(loader)) == (0, 1, 10)
    # Trainers begin their processes after the loader was made.
    state["up"] = True
    assert (loader.rank, loader.world, len(loader)) == (1, 2, 5)
    order = ki.Sampler.shuffle(100, 3).order(0)[:].tolist()
    assert [batch["label"].tolist() for batch in loader][0] == order[10:20]
    # What is given counts.
    assert len(list(make(numbers, rank=0, world=1))) == 10


def test_ranks_of_a_mesh(numbers):
    def mesh(shape, place, names=None):
        size = int(np.prod(shape))
        return types.SimpleNamespace(
            mesh_dim_names=names, shape=shape, get_coordinate=lambda: place, size=lambda: size
        )

    assert make(numbers, mesh=mesh((4,), [3])).rank == 3
    loader = make(numbers, mesh=mesh((2, 3), [1, 2], ("dp_replicate", "dp_shard")))
    assert (loader.rank, loader.world) == (5, 6)
    with pytest.raises(ki.errors.InvalidError, match="found 'tp' too: give a part of the mesh"):
        make(numbers, mesh=mesh((2, 2), [0, 0], ("dp", "tp")))
    with pytest.raises(ki.errors.InvalidError, match="found both"):
        make(numbers, mesh=mesh((2,), [0]), rank=0, world=2)
    with pytest.raises(ki.errors.InvalidError, match="has this process"):
        make(numbers, mesh=mesh((2,), None))
    for given in {"rank": 1}, {"world": 2}:
        with pytest.raises(ki.errors.InvalidError, match="expected one with"):
            make(numbers, **given)
    with pytest.raises(ki.errors.InvalidError, match="from 0 to 1, found 2"):
        make(numbers, rank=2, world=2)


def test_a_loader_without_ranks_says_so_under_a_launcher(numbers):
    script = "import sys, pykiste as ki; list(ki.Loader(ki.open(sys.argv[1])))"
    environment = {**os.environ, "RANK": "1", "WORLD_SIZE": "4"}
    command = [sys.executable, "-W", "error", "-c", script, numbers]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "this is one of 4 processes, but torch.distributed" in done.stderr
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(make(numbers, rank=0, world=1))


def test_a_batch_with_a_bad_sample_still_has_the_others(tmp_path):
    path = tmp_path / "x.msgpack"
    with ki.Writer(path) as writer:
        for number in range(30):
            writer.write({"key": str(number), "label": number if number % 10 != 4 else "text"})
    loader = make(path, sampler=None)
    seen, batches = [], iter(loader)
    for expected in 4, 14, 24:
        with pytest.raises(ki.errors.InvalidError, match="expected a number") as caught:
            next(batches)
        assert caught.value.key == str(expected)
        seen += caught.value.batch["label"].tolist()
        [(index, key, said)] = caught.value.batch.failures
        assert (index, key) == (expected, str(expected)) and "expected a number" in said
        # A run that is resumed now asks for none of them again.
        assert loader.state_dict()["position"] in (expected + 6, 0)
    assert next(batches, None) is None
    assert seen == [number for number in range(30) if number % 10 != 4]
    samples = make(path, columns={"label": "int64"}, on_error="skip", sampler=None)
    assert labels(samples) == seen


def grown(path, samples, shift=0, append=False):
    with ki.Writer(path, append=append, overwrite=not append) as writer:
        for number in range(samples):
            writer.write({"key": f"{append}{number}", "label": number + shift})


@pytest.mark.parametrize("sampler", [ki.Sampler.shuffle, ki.Sampler.sequential])
def test_a_state_is_of_its_dataset_and_order(tmp_path, sampler):
    path = tmp_path / "x.msgpack"
    grown(path, 100)
    loader = make(path, sampler=sampler(100))
    next(iter(loader))
    # Trainers save it as JSON or pickles.
    state = json.loads(json.dumps(pickle.loads(pickle.dumps(loader.state_dict()))))
    assert list(state) == ["epoch", "position", "order"]
    again = make(path, sampler=sampler(100), batch_size=7)
    again.load_state_dict(state)
    assert place(again.state_dict()) == (0, 10)

    def check(match, **options):
        other = make(path, **options)
        if match is None:
            other.load_state_dict(state)
            return
        with pytest.raises(ki.errors.InvalidError, match=match):
            other.load_state_dict(state)
        # The two integers alone are taken as they are.
        other.load_state_dict({name: state[name] for name in ("epoch", "position")})

    check("expected the sampler", sampler=ki.Sampler.block_shuffle(100, 10, 2))
    if sampler == ki.Sampler.shuffle:
        check("expected the seed 0, found 1", sampler=sampler(100, 1))
    grown(path, 100, shift=1)
    check("another dataset: expected other samples", sampler=sampler(100))
    grown(path, 90)
    check("another dataset: expected 100 samples, found 90", sampler=sampler(90))
    grown(path, 100)
    grown(path, 20, append=True)
    # Samples that came behind the others change nothing about those that were seen.
    check(None, sampler=sampler(100))
    check(None if sampler == ki.Sampler.sequential else "100 positions", sampler=sampler(120))
    for wrong in {"sampler": 5}, {"len": 1}, 7:
        with pytest.raises(ki.errors.InvalidError, match="expected a state's order"):
            make(path).load_state_dict({"epoch": 0, "position": 0, "order": wrong})
    with pytest.raises(KeyError, match="position"):
        make(path).load_state_dict({"epoch": 0})


def test_samples_are_decoded_once(numbers):
    [batch] = ki.Loader(ki.open(numbers), batch_size=100)
    assert batch.samples is batch.samples and len(batch.samples) == 100
    assert batch.sample_keys == [sample["key"] for sample in batch.samples]


def test_an_order_without_end_has_no_length(numbers):
    loader = make(numbers, sampler=ki.Sampler.cycle(ki.Sampler.sequential(100)))
    with pytest.raises(TypeError):
        len(loader)
    assert "epoch 0, position 0" in repr(loader) and "batches of 10" in repr(loader)


@pytest.mark.parametrize("how", ["break", "whole", "fork"])
def test_a_program_ends_while_threads_are_in_a_function(tmp_path, how):
    path = tmp_path / "numbers.msgpack"
    with ki.Writer(path) as writer:
        for number in range(200):
            writer.write({"key": str(number), "label": number})
    program = f"""
import os, time
import pykiste as ki

def slow(record):
    time.sleep(0.01)
    return record["label"]

loader = ki.Loader(ki.open({str(path)!r}), batch_size=4, threads=4, columns={{"n": ki.Map(slow, "int64")}})
for batch in loader:
    if {how!r} != "whole":
        break
if {how!r} == "fork" and (child := os.fork()):
    assert os.waitpid(child, 0)[1] == 0
print("done")
"""
    if how == "fork" and not hasattr(os, "fork"):
        pytest.skip("no fork")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "") and "done" in done.stdout
