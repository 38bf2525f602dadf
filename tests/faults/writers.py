#!/usr/bin/env python3
"""Several kistes that write to one dataset at the same time, by its name and by a link to it.

    python tests/faults/writers.py target/debug/kiste --rounds 200

Each either does its work or is refused. What the dataset holds is what those did that were not.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import dataset
from scenarios import jsonl, samples


def round_of(binary, folder, names, chance):
    """Three writers at once. How many worked, and what was wrong."""
    for number in range(3):
        with open(os.path.join(folder, f"in{number}.jsonl"), "wb") as file:
            file.write(jsonl(5).replace(b'"j', b'"%d-' % number))
    path = os.path.join(folder, "x.msgpack")
    old = samples("old", 8)
    for suffix, content in dataset.files_of("x.msgpack", old).items():
        with open(path + suffix, "wb") as file:
            file.write(content)
    replaces = chance.random() < 0.5
    how = "--force" if replaces else "--append"
    # A link that is replaced is a dataset of its own from then on; one that is appended to is not.
    names = names[:2] if replaces else names
    commands = [f"convert {how} in{number}.jsonl {chance.choice(names)}" for number in range(2)]
    commands.append(f"index --force {chance.choice(names)}" if chance.random() < 0.3
                    else f"convert {how} in2.jsonl {chance.choice(names)}")
    running = [subprocess.Popen([binary, "-q"] + command.split(), cwd=folder, stderr=subprocess.PIPE, text=True)
               for command in commands]
    ends = [(command, process.communicate()[1], process.returncode)
            for command, process in zip(commands, running)]
    problems = [f"{command}: exit code {code}: {err.strip()[:200]}"
                for command, err, code in ends if code not in (0, 2)]
    worked = [command for command, _, code in ends if code == 0]
    verify = subprocess.run([binary, "verify", "--deep", "x.msgpack"], cwd=folder, capture_output=True, text=True)
    if verify.returncode != 0:
        problems.append(f"verify: {verify.stdout}{verify.stderr}")
        return len(worked), problems
    keys = [key for key, _ in dataset.read(path)]
    writers = [command.split()[2][2] for command in worked if "jsonl" in command]
    groups = [[f"{number}-{i:02}" for i in range(5)] for number in writers]
    if replaces:
        expected = groups or [[key for key, _ in old]]
        fits = keys in expected
    else:
        fits = keys[:8] == [key for key, _ in old] and sorted(keys[8:]) == sorted(sum(groups, []))
    if not fits:
        problems.append(f"{worked} worked, but the dataset has {keys}")
    if os.path.exists(path + ".partial"):
        problems.append("x.msgpack.partial is left over")
    return len(worked), problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--links", action="store_true", help="also by a symbolic link")
    args = parser.parse_args()
    binary, chance = os.path.abspath(args.binary), random.Random(1)
    worked, failed = 0, 0
    for number in range(args.rounds):
        with tempfile.TemporaryDirectory() as folder:
            names = ["x.msgpack", "./x.msgpack"]
            if args.links:
                os.symlink("x.msgpack", os.path.join(folder, "link.msgpack"))
                names.append("link.msgpack")
            done, problems = round_of(binary, folder, names, chance)
        worked += done
        failed += bool(problems)
        for problem in problems[:3]:
            print(f"round {number}: {problem}", flush=True)
    print(f"writers: {args.rounds} rounds, {worked} of {3 * args.rounds} worked, {failed} rounds failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
