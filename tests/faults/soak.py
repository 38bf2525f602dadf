#!/usr/bin/env python3
"""Kills writing commands at random moments, on several file systems, with Python as the judge.

    python tests/faults/soak.py target/debug/kiste --kills 10000 --python VENV/bin/python

After each kill Python's reader must see the old dataset, or the new one, or refuse to open; then
"kiste repair", which is sometimes killed as well, must leave just the old one or just the new one.
"""

import argparse
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from checks import Lab
from harness import Place, build_shim
from judge import Judge
from scenarios import GROUPS, SCENARIOS


class Stage:
    """A directory on one of the file systems."""

    def __init__(self, name, folder, judge):
        self.name, self.judge = name, judge
        self.folder = os.path.realpath(tempfile.mkdtemp(prefix="soak-", dir=folder))
        self.mounted = False

    @staticmethod
    def overlay(below, judge):
        """An overlay mount, where that is allowed."""
        stage = Stage("overlay", below, judge)
        parts = {name: os.path.join(stage.folder, name) for name in ("lower", "upper", "work", "merged")}
        for part in parts.values():
            os.mkdir(part)
        options = f"lowerdir={parts['lower']},upperdir={parts['upper']},workdir={parts['work']}"
        mount = ["mount", "-t", "overlay", "overlay", "-o", options, parts["merged"]]
        done = subprocess.run(mount, capture_output=True, text=True)
        if done.returncode != 0:
            print(f"no overlay here: {done.stderr.strip()}")
            shutil.rmtree(stage.folder)
            return None
        stage.mounted, stage.base, stage.folder = True, stage.folder, parts["merged"]
        return stage

    def close(self):
        if self.mounted:
            subprocess.run(["umount", self.folder], check=True)
            shutil.rmtree(self.base, ignore_errors=True)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


class KilledPlace(Place):
    """Commands that are killed after a random time, without any shim."""

    def killed(self, command, longest, chance, target=None):
        """Whether the command was still at work when it was killed. With a target it is killed just
        after it has begun to publish it, which takes too little time to be hit by chance."""
        env = dict(os.environ, RAYON_NUM_THREADS="2", LC_ALL="C", TMPDIR=self.folder)
        argv = [self.binary] + shlex.split(command)
        process = subprocess.Popen(argv, cwd=self.tree, env=env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if target:
            commit = self.path(target + ".partial/commit")
            until = time.monotonic() + 10
            while not os.path.exists(commit) and process.poll() is None and time.monotonic() < until:
                time.sleep(0.0001)
            time.sleep(chance.uniform(0, 0.1 * longest))
        else:
            # At first nothing happens but the start of the process.
            time.sleep(chance.uniform(0.1 * longest, longest))
        process.kill()
        return process.wait() < 0


def soak(lab, place, kills, chance):
    """Kills one scenario so many times. What was counted, and the problems with their numbers."""
    counts, failed = Counter(), []
    began = time.monotonic()
    lab.start(place)
    ready = time.monotonic()
    place.run(lab.scenario.act)
    longest = 1.1 * (time.monotonic() - ready)
    while counts["kills"] < kills and counts["tries"] < 4 * kills:
        counts["tries"] += 1
        lab.start(place)
        publishes = lab.scenario.kind == "dataset" and chance.random() < 0.4
        target = chance.choice(lab.scenario.targets) if publishes else None
        if not place.killed(lab.scenario.act, longest, chance, target):
            continue
        counts["kills"] += 1
        if lab.scenario.kind == "dataset" and chance.random() < 0.25:
            counts["repairs killed"] += place.killed(f"repair {lab.scenario.targets[0]}", 0.03, chance)
        try:
            problems = lab.settle(place, finish=chance.random() < 0.2, killed=True)
        except Exception:
            problems = ["the harness failed: " + traceback.format_exc()]
        if problems:
            failed.append((counts["kills"], problems))
    counts["seconds"] = time.monotonic() - began
    return counts, failed


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("--kills", type=int, default=10_000, help="in all")
    parser.add_argument("--scenario", default="", help="only scenarios whose names contain one of these, a,b")
    parser.add_argument("--python", help="an interpreter that has datadings, to be the judge")
    parser.add_argument("--disk", default=tempfile.gettempdir(), help="a folder on a real disk")
    parser.add_argument("--memory", default="/dev/shm", help="a folder on a file system in memory")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def file_system(folder):
    """Its type, as the kernel calls it."""
    done = subprocess.run(["df", "--output=fstype", folder], capture_output=True, text=True)
    return done.stdout.split()[-1]


def work(stage, args, scenarios, shim, share, totals):
    """All scenarios on one file system."""
    for scenario in scenarios:
        # A random moment rather than the same one after each change of the list.
        chance = random.Random(f"{args.seed} {stage.name} {scenario.name}")
        folder = os.path.join(stage.folder, scenario.name)
        os.makedirs(folder)
        place = KilledPlace(os.path.abspath(args.binary), shim, folder)
        try:
            lab = Lab(scenario, place, stage.judge)
            counts, failed = soak(lab, place, share, chance)
        except AssertionError as error:
            lab, counts, failed = None, Counter(), [(0, [str(error)])]
        shutil.rmtree(folder, ignore_errors=True)
        seen = lab.seen if lab else Counter()
        totals.append((counts["kills"], counts["repairs killed"], len(failed)))
        print(f"{stage.name:12} {scenario.name:26} {counts['kills']:6} {counts['repairs killed']:7} "
              f"{seen['opened']:7} {seen['refused']:8} {seen['old']:6} {seen['new']:6} {seen['part']:6} "
              f"{len(failed):7} {counts['seconds']:6.0f} s", flush=True)
        for number, problems in failed[:3]:
            print(f"    kill {number}: " + "\n      ".join(problems[:3]), flush=True)


def main():
    args = parse()
    names = args.scenario.split(",")
    scenarios = [s for s in SCENARIOS if s.groups == GROUPS and any(name in s.name for name in names)]
    stages = [Stage(file_system(folder), folder, Judge(args.python)) for folder in (args.disk, args.memory)]
    stages.append(Stage.overlay(args.memory, Judge(args.python)))
    stages = [stage for stage in stages if stage]
    library = tempfile.mkdtemp()
    try:
        shim = build_shim(library)
        if shim is None:
            print("soak: skipped: this needs Linux and a C compiler")
            return 0
        share = -(-args.kills // (len(stages) * len(scenarios)))
        print(f"{'on':12} {'scenario':26} {'kills':>6} {'repairs':>7} {'Python:':>7} {'refused':>8} "
              f"{'old':>6} {'new':>6} {'part':>6} {'failed':>7}")
        totals = []
        threads = [threading.Thread(target=work, args=(stage, args, scenarios, shim, share, totals))
                   for stage in stages]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        kills, repairs, failed = (sum(column) for column in zip(*totals))
        print(f"soak: {kills} kills and {repairs} of repairs, {failed} failed")
        return 1 if failed else 0
    finally:
        for stage in stages:
            stage.close()
        shutil.rmtree(library)


if __name__ == "__main__":
    sys.exit(main())
