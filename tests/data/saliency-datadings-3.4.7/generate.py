"""Builds the miniature archives of the saliency data sets, and what the writers of datadings 3.4.7 make
of them.

    python generate.py

Needs `pip install datadings==3.4.7 opencv-python`, with Pillow, simplejpeg and SciPy. Writers are mended
where `tests/compat/catalogue/NAME.py` says so, with the reason.
"""

import importlib
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "compat"))

import python_catalogue

NAMES = "ANP460 CAT2000 Coutrot1 FIGRIMFixation MIT1003 MIT300 SALICON2015 SALICON2017".split()


def frames(indir):
    """The frames of the videos as OpenCV decodes them, so that the tests need no decoder."""
    import cv2

    with zipfile.ZipFile(indir / "ERB3_Stimuli.zip") as archive, tempfile.TemporaryDirectory() as scratch:
        for name in archive.namelist():
            if not name.endswith(".avi"):
                continue
            folder = indir / "frames" / Path(name).stem
            folder.mkdir(parents=True)
            capture = cv2.VideoCapture(archive.extract(name, scratch))
            while True:
                good, image = capture.read()
                if not good:
                    break
                path = folder / f"{len(list(folder.iterdir()))}.png"
                cv2.imwrite(str(path), image, [cv2.IMWRITE_PNG_COMPRESSION, 9])


def column(indir):
    """The file of an image with its records in a column, as no writer of ours makes them."""
    import scipy.io

    from catalogue.saliency_parts import mat

    with zipfile.ZipFile(indir / "fixations.zip") as archive:
        with archive.open("val/COCO_val2014_000000000009.mat") as file:
            variables = scipy.io.loadmat(file)
    (indir / "column.mat").write_bytes(mat(gaze=variables["gaze"].T))


def main():
    for name in NAMES:
        module = importlib.import_module(f"catalogue.{name.lower()}")
        indir = HERE / name
        shutil.rmtree(indir, ignore_errors=True)
        indir.mkdir()
        module.build(indir)
        if name == "Coutrot1":
            frames(indir)
        if name == "SALICON2015":
            column(indir)
        with tempfile.TemporaryDirectory() as scratch:
            options = python_catalogue.runs(module, "PYTHON")[0]
            mend = getattr(module, "MEND", "")
            writer = f"datadings.sets.{name}_write"
            python_catalogue.run(
                sys.executable, "-c", python_catalogue.DRIVER, writer, mend, indir, "-o", scratch, *options
            )
            for path in sorted(Path(scratch).glob("*.msgpack")):
                shutil.copy(path, indir / f"expected-{path.name}")
        # The writer leaves an empty folder behind.
        shutil.rmtree(indir / "ERB3_Stimuli", ignore_errors=True)


if __name__ == "__main__":
    main()
