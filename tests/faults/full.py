#!/usr/bin/env python3
"""Runs every command that writes on a file system that is full, after any number of pages.

    python tests/faults/full.py target/debug/kiste

What the command says is followed to the letter once there is room: nothing that lacks anything may be
published as whole, and the command done again must make what it makes on an empty disk. Needs root, for
small file systems in memory.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections import Counter

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from checks import Lab, brief
from harness import Place, build_shim, restore
from judge import Judge
from scenarios import SCENARIOS

PAGE = os.sysconf("SC_PAGE_SIZE")
LARGE = 64 << 20

# A command in a hint.
HINTED = re.compile(r"kiste (repair [\w./-]+(?: --\w+)?)")


class Disk:
    """A file system in memory whose size can be changed."""

    def __init__(self, folder):
        self.folder = folder
        mount = ["mount", "-t", "tmpfs", "-o", f"size={LARGE}", "kiste-full", folder]
        done = subprocess.run(mount, capture_output=True, text=True)
        self.trouble = done.stderr.strip() if done.returncode else None

    def resize(self, size):
        options = f"remount,size={max(size, PAGE)}"
        subprocess.run(["mount", "-o", options, self.folder], check=True)

    def used(self):
        stat = os.statvfs(self.folder)
        return (stat.f_blocks - stat.f_bfree) * stat.f_frsize

    def close(self):
        if self.trouble is None:
            subprocess.run(["umount", self.folder], check=True)


def pages():
    """So many pages are left: all small numbers, then some."""
    few = list(range(0, 24))
    return few + [int(24 * 1.3 ** step) for step in range(1, 24)]


def attempt(lab, place, disk, room):
    """The exit code, and what was wrong."""
    disk.resize(LARGE)
    lab.start(place)
    disk.resize(disk.used() + room)
    run = place.run(lab.scenario.act)
    disk.resize(LARGE)
    problems = lab.exit_problems(run)
    if run.code == 2 and "no space" not in run.err:
        problems.append(f"the error is another one: {brief(run)}")
    if run.code == 2 and lab.scenario.kind == "dataset":
        problems += follow(lab, place, run)
    return run.code, problems + lab.settle(place, keep=run.code == lab.scenario.code)


def follow(lab, place, run):
    """Does what hints say, each on its own: then each dataset is the old one, the new one or known to lack
    something."""
    state, problems = place.picture(), []
    commands = HINTED.findall(run.err)
    # Without a hint people know these.
    commands += [f"repair {target} --finish" for target in lab.scenario.targets]
    for command in dict.fromkeys(commands):
        done = place.run(command)
        now = place.picture()
        for target in lab.scenario.targets:
            which, found = lab.which(place, now, target, False)
            is_said = done.code == 1 and "cut short" in done.err
            if which == "neither" and not is_said:
                problems += [f"after \"{command}\": {text}" for text in found] + [brief(run), brief(done)]
        restore(place.tree, state)
    return problems


def work(scenario, binary, shim, disk, ample, judge):
    """All sizes of one scenario: what was counted, and what failed."""
    counts, failed = Counter(), []
    lab = Lab(scenario, Place(binary, shim, ample), judge)
    place = Place(binary, shim, os.path.join(disk.folder, "place"))
    os.makedirs(place.folder, exist_ok=True)
    for room in pages():
        code, problems = attempt(lab, place, disk, room * PAGE)
        counts["tries"] += 1
        counts["full"] += code == 2
        if problems:
            failed.append((room, problems))
        if code == scenario.code:
            counts["fits"] += 1
            if counts["fits"] == 3:
                break
    shutil.rmtree(place.folder)
    return counts, failed


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", help="the command that is tried")
    parser.add_argument("--scenario", default="", help="only scenarios whose names contain one of these, a,b")
    parser.add_argument("--python", help="an interpreter that has datadings, to be the judge")
    return parser.parse_args()


def main():
    args = parse()
    folder = os.path.realpath(tempfile.mkdtemp(prefix="full-"))
    names, tries, failures = args.scenario.split(","), 0, 0
    for name in ("disk", "ample"):
        os.makedirs(os.path.join(folder, name))
    disk = Disk(os.path.join(folder, "disk"))
    try:
        shim = build_shim(folder)
        if disk.trouble is not None or shim is None:
            print(f"full: skipped: {disk.trouble or 'this needs Linux and a C compiler'}")
            return 0
        judge, binary = Judge(args.python), os.path.abspath(args.binary)
        print(f"{'scenario':26} {'tries':>6} {'full':>6} {'failed':>7}")
        for scenario in SCENARIOS:
            if not any(name in scenario.name for name in names) or scenario.name == "demo":
                continue
            try:
                counts, failed = work(scenario, binary, shim, disk, os.path.join(folder, "ample"), judge)
            except Exception:
                counts, failed = Counter(), [(-1, [traceback.format_exc()])]
            tries, failures = tries + counts["tries"], failures + len(failed)
            print(f"{scenario.name:26} {counts['tries']:6} {counts['full']:6} {len(failed):7}", flush=True)
            for room, problems in failed[:3]:
                print(f"    {room} pages: " + "\n      ".join(problems[:4]), flush=True)
        print(f"full: {tries} tried, {failures} failed")
        return 1 if failures else 0
    finally:
        disk.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
