"""Images by `kiste` and by torchvision with the same parameters: the largest differences.

    python benches/pixels.py pictures OUT PICTURE...   crops of photographs as OUT/NUMBER.jpg
    python benches/pixels.py compare PROGRAM DIR       differences of all images in DIR
    python benches/pixels.py time DIR                  torchvision and Pillow, one thread

PROGRAM is the example `pixels`. Needs numpy, Pillow, torch and torchvision.
"""

import io
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from PIL import Image

PIPELINE = "random_resized_crop(224) | hflip"


def pictures(out, sources, count=1000, size=(500, 375)):
    """Crops at random places and scales, encoded with quality 90."""
    out.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    images = [Image.open(path).convert("RGB") for path in sources]
    images = [image for image in images if min(image.size) >= 200]
    for number in range(count):
        image = images[number % len(images)]
        most = min(image.width / size[0], image.height / size[1])
        scale = random.uniform(min(0.5, most), most)
        width, height = size[0] * scale, size[1] * scale
        left, top = random.uniform(0, image.width - width), random.uniform(0, image.height - height)
        part = image.resize(size, Image.Resampling.LANCZOS, (left, top, left + width, top + height))
        part.save(out / f"{number:04}.jpg", quality=90)


def compare(program, directory):
    import torch
    from torchvision.io import ImageReadMode, decode_image

    torch.set_num_threads(1)
    directory = Path(directory)
    # The pixels that torchvision decodes, without loss: what decoders make of them does not count then. The
    # bytes say what they are, not the ending.
    decoded = directory / "decoded"
    decoded.mkdir(exist_ok=True)
    for path in directory.glob("*.jpg"):
        data = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)
        pixels = decode_image(data, ImageReadMode.RGB).permute(1, 2, 0).contiguous().numpy()
        Image.fromarray(pixels).save(decoded / path.name, format="PPM")
    for name, images in {"from the same pixels": decoded, "from JPEG": directory}.items():
        values = np.stack(list(differences(program, images, decoded)))
        shares = ", ".join(f"{(values <= by).mean():.4%} within {by}" for by in (0, 1, 2, 4))
        print(f"{name}: {len(values)} images, at most {values.max()}, mean {values.mean():.4f}; {shares}")


def differences(program, directory, decoded):
    import torch
    from torchvision.transforms.v2 import functional as F

    command = [program, "draw", directory, PIPELINE]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    for path, line in zip(sorted(directory.glob("*.jpg")), done.stdout.splitlines(), strict=True):
        found = np.fromfile(path.with_suffix(".raw"), np.uint8).reshape(224, 224, 3)
        path.with_suffix(".raw").unlink()
        pixels = np.array(Image.open(decoded / path.name))
        image = torch.from_numpy(pixels).permute(2, 0, 1)
        for action in json.loads(line)["actions"]:
            match action:
                case "horizontal_flip":
                    image = F.horizontal_flip(image)
                case {"crop": {"top": top, "left": left, "size": size}}:
                    image = F.crop(image, top, left, size["height"], size["width"])
                case {"resize": {"size": size}}:
                    image = F.resize(image, [size["height"], size["width"]], antialias=True)
        yield np.abs(found.astype(np.int16) - image.permute(1, 2, 0).numpy())


def timed(directory):
    import torch
    from torchvision.io import ImageReadMode, decode_image
    from torchvision.transforms import v2

    torch.set_num_threads(1)
    files = [path.read_bytes() for path in sorted(Path(directory).glob("*.jpg"))]
    steps = v2.Compose([
        v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True),
        v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ])
    tensor = lambda data: decode_image(torch.frombuffer(bytearray(data), dtype=torch.uint8), ImageReadMode.RGB)
    pil = lambda data: Image.open(io.BytesIO(data)).convert("RGB")
    pil_steps = v2.Compose([
        v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), v2.ToImage(), v2.ToDtype(torch.float32, scale=True),
        v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ])
    ways = {
        "decode_image": tensor,
        "decode_image and steps": lambda data: steps(tensor(data)),
        "Pillow and steps": lambda data: pil_steps(pil(data)),
    }
    try:
        import simplejpeg

        ways["simplejpeg"] = lambda data: simplejpeg.decode_jpeg(data)
    except ImportError:
        pass
    for name, way in ways.items():
        best = float("inf")
        for _ in range(3):
            start = time.perf_counter()
            for data in files:
                way(data)
            best = min(best, time.perf_counter() - start)
        print(f"{name}: {len(files) / best:.0f} images/s")


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    match command:
        case "pictures":
            pictures(Path(arguments[0]), arguments[1:])
        case "compare":
            compare(*arguments)
        case "time":
            timed(*arguments)
        case _:
            sys.exit(__doc__)
