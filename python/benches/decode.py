"""How fast samples are decoded, compared with datadings, msgpack, ormsgpack and msgspec.

    pip install --no-build-isolation ./python datadings msgspec ormsgpack
    python python/benches/decode.py

Times are nanoseconds for a sample: the best of seven rounds, and each round runs all of them. msgpack, ormsgpack and
msgspec get the packed bytes; datadings and pykiste read them from a dataset.
"""

import importlib.metadata
import random
import tempfile
import time
import warnings
from pathlib import Path

import msgpack
import msgspec
import ormsgpack
from datadings.reader import MsgpackReader

import pykiste as ki

ROUNDS = 7


def boxes(rng, count):
    """Annotations as in detection datasets: nested maps, lists and floats."""
    return [
        {"box": [rng.random() for _ in range(4)], "label": rng.randrange(80), "crowd": False, "area": rng.random()}
        for _ in range(count)
    ]


def datasets(folder):
    rng = random.Random(0)
    shapes = {
        "64 B": (20_000, lambda n: {"key": f"{n:08}", "label": n % 10, "data": rng.randbytes(32)}),
        "10 kB": (5_000, lambda n: {"key": f"{n:08}", "label": n % 10, "image": rng.randbytes(10_000)}),
        "110 kB": (1_000, lambda n: {"key": f"{n:08}", "label": n % 10, "image": rng.randbytes(110_000)}),
        "boxes": (5_000, lambda n: {"key": f"{n:08}", "boxes": boxes(rng, 20)}),
    }
    for name, (count, make) in shapes.items():
        path = Path(folder) / f"{count}.{name.replace(' ', '')}.msgpack"
        with ki.Writer(path, durable=False) as writer:
            for number in range(count):
                writer.write(make(number))
        yield name, path, count


def best(contenders, count):
    """Nanoseconds a sample of the best round of each."""
    times = dict.fromkeys(contenders, float("inf"))
    for _ in range(ROUNDS):
        for name, run in contenders.items():
            start = time.perf_counter_ns()
            run()
            times[name] = min(times[name], (time.perf_counter_ns() - start) / count)
    return times


def drain(samples):
    for _ in samples:
        pass


def main():
    warnings.filterwarnings("ignore")
    for package in ["pykiste", "datadings", "msgpack", "ormsgpack", "msgspec"]:
        print(package, importlib.metadata.version(package))
    decoder = msgspec.msgpack.Decoder()
    with tempfile.TemporaryDirectory() as folder:
        for name, path, count in datasets(folder):
            dataset, views, reader = ki.open(path), ki.open(path, copy=False), MsgpackReader(path)
            packed = [dataset.raw(index) for index in range(count)]

            def rewound():
                reader.seek_index(0)
                drain(reader)

            times = best(
                {
                    "pykiste": lambda: drain(dataset),
                    "pykiste, views": lambda: drain(views),
                    "pykiste, by index": lambda: drain(dataset[index] for index in range(count)),
                    "pykiste.unpack": lambda: drain(map(ki.unpack, packed)),
                    "datadings": rewound,
                    "msgpack": lambda: drain(map(msgpack.unpackb, packed)),
                    "ormsgpack": lambda: drain(map(ormsgpack.unpackb, packed)),
                    "msgspec": lambda: drain(map(decoder.decode, packed)),
                },
                count,
            )
            print(f"\n{name}")
            for contender, nanoseconds in times.items():
                print(f"  {contender:20} {nanoseconds:10,.0f} ns  {times['datadings'] / nanoseconds:6.1f} x datadings")


if __name__ == "__main__":
    main()
