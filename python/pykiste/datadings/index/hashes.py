"""`.key_hashes`: 64 bits of the hash of each key."""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pykiste.datadings.index.suffixes import SUFFIX_KEY_HASHES
from pykiste.datadings.tools.hashing import hash_string_bytes
from pykiste.datadings.tools.paths import path_append_suffix


def load_key_hashes(path: Path) -> tuple[bytes, np.ndarray]:
    """The salt, and the hashes in the order of the samples."""
    with path_append_suffix(path, SUFFIX_KEY_HASHES).open("rb") as file:
        return file.read(8), np.fromfile(file, ">u8").astype(np.uint64)


def hash_keys(keys: Sequence[str], max_tries: int = 1000) -> tuple[bytes, np.ndarray]:
    """A salt with which no two keys have one hash, and the hashes.

    Parameters:
        keys: the keys
        max_tries: how many salts are tried
    """
    for salt_number in range(max_tries):
        salt = hash_string_bytes(str(salt_number))
        hashes = [hash_string_bytes(key, salt) for key in keys]
        if len(set(hashes)) == len(hashes):
            return salt, np.frombuffer(b"".join(hashes), ">u8").copy()
        logging.info("hash collision, retry with different salt")
    raise RuntimeError(f"hash collisions after {max_tries} tries;try increasing max_tries")


def write_key_hashes(keys: Sequence[str], path: Path) -> Path:
    """Writes a salt and the hashes of these keys. Returns the path of the file."""
    salt, hashes = hash_keys(keys)
    path = path_append_suffix(path, SUFFIX_KEY_HASHES)
    path.write_bytes(salt + hashes.tobytes())
    return path
