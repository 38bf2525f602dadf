"""What torchvision v2 makes of small images, and how it rounds and draws.

    python generate.py PHOTOGRAPH

PHOTOGRAPH is `astronaut.png` of scikit-image. A second run gives the same files.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torchvision import tv_tensors
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F
from torchvision.transforms.v2 import InterpolationMode as Mode

HERE = Path(__file__).parent
ACTIONS = {
    "crop": lambda x, *part: F.crop(x, *part),
    "resize": lambda x, h, w, mode: F.resize(x, [h, w], Mode(mode), antialias=True),
    "hflip": lambda x: F.horizontal_flip(x),
    "vflip": lambda x: F.vertical_flip(x),
    "pad": lambda x, l, t, r, b, fill, mode: F.pad(x, [l, t, r, b], fill=fill, padding_mode=mode),
    "brightness": F.adjust_brightness,
    "contrast": F.adjust_contrast,
    "saturation": F.adjust_saturation,
    "hue": F.adjust_hue,
    "grayscale": lambda x: F.rgb_to_grayscale(x, num_output_channels=3),
    "gaussian_blur": lambda x, columns, rows, sigma: F.gaussian_blur(x, [columns, rows], [sigma, sigma]),
    "erase": lambda x, top, left, h, w, value: F.erase(x, top, left, h, w, torch.tensor(value)),
    "rotate": lambda x, angle, mode, expand, fill: F.rotate(x, angle, Mode(mode), expand, fill=fill),
    "affine": lambda x, angle, right, down, scale, x_shear, y_shear, mode, fill: F.affine(
        x, angle, [right, down], scale, [x_shear, y_shear], Mode(mode), fill=fill),
}
GEOMETRY = ("crop", "resize", "hflip", "vflip", "pad", "rotate", "affine")
COLORS = ("brightness", "contrast", "saturation", "hue", "grayscale", "gaussian_blur", "erase")
CASES = {
    "crop": [["crop", 5, 7, 20, 30]],
    "crop_flips": [["crop", 5, 7, 20, 30], ["hflip"], ["crop", 2, 3, 10, 11], ["vflip"]],
    "down": [["resize", 20, 25, "bilinear"]],
    "up": [["resize", 90, 110, "bilinear"]],
    "mixed": [["resize", 90, 20, "bilinear"]],
    "crop_down": [["crop", 3, 4, 40, 50], ["resize", 24, 24, "bilinear"], ["hflip"]],
    "crop_up": [["crop", 11, 13, 9, 17], ["resize", 24, 24, "bilinear"]],
    "bicubic": [["resize", 20, 100, "bicubic"]],
    "lanczos": [["crop", 3, 4, 40, 50], ["resize", 25, 21, "lanczos"]],
    "nearest": [["crop", 3, 4, 40, 50], ["resize", 17, 77, "nearest"]],
    "flip_down": [["hflip"], ["vflip"], ["resize", 20, 25, "bilinear"]],
    "pad": [["pad", 1, 2, 3, 4, 9, "constant"], ["crop", 0, 0, 30, 40]],
    "pad_edge": [["pad", 1, 2, 3, 4, 0, "edge"]],
    "pad_reflect": [["crop", 0, 0, 20, 20], ["pad", 9, 8, 7, 6, 0, "reflect"]],
    "pad_symmetric": [["crop", 0, 0, 20, 20], ["hflip"], ["pad", 9, 8, 7, 6, 0, "symmetric"]],
    "darker": [["brightness", 0.71]],
    "brighter": [["brightness", 1.4]],
    "contrast_less": [["contrast", 0.63]],
    "contrast_more": [["contrast", 1.37]],
    "saturation_less": [["saturation", 0.62]],
    "saturation_more": [["saturation", 1.39]],
    "hue_up": [["hue", 0.1]],
    "hue_down": [["hue", -0.43]],
    "all": [["crop", 3, 4, 40, 50], ["resize", 24, 24, "bilinear"], ["hue", 0.05], ["contrast", 1.2],
            ["saturation", 0.8], ["brightness", 1.1]],
    "gray": [["grayscale"]],
    "blur": [["gaussian_blur", 5, 5, 1.3]],
    "blur_little": [["crop", 5, 7, 20, 30], ["gaussian_blur", 3, 3, 0.1]],
    "blur_wide": [["crop", 5, 7, 20, 30], ["hflip"], ["gaussian_blur", 23, 3, 40.0]],
    "erase": [["erase", 5, 7, 20, 30, 200]],
    "erase_flipped": [["crop", 5, 7, 20, 30], ["hflip"], ["vflip"], ["erase", 2, 3, 7, 12, 9]],
    "rotate": [["rotate", 13.7, "nearest", False, 0]],
    "rotate_between": [["rotate", -33.3, "bilinear", False, 77]],
    "rotate_black": [["crop", 5, 7, 25, 31], ["vflip"], ["rotate", 171.9, "bilinear", False, 0]],
    "rotate_expand": [["crop", 5, 7, 20, 30], ["rotate", 28.1, "bilinear", True, 9]],
    "rotate_once": [["crop", 5, 7, 20, 30], ["rotate", 90.0, "nearest", True, 0], ["crop", 2, 3, 25, 11]],
    "rotate_square": [["crop", 5, 7, 20, 20], ["hflip"], ["rotate", -90.0, "bilinear", False, 0],
                      ["resize", 13, 17, "bilinear"]],
    "rotate_twice": [["crop", 5, 7, 20, 30], ["rotate", 180.0, "nearest", False, 0]],
    "rotate_outside": [["crop", 5, 7, 20, 30], ["rotate", 270.0, "nearest", False, 50]],
    "affine": [["affine", 20.5, 3, -2, 0.9, 5.0, -7.0, "nearest", 0]],
    "affine_between": [["affine", -120.0, -5, 4, 1.4, -12.0, 0.0, "bilinear", 130]],
    "affine_moved": [["crop", 5, 7, 25, 31], ["affine", 0.0, 4, -3, 1.0, 0.0, 0.0, "bilinear", 9]],
    "turns": [["crop", 5, 7, 30, 40], ["affine", 11.0, 2, 1, 1.1, 3.0, 0.0, "nearest", 6], ["pad", 1, 2, 3, 4, 6, "constant"],
              ["hflip"], ["rotate", 40.5, "nearest", True, 6], ["resize", 33, 50, "nearest"], ["crop", 1, 2, 30, 45],
              ["rotate", 270.0, "nearest", True, 6], ["vflip"]],
}


def save(name, tensor):
    array = tensor.permute(1, 2, 0).numpy()
    Image.fromarray(array.squeeze(-1) if array.shape[-1] == 1 else array).save(HERE / name, optimize=True)


def sources(photograph):
    """Photographs of one scene in many encodings, and what torchvision decodes of them."""
    whole = Image.open(photograph).convert("RGB")
    whole.info.clear()
    photo = whole.crop((160, 20, 320, 140)).resize((64, 48), Image.Resampling.LANCZOS)
    photo.save(HERE / "photo.png", optimize=True)
    save_as = {
        "420.jpg": (photo, dict(quality=90)),
        "422.jpg": (photo, dict(quality=90, subsampling="4:2:2")),
        "444.jpg": (photo, dict(quality=90, subsampling="4:4:4")),
        "progressive.jpg": (photo, dict(quality=90, progressive=True)),
        "odd.jpg": (photo.crop((0, 0, 37, 29)), dict(quality=90)),
        "gray.jpg": (photo.convert("L"), dict(quality=90)),
        "cmyk.jpg": (photo.convert("CMYK"), dict(quality=90)),
        "one.jpg": (photo.crop((3, 3, 4, 4)), dict(quality=90)),
        "palette.png": (photo.quantize(32), {}),
        "gray.png": (photo.convert("L"), {}),
        "bits.png": (photo.convert("1"), {}),
        "alpha.png": (photo.copy(), {}),
        "lossless.webp": (photo, dict(lossless=True)),
        "photo.gif": (photo.quantize(16), {}),
    }
    save_as["alpha.png"][0].putalpha(photo.convert("L"))
    for name, (image, options) in save_as.items():
        image.save(HERE / name, **options)
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        photo.crop((0, 0, 31, 23)).save(HERE / f"exif{orientation}.jpg", quality=90, exif=exif)
        save_as[f"exif{orientation}.jpg"] = None
    return sorted(save_as)


def decoded(names):
    found = []
    for name in names:
        data = torch.frombuffer(bytearray((HERE / name).read_bytes()), dtype=torch.uint8)
        if name == "cmyk.jpg":
            # torchvision leaves out a step for CMYK; Pillow is what it is compared with.
            rgb = F.pil_to_tensor(Image.open(HERE / name).convert("RGB"))
        else:
            rgb = decode_image(data, ImageReadMode.RGB, apply_exif_orientation=True)
            rgb = rgb if rgb.ndim == 3 else rgb[0]
        save(f"decoded_{name.replace('.', '_')}.png", rgb)
        found.append([name, f"decoded_{name.replace('.', '_')}.png"])
    return found


def annotations():
    """The numbers of a palette as a mask, and boxes, after the same actions."""
    mask = torch.from_numpy(np.array(Image.open(HERE / "palette.png")))[None]
    boxes = torch.tensor(
        [[0, 0, 64, 48], [5, 6, 17, 20], [10.5, 3.25, 40.75, 45], [60, 40, 64, 48], [0, 0, 3, 2], [20, 20, 20, 30],
         [-4, -2, 9, 70]], dtype=torch.float32)
    cases = {}
    for name, actions in CASES.items():
        if any(action in COLORS for action, *_ in actions[:1]):
            continue
        moved = tv_tensors.Mask(mask)
        found = {}
        for action, *arguments in actions:
            moved = ACTIONS[action](moved, *arguments) if action in GEOMETRY else moved
        Image.fromarray(moved[0].numpy()).save(HERE / f"mask_{name}.png", optimize=True)
        if not any(action == "pad" and arguments[-1] != "constant" for action, *arguments in actions):
            for format in ("XYXY", "XYWH", "CXCYWH"):
                held = tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(48, 64))
                held = F.convert_bounding_box_format(held, new_format=tv_tensors.BoundingBoxFormat[format])
                before = held.tolist()
                for action, *arguments in actions:
                    held = ACTIONS[action](held, *arguments) if action in GEOMETRY else held
                held = F.clamp_bounding_boxes(held)
                kept = F.sanitize_bounding_boxes(held)[1]
                found[format.lower()] = [before, held.tolist(), kept.nonzero()[:, 0].tolist()]
        cases[name] = found
    (HERE / "annotations.json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")


def rounding():
    rows = []
    for height, width in [(375, 500), (500, 375), (333, 500), (7, 1000), (1, 1), (224, 224), (223, 225)]:
        image = torch.zeros(3, height, width, dtype=torch.uint8)
        for text, step in {
            "resize(256)": v2.Resize(256),
            "resize(100, max_size=120)": v2.Resize(100, max_size=120),
            "resize(33)": v2.Resize(33),
        }.items():
            try:
                size = list(step(image).shape[1:])
            except RuntimeError:  # a side of no pixels
                size = None
            rows.append([height, width, text, size])
    return rows


def anchors():
    """Where `center_crop` begins: each pixel is its own place."""
    rows = []
    for height, width in [(375, 500), (225, 227), (224, 229), (10, 300), (301, 11), (5, 5), (226, 228)]:
        y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        image = torch.stack([y, x]) + 1
        out = v2.CenterCrop((224, 224))(image)
        inside = out[0].nonzero()
        (top, left), (first_y, first_x) = inside[0].tolist(), [out[c][tuple(inside[0])].item() - 1 for c in (0, 1)]
        rows.append([height, width, top, left, first_y, first_x])
    return rows


def draws():
    """Means and standard deviations of what is drawn."""
    torch.manual_seed(1)
    rows = []
    for height, width in [(375, 500), (100, 1000), (32, 32)]:
        step = v2.RandomResizedCrop(224)
        image = torch.zeros(3, height, width, dtype=torch.uint8)
        params = [step.make_params([image]) for _ in range(20_000)]
        table = np.array([[p["top"], p["left"], p["height"], p["width"]] for p in params], float)
        rows.append([height, width, table.mean(0).round(4).tolist(), table.std(0).round(4).tolist()])
    return rows


def erased():
    """The same of the parts that `RandomErasing` erases."""
    torch.manual_seed(2)
    rows = []
    for height, width in [(375, 500), (20, 90)]:
        step = v2.RandomErasing(p=1)
        params = [step.make_params([torch.zeros(3, height, width, dtype=torch.uint8)]) for _ in range(20_000)]
        table = np.array([[p["i"], p["j"], p["h"], p["w"]] for p in params if p["v"] is not None], float)
        rows.append([height, width, table.mean(0).round(4).tolist(), table.std(0).round(4).tolist()])
    return rows


def main():
    names = sources(sys.argv[1])
    data = torch.frombuffer(bytearray((HERE / "photo.png").read_bytes()), dtype=torch.uint8)
    photo = decode_image(data, ImageReadMode.RGB)
    for name, actions in CASES.items():
        result = photo
        for action, *arguments in actions:
            result = ACTIONS[action](result, *arguments)
        save(f"made_{name}.png", result)
    annotations()
    ramp = torch.arange(256, dtype=torch.uint8).view(1, 1, 256).expand(3, 1, 256)
    steps = [v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    scaled = steps[0](ramp)
    bits = lambda x: x.contiguous().numpy().view(np.uint32).ravel().tolist()
    manifest = {
        "cases": CASES,
        "decoded": decoded(names),
        "rounding": rounding(),
        "anchors": anchors(),
        "draws": draws(),
        "erased": erased(),
        "scaled": bits(scaled[:1]),
        "normalized": bits(steps[1](scaled)),
    }
    (HERE / "manifest.json").write_text(json.dumps(manifest, separators=(",", ":")) + "\n")


main()
