"""What the machine tells: the page cache, memory and processor time of processes, and its own description."""

import ctypes
import mmap
import os
import platform
import resource
import shutil
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")


def files(folder):
    return [path for path in Path(folder).rglob("*") if path.is_file()]


def size(folder):
    """What files take on the disk: some are as large as they may become, with holes."""
    return sum(path.stat().st_blocks * 512 for path in files(folder))


def warm(folder):
    """Reads all files, so that the page cache has them."""
    part = bytearray(1 << 22)
    for path in files(folder):
        with open(path, "rb", 0) as file:
            while file.readinto(part):
                pass


def drop(folder):
    """Drops all files from the page cache; returns the share of their pages that stayed."""
    stayed = pages = 0
    for path in files(folder):
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            found = resident(file)
        finally:
            os.close(file)
        stayed, pages = stayed + sum(found), pages + len(found)
    return stayed / max(pages, 1)


def resident(file):
    """One byte for each page of a file: whether the page cache has it."""
    length = os.fstat(file).st_size
    if not length:
        return b""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    found = (ctypes.c_ubyte * -(-length // mmap.PAGESIZE))()
    address = libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, file, 0)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "mmap")
    try:
        if libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(length), found):
            raise OSError(ctypes.get_errno(), "mincore")
    finally:
        libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(length))
    return bytes(byte & 1 for byte in found)


def descendants(pid):
    """The process and all below it that live."""
    found, left = [], [pid]
    while left:
        pid = left.pop()
        found.append(pid)
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                left += Path(f"/proc/{pid}/task/{task}/children").read_text().split()
        except OSError:
            pass  # It ended in the meantime, or this is not Linux.
    return found


def memory(pid):
    """Bytes of the processes' own memory, shared memory once: files that are mapped do not count, as the kernel
    takes their pages back when it needs them."""
    total = 0
    for each in descendants(pid):
        try:
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
    return total


def processor_seconds():
    """User and system time of this process and of all below it."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    total = sum(each.ru_utime + each.ru_stime for each in used)
    for each in descendants(os.getpid())[1:]:
        try:
            fields = Path(f"/proc/{each}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        total += (int(fields[11]) + int(fields[12])) / TICK
    return total


def describe(folder):
    """The machine, for the report."""
    model = memory = None
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), None)
        lines = Path("/proc/meminfo").read_text().splitlines()
        memory = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemTotal"))
    except OSError:
        pass  # Not Linux.
    return {
        "processor": model or platform.processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory": memory,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load": os.getloadavg(),
        "free": shutil.disk_usage(folder).free,
    }
