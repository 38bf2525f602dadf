"""Writes the folders next to it with Hugging Face datasets: python generate.py"""

import pathlib

import datasets
from datasets import ClassLabel, Features, Value

HERE = pathlib.Path(__file__).parent


def main():
    """The folders that it writes, each with a few rows."""
    features = Features({"text": Value("string"), "label": ClassLabel(names=["neg", "pos"])})

    def part(name, rows):
        columns = {"text": [f"{name} {n}" for n in range(rows)], "label": [n % 2 for n in range(rows)]}
        return datasets.Dataset.from_dict(columns, features=features)

    parts = datasets.DatasetDict({"train": part("train", 5), "test": part("test", 3)})
    parts["train"].save_to_disk(str(HERE / "saved"), num_shards=2)
    parts.save_to_disk(str(HERE / "dict"))
    for name, split in parts.items():
        path = HERE / f"hub/data/{name}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        split.to_parquet(str(path))


main()
