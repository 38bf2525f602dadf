"""What must hold after a fault: of the exit, of the state that is left, and after a repair."""

import json
import os
import re
import shutil
from collections import Counter

import foreign
from harness import family, leftovers
from powerloss import Disk
from scenarios import Scenario

FORCE = " --force"

# What exports write to before they are whole: NAME, the number of the process, and an ending.
ASIDE = re.compile(r"\.[0-9a-f]+(-\d+)?\.(new|partial)(/|$)")


def brief(run):
    """What a command said, without a backtrace."""
    return (run.err + run.out).strip()[:300]


# The notes of a conversion in parts, and their members that differ from run to run.
NOTE = re.compile(r"\.parts/(plan|part-\d+-of-\d+)\.json$")
OF_RUN = {"conversion_id", "run", "checksum", "id"}


def said(name, content):
    """The content of a file that two runs have in common."""
    def plain(value):
        if isinstance(value, dict):
            return {key: plain(below) for key, below in value.items() if key not in OF_RUN}
        return [plain(below) for below in value] if isinstance(value, list) else value
    try:
        return plain(json.loads(content)) if content and NOTE.search(name) else content
    except ValueError:
        return content


def unlike(after, new):
    """What is wrong with the tree of a command that was done again."""
    return [f"done again, {name} is not the new one" for name in sorted(set(after) | set(new))
            if said(name, after.get(name)) != said(name, new.get(name))]


class Lab:
    """A scenario with its states before and after, and the calls between them."""

    def __init__(self, scenario: Scenario, place, judge):
        self.scenario, self.judge = scenario, judge
        self.place = place
        self.cut_at = 0
        # What Python saw before repairs, and what the datasets were after them.
        self.seen = Counter()
        place.reset({})
        for step in scenario.setup:
            if callable(step):
                step(place.tree)
            else:
                self.expect(place.run(step), 0, step)
        self.old = place.picture()
        if scenario.cut:
            place.reset(self.old)
            self.cut_at = self.find_cut(place.run(scenario.cut.command, "count").calls)
        self.start(place)
        clean = place.run(scenario.act, "count")
        self.expect(clean, scenario.code, scenario.act)
        self.calls = [call for call in clean.calls]
        self.new = place.picture()
        self.views = self.looks(place, self.new, self.old)
        self.contents = self.array_contents(place)

    def expect(self, run, code, command):
        if run.code != code:
            raise AssertionError(f"{self.scenario.name}: {command}: exit code {run.code}\n{run.err}")

    def find_cut(self, calls):
        cut = self.scenario.cut
        if not cut.name:
            return int(len(calls) * cut.share)
        fits = [c for c in calls if c.name == cut.name and (c.second or c.path).endswith(cut.ending)]
        return fits[len(fits) // 2].number

    def looks(self, place, *trees):
        """What Python sees of each target in each of these trees."""
        views = {target: [] for target in self.scenario.targets}
        if self.scenario.kind == "dataset":
            for tree in trees:
                place.reset(tree)
                for target in self.scenario.targets:
                    views[target].append(self.judge.look(place.path(target)))
        return views

    def array_contents(self, place):
        """What is in an array, or in a dataset of many files, before and after."""
        read = {"array": array_content, "many": many_content}.get(self.scenario.kind)
        contents = []
        for tree in (self.old, self.new) if read else ():
            place.reset(tree)
            contents.append(read(place, self.scenario.targets[0]))
        return contents

    def start(self, place):
        """The state from which the act begins."""
        place.reset(self.old)
        if self.scenario.cut:
            place.run(self.scenario.cut.command, "after", self.cut_at)

    # The tries. Each returns what was wrong, as a list of texts, or None if there was nothing to try.

    def try_fault(self, place, mode, number, errno=0):
        """A call fails: the command says so and is as good as killed at most."""
        self.start(place)
        run = place.run(self.scenario.act, mode, number, errno)
        if run.broken is None:
            return None
        problems = self.exit_problems(run)
        harmless = run.code == self.scenario.code
        state = place.picture()
        if harmless and self.scenario.kind == "dataset":
            for target in self.scenario.targets:
                if family(state, target) != family(self.new, target):
                    problems.append(f"exit code {run.code}, but {target} is not the new one")
        return problems + self.settle(place, keep=harmless, killed=mode == "sticky")

    def try_kill(self, place, mode, number, finish=False):
        self.start(place)
        run = place.run(self.scenario.act, mode, number)
        if not run.was_killed:
            return None
        return self.settle(place, finish=finish, killed=True)

    def try_power_loss(self, place, number, seed):
        """Power is lost after a call; with a number beyond the last, after the command has ended."""
        self.start(place)
        disk = Disk(place.tree)
        run = place.run(self.scenario.act, "after", number, data=True)
        ended = not run.was_killed
        if ended and number <= len(self.calls):
            return None
        disk.replay(run.calls)
        disk.fail(seed)
        disk.realise(place.grave)
        return self.settle(place, keep=ended, killed=True)

    def try_foreign(self, place, kind, number):
        if self.scenario.kind != "dataset" or len(self.scenario.targets) > 1:
            return None
        if kind.startswith("live"):
            return foreign.live(kind, self, place, number)
        self.start(place)
        run = place.run(self.scenario.act, "after", number)
        if not run.was_killed:
            return None
        return foreign.play(kind, self, place, number)

    # What must hold.

    def exit_problems(self, run):
        problems = []
        if run.code not in (2, self.scenario.code):
            problems.append(f"exit code {run.code}: {brief(run)}")
        elif "panicked" in run.err:
            problems.append(f"it panicked: {brief(run)}")
        if run.code == 2:
            errors = [line for line in run.err.splitlines() if line.startswith("kiste: ")]
            if len(errors) != 1:
                problems.append(f"expected one error on standard error: {brief(run)}")
            elif not re.match(r"kiste: [^:]+: ", errors[0]):
                problems.append(f"the error names no file: {errors[0]}")
        return problems

    def settle(self, place, finish=False, keep=False, killed=False):
        """Looks at what is left, repairs it and does the act again. `keep`: it must be the new one;
        `killed`: the command could not tidy up."""
        kind = self.scenario.kind
        # What "repair --undo" leaves when it is killed, "repair --finish" makes something else of.
        finish = finish and "--undo" not in self.scenario.act
        if kind == "dataset":
            return self.settle_datasets(place, finish, keep)
        if kind == "array":
            return self.settle_array(place, keep)
        if kind == "blpk":
            return self.settle_blpk(place, keep)
        if kind == "many":
            return self.settle_many(place, keep)
        return self.settle_files(place, keep, killed)

    def settle_datasets(self, place, finish, keep):
        problems = []
        for target in self.scenario.targets:
            problems += self.look_at(place, target)
            problems += self.repair(place, target, finish)
        state, which = place.picture(), {}
        for target in self.scenario.targets:
            which[target], found = self.which(place, state, target, finish)
            problems += found
            self.seen[which[target]] += 1
            if keep and which[target] != "new":
                problems.append(f"the command said that it was done, but {target} is {which[target]}")
        problems += self.strangers(state)
        if problems or not self.scenario.repeatable or "old" not in which.values():
            return problems
        if state == self.old:
            # Byte for byte the tree in which the act is known to work.
            return []
        run = place.run(self.scenario.act)
        if run.code == 2 and "exist" in run.err and set(which.values()) != {"old"}:
            # Some of several datasets are the new ones already.
            run = place.run(self.scenario.act + FORCE)
        if run.code != self.scenario.code:
            return [f"the act cannot be done again: exit code {run.code}: {brief(run)}"]
        after = place.picture()
        return unlike(after, self.new)

    def look_at(self, place, target):
        """Before any repair: Python sees old, new or nothing; "verify" says good or "repair"."""
        problems = []
        view = self.judge.look(place.path(target))
        self.seen["refused" if "refused" in view else "opened"] += 1
        if view not in self.views[target] and not view.get("refused", "").startswith("FileNotFoundError"):
            problems.append(f"Python sees neither old nor new in {target}: {str(view)[:200]}")
        state = place.picture()
        run = place.run(f"verify --deep {target}")
        nothing = target not in state and not leftovers(state, target)
        as_before = family(state, target) == family(self.old, target)
        if run.code not in (0, 1, 2):
            problems.append(f"verify {target}: exit code {run.code}: {brief(run)}")
        if run.code != 0 and not nothing and not as_before and "kiste repair" not in run.err + run.out:
            problems.append(f"verify does not offer a repair of {target}: {brief(run)}")
        return problems

    def repair(self, place, target, finish):
        state = place.picture()
        had_leftover, had_old = bool(leftovers(state, target)), target in self.old
        run = place.run(f"repair {target}" + (" --finish" if finish and had_leftover else ""))
        if run.code == 1 and not had_old and "choose" in run.err:
            run = place.run(f"repair {target} --undo")
        nothing = target not in state and not had_leftover and run.code == 2
        is_part = finish and run.code == 1 and "cut short" in run.err
        if run.code != 0 and not nothing and not is_part:
            return [f"repair {target}: exit code {run.code}: {brief(run)}"]
        return []

    def which(self, place, state, target, finish):
        """Whether a dataset is the old or the new one."""
        now, old, new = (family(tree, target) for tree in (state, self.old, self.new))
        if now == new:
            return "new", []
        if now == old:
            return "old", []
        if finish and self.is_beginning(place, target):
            return "part", []
        suffixes = sorted(set(now) | set(old) | set(new))
        def say(suffix):
            if now.get(suffix) == new.get(suffix) == old.get(suffix):
                return "same"
            return "new" if now.get(suffix) == new.get(suffix) else \
                "old" if now.get(suffix) == old.get(suffix) else "other"
        text = ", ".join(f"{suffix or 'data'} {say(suffix)}" for suffix in suffixes)
        return "neither", [f"{target} is neither old nor new after the repair: {text}"]

    def is_beginning(self, place, target):
        """Whether a write that was finished before its end has the first of the new samples."""
        view, new = self.judge.look(place.path(target)), self.views[target][0]
        found = view.get("samples")
        good = place.run(f"verify --deep {target}").code == 0
        return good and found is not None and new.get("samples", [])[:len(found)] == found

    def is_extra(self, name):
        return any(name == extra or name.startswith(extra + "/") for extra in self.scenario.extras)

    def strangers(self, state):
        """Files that belong to neither state, and inputs that were changed."""
        problems = []
        targets = {target + suffix for target in self.scenario.targets for suffix in family(state, target)}
        for name in sorted(set(state) | set(self.old)):
            if name in targets or self.is_extra(name):
                continue
            if name not in self.old and name not in self.new:
                problems.append(f"{name} is left over")
            elif name in self.old and state.get(name) not in (self.old[name], self.new.get(name)):
                if not any(name.startswith(target) for target in self.scenario.targets):
                    problems.append(f"{name} was changed")
        return problems

    def settle_files(self, place, keep, killed):
        """Exports: whole or absent, and the command can be run again."""
        problems, state = [], place.picture()
        def part(tree, target):
            return {n: c for n, c in tree.items() if n == target or n.startswith(target + "/")}
        targets = self.scenario.targets
        now, old, new = ([part(tree, t) for t in targets] for tree in (state, self.old, self.new))
        if self.scenario.kind == "file" and now not in (old, new):
            problems.append(f"{targets[0]} is neither old nor new")
        if keep and any(said(name, state.get(name, 0)) != said(name, new) for name, new in self.new.items()):
            problems.append(f"the command said that it was done, but {targets[0]} is not the new one")
        if problems:
            return problems
        run = place.run(self.scenario.act)
        if run.code == 2 and "no parts to join" in run.err and now == new:
            return []
        if run.code == 0 and "was joined before" in run.err and now == new:
            # The bad samples were left to the run that was killed.
            return []
        if run.code == 2 and "exist" in run.err:
            # Half of a folder, or the new one already: the message says that it is in the way.
            for name in os.listdir(place.tree):
                if name not in self.old:
                    path = place.path(name)
                    shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
            run = place.run(self.scenario.act)
        if run.code != self.scenario.code:
            return [f"the act cannot be done again: exit code {run.code}: {brief(run)}"]
        after = place.picture()
        # The lock of a note, left by who died or could not remove it, keeps nobody from anything.
        after = {name: c for name, c in after.items() if name in self.new or not name.endswith(".json.lock")}
        if killed:
            # What is written has a name of its own in each run, so nobody knows what a dead one left.
            after = {name: c for name, c in after.items() if name in self.new or not ASIDE.search(name)}
        return unlike(after, self.new)

    def settle_many(self, place, keep):
        """A manifest that is replaced lists old or new shards, all of them good, and no others stay in the end."""
        target = self.scenario.targets[0]
        content = many_content(place, target)
        if content not in self.contents:
            return [f"{target} is neither old nor new: {str(content)[:300]}"]
        if keep and content != self.contents[1]:
            return [f"the command said that it was done, but {target} is not the new one"]
        run = place.run(self.scenario.act)
        if run.code == 2 and "no parts to join" in run.err and content == self.contents[1]:
            run.code = self.scenario.code
        if run.code == 2 and "repair" not in self.scenario.act and ("cut short" in run.err or "parts of" in run.err):
            place.run(f"repair {target} --undo")
            if many_content(place, target) != content:
                return [f"after its repair {target} is not what it was"]
            run = place.run(self.scenario.act)
        if run.code != self.scenario.code:
            return [f"the act cannot be done again: exit code {run.code}: {brief(run)}"]
        if many_content(place, target) != self.contents[1]:
            return [f"done again, {target} is not the new one"]
        state = place.picture()
        stem = target.removesuffix(".shards.json") + "-"
        listed = {shard["name"] for shard in json.loads(state[target])["shards"]}
        stray = [name for name in state if name.startswith(stem) and name.split(".msgpack")[0] + ".msgpack" not in listed]
        stray += [name for name in state if name.startswith(target + ".parts/")]
        return [f"{name} is left over" for name in stray]

    def settle_array(self, place, keep):
        target = self.scenario.targets[0]
        content = array_content(place, target)
        if content not in self.contents:
            return [f"{target} is neither old nor new: {str(content)[:300]}"]
        if keep and content != self.contents[1]:
            return [f"the command said that it was done, but {target} is not the new one"]
        if content == self.contents[1] != self.contents[0]:
            return []
        run = place.run(self.scenario.act)
        if content == "absent" and run.code == 2 and os.path.isdir(place.path(target)):
            # Half of a new array is in the way until someone removes it.
            shutil.rmtree(place.path(target))
            run = place.run(self.scenario.act)
        if run.code != 0:
            return [f"the act cannot be done again: exit code {run.code}: {brief(run)}"]
        content = array_content(place, target)
        return [] if content == self.contents[1] else [f"done again, {target} is not the new one"]

    def settle_blpk(self, place, keep):
        """An append that was cut short is put right by the next one."""
        target = self.scenario.targets[0]
        part = lambda tree: blpk_content(place, tree)
        state = place.picture()
        now = part(state)
        if keep and now != part(self.new):
            return [f"the command said that it was done, but {target} is not the new one"]
        if now == part(self.new):
            return []
        run = place.run(self.scenario.act)
        if run.code != 0:
            return [f"the act cannot be done again: exit code {run.code}: {brief(run)}"]
        after = part(place.picture())
        return [] if after == part(self.new) else [f"done again, {target} is not the new one"]


def many_content(place, name):
    """The keys of a dataset of many files, or why it is not good."""
    run = place.run(f"verify --deep {name}")
    return place.run(f"ls {name}").out if run.code == 0 else f"verify: {run.code}: {run.out}{run.err}"


def array_content(place, name):
    """What is in an array, or why nothing is."""
    if not os.path.isdir(place.path(name)):
        return "absent"
    good = place.run(f"array verify {name}")
    out = os.path.join(place.folder, "array.npy")
    if "never finished" in good.err or "found no directory" in good.err:
        return "absent"
    # Copies of what the newest version says; a kill may leave older ones, which nobody believes.
    stale = all("the next writer renews it" in line for line in good.out.splitlines()[:-1])
    if good.code != 0 and not stale:
        return f"verify: {good.code}: {good.out}{good.err}"
    run = place.run(f"array export {name} {out} --force")
    if run.code != 0:
        return f"export: {run.err}"
    with open(out, "rb") as file:
        return file.read(), place.run(f"array attrs {name}").out


def blpk_content(place, tree):
    """What is in the container, or the number of the error."""
    container, out = (os.path.join(place.folder, name) for name in ("content.blp", "content"))
    with open(container, "wb") as file:
        file.write(tree["plain.dat.blp"])
    run = place.run(f"blpk decompress --force {container} {out}")
    if run.code != 0:
        return run.code
    with open(out, "rb") as file:
        return file.read()
