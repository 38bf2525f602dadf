#!/usr/bin/env python3
"""Cuts the power of a real ext4, and looks at what is left on another device.

    python tests/faults/remount.py target/debug/kiste --cuts 200

The file system is in a file behind a loop device. At a random moment the command is stopped and the file
copied: what the kernel had not written to it is lost, as after a power failure. The copy is mounted from
another device, so all files have another device number; every third time its files are copied once more, which
gives them other numbers and times. Then the command is repeated there. Needs root and loop devices.
"""

import argparse
import filecmp
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from checks import Lab, brief
from harness import Place, build_shim, restore
from judge import Judge
from scenarios import SCENARIOS

SIZE = 24 << 20

# What takes up an earlier run by notes of its own; all the others recognise files by them.
NAMES = ["commit", "convert-resume", "convert-force", "convert-append", "convert-part", "repair", "filter", "split",
         "merge-force", "shuffle-shards"]


def shell(*command):
    subprocess.run(command, check=True, capture_output=True)


class Image:
    """A file with an ext4 in it, mounted or not."""

    def __init__(self, path, folder):
        self.path, self.folder, self.device = path, folder, None
        os.makedirs(folder, exist_ok=True)

    def make(self):
        with open(self.path, "wb") as file:
            file.truncate(SIZE)
        shell("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", self.path)

    def mount(self):
        found = subprocess.run(["losetup", "--find", "--show", self.path], check=True, capture_output=True, text=True)
        self.device = found.stdout.strip()
        shell("mount", "-t", "ext4", self.device, self.folder)

    def unmount(self):
        if self.device is not None:
            subprocess.run(["umount", self.folder], capture_output=True)
            shell("losetup", "-d", self.device)
            self.device = None

    def snapshot(self, to):
        """Copies the file until nothing changes meanwhile."""
        while True:
            shutil.copyfile(self.path, to)
            if filecmp.cmp(self.path, to, shallow=False):
                return


def cut(lab, place, image, copy, longest, chance):
    """Whether the command was still at work when the power was cut."""
    lab.start(place)
    os.sync()
    env = dict(os.environ, RAYON_NUM_THREADS="2", LC_ALL="C", TMPDIR=lab.place.folder)
    argv = [place.binary] + shlex.split(lab.scenario.act)
    process = subprocess.Popen(argv, cwd=place.tree, env=env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(chance.uniform(0.05 * longest, longest))
    process.send_signal(signal.SIGSTOP)
    image.snapshot(copy.path)
    process.kill()
    return process.wait() < 0


def again(lab, place):
    """Does the act once more: it must come to its end, and tell no one to remove what is whole."""
    problems = []
    for _ in range(2):
        run = place.run(lab.scenario.act)
        is_over = run.code == 2 and ("exist" in run.err or "no parts to join" in run.err)
        if run.code != lab.scenario.code and not is_over:
            problems.append(f"the act cannot be done again: exit code {run.code}: {brief(run)}")
        if "remove it" in run.err and not is_over:
            problems.append(f"it tells people to remove it: {brief(run)}")
    after = place.picture()
    for name, content in lab.new.items():
        if any(name.startswith(target) for target in lab.scenario.targets) and after.get(name) != content:
            problems.append(f"in the end {name} is not the new one")
    return problems


def attempt(lab, place, other, longest, number, chance):
    """What was wrong; None if the command had ended before."""
    (image, home), (copy, away) = place, other
    if not cut(lab, home, image, copy, longest, chance):
        return None
    copy.mount()
    try:
        if number % 3 == 2:
            restore(away.tree, away.picture())
        if lab.scenario.act.startswith("commit") or "--part" in lab.scenario.act:
            return again(lab, away)
        return lab.settle(away, killed=True)
    finally:
        copy.unmount()


def work(scenario, binary, shim, folder, cuts, judge, seed):
    """Cuts the power of one scenario so many times."""
    chance, counts, failed = random.Random(f"{seed} {scenario.name}"), Counter(), []
    image = Image(os.path.join(folder, "image"), os.path.join(folder, "here"))
    copy = Image(os.path.join(folder, "copy"), os.path.join(folder, "there"))
    image.make()
    image.mount()
    try:
        ample = os.path.join(folder, "ample")
        os.makedirs(ample, exist_ok=True)
        lab = Lab(scenario, Place(binary, shim, ample), judge)
        home = Place(binary, shim, os.path.join(image.folder, "place"))
        away = Place(binary, shim, os.path.join(copy.folder, "place"))
        os.makedirs(home.folder, exist_ok=True)
        lab.start(home)
        began = time.monotonic()
        home.run(scenario.act)
        longest = 1.2 * (time.monotonic() - began)
        while counts["cuts"] < cuts and counts["tries"] < 4 * cuts:
            counts["tries"] += 1
            try:
                problems = attempt(lab, (image, home), (copy, away), longest, counts["tries"], chance)
            except Exception:
                problems = ["the harness failed: " + traceback.format_exc()]
            counts["cuts"] += problems is not None
            if problems:
                failed.append((counts["tries"], problems))
    finally:
        image.unmount()
    return counts, failed


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", help="the command that is tried")
    parser.add_argument("--cuts", type=int, default=200, help="in all")
    parser.add_argument("--scenario", help="only scenarios whose names contain one of these, a,b")
    parser.add_argument("--python", help="an interpreter that has datadings, to be the judge")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def why_not(folder):
    """Why this cannot be done here."""
    if os.geteuid() != 0:
        return "this needs root, to mount"
    for program in ("mkfs.ext4", "losetup", "mount"):
        if shutil.which(program) is None:
            return f"there is no {program}"
    image = Image(os.path.join(folder, "probe"), os.path.join(folder, "probed"))
    try:
        image.make()
        image.mount()
        image.unmount()
    except subprocess.CalledProcessError as error:
        return (error.stderr or b"").decode(errors="replace").strip() or "no loop device"
    return None


def main():
    args = parse()
    names = args.scenario.split(",") if args.scenario else NAMES
    folder = os.path.realpath(tempfile.mkdtemp(prefix="remount-"))
    try:
        shim, reason = build_shim(folder), why_not(folder)
        if reason or shim is None:
            print(f"remount: skipped: {reason or 'this needs Linux and a C compiler'}")
            return 0
        chosen = [s for s in SCENARIOS if any(s.name.startswith(name) for name in names)]
        share, judge, cuts, failures = -(-args.cuts // len(chosen)), Judge(args.python), 0, 0
        print(f"{'scenario':26} {'cuts':>5} {'failed':>7}")
        for scenario in chosen:
            counts, failed = work(scenario, os.path.abspath(args.binary), shim, folder, share, judge, args.seed)
            cuts, failures = cuts + counts["cuts"], failures + len(failed)
            print(f"{scenario.name:26} {counts['cuts']:5} {len(failed):7}", flush=True)
            for number, problems in failed[:3]:
                print(f"    try {number}: " + "\n      ".join(problems[:4]), flush=True)
        print(f"remount: {cuts} cuts, {failures} failed")
        return 1 if failures else 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
