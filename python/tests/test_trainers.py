"""PyTorch, Lightning and Accelerate: the examples resume in the middle of an epoch with another number of processes."""

import importlib.util
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pykiste as ki

REPOSITORY = Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "python" / "examples"
SAMPLES = 700
BATCH = 16
STEPS = 10


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Every seventh of the repository's digits, with pixels for pictures."""
    image = pytest.importorskip("PIL.Image")
    source = ki.open(REPOSITORY / "datasets" / "digits" / "digits.msgpack")
    path = tmp_path_factory.mktemp("digits") / "digits.msgpack"
    with ki.Writer(path) as writer:
        for index in range(0, 7 * SAMPLES, 7):
            sample = source[index]
            pixels = np.asarray(image.open(io.BytesIO(sample["image"])))
            writer.write({"key": sample["key"], "image": pixels, "label": sample["label"]})
    return path


def lightning(arguments, processes):
    pytest.importorskip("lightning")
    return [sys.executable, EXAMPLES / "train_lightning.py", *arguments, "--devices", str(processes)]


def accelerate(arguments, processes):
    return launched("accelerate", "train_accelerate.py", arguments, processes)


def torchrun(arguments, processes):
    return launched("torch", "train_ddp.py", arguments, processes)


def launched(package, example, arguments, processes):
    # Importing it here would do nothing but take seconds.
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    return [sys.executable, *launch, EXAMPLES / example, *arguments]


@pytest.mark.parametrize("trainer", [torchrun, lightning, accelerate])
@pytest.mark.parametrize("before, after", [(2, 1), (1, 2)])
def test_an_epoch_goes_on_with_another_number_of_processes(digits, tmp_path, trainer, before, after):
    if sys.platform == "win32":
        pytest.skip("the examples fork, or use Gloo over Unix sockets")

    def train(name, processes, *arguments):
        """What each rank saw: the samples of each step. All steps have as many."""
        always = [digits, "--batch-size", str(2 * BATCH // processes), "--seen", name]
        command = trainer([*always, *arguments], processes)
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        logs = [(tmp_path / f"{name}.{rank}").read_text() for rank in range(processes)]
        return [[json.loads(line) for line in log.splitlines()] for log in logs]

    first = train("first", before, "--steps", str(STEPS), "--save", "half.ckpt")
    rest = train("rest", after, "--resume", "half.ckpt")
    assert all(len(steps) == STEPS for steps in first)

    def flat(ranks):
        return [sample for steps in ranks for batch in steps for sample in batch]

    dataset = ki.open(digits)
    order = [dataset.key(index) for index in ki.Sampler.shuffle(SAMPLES, seed=1).order(0)]
    seen = STEPS * BATCH * 2
    # The epoch's own order, cut where the first run stopped. The last step is filled up.
    assert sorted(flat(first)) == sorted(order[:seen])
    left = -(-(SAMPLES - seen) // (BATCH * 2))
    assert all(len(steps) == left for steps in rest)
    assert set(flat(rest)) >= set(order[seen:]) and len(flat(rest)) - (SAMPLES - seen) < BATCH * 2
