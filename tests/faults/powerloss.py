"""What a disk holds after a power failure, from the log of the calls before it.

The model is that of src/storage/memory.rs. What was synced is there. Of what was not, each change of
a name and each write is there or not, as a seed decides; a write may be there in part, and a hole it
leaves reads as zeros. Seed 0 keeps nothing that was not synced. A sync of a file makes its bytes
last, not its name: that takes a sync of the directory.

Inode numbers stay what they were, as on a disk: the harness moves the real files about.
"""

import os
import random

# Calls that change neither names nor bytes.
NEUTRAL = {"open", "chmod", "hint"}


class Unsupported(Exception):
    """The program changes files in a way that the replay cannot follow."""


class Disk:
    def __init__(self, root):
        """The files that are there are all on the disk."""
        self.root = root
        self.names, self.bytes, self.unsynced, self.pending = {}, {}, {}, []
        for folder, folders, files in os.walk(root):
            for name in folders:
                self.names[os.path.relpath(os.path.join(folder, name), root)] = None
            for name in files:
                path = os.path.join(folder, name)
                inode = os.lstat(path).st_ino
                self.names[os.path.relpath(path, root)] = inode
                with open(path, "rb") as file:
                    self.bytes[inode] = file.read()

    def replay(self, calls):
        """Follows a log up to its end. Call before anything is realised."""
        for call in calls:
            if call.worked and call.name not in NEUTRAL:
                self.step(call)

    def step(self, call):
        path, inode = call.path, call.inode
        if call.name == "create":
            self.bytes[inode] = b""
            self.unsynced.pop(inode, None)
            self.pending.append(("add", path, inode))
        elif call.name == "write":
            self.unsynced.setdefault(inode, []).append(("write", call.offset, call.data))
        elif call.name in ("resize", "truncate"):
            self.unsynced.setdefault(inode, []).append(("resize", call.length, b""))
        elif call.name == "allocate":
            self.unsynced.setdefault(inode, []).append(("grow", call.length, b""))
        elif call.name == "sync":
            if inode in self.bytes:
                for change in self.unsynced.pop(inode, []):
                    self.bytes[inode] = change_bytes(self.bytes[inode], change)
            else:
                self.settle(path)
        elif call.name == "rename":
            self.pending.append(("rename", call.second, inode, path))
        elif call.name == "link":
            self.pending.append(("add", call.second, inode))
        elif call.name == "mkdir":
            self.pending.append(("add", path, None))
        elif call.name in ("remove", "rmdir"):
            self.pending.append(("remove", path))
        else:
            raise Unsupported(str(call))

    def settle(self, folder):
        """A sync of a directory: what changed in it lasts."""
        folder = "" if folder == "." else folder
        rest = []
        for change in self.pending:
            if os.path.dirname(change[1]) == folder:
                self.apply(change)
            else:
                rest.append(change)
        self.pending = rest

    def apply(self, change):
        kind, path = change[:2]
        if kind == "add":
            self.names[path] = change[2]
        elif kind == "remove":
            self.names.pop(path, None)
        else:
            inode, source = change[2:]
            if inode in self.bytes:
                if self.names.get(source) == inode:
                    del self.names[source]
                self.names[path] = inode
                return
            # A directory takes along what is in it.
            for name in [name for name in self.names if (name + "/").startswith(source + "/")]:
                self.names[path + name[len(source):]] = self.names.pop(name)

    def fail(self, seed):
        """Power is lost."""
        chance = random.Random(seed)
        coin = lambda: seed != 0 and chance.random() < 0.5
        for change in self.pending:
            full = change[0] == "remove" and any(n.startswith(change[1] + "/") for n in self.names)
            if coin() and not full:
                self.apply(change)
        self.pending = []
        # What is in a directory whose own name was lost cannot be reached.
        for name in sorted(self.names):
            parent = os.path.dirname(name)
            if parent and self.names.get(parent, 0) is not None:
                del self.names[name]
        for inode, changes in self.unsynced.items():
            for change in changes:
                if not coin():
                    continue
                if change[0] == "write" and coin():
                    change = ("write", change[1], change[2][:len(change[2]) // 2])
                self.bytes[inode] = change_bytes(self.bytes[inode], change)
        self.unsynced = {}

    def realise(self, grave):
        """Moves the real files until the tree is what the disk holds."""
        pool = os.path.join(grave, "pool")
        os.makedirs(pool)
        for name in os.listdir(grave):
            if name != "pool":
                os.rename(os.path.join(grave, name), os.path.join(pool, name))
        for folder, folders, files in os.walk(self.root):
            for name in files:
                path = os.path.join(folder, name)
                buried = os.path.join(pool, str(os.lstat(path).st_ino))
                # Of two names of one file the second would not be moved: rename leaves both.
                os.remove(path) if os.path.exists(buried) else os.rename(path, buried)
        for folder, folders, _ in os.walk(self.root, topdown=False):
            for name in folders:
                path = os.path.join(folder, name)
                if os.path.relpath(path, self.root) not in self.names:
                    os.rmdir(path)
        for name in sorted(self.names):
            path, inode = os.path.join(self.root, name), self.names[name]
            if inode is None:
                os.makedirs(path, exist_ok=True)
                continue
            buried = os.path.join(pool, str(inode))
            os.link(buried, path)
            stat = os.stat(path)
            with open(path, "r+b") as file:
                if file.read() != self.bytes[inode]:
                    file.seek(0)
                    file.write(self.bytes[inode])
                    file.truncate()
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        for name in os.listdir(pool):
            os.remove(os.path.join(pool, name))


def change_bytes(data, change):
    kind, at, new = change
    if kind == "write":
        return data[:at].ljust(at, b"\0") + new + data[at + len(new):]
    if kind == "grow":
        return data.ljust(at, b"\0")
    return data[:at].ljust(at, b"\0")
