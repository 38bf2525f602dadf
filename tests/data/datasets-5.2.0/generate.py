"""Writes the tables of this folder with Hugging Face datasets: python generate.py"""

import io
import json
import pathlib

import datasets
import numpy as np
import PIL.Image
from datasets import Array2D, Array3D, ClassLabel, Features, Image, List, Value
from datasets.arrow_writer import ArrowWriter

HERE = pathlib.Path(__file__).parent


def png(color):
    out = io.BytesIO()
    PIL.Image.new("RGB", (3, 2), color).save(out, "png")
    return out.getvalue()


def array(values, dtype):
    values = np.asarray(values, dtype)
    return {"array": values.dtype.str, "shape": list(values.shape), "data": values.tobytes().hex()}


def raw(data):
    return {"bytes": data.hex()}


def main():
    red, blue = png("red"), png("blue")
    features = Features({
        "image": Image(),
        "label": ClassLabel(names=["cat", "dog", "zwei–二"]),
        "pixels": Array3D((2, 3, 1), "uint8"),
        "boxes": Array2D((None, 4), "float32"),
        "tokens": List(Value("int32")),
        "words": List(Value("string")),
        "pages": List(Image()),
        "meta": {"id": Value("int64"), "when": Value("timestamp[ms]")},
    })
    pixels = np.arange(6, dtype=np.uint8).reshape(2, 3, 1)
    boxes = np.array([[0, 0.5, 1, 2]] * 2, np.float32)
    when = np.datetime64("2024-02-29T00:00:00", "ms")
    rows = [
        {"image": {"bytes": red, "path": "red.png"}, "label": 2, "pixels": pixels, "boxes": boxes,
         "tokens": [1, 2, 3], "words": ["a", "b"], "pages": [{"bytes": blue, "path": None}],
         "meta": {"id": 5, "when": when.astype(object)}},
        {"image": {"bytes": blue, "path": None}, "label": -1, "pixels": pixels, "boxes": boxes[:0],
         "tokens": [], "words": [], "pages": [], "meta": {"id": None, "when": None}},
        {"image": {"bytes": None, "path": "elsewhere/blue.png"}, "label": None, "pixels": pixels, "boxes": boxes[:1],
         "tokens": [9], "words": None, "pages": None, "meta": None},
        {"image": None, "label": 0, "pixels": pixels, "boxes": None, "tokens": None, "words": ["c"],
         "pages": [{"bytes": red, "path": "x"}] * 2, "meta": {"id": -1, "when": None}},
    ]
    moment = {"scalar": "<M8[ms]", "data": when.astype("<i8").tobytes().hex()}
    shaped = array(pixels, "u1")
    expected = [
        {"image": raw(red), "image_path": "red.png", "label": 2, "pixels": shaped, "boxes": array(boxes, "<f4"),
         "tokens": array([1, 2, 3], "<i4"), "words": ["a", "b"], "pages": [raw(blue)],
         "meta": {"id": 5, "when": moment}},
        {"image": raw(blue), "label": None, "pixels": shaped, "boxes": array(boxes[:0], "<f4"),
         "tokens": array([], "<i4"), "words": [], "pages": [], "meta": {"id": None, "when": None}},
        {"image": None, "image_path": "elsewhere/blue.png", "label": None, "pixels": shaped,
         "boxes": array(boxes[:1], "<f4"), "tokens": array([9], "<i4"), "words": None, "pages": None, "meta": None},
        {"image": None, "label": 0, "pixels": shaped, "boxes": None, "tokens": None, "words": ["c"],
         "pages": [raw(red)] * 2, "meta": {"id": -1, "when": None}},
    ]
    # In Parquet it would read the file that is elsewhere.
    some = [rows[0], rows[1], rows[3]]
    datasets.Dataset.from_list(some, features=features).to_parquet(HERE / "hub.parquet")
    # As its cache has them: `save_to_disk` would read the file that is elsewhere too.
    for at in range(2):
        with ArrowWriter(path=str(HERE / f"data-0000{at}-of-00002.arrow"), features=features) as writer:
            for row in rows[2 * at:2 * at + 2]:
                writer.write(features.encode_example(row))
            writer.finalize()
    names = features["label"].names
    (HERE / "manifest.json").write_text(
        json.dumps({"rows": expected, "labels": names}, indent=1, ensure_ascii=False) + "\n")


main()
