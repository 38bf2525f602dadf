#!/usr/bin/env python3
"""Breaks every call by which the command changes files, one at a time, and looks at what is left.

    python tests/faults/run.py target/debug/kiste            # all of it
    python tests/faults/run.py target/debug/kiste --quick    # a sample, some minutes at most

README.md beside this file says what is tried and what must hold.
"""

import argparse
import errno
import os
import queue
import random
import re
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import foreign
from checks import Lab
from harness import Place, build_shim
from judge import Judge
from scenarios import GROUPS, SCENARIOS

ERRORS = ["ENOSPC", "EIO", "EACCES"]


@dataclass(frozen=True)
class Point:
    """One thing to try: a mode at a call."""
    mode: str
    number: int

    @property
    def group(self):
        if self.mode.startswith("power"):
            return "power"
        if self.mode.startswith("foreign"):
            return "foreign"
        return "kills" if self.mode in ("before", "after", "torn") else "faults"

    def attempt(self, lab, place):
        """What was wrong; None if there was nothing to try at this call."""
        mode, _, detail = self.mode.partition("-")
        if mode == "fail":
            return lab.try_fault(place, "fail", self.number, getattr(errno, detail))
        if mode == "sticky":
            return lab.try_fault(place, "sticky", self.number, errno.EROFS)
        if mode == "full":
            return lab.try_fault(place, "full", self.number)
        if mode == "power":
            return lab.try_power_loss(place, self.number, int(detail))
        if mode == "foreign":
            return lab.try_foreign(place, detail, self.number)
        # The state before a call is that after the one before it, so the two try different repairs.
        return lab.try_kill(place, mode, self.number, finish=mode == "after")


def points_of(lab, seeds):
    """All that is to be tried of a scenario."""
    points, opened = [], not any(call.name == "open" for call in lab.calls)
    for call in lab.calls:
        modes = [f"fail-{name}" for name in ERRORS] + ["sticky", "before", "after"]
        if call.name in ("write", "create", "mkdir"):
            modes.append("full")
        if call.name == "write" and call.length > 1:
            modes.append("torn")
        modes += [f"power-{seed}" for seed in range(seeds)]
        # Python has no locks: what it rewrites in place before the data file was opened is not noticed.
        modes += [f"foreign-{kind}" for kind in foreign.KINDS if kind != "live-in-place" or opened]
        opened = opened or call.name == "open"
        points += [Point(mode, call.number) for mode in modes]
    points += [Point(f"power-{seed}", len(lab.calls) + 1) for seed in range(seeds)]
    return points


def sampled(points, most, chance):
    """Some points, of all groups alike."""
    chosen = []
    for group in GROUPS:
        of_group = [point for point in points if point.group == group]
        chosen += chance.sample(of_group, min(len(of_group), most // len(GROUPS)))
    return chosen


class Session:
    def __init__(self, args, shim, folder):
        self.args, self.shim, self.folder = args, shim, folder
        self.judge = Judge(args.python)
        self.failures = 0
        self.checked = 0

    def place(self, name):
        folder = os.path.join(self.folder, name)
        os.makedirs(folder, exist_ok=True)
        return Place(os.path.abspath(self.args.binary), self.shim, folder)

    def run(self, scenario):
        lab = Lab(scenario, self.place("lab"), self.judge)
        if any(call.name == "map" for call in lab.calls):
            raise AssertionError("it writes through a map, which cannot be followed here")
        points = points_of(lab, 2 if self.args.quick else self.args.seeds)
        points = [p for p in points if self.args.mode in p.mode and self.args.at in (None, p.number)
                  and p.group in scenario.groups]
        most = self.args.most or scenario.most or len(points)
        if self.args.quick:
            most = min(most, self.args.quick_points)
        if most < len(points):
            points = sampled(points, most, random.Random(scenario.name))
        began, (tried, failed) = time.monotonic(), self.attempt_all(lab, points)
        print(f"{scenario.name:26} {len(lab.calls):5} " + " ".join(f"{tried[g]:7}" for g in GROUPS)
              + f" {len(failed):8} {time.monotonic() - began:7.0f} s", flush=True)
        self.tell(lab, failed)
        self.checked += sum(tried.values())
        self.failures += len(failed)

    def attempt_all(self, lab, points):
        todo, tried, failed = queue.SimpleQueue(), Counter(), []
        for point in points:
            todo.put(point)
        def work(number):
            place = self.place(f"place-{number}")
            while True:
                try:
                    point = todo.get_nowait()
                except queue.Empty:
                    return
                try:
                    problems = point.attempt(lab, place)
                except Exception:
                    problems = ["the harness failed: " + traceback.format_exc()]
                if problems is not None:
                    tried[point.group] += 1
                if problems:
                    failed.append((point, problems))
        threads = [threading.Thread(target=work, args=(i,)) for i in range(self.args.jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return tried, sorted(failed, key=lambda f: (f[0].mode, f[0].number))

    def tell(self, lab, failed):
        """Some failures of each kind, with what it takes to see them again."""
        kinds = {}
        for point, problems in failed:
            kind = re.sub(r"[\d/]+", "#", problems[0])[:70]
            kinds.setdefault(kind, []).append((point, problems))
        for alike in kinds.values():
            for point, problems in alike[:self.args.show]:
                call = next((c for c in lab.calls if c.number == point.number), "the end")
                print(f"  --scenario {lab.scenario.name} --mode {point.mode} --at {point.number} ({call})")
                for problem in problems[:3]:
                    print("      " + problem.replace("\n", "\n      "))
            if len(alike) > self.args.show:
                modes = Counter(point.mode for point, _ in alike[self.args.show:])
                print("  and so " + ", ".join(f"{mode} {n} times" for mode, n in modes.items()), flush=True)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", help="the command that is tried")
    parser.add_argument("--quick", action="store_true", help="a sample of all")
    parser.add_argument("--quick-points", type=int, default=32, help="of each scenario with --quick")
    parser.add_argument("--scenario", default="", help="only scenarios whose names contain one of these, a,b")
    parser.add_argument("--mode", default="", help="only modes whose names contain this")
    parser.add_argument("--at", type=int, help="only this call")
    parser.add_argument("--most", type=int, help="no more than so many points of a scenario")
    parser.add_argument("--seeds", type=int, default=4, help="power losses at each call")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="tries at the same time")
    parser.add_argument("--python", help="an interpreter that has datadings, to be the judge")
    parser.add_argument("--show", type=int, default=2, help="failures of a kind that are told in full")
    parser.add_argument("--dir", help="where scratch files go; best a file system in memory")
    parser.add_argument("--keep", action="store_true", help="leave the scratch files")
    return parser.parse_args()


def main():
    args = parse()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = os.path.realpath(tempfile.mkdtemp(prefix="faults-", dir=args.dir or memory))
    try:
        shim = build_shim(folder)
        if shim is None:
            print("faults: skipped: this needs Linux and a C compiler")
            return 0
        session = Session(args, shim, folder)
        print(f"{'scenario':26} {'calls':>5} " + " ".join(f"{g:>7}" for g in GROUPS) + "   failed")
        for scenario in SCENARIOS:
            if any(name in scenario.name for name in args.scenario.split(",")):
                try:
                    session.run(scenario)
                except AssertionError as error:
                    session.failures += 1
                    print(f"{scenario.name:26} cannot be tried: {error}", flush=True)
        print(f"faults: {session.checked} checked, {session.failures} failed")
        return 1 if session.failures else 0
    finally:
        if args.keep:
            print(f"scratch files are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
