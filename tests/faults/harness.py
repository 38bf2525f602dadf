"""Runs the command in scratch trees, with or without faults, and takes pictures of the trees."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field

HERE = os.path.dirname(os.path.abspath(__file__))

# A time for all files that the harness makes: plans of conversions have the times of their sources.
TIME = 1_600_000_000

FAMILY = ["", ".offsets", ".keys", ".key_hashes", ".filter", ".md5", ".index", ".lookup", ".labels"]


def build_shim(folder):
    """The shim as a shared library, or None where that cannot be."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not sys.platform.startswith("linux") or compiler is None:
        return None
    library = os.path.join(folder, "shim.so")
    source = os.path.join(HERE, "shim.c")
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl", "-lpthread"]
    subprocess.run(command, check=True)
    return library


def picture(root):
    """All that is below a directory: bytes of files, None for folders, texts for links."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            short = os.path.relpath(path, root)
            if os.path.islink(path):
                found[short] = os.readlink(path)
            elif os.path.isdir(path):
                found[short] = None
            else:
                with open(path, "rb") as file:
                    found[short] = file.read()
    return found


def restore(root, tree):
    """Makes a directory hold just what is in a picture."""
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    for name in sorted(tree):
        path, content = os.path.join(root, name), tree[name]
        if content is None:
            os.makedirs(path, exist_ok=True)
        elif isinstance(content, str):
            os.symlink(content, path)
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content)
            os.utime(path, (TIME, TIME))


def family(tree, target):
    """The files of a dataset in a picture, by suffix."""
    return {suffix: tree[target + suffix] for suffix in FAMILY if target + suffix in tree}


def leftovers(tree, target):
    """What a write of this dataset left beside it."""
    return [name for name in tree if name.startswith(target + ".partial")]


@dataclass
class Call:
    """A line of the shim's log."""
    number: int
    name: str
    result: str
    inode: int
    offset: int
    length: int
    path: str
    second: str
    data: bytes

    @property
    def worked(self):
        return self.result == "0"

    def __str__(self):
        size = f" of {self.length} bytes" if self.name in ("write", "resize") else ""
        return f"{self.name}{size} {self.path}" + (f" to {self.second}" if self.second else "")


def read_log(path, root):
    """The calls of a run, with paths from the root, and the one that was broken."""
    calls, broken = [], None
    if not os.path.exists(path):
        return calls, broken
    with open(path) as file:
        for line in file:
            parts = line.rstrip("\n").split("\t")
            if len(parts) != 9:
                continue
            number, name, result, inode, offset, length, first, second, data = parts
            first, second = (os.path.relpath(p, root) if p else "" for p in (first, second))
            call = Call(int(number), name, result, int(inode), int(offset), int(length), first, second,
                        bytes.fromhex(data))
            if result == "fault":
                broken = call
            else:
                calls.append(call)
    return calls, broken


@dataclass
class Run:
    """What came of a command."""
    code: int
    out: str
    err: str
    calls: list = field(default_factory=list)
    broken: Call = None

    @property
    def was_killed(self):
        return self.code == -signal.SIGKILL


class Place:
    """A scratch directory for one thing at a time: the tree, the graveyard, the log."""

    def __init__(self, binary, shim, folder):
        self.binary, self.shim, self.folder = binary, shim, folder
        self.tree = os.path.join(folder, "tree")
        self.grave = os.path.join(folder, "grave")
        self.log = os.path.join(folder, "log")

    def reset(self, tree):
        restore(self.tree, tree)
        shutil.rmtree(self.grave, ignore_errors=True)
        os.makedirs(self.grave)

    def picture(self):
        return picture(self.tree)

    def path(self, name):
        return os.path.join(self.tree, name)

    def environment(self, mode, at, errno, data):
        env = dict(os.environ, RAYON_NUM_THREADS="1", LC_ALL="C", TMPDIR=self.folder)
        if mode:
            if os.path.exists(self.log):
                os.remove(self.log)
            env.update(LD_PRELOAD=self.shim, FAULTS_ROOT=self.tree, FAULTS_LOG=self.log,
                       FAULTS_MODE=mode, FAULTS_AT=str(at), FAULTS_ERRNO=str(errno))
        if data:
            env.update(FAULTS_DATA="1", FAULTS_GRAVE=self.grave)
        return env

    def run(self, command, mode=None, at=0, errno=0, data=False, cwd=None):
        """Runs the command, with a fault if a mode is given."""
        argv, env = [self.binary] + shlex.split(command), self.environment(mode, at, errno, data)
        try:
            done = subprocess.run(argv, cwd=cwd or self.tree, env=env, stdin=subprocess.DEVNULL,
                                  capture_output=True, timeout=300)
        except subprocess.TimeoutExpired:
            return Run(-1000, "", "the command hangs")
        run = Run(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
        if mode:
            run.calls, run.broken = read_log(self.log, self.tree)
        return run

    def run_paused(self, command, at, meanwhile):
        """Runs the command, and something else while it is stopped after a call; None if it ended
        before."""
        argv, env = [self.binary] + shlex.split(command), self.environment("pause", at, 0, False)
        process = subprocess.Popen(argv, cwd=self.tree, env=env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            process.returncode = os.waitstatus_to_exitcode(status)
            process.communicate()
            return None
        meanwhile()
        os.kill(process.pid, signal.SIGCONT)
        _, err = process.communicate()
        return Run(process.returncode, "", err)
