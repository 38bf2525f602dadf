#!/usr/bin/env python3
"""Makes the pictures of the documentation: the page of `kiste stat --html`, as Chromium draws it.

    docs/images/make.py [KISTE] [--check | --all DIR]

KISTE is the command (default: target/debug/kiste, from `cargo build --features full`). The data are the
digits of `kiste demo` with a few fields more. The page must fit in windows of 400, 1,200 and 2,000
pixels; with --check that is all, and no picture is written. --all DIR draws all widths and themes there.

Needs Chromium; with Pillow the pictures are smaller.
"""

import argparse
import itertools
import json
import math
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
THEMES = ("light", "dark")
# The width of the window and the height of the picture, in pixels.
PICTURES = {"narrow": (400, 1500), "wide": (1200, 1500)}
WIDTHS = (400, 1200, 2000)
DIGITS = "zero one two three four five six seven eight nine".split()


def run(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)


def chromium():
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for path in map(shutil.which, names) if path), None)
    return found or sys.exit("Chromium is not installed")


def dataset(kiste, work):
    """Digits, with fields of the kinds that a page shows."""
    run(kiste, "demo", work / "demo")
    rng = random.Random(1)
    images = work / "demo" / "digits"
    with open(images / "metadata.jsonl", "w") as lines:
        for image in sorted(images.rglob("*.png")):
            digit = int(image.parent.name)
            fields = {
                "file_name": str(image.relative_to(images)),
                "label": digit,
                "split": rng.choices(["train", "test", "validation"], [8, 1, 1])[0],
                "slant": round(rng.gauss(4, 11), 2),
                "strokes": 1 + (digit in (4, 5, 7)) + (rng.random() < 0.1),
                "milliseconds": round(math.exp(rng.gauss(5.5, 1.6))),
            }
            # Zeros and ones are more frequent than they are in the demo.
            if digit < 2 or rng.random() < 0.9 - digit / 20:
                lines.write(json.dumps(fields) + "\n")
            else:
                image.unlink()
    run(kiste, "convert", images, work / "digits.msgpack")
    (work / "digits.msgpack.labels").write_text("\n".join(DIGITS) + "\n")


def chrome(browser, page, width, height, *options):
    """Opens a page in a frame of this width: windows have at least 500 pixels, frames any number."""
    around = page.with_name("frame.html")
    around.write_text(
        "<body style='margin:0'><iframe id=frame style='border:0;display:block' "
        f"src='{page.name}' width={width} height={height}></iframe><script>"
        "frame.onload = () => document.title = frame.contentDocument.documentElement.scrollWidth"
        "</script>"
    )
    common = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
    # Scripts of one file may look at another: for the frame alone, the page has none.
    common += ("--allow-file-access-from-files", "--virtual-time-budget=5000")
    return run(browser, *common, f"--window-size={width},{height}", *options, around.as_uri())


def draw(browser, page, width, height, theme, out):
    """A picture of the top of the page."""
    scheme = {"dark": 0, "light": 1}[theme]
    options = (f"--blink-settings=preferredColorScheme={scheme}", f"--screenshot={out}")
    chrome(browser, page, width, height, *options)


def shrink(picture):
    """With 256 colours, where Pillow is installed: a third of the bytes."""
    try:
        from PIL import Image
    except ImportError:
        return
    with Image.open(picture) as image:
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(picture, optimize=True)


def widest(browser, page, width):
    """How many pixels the content of the page needs in a window of this width."""
    dom = chrome(browser, page, width, 900, "--dump-dom").stdout
    return int(re.search(r"<title>(\d+)", dom)[1])


def main():
    parser = argparse.ArgumentParser(description="Draws the page of kiste stat --html.")
    parser.add_argument("kiste", nargs="?", default=HERE.parents[1] / "target/debug/kiste", type=Path)
    parser.add_argument("--check", action="store_true", help="only see whether the page fits")
    parser.add_argument("--all", type=Path, metavar="DIR", help="draw all widths and themes there")
    args = parser.parse_args()
    browser = chromium()
    with tempfile.TemporaryDirectory() as work:
        work = Path(work)
        dataset(args.kiste.resolve(), work)
        page = work / "page.html"
        run(args.kiste.resolve(), "stat", work / "digits.msgpack", "--html", page)
        page.write_text(page.read_text().replace(f"{work}/", ""))
        for width in WIDTHS:
            needs = widest(browser, page, width)
            print(f"{width} pixels: the page needs {needs}")
            if needs > width:
                sys.exit("the page is wider than its window")
        pictures = PICTURES if args.all is None else {str(width): (width, 2400) for width in WIDTHS}
        for (name, (width, height)), theme in itertools.product(pictures.items(), THEMES):
            if not args.check:
                out = (args.all or HERE).resolve() / f"stat-{name}-{theme}.png"
                draw(browser, page, width, height, theme, out)
                shrink(out)
                print(f"{out.name}: {out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
