"""Datasets in pure Python, as Python datadings writes and reads them (FORMAT.md says all of it).

It stands in for datadings where that is not installed, and writes what a foreign program would.
"""

import hashlib
import math
import os
import struct

SUFFIXES = [".offsets", ".keys", ".key_hashes", ".filter", ".md5"]


def pack(value):
    """The msgpack of strings, bytes, small numbers, lists and dicts."""
    if isinstance(value, int):
        return bytes([value]) if 0 <= value < 128 else b"\xcf" + struct.pack(">Q", value)
    if isinstance(value, str):
        data = value.encode()
        return header(len(data), (0xA0, 32), [(0xD9, "B"), (0xDA, "H")]) + data
    if isinstance(value, bytes):
        return header(len(value), (0, 0), [(0xC4, "B"), (0xC5, "H")]) + value
    if isinstance(value, list):
        return header(len(value), (0x90, 16), [(0xDC, "H")]) + b"".join(map(pack, value))
    pairs = b"".join(pack(key) + pack(item) for key, item in value.items())
    return header(len(value), (0x80, 16), [(0xDE, "H")]) + pairs


def header(length, short, forms):
    """The shortest header for something of this length."""
    first, below = short
    if length < below:
        return bytes([first | length])
    for first, form in forms:
        if length < 256 ** struct.calcsize(form):
            return struct.pack(">B" + form, first, length)
    raise ValueError("too long for a test")


def unpack_keys(data):
    """A msgpack array of strings."""
    def long_form(at, forms):
        for first, size in forms:
            if data[at] == first:
                return int.from_bytes(data[at + 1:at + 1 + size], "big"), at + 1 + size
        return None
    count, at = long_form(0, [(0xDC, 2), (0xDD, 4)]) or (data[0] & 15, 1)
    keys = []
    for _ in range(count):
        forms = [(0xD9, 1), (0xDA, 2), (0xDB, 4)]
        length, at = long_form(at, forms) or (data[at] & 31, at + 1)
        if at + length > len(data):
            raise ValueError("the keys are cut short")
        keys.append(data[at:at + length].decode())
        at += length
    if at != len(data):
        raise ValueError("something follows the keys")
    return keys


def blake(data, salt=b""):
    return hashlib.blake2s(data, salt=salt).digest()


def hashes_of(keys):
    """The salt and the hash of each key."""
    for attempt in range(1000):
        salt = blake(str(attempt).encode())[:8]
        hashes = [blake(key.encode(), salt)[:8] for key in keys]
        if len(set(hashes)) == len(keys):
            return salt, hashes
    raise ValueError("keys are not unique")


def filter_of(keys):
    """The Bloom filter."""
    m = max(2, len(keys))
    p = 1 / m
    bits = 8 * math.ceil(m * math.log(p) / -0.4804530139182015 / 8)
    count = round(bits / m * 0.6931471805599453)
    field = bytearray(bits // 8)
    for key in keys:
        first, second = struct.unpack(">QQ", blake(key.encode())[:16])
        for k in range(count):
            bit = (first + k * second) % 2**64 % bits
            field[bit // 8] |= 1 << bit % 8
    return b"SIMPBLOO" + struct.pack(">QQd", 32 + len(field), m, p) + field


def sample(key, **fields):
    """A key and its packed sample."""
    return key, pack({"key": key, **fields})


def files_of(name, samples):
    """All files of a dataset, by suffix, in the order in which datadings writes them."""
    keys = [key for key, _ in samples]
    offsets = [0]
    for _, data in samples:
        offsets.append(offsets[-1] + len(data))
    salt, hashes = hashes_of(keys)
    files = {
        "": b"".join(data for _, data in samples),
        ".offsets": struct.pack(f">{len(offsets)}Q", *offsets),
        ".keys": pack(keys),
        ".key_hashes": salt + b"".join(hashes),
        ".filter": filter_of(keys),
    }
    digests = {suffix: hashlib.md5(data).hexdigest() for suffix, data in files.items()}
    lines = "".join(f"{digest}  {name}{suffix}\n" for suffix, digest in digests.items())
    files[".md5"] = lines.encode()
    return files


def write(path, samples, by_rename=False):
    """Writes a dataset: in place, as datadings does, or each file beside and renamed."""
    for suffix, data in files_of(os.path.basename(path), samples).items():
        target = path + suffix
        beside = target + ".tmp" if by_rename else target
        with open(beside, "wb") as file:
            file.write(data)
        if by_rename:
            os.replace(beside, target)


def read(path):
    """Keys and packed samples as datadings finds them, or an exception where it would raise one."""
    with open(path, "rb") as file:
        data = file.read()
    with open(path + ".offsets", "rb") as file:
        offsets = file.read()
    with open(path + ".keys", "rb") as file:
        keys = unpack_keys(file.read())
    offsets = struct.unpack(f">{len(offsets) // 8}Q", offsets)
    if len(offsets) != len(keys) + 1:
        raise ValueError("offsets and keys differ in their number")
    with open(path + ".key_hashes", "rb") as file:
        hashes = file.read()
    salt, found = hashes[:8], [hashes[i:i + 8] for i in range(8, len(hashes), 8)]
    if found != [blake(key.encode(), salt)[:8] for key in keys]:
        raise ValueError("keys and their hashes differ")
    with open(path + ".filter", "rb") as file:
        if file.read() != filter_of(keys):
            raise ValueError("keys and their filter differ")
    return [[key, data[a:b]] for key, a, b in zip(keys, offsets, offsets[1:])]
