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
    if isinstance(value, bool) or value is None:
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, int):
        return bytes([value]) if 0 <= value < 128 else b"\xcf" + struct.pack(">Q", value)
    if isinstance(value, str):
        data = value.encode()
        if len(data) < 32:
            return bytes([0xA0 | len(data)]) + data
        return (b"\xd9" + bytes([len(data)]) if len(data) < 256 else b"\xda" + struct.pack(">H", len(data))) + data
    if isinstance(value, bytes):
        if len(value) < 256:
            return b"\xc4" + bytes([len(value)]) + value
        return b"\xc5" + struct.pack(">H", len(value)) + value
    if isinstance(value, list):
        head = bytes([0x90 | len(value)]) if len(value) < 16 else b"\xdc" + struct.pack(">H", len(value))
        return head + b"".join(map(pack, value))
    return bytes([0x80 | len(value)]) + b"".join(pack(k) + pack(v) for k, v in value.items())


def unpack_keys(data):
    """A msgpack array of strings."""
    def header(at, forms):
        for first, size in forms:
            if data[at] == first:
                return int.from_bytes(data[at + 1:at + 1 + size], "big"), at + 1 + size
        return None
    count, at = header(0, [(0xDC, 2), (0xDD, 4)]) or (data[0] & 15, 1)
    keys = []
    for _ in range(count):
        length, at = header(at, [(0xD9, 1), (0xDA, 2), (0xDB, 4)]) or (data[at] & 31, at + 1)
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
    lines = [f"{hashlib.md5(data).hexdigest()}  {name}{suffix}\n" for suffix, data in files.items()]
    files[".md5"] = "".join(lines).encode()
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
