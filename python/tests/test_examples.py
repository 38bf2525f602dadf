"""The examples that have a folder of their own, on tiny data."""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pykiste as ki

EXAMPLES = Path(__file__).parents[1] / "examples"
images = pytest.mark.skipif(not ki.features()["images"], reason="built without images")
unix = pytest.mark.skipif(os.name != "posix", reason="the scripts are for Unix")

# Takes the options that `submit.sh` gives it, runs the tasks of the array from the last to the first, and prints a number.
SBATCH = """#!/bin/sh
echo "$*" >>sbatch.log
case $1 in
--parsable)
    last=${2#--array=1-}
    shift 2
    for task in $(seq "$last" -1 1); do
        SLURM_ARRAY_TASK_ID=$task sh "$@" >&2 || exit
    done
    echo 17 ;;
--dependency=afterok:17) sh -c "$4" ;;
*) exit 2 ;;
esac
"""


@pytest.fixture
def commands(tmp_path):
    """The environment of a machine with the commands `kiste` and `sbatch`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    kiste = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m pykiste "$@"\n'
    for name, script in [("kiste", kiste), ("sbatch", SBATCH)]:
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


@unix
@pytest.mark.parametrize("script", ["local.sh", "submit.sh"])
@pytest.mark.parametrize("name", ["words.msgpack", "words.shards.json"])
def test_parts_of_a_job_array_are_the_whole(tmp_path, commands, script, name):
    for number in range(3):
        lines = [f'{{"key": "{number}-{line}", "line": {line}}}\n' for line in range(50)]
        (tmp_path / f"words-{number}.jsonl").write_text("".join(lines))
    whole = tmp_path / "whole.msgpack"
    ki.convert(sorted(tmp_path.glob("words-*.jsonl")), whole)

    run = ["sh", EXAMPLES / "slurm" / script, "words-{0..2}.jsonl", name, "2"]
    done = subprocess.run(run, cwd=tmp_path, env=commands, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = tmp_path / name
    found = ki.diff(whole, made)
    assert (found["same"], found["same_order"], found["differences"]) == (150, True, [])
    if name == "words.msgpack":
        assert made.read_bytes() == whole.read_bytes()
    else:
        assert len(list(tmp_path.glob("words-0*.msgpack"))) == 2
    assert not made.with_name(f"{name}.parts").exists()


def python(folder, program, *arguments):
    """What a program prints that runs in this folder."""
    command = [sys.executable, *map(str, program), *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def needs(*packages):
    # Importing it here would do nothing but take seconds.
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")


def losses(output):
    """The losses that a program has printed."""
    return [float(number) for number in re.findall(r"loss ([0-9.]+)", output)]


@images
def test_jax_resumes_to_the_same_weights(tmp_path, monkeypatch):
    needs("jax")
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    digits = EXAMPLES.parents[1] / "datasets" / "digits" / "digits.msgpack"
    # The last batch of an epoch is filled up.
    ki.convert(digits, tmp_path / "digits.msgpack", limit=600)
    program = [EXAMPLES / "jax" / "train.py", "digits.msgpack", "--epochs", "3"]
    first = losses(python(tmp_path, program, "--checkpoint", "whole.npz"))
    assert len(first) == 3 and first[2] < first[0]
    python(tmp_path, program, "--checkpoint", "half.npz", "--steps", "14")
    python(tmp_path, program, "--checkpoint", "half.npz")
    with np.load(tmp_path / "whole.npz") as whole, np.load(tmp_path / "half.npz") as half:
        assert len(whole.files) == 5 and all((whole[name] == half[name]).all() for name in whole.files)


def weights(path):
    import torch

    return torch.load(path)["model"]


def test_packed_text_resumes_to_the_same_weights(tmp_path):
    needs("torch")
    with ki.Writer(tmp_path / "texts.msgpack") as writer:
        for number in range(160):
            text = b"a crate holds samples. " * (1 + number % 4)
            writer.write({"key": str(number), "tokens": np.frombuffer(text, "uint8")})
    program = [EXAMPLES / "text" / "train.py", "texts.msgpack", "--length", "64", "--epochs", "2"]
    first = losses(python(tmp_path, program, "--checkpoint", "whole.pt"))
    assert first[-1] < first[0] / 2
    python(tmp_path, program, "--checkpoint", "half.pt", "--steps", "7")
    python(tmp_path, program, "--checkpoint", "half.pt")
    whole, half = weights(tmp_path / "whole.pt"), weights(tmp_path / "half.pt")
    assert all((whole[name] == half[name]).all() for name in whole)


@images
@unix
def test_images_resume_with_another_number_of_processes(tmp_path):
    needs("torch")
    random = np.random.default_rng(0)
    for split, count in [("train", 48), ("valid", 10)]:
        # The labels are which colour is the brightest.
        for channel, label in enumerate(["red", "green", "blue"]):
            folder = tmp_path / split / label
            folder.mkdir(parents=True)
            for number in range(count):
                pixels = random.integers(0, 100, (30, 40, 3), "uint8")
                pixels[..., channel] += 100
                (folder / f"{number}.ppm").write_bytes(b"P6 40 30 255\n" + pixels.tobytes())
        ki.convert(tmp_path / split, tmp_path / f"{split}.msgpack")

    def train(processes, checkpoint, *arguments):
        launch = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", processes]
        data = [EXAMPLES / "imagenet" / "train.py", "train.msgpack", "valid.msgpack", "--checkpoint", checkpoint]
        recipe = ["--model", "small", "--size", "24", "--epochs", "6", "--warmup", "0.5", "--rate", "0.02"]
        return python(tmp_path, [*launch, *data, *recipe, "--batch-size", 16 // processes], *arguments)

    output = train(1, "whole.pt")
    assert losses(output)[-1] < losses(output)[0]
    assert float(re.findall(r"accuracy ([0-9.]+)", output)[-1]) > 0.9
    train(2, "half.pt", "--steps", "13")
    train(1, "half.pt")
    whole, half = weights(tmp_path / "whole.pt"), weights(tmp_path / "half.pt")
    # Two processes add up their gradients in another order.
    assert all(np.allclose(whole[name], half[name], atol=1e-3) for name in whole)
