"""Places365 in miniature, in the layout of the archives: training photos in folders by class, such as
`data_large_standard/a/airfield/00000001.jpg`, some of them in two levels; validation and testing photos
in one folder; and the lists of files with labels in an archive of their own.
"""

import tarfile

from photos import add, add_folder, photo

PYTHON = [["-s", "-y"], ["-s", "-y", "--low-res"], ["-s", "-y", "--challenge"], ["-s", "-y", "-l", "-c"]]
KISTE = [[], ["--low-res"], ["--challenge"], ["-l", "-c"]]
CLASSES = ["a/airfield", "a/apartment_building/outdoor", "z/zen_garden"]


def build(indir):
    for version, large in [("large", True), ("256", False)]:
        for challenge in ("standard", "challenge"):
            root = f"data_{version}_{challenge}" if large else f"data_{version}"
            with tarfile.open(indir / f"train_{version}_places365{challenge}.tar", "w") as tar:
                add_folder(tar, root)
                add(tar, f"{root}/readme.txt", b"no photo")
                for name in CLASSES:
                    for n in range(1, 5 if challenge == "challenge" else 3):
                        add(tar, f"{root}/{name}/{n:08}.jpg", photo(f"{version} {name} {n}"))
        for split in ("val", "test"):
            with tarfile.open(indir / f"{split}_{version}.tar", "w") as tar:
                add_folder(tar, f"{split}_{version}")
                for n in (2, 1, 3):
                    name = f"{split}_{version}/Places365_{split}_{n:08}.jpg"
                    add(tar, name, photo(f"{version} {split} {n}"))
    with tarfile.open(indir / "filelist_places365-standard.tar", "w") as tar:
        add(tar, "categories_places365.txt", b"/a/airfield 0\n")
        add(tar, "places365_val.txt", b"".join(b"Places365_val_%08d.jpg %d\n" % (n, n * 100) for n in (1, 2, 3)))
        add(tar, "places365_test.txt", b"".join(b"Places365_test_%08d.jpg\n" % n for n in (1, 2, 3)))
