#!/usr/bin/env python3
"""Photographs to batches of float32 for training, compared with other loaders on the same cores.

Each makes `[64, 3, 224, 224]` from a folder of JPEGs: a random part (`RandomResizedCrop(224)`), flipped in
half of the cases, normalised. `decode` is a loop over simplejpeg (libjpeg-turbo) that decodes whole pictures and
does nothing else; `decode-kiste` is the same loop over kiste's decoder, and `crop-kiste` decodes a random part of 224 × 224.
Pictures per second, each contender in a process of its own, bound to as many cores as it has threads or workers; the
best of the epochs after a warm one.

    pip install ./python torch torchvision pillow simplejpeg spdl
    python benches/image_peers.py FOLDER [--cores 1,2] [--count N] [--python ffcv=VENV/bin/python]... [CONTENDER...]

FFCV and DALI need environments of their own, given by `--python`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BATCH = 64
SIDE = 224
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
PIPELINE = f"random_resized_crop({SIDE}) | hflip | to(f32, chw) | normalize(imagenet)"


def files(folder, count):
    return sorted(Path(folder).glob("*.jpg"))[:count]


class Batches:
    """An epoch of pairs of images and labels."""

    def epoch(self):
        seen = 0
        for image, _ in self.loader:
            seen += len(image)
            check(image)
        return seen


class Kiste:
    """`pykiste.Loader` with a column that is a pipeline."""

    def __init__(self, folder, work, cores, count):
        import pykiste as ki

        path = work / "pictures.msgpack"
        if not path.exists():
            with ki.Writer(path) as writer:
                for number, file in enumerate(files(folder, count)):
                    writer.write({"key": file.name, "image": file.read_bytes(), "label": number % 1000})
        dataset = ki.open(path)
        sampler = ki.Sampler.shuffle(len(dataset), seed=1)
        columns = {"image": ki.Pipeline(PIPELINE, seed=1), "label": "int64"}
        self.loader = ki.Loader(
            dataset, sampler, batch_size=BATCH, columns=columns, threads=cores, tail="uneven"
        )

    def epoch(self):
        seen = 0
        for batch in self.loader:
            image = batch["image"]
            seen += len(image)
            check(image)
        return seen


class TorchVision(Batches):
    """PyTorch's `DataLoader` with a worker per core, over the files."""

    def decoder(self):
        from PIL import Image

        return lambda path: Image.open(path).convert("RGB")

    def __init__(self, folder, work, cores, count):
        import torch
        from torchvision.transforms import v2

        paths, decode = files(folder, count), self.decoder()
        transform = v2.Compose(
            [
                v2.RandomResizedCrop(SIDE, antialias=True),
                v2.RandomHorizontalFlip(),
                v2.ToImage(),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize(MEAN, STD),
            ]
        )

        class Pictures(torch.utils.data.Dataset):
            def __len__(self):
                return len(paths)

            def __getitem__(self, index):
                return transform(decode(paths[index])), index % 1000

        self.loader = torch.utils.data.DataLoader(
            Pictures(),
            batch_size=BATCH,
            shuffle=True,
            num_workers=cores,
            persistent_workers=True,
            worker_init_fn=lambda _: torch.set_num_threads(1),
        )


class TorchVisionDecoder(TorchVision):
    """The same with the decoder of torchvision instead of Pillow."""

    def decoder(self):
        from torchvision.io import ImageReadMode, decode_image, read_file

        return lambda path: decode_image(read_file(str(path)), ImageReadMode.RGB)


class Ffcv(Batches):
    """FFCV with JPEGs in its own file format, in a random order."""

    def __init__(self, folder, work, cores, count):
        import numpy as np
        from ffcv.fields import IntField, RGBImageField
        from ffcv.fields.decoders import IntDecoder, RandomResizedCropRGBImageDecoder
        from ffcv.loader import Loader, OrderOption
        from ffcv.transforms import (
            NormalizeImage,
            RandomHorizontalFlip,
            ToTensor,
            ToTorchImage,
        )
        from ffcv.writer import DatasetWriter
        from PIL import Image

        path = work / "pictures.beton"
        if not path.exists():
            paths = files(folder, count)

            class Pictures:
                def __len__(self):
                    return len(paths)

                def __getitem__(self, index):
                    return Image.open(paths[index]).convert("RGB"), index % 1000

            fields = {
                "image": RGBImageField(write_mode="jpg", jpeg_quality=90),
                "label": IntField(),
            }
            DatasetWriter(str(path), fields, num_workers=2).from_indexed_dataset(Pictures())
        image = [
            RandomResizedCropRGBImageDecoder((SIDE, SIDE)),
            RandomHorizontalFlip(),
            NormalizeImage(np.array(MEAN) * 255, np.array(STD) * 255, np.float32),
            ToTensor(),
            ToTorchImage(convert_back_int16=False),
        ]
        self.loader = Loader(
            str(path),
            batch_size=BATCH,
            num_workers=cores,
            order=OrderOption.RANDOM,
            os_cache=True,
            drop_last=False,
            pipelines={"image": image, "label": [IntDecoder(), ToTensor()]},
        )


class Dali:
    """NVIDIA DALI on the CPU, over the files."""

    def __init__(self, folder, work, cores, count):
        from nvidia.dali import fn, pipeline_def, types

        paths = [str(path) for path in files(folder, count)]
        self.count = len(paths)

        @pipeline_def(batch_size=BATCH, num_threads=cores, device_id=None, prefetch_queue_depth=2)
        def pipeline():
            encoded, label = fn.readers.file(files=paths, random_shuffle=True, name="reader")
            image = fn.decoders.image_random_crop(encoded, device="cpu", output_type=types.RGB)
            image = fn.resize(
                image, resize_x=SIDE, resize_y=SIDE, interp_type=types.INTERP_LINEAR, antialias=True
            )
            return fn.crop_mirror_normalize(
                image,
                dtype=types.FLOAT,
                output_layout="CHW",
                mean=[255 * value for value in MEAN],
                std=[255 * value for value in STD],
                mirror=fn.random.coin_flip(),
            ), label

        self.pipeline = pipeline()
        self.pipeline.build()

    def epoch(self):
        seen = 0
        while seen < self.count:
            image, _ = self.pipeline.run()
            seen += len(image)
            check(image.at(0)[None])
        return seen


class Spdl:
    """SPDL: decoding, cropping and scaling by FFmpeg on threads, the rest by NumPy."""

    def __init__(self, folder, work, cores, count):
        self.paths, self.cores = [str(path) for path in files(folder, count)], cores

    def epoch(self):
        import random

        import numpy as np
        import spdl.io
        from spdl.pipeline import PipelineBuilder

        mean = (np.array(MEAN, "float32") * 255)[:, None, None]
        scale = 1 / (np.array(STD, "float32") * 255)[:, None, None]
        order = random.sample(self.paths, len(self.paths))

        def part(path):
            packets = spdl.io.demux_image(path)
            frames = spdl.io.decode_packets(packets, filter_desc=self.crop(packets))
            pixels = spdl.io.to_numpy(spdl.io.convert_frames(frames))
            return pixels.reshape(SIDE, SIDE, 3)

        def collate(parts):
            pixels = np.stack(parts).transpose(0, 3, 1, 2)
            return (pixels - mean) * scale

        pipeline = (
            PipelineBuilder()
            .add_source(order)
            .pipe(part, concurrency=self.cores)
            .aggregate(BATCH)
            .pipe(collate)
            .add_sink(4)
            .build(num_threads=self.cores)
        )
        seen = 0
        with pipeline.auto_stop():
            for image in pipeline.get_iterator():
                seen += len(image)
                check(image)
        return seen

    def crop(self, packets):
        """The rule of RandomResizedCrop, as filters of FFmpeg."""
        import math
        import random

        width, height = packets.width, packets.height
        for _ in range(10):
            area = width * height * random.uniform(0.08, 1)
            ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
            w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < w <= width and 0 < h <= height:
                break
        else:
            w = h = min(width, height)
        left, top = random.randint(0, width - w), random.randint(0, height - h)
        flip = ",hflip" if random.random() < 0.5 else ""
        return (
            f"crop={w}:{h}:{left}:{top}:exact=1,scale={SIDE}:{SIDE}:flags=bilinear{flip},format=pix_fmts=rgb24"
        )


class Decode:
    """Whole pictures, by threads of Python over simplejpeg, which has libjpeg-turbo."""

    def __init__(self, folder, work, cores, count):
        self.encoded, self.cores = [path.read_bytes() for path in files(folder, count)], cores

    def one(self):
        import simplejpeg

        return simplejpeg.decode_jpeg

    def epoch(self):
        from concurrent.futures import ThreadPoolExecutor

        one = self.one()

        def some(start):
            for encoded in self.encoded[start :: self.cores]:
                one(encoded)

        with ThreadPoolExecutor(self.cores) as pool:
            list(pool.map(some, range(self.cores)))
        return len(self.encoded)


class DecodeKiste(Decode):
    """The same by kiste."""

    def one(self):
        import pykiste as ki

        return ki.Pipeline([])


class CropKiste(Decode):
    """A part of each picture, without scaling it."""

    def one(self):
        import pykiste as ki

        return ki.Pipeline(f"random_crop({SIDE})")


CONTENDERS = {
    "kiste": Kiste,
    "ffcv": Ffcv,
    "dali": Dali,
    "spdl": Spdl,
    "torchvision": TorchVisionDecoder,
    "pillow": TorchVision,
    "decode": Decode,
    "decode-kiste": DecodeKiste,
    "crop-kiste": CropKiste,
}


def check(image):
    """That it is what was asked for, so that no one wins by doing something else."""
    assert tuple(image.shape[1:]) == (3, SIDE, SIDE), image.shape
    value = float(image[0][0][0][0])
    assert -2.2 < value < 2.7, value


def work(options):
    contender = CONTENDERS[options.worker](options.folder, Path(options.work), options.cores, options.count)
    times = []
    for _ in range(options.epochs):
        start = time.perf_counter()
        seen = contender.epoch()
        times.append(time.perf_counter() - start)
        expected = len(files(options.folder, options.count))
        assert expected <= seen < expected + BATCH, (expected, seen)
    print(json.dumps({"pictures": seen, "seconds": min(times[1:])}), flush=True)
    # Workers and pools of others do not always end by themselves.
    os._exit(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("contenders", nargs="*", metavar="CONTENDER", help=", ".join(CONTENDERS))
    parser.add_argument("--cores", default="1,2")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--python", action="append", default=[], metavar="CONTENDER=PROGRAM")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args()
    if options.worker:
        options.cores = int(options.cores)
        return work(options)
    programs = dict(pair.split("=", 1) for pair in options.python)
    with tempfile.TemporaryDirectory() as folder:
        for cores in map(int, options.cores.split(",")):
            for name in options.contenders or CONTENDERS:
                command = [programs.get(name, sys.executable), __file__, options.folder, "--worker", name]
                command += ["--work", folder, "--cores", str(cores), "--count", str(options.count)]
                command += ["--epochs", str(options.epochs)]
                bound = ["taskset", "-c", f"0-{cores - 1}"]
                done = subprocess.run(bound + command, capture_output=True, text=True)
                found = [line for line in done.stdout.splitlines() if line.startswith("{")]
                if done.returncode or not found:
                    last = done.stderr.strip().splitlines()[-1:] or ["no output"]
                    print(f"{cores} cores  {name:<14} failed: {last[0][:150]}", flush=True)
                    continue
                result = json.loads(found[-1])
                rate = result["pictures"] / result["seconds"]
                print(f"{cores} cores  {name:<14} {rate:8.0f} pictures/s", flush=True)


if __name__ == "__main__":
    main()
