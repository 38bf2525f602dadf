"""ImageNet-21K (winter 2021) in miniature, in the layout that `ImageNet21k_write` documents: a tar,
compressed with gzip, of a tar for each synset; photos in no order. Some synsets are no classes, some
photos are in gzip once more, and some are none.
"""

import tarfile

from photos import SIZES, add, add_folder, archive, odd, photo

PYTHON = [["-s", "-y"], ["-s", "-y", "--compress", "70"]]
KISTE = [[], ["--compress", "70"]]
LOSSY = {"image": 3.5}


def build(indir):
    (indir / "imagenet21k_miil_tree.pth").write_bytes(b"not read")
    with tarfile.open(indir / "winter21_whole.tar.gz", "w:gz") as tar:
        add_folder(tar, "winter21_whole")
        for synset, count in [("n00007846", 57), ("n99999999", 3), ("n00005787", 53), ("n00006484", 9)]:
            photos = [photo(f"{synset} {n}", *SIZES[n % 8 if n < 16 else 0]) for n in range(count)]
            if count == 53:
                photos[:9] = odd(synset).values()
            files = [(f"{synset}_{(n * 37) % 101}.JPEG", data) for n, data in enumerate(photos)]
            add(tar, f"winter21_whole/{synset}.tar", archive(files))
