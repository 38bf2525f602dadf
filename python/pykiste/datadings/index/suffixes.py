"""The names of side files."""

SUFFIX_LEGACY_INDEX = ".index"
SUFFIX_KEYS = ".keys"
SUFFIX_KEY_HASHES = ".key_hashes"
SUFFIX_FILTER = ".filter"
SUFFIX_OFFSETS = ".offsets"
