"""Digests of files, and hashes of keys."""

import os
from hashlib import blake2s, md5
from pathlib import Path

from pykiste.datadings.tools.progress import DOWNLOAD_BAR, make_printer


def hash_md5hex(path: str | Path, read_size: int = 64 * 1024, progress: bool = False) -> str:
    """The MD5 digest of a file in hexadecimal digits.

    Parameters:
        path: the file
        read_size: how many bytes are read at once
        progress: show a progress bar
    """
    printer = make_printer(
        bar_format=DOWNLOAD_BAR,
        total=os.stat(path).st_size,
        unit_scale=True,
        unit="B",
        disable=not progress,
    )
    digest = md5()
    with open(path, "rb", read_size) as file, printer:
        while data := file.read(read_size):
            digest.update(data)
            printer.update(len(data))
    return digest.hexdigest()


def load_md5file(path: str | Path) -> dict[str, str]:
    """The digests that an MD5 file lists, by file name."""
    digests = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            digest, name = line.strip().split("  ", 1)
            digests[name] = digest
    return digests


def hash_string_bytes(s: str, salt: bytes = b"") -> bytes:
    """The first 8 bytes of the BLAKE2s hash of a string.

    Parameters:
        s: the string
        salt: up to 8 bytes
    """
    return blake2s(s.encode("utf-8"), salt=salt).digest()[:8]


def hash_string(s: str, salt: bytes = b"") -> int:
    """The same as a big-endian integer.

    >>> hex(hash_string("k0", hash_string_bytes("0")))
    '0x19784c6abda62607'
    """
    return int.from_bytes(hash_string_bytes(s, salt), "big")
