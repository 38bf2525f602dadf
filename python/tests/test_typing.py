"""The stubs say what the modules have, and a program of a user passes a type checker."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pykiste as ki

pytest.importorskip("mypy")

HERE = Path(__file__).parent
# A method from Python 3.12 on; made by the build; what is no part of the interface; a class that needs torch when it is made.
ALLOWED = """
pykiste.View.__buffer__
pykiste._batches.BatchColumns.*
pykiste._core.__all__
pykiste._core.(Collator|Loop|Record|_arrays_of|_ending|_forked)
pykiste.torch.ResumableDataLoader
pykiste.datadings.reader.augment._Later
pykiste.datadings.tools.argparse.Clamp.*
"""


def run(*arguments, cwd):
    environment = {**os.environ, "PYTHONPATH": str(Path(ki.__file__).parents[1])}
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_program_of_a_user_passes(tmp_path):
    run("mypy", "--strict", "--cache-dir", str(tmp_path), str(HERE / "user.py"), cwd=tmp_path)


def test_a_program_of_a_user_of_pytorch_passes(tmp_path):
    pytest.importorskip("torch")
    run("mypy", "--strict", "--cache-dir", str(tmp_path), str(HERE / "user_torch.py"), cwd=tmp_path)


def test_the_stubs_say_what_is_there(tmp_path):
    pytest.importorskip("datasets")
    pytest.importorskip("ray")
    pytest.importorskip("jax")
    pytest.importorskip("torch")
    allowed = tmp_path / "allowed"
    allowed.write_text(ALLOWED)
    # Packages that are optional for `pykiste.datadings` have no types.
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\nignore_missing_imports = true\n")
    arguments = ["--concise", "--allowlist", str(allowed), "--ignore-unused-allowlist"]
    arguments += ["--mypy-config-file", str(config)]
    run("mypy.stubtest", "pykiste", *arguments, cwd=tmp_path)
