"""Someone who knows nothing of kiste changes a dataset between a crash and its repair.

Whatever the repair then does, it must not change what that someone left there.
"""

import os
import shutil

import dataset
from harness import family, leftovers
from scenarios import jsonl

# in-place, same-size, longer, rename: Python writes the dataset anew: over the files, as datadings
#   does; with samples of just the old sizes; with the old samples and more; or to new files that
#   are renamed.
# symlink, hardlink: another kiste writes to the same files under another name.
# copy: the folder is copied, and the copy is repaired.
# delete: all files of the dataset are deleted.
# live-in-place, live-rename: Python writes it anew while kiste is at work.
KINDS = ["in-place", "same-size", "longer", "rename", "live-in-place", "live-rename", "symlink", "hardlink", "copy", "delete"]
REPAIRS = ["repair {}", "repair --undo {}", "repair --finish {}"]


def play(kind, lab, place, number):
    """What was wrong, or None if this cannot be played here."""
    if kind in ("in-place", "same-size", "longer", "rename"):
        return rewrite(kind, lab, place, number)
    return {"symlink": symlink, "hardlink": hardlink, "copy": copy, "delete": delete}[kind](lab, place)


def live(kind, lab, place, number):
    """Python writes the dataset anew between two calls of kiste. Either one may win, as a whole."""
    target, theirs = lab.scenario.targets[0], {}
    samples = [dataset.sample(f"live{i}", text="f" * (20 + i)) for i in range(5)]
    def meanwhile():
        dataset.write(place.path(target), samples, by_rename=kind == "live-rename")
        theirs.update(family(place.picture(), target))
    lab.start(place)
    run = place.run_paused(lab.scenario.act, number, meanwhile)
    if run is None:
        return None
    if run.code not in (0, 1, 2):
        return [f"exit code {run.code}: {run.err.strip()[:300]}"]
    wins = [theirs, family(lab.new, target)] if run.code == lab.scenario.code else [theirs]
    for command in [None] + REPAIRS:
        said = place.run(command.format(target)).code if command else run.code
        now = family(place.picture(), target)
        if known_to_python(now) not in map(known_to_python, wins):
            return [f"{command or 'the act'} (exit code {said}) and Python made a mixture; "
                    f"not Python's: {differing(now, theirs)}"]
    return []


def known_to_python(files):
    """Without the names of labels and the accelerator, which may stay or go."""
    return {suffix: files[suffix] for suffix in ["", *dataset.SUFFIXES] if suffix in files}


def differing(now, theirs):
    suffixes = sorted(set(now) | set(theirs))
    return ", ".join(s or "data" for s in suffixes if now.get(s) != theirs.get(s))


def samples_of(lab, place, tree):
    """The samples of the target in one of the lab's trees."""
    target = lab.scenario.targets[0]
    scratch = os.path.join(place.folder, "samples")
    os.makedirs(scratch, exist_ok=True)
    path = os.path.join(scratch, os.path.basename(target))
    for suffix, content in family(tree, target).items():
        with open(path + suffix, "wb") as file:
            file.write(content)
    try:
        return dataset.read(path)
    except (OSError, ValueError):
        return None
    finally:
        shutil.rmtree(scratch)


def rewrite(kind, lab, place, number):
    target = lab.scenario.targets[0]
    samples = [dataset.sample(f"foreign{i}", text="f" * (20 + i)) for i in range(5)]
    if kind == "same-size":
        # In turn as large as the old one and as the new one, but for one bit of each sample.
        like = (number % 2 and samples_of(lab, place, lab.old)) or samples_of(lab, place, lab.new)
        if like is None:
            return None
        samples = [(key, data[:-1] + bytes([data[-1] ^ 0x40])) for key, data in like]
    if kind == "longer":
        old = samples_of(lab, place, lab.old)
        if old is None:
            return None
        samples = old + samples
    dataset.write(place.path(target), samples, by_rename=kind == "rename")
    theirs = family(place.picture(), target)
    # What "verify" says of it where there is no leftover.
    without = os.path.join(place.folder, "without")
    shutil.rmtree(without, ignore_errors=True)
    shutil.copytree(place.tree, without, symlinks=True)
    shutil.rmtree(os.path.join(without, target + ".partial"), ignore_errors=True)
    said = place.run(f"verify --deep {target}", cwd=without)
    for command in REPAIRS:
        command = command.format(target)
        run = place.run(command)
        if run.code not in (0, 1, 2):
            return [f"{command}: exit code {run.code}: {run.err.strip()[:300]}"]
        now = family(place.picture(), target)
        if now != theirs:
            return [f"{command} (exit code {run.code}) changed what was written since: "
                    + differing(now, theirs)]
    shutil.rmtree(place.path(target + ".partial"), ignore_errors=True)
    says = place.run(f"verify --deep {target}")
    if (says.code, says.out) != (said.code, said.out):
        return [f"verify says something else after the repair: {says.out}{says.err}"]
    return []


def foreign_source(place):
    path = os.path.join(place.folder, "foreign.jsonl")
    with open(path, "wb") as file:
        file.write(jsonl(6, 11).replace(b'"j', b'"other'))
    return path


def symlink(lab, place):
    """kiste replaces the dataset through a symbolic link to its data file."""
    target = lab.scenario.targets[0]
    if not os.path.exists(place.path(target)):
        return None
    os.symlink(os.path.basename(target), place.path("link.msgpack"))
    return through(place, target, "link.msgpack", f"convert --force {foreign_source(place)} link.msgpack")


def hardlink(lab, place):
    """kiste appends to a dataset that shares all files with this one."""
    target = lab.scenario.targets[0]
    if not os.path.exists(place.path(target)):
        return None
    for suffix in family(place.picture(), target):
        os.link(place.path(target + suffix), place.path("link.msgpack" + suffix))
    return through(place, target, "link.msgpack", f"convert --append {foreign_source(place)} link.msgpack")


def through(place, target, link, command):
    run = place.run(command)
    if run.code not in (0, 1, 2):
        return [f"{command}: exit code {run.code}: {run.err.strip()[:300]}"]
    if run.code != 0:
        return []
    theirs, said = family(place.picture(), link), place.run(f"verify --deep {link}")
    if said.code != 0:
        return [f"{command} said that it was done, but verify says: {said.out}{said.err}"]
    for command in REPAIRS:
        command = command.format(target)
        place.run(command)
        if family(place.picture(), link) != theirs:
            return [f"{command} changed what was written to {link}"]
    says = place.run(f"verify --deep {link}")
    return [] if says.code == said.code else [f"verify {link} after the repair: {says.out}{says.err}"]


def copy(lab, place):
    """The copy is old, new or as it was copied; the original is not touched."""
    target = lab.scenario.targets[0]
    before = place.picture()
    there = os.path.join(place.folder, "copy")
    shutil.rmtree(there, ignore_errors=True)
    shutil.copytree(place.tree, there, symlinks=True)
    allowed = [family(tree, target) for tree in (before, lab.old, lab.new)]
    for command in REPAIRS[:2]:
        command = command.format(target)
        run = place.run(command, cwd=there)
        if run.code not in (0, 1, 2):
            return [f"{command} of a copy: exit code {run.code}: {run.err.strip()[:300]}"]
        original, place.tree = place.tree, there
        now = family(place.picture(), target)
        place.tree = original
        if now not in allowed:
            return [f"{command} (exit code {run.code}) made a mixture of a copy"]
    if place.picture() != before:
        return ["the repair of a copy changed the original"]
    return lab.settle(place, killed=True)


def delete(lab, place):
    """What is not there stays so, or is whole."""
    target = lab.scenario.targets[0]
    for suffix in family(place.picture(), target):
        os.remove(place.path(target + suffix))
    allowed = [{}] + [family(tree, target) for tree in (lab.old, lab.new)]
    for command in REPAIRS[:2]:
        command = command.format(target)
        run = place.run(command)
        if run.code not in (0, 1, 2):
            return [f"{command} of what was deleted: exit code {run.code}: {run.err.strip()[:300]}"]
        now = family(place.picture(), target)
        if now not in allowed:
            files = ", ".join(suffix or "data" for suffix in now)
            return [f"{command} (exit code {run.code}) made a part of what was deleted: {files}"]
    return []
