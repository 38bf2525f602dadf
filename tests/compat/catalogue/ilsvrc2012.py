"""ILSVRC 2012 in miniature, in the layout of the archives: a tar of a tar for each synset,
`n01440764.tar` with `n01440764_18.JPEG`, and a tar of `ILSVRC2012_val_00000001.JPEG` and so on. Some
are CMYK or of other formats, as in the real one.

With --compress both decode, resize and encode in ways of their own, so pixels are somewhat apart.
"""

import tarfile

from photos import SIZES, add, archive, odd, photo

PYTHON = [["-s"], ["-s", "--compress"], ["-s", "--compress", "60", "--subsampling", "420"],
          ["-s", "--compress", "--subsampling", "Gray"]]
KISTE = [[], ["--compress"], ["--compress", "60", "--subsampling", "420", "--threads", "3"],
         ["--compress", "--subsampling", "gray"]]
LOSSY = {"image": 3.5}


def build(indir):
    synsets = {
        "n01440764": [photo(f"tench {size}", *size) for size in SIZES],
        "n15075141": [data for name, data in odd("toilet tissue").items() if name != "gzip"],
        "n01443537": [photo("goldfish")],
    }
    with tarfile.open(indir / "ILSVRC2012_img_train.tar", "w") as tar:
        for synset, photos in synsets.items():
            files = [(f"{synset}_{7 * n}.JPEG", data) for n, data in enumerate(photos)]
            add(tar, f"{synset}.tar", archive(files))
    with tarfile.open(indir / "ILSVRC2012_img_val.tar", "w") as tar:
        for n in (1, 2, 3, 49999, 50000):
            add(tar, f"ILSVRC2012_val_{n:08}.JPEG", photo(f"val {n}"))
