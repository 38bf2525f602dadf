"""A virtual environment for each peer, from its file in requirements/, which pins versions."""

import hashlib
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent


class Missing(Exception):
    """What cannot be installed, and why."""


def requirements(name):
    lines = (HERE / "requirements" / f"{name}.txt").read_text().splitlines()
    return [line.split("#")[0].strip() for line in lines if line.split("#")[0].strip()]


def packages(name):
    return [line.split("==")[0] for line in requirements(name)]


class Environments:
    def __init__(self, folder, python=sys.executable, torch=None, pykiste=None):
        self.folder, self.python, self.torch, self.pykiste = folder, python, torch, pykiste or REPOSITORY / "python"

    def get(self, name):
        """The interpreter of an environment, which is made unless it is there."""
        folder, wanted = self.folder / name, requirements(name)
        interpreter, stamp = folder / "bin" / "python", folder / "made-from"
        paths = []
        if any(line.startswith("torch==") for line in wanted) and name != "torch":
            paths.append(self.torch or self.packages_of_torch())
        if name == "kiste" and (self.pykiste / "pykiste" / "_core.pyi").exists() and self.is_built():
            paths.append(self.pykiste)
        elif name == "kiste":
            wanted = [*wanted, str(self.pykiste)]
        made_from = hashlib.sha256(repr((self.python, wanted, [*map(str, paths)])).encode()).hexdigest()
        if stamp.exists() and stamp.read_text() == made_from:
            return interpreter
        print(f"{name}: installing {' '.join(wanted)}", file=sys.stderr, flush=True)
        run(name, [self.python, "-m", "venv", "--clear", "--without-pip", folder])
        if paths:
            # Before pip runs, so that it finds PyTorch installed: once for all, because it is large.
            (self.site_packages(folder) / "shared.pth").write_text("".join(f"{path}\n" for path in paths))
        pip = [self.python, "-m", "pip", "--python", interpreter, "install", "--quiet", "--prefer-binary"]
        run(name, [*pip, *wanted])
        stamp.write_text(made_from)
        return interpreter

    def is_built(self):
        return any((self.pykiste / "pykiste").glob("_core.*.so"))

    def packages_of_torch(self):
        self.get("torch")
        return self.site_packages(self.folder / "torch")

    def site_packages(self, folder):
        return next(folder.glob("lib/python*/site-packages"))


def run(name, command):
    done = subprocess.run([*map(str, command)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        telling = [line for line in lines if "Error: " in line] or lines[-1:] or ["no message"]
        raise Missing(f"{name}: {telling[-1]}"[:300])
