#!/usr/bin/env python3
"""Makes the pictures of the documentation: the page of `kiste stat --html`, as Chromium draws it.

    docs/images/make.py [KISTE] [--check | --all DIR]

KISTE is the command (default: target/debug/kiste, from `cargo build --features full`). The data are the
digits of `kiste demo` with a few fields more. Two other pages are checked: one of images with masks and boxes, sound,
conversations, arrays and dates, and one whose keys, fields, labels and values are markup and scripts. All must fit in
windows of 400, 1,200 and 2,000 pixels, and nothing of the data may run; with --check that is all, and no picture is
written. --all DIR draws all pages there, in all widths and themes.

Needs Chromium; with Pillow the pictures are smaller.
"""

import argparse
import base64
import itertools
import json
import math
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
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


def png(width, height, pixel):
    """A picture of three bytes a pixel."""
    rows = (b"\0" + bytes(b for x in range(width) for b in pixel(x, y)) for y in range(height))
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(b"".join(rows))),
        (b"IEND", b""),
    ]
    crc = zlib.crc32
    packed = (struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc(kind + data)) for kind, data in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def wav(seconds, hertz):
    rate = 8000
    sound = b"".join(
        struct.pack("<h", round(9000 * math.sin(2 * math.pi * hertz * at / rate))) for at in range(int(seconds * rate))
    )
    head = struct.pack("<4sI4s4sIHHIIHH", b"RIFF", 36 + len(sound), b"WAVE", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16)
    return head + struct.pack("<4sI", b"data", len(sound)) + sound


def binary(data):
    return {"$bin": base64.b64encode(data).decode()}


def array(dtype, shape, code, numbers):
    data = base64.b64encode(struct.pack(f"<{len(numbers)}{code}", *numbers)).decode()
    return {"$nd": {"dtype": dtype, "shape": shape, "data": data}}


def mixed(kiste, work):
    """Samples of every kind that a page shows."""
    rng = random.Random(2)
    words = "a quiet street in the rain with two red umbrellas and one very patient dog".split()
    with open(work / "mixed.jsonl", "w") as lines:
        for number in range(240):
            width, height = rng.choice([(64, 48), (96, 64), (48, 64), (80, 80)])
            left, top = rng.randrange(width // 2), rng.randrange(height // 2)
            wide, high = width // 3, height // 3
            inside = lambda x, y: left <= x < left + wide and top <= y < top + high
            colour = [rng.randrange(256) for _ in range(3)]
            image = png(width, height, lambda x, y: colour if inside(x, y) else (x * 3 % 256, y * 3 % 256, 90))
            sample = {
                "key": f"train/street_{number:04}-left.jpg",
                "image": binary(image),
                "bbox": [[left, top, wide, high]],
                "mask": array("|u1", [height, width], "B", [int(inside(x, y)) * 3 for y in range(height) for x in range(width)]),
                "label": rng.choices(["street", "park", "harbour", "roof"], [60, 25, 14, 1])[0],
                "split": rng.choices(["train", "val"], [9, 1])[0],
                "caption": " ".join(rng.choices(words, k=rng.randrange(3, 90))),
                "taken": {"$ts": [1_650_000_000 + rng.randrange(90_000_000), 0]},
                "score": round(rng.lognormvariate(0, 1.5), 4),
                "licence": "CC BY 4.0",
                "url": f"https://images.example/{rng.getrandbits(48):012x}.jpg",
                "chat": [
                    {"role": "user", "content": "What is in this picture?"},
                    {"role": "assistant", "content": " ".join(rng.choices(words, k=12)) + "."},
                ],
                "embedding": array("<f4", [64], "f", [rng.gauss(0, 1) for _ in range(64)]),
                "spectrum": array("<f4", [20, 40], "f", [math.sin(x / 4) * math.cos(y / 3) for y in range(20) for x in range(40)]),
            }
            if number % 3:
                sample["sound"] = binary(wav(0.2 + number % 5 / 10, 200 + number))
            if number % 10 == 0:
                sample["caption"] = None
            lines.write(json.dumps(sample) + "\n")
    run(kiste, "convert", work / "mixed.jsonl", work / "mixed.msgpack")


EVIL = (
    "<script>document.title='ran'</script>",
    "\"><img src=x onerror=\"document.title='ran'\">",
    "'><svg onload=\"document.title='ran'\">",
    "</style></title></script><a href=\"javascript:document.title='ran'\">go</a>",
    "\u202eevil/" + "long_name" * 30,
)


def hostile(kiste, work):
    """Markup and scripts in every place that a page has."""
    svg = "<svg xmlns='http://www.w3.org/2000/svg' onload=\"document.title='ran'\"><script>document.title='ran'</script></svg>"
    with open(work / "hostile.jsonl", "w") as lines:
        for number in range(60):
            evil = EVIL[number % len(EVIL)]
            sample = {
                "key": f"{evil}{number}",
                "label": evil,
                "split": EVIL[number % 2],
                evil: evil,
                "image": binary(svg.encode()),
                "text": evil * 5,
                "chat": [{"role": evil, "content": evil * 3}],
                "bbox": [[evil, 0, 1, 1]],
                "list": [evil] * 3,
                "nested": {evil: {evil: evil}},
            }
            lines.write(json.dumps(sample) + "\n")
    run(kiste, "convert", work / "hostile.jsonl", work / "hostile.msgpack")


def chrome(browser, page, width, height, *options):
    """Opens a page in a frame of this width: windows have at least 500 pixels, frames any number."""
    around = page.with_name("frame.html")
    around.write_text(
        "<body style='margin:0'><iframe id=frame style='border:0;display:block' "
        f"src='{page.name}' width={width} height={height}></iframe><script>"
        "frame.onload = () => document.title = frame.contentDocument.documentElement.scrollWidth"
        " + ' ' + frame.contentDocument.title"
        "</script>"
    )
    common = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
    # The script of the frame looks at the page in it.
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
    """How many pixels the content of the page needs in a window of this width, and its title."""
    dom = chrome(browser, page, width, 900, "--dump-dom").stdout
    found = re.search(r"<title>(\d+) (.*?)</title>", dom)
    return int(found[1]), found[2]


def main():
    parser = argparse.ArgumentParser(description="Draws the page of kiste stat --html.")
    parser.add_argument("kiste", nargs="?", default=HERE.parents[1] / "target/debug/kiste", type=Path)
    parser.add_argument("--check", action="store_true", help="only see whether the page fits")
    parser.add_argument("--all", type=Path, metavar="DIR", help="draw all widths and themes there")
    args = parser.parse_args()
    browser = chromium()
    with tempfile.TemporaryDirectory() as work:
        work = Path(work)
        kiste = args.kiste.resolve()
        for make in (dataset, mixed, hostile):
            make(kiste, work)
        for name in ("digits", "mixed", "hostile"):
            page = work / f"{name}.html"
            run(kiste, "stat", work / f"{name}.msgpack", "--html", page)
            page.write_text(page.read_text().replace(f"{work}/", ""))
            size = page.stat().st_size
            print(f"{name}: {size:,} bytes")
            if size > 3 << 20:
                sys.exit("the page is larger than 3 MB")
            for width in WIDTHS:
                needs, title = widest(browser, page, width)
                print(f"{name}: {width} pixels, the page needs {needs}")
                if needs > width:
                    sys.exit("the page is wider than its window")
                if title == "ran":
                    sys.exit("a script of the data ran")
            pictures = PICTURES if name == "digits" else {}
            if args.all is not None:
                pictures = {f"{name}-{width}": (width, 2400) for width in WIDTHS}
            for (picture, (width, height)), theme in itertools.product(pictures.items(), THEMES):
                if not args.check:
                    out = (args.all or HERE).resolve() / f"stat-{picture}-{theme}.png"
                    draw(browser, page, width, height, theme, out)
                    shrink(out)
                    print(f"{out.name}: {out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
