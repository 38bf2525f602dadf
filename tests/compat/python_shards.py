"""Does Python datadings read the shards of a dataset of many files, each as a dataset?

    python tests/compat/python_shards.py NAME.shards.json

Needs the real Python datadings; the tests of `kiste` do not run this, people do. One line per shard,
`FAIL` and the reason where one fails. Exit code 0: all is well; 1: a check failed; 2: wrong usage.
"""

import json
import sys
from pathlib import Path

from datadings.reader import MsgpackReader
from datadings.reader.sharded import ShardedReader


def check(manifest, shard):
    path = manifest.parent / shard["name"]
    with MsgpackReader(path) as reader:
        reader.verify_data()
        assert len(reader) == shard["samples"], f"{len(reader)} samples"
        assert path.stat().st_size == shard["bytes"], "another size"
        keys = [sample["key"] for sample in reader]
        for index, key in enumerate(keys):
            assert reader.find_index(key) == index, f"key {key!r}"
        if "keys" in shard:
            found = [min(keys, key=str.encode), max(keys, key=str.encode)]
            assert found == shard["keys"], f"keys from {found}"
    return keys


def main(args):
    if len(args) != 1:
        print(__doc__)
        return 2
    manifest = Path(args[0])
    listed = json.loads(manifest.read_text())
    failed, keys = False, []
    for shard in listed["shards"]:
        try:
            keys += check(manifest, shard)
            print(f"ok   {shard['name']}")
        except Exception as error:  # Whatever it is, it is an answer.
            failed = True
            print(f"FAIL {shard['name']}: {error!r}")
    with ShardedReader([manifest.parent / shard["name"] for shard in listed["shards"]]) as all_shards:
        same = [sample["key"] for sample in all_shards] == keys and len(keys) == listed["samples"]
    print("ok   all shards" if same else "FAIL all shards: other keys")
    return 0 if same and not failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
