"""The examples that have a folder of their own, on tiny data."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import pykiste as ki

EXAMPLES = Path(__file__).parents[1] / "examples"
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
