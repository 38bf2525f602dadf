"""What `stat`, `compare` and `duplicates` say, against NumPy and plain Python."""

from collections import Counter, defaultdict

import numpy as np
import pytest

import pykiste as ki

SEEDS = range(12)


def written(path, samples):
    with ki.Writer(path) as writer:
        for index, sample in enumerate(samples):
            writer.write({"key": f"{index:06}", **sample})
    return path


def drawn(rng, count):
    """Numbers of one of several shapes."""
    return [
        lambda: rng.normal(0, 10, count),
        lambda: rng.lognormal(3, 2, count),
        lambda: rng.uniform(0, 1, count).round(3),
        lambda: rng.integers(-50, 1000, count),
        lambda: rng.integers(0, 2**40, count),
        lambda: rng.exponential(1e-6, count),
        lambda: 1.7e9 + rng.uniform(0, 60, count),
        lambda: rng.choice([0.0, 0.5, 1.0], count),
    ][rng.integers(8)]()


@pytest.mark.parametrize("seed", SEEDS)
def test_numbers_are_those_of_numpy(tmp_path, seed):
    rng = np.random.default_rng(seed)
    numbers = drawn(rng, int(rng.integers(1, 4000)))
    path = written(tmp_path / "n.msgpack", ({"n": number.item()} for number in numbers))
    found = ki.stat(path, fields=["n"])["fields"][0]["numbers"]
    assert found["count"] == len(numbers)
    assert (found["min"], found["max"]) == (numbers.min(), numbers.max())
    assert found["mean"] == pytest.approx(numbers.mean())
    bars = found["bars"]
    edges = [bar["from"] for bar in bars] + [bars[-1]["to"]]
    if edges[0] == edges[1]:  # A bar of zeros stands before those that grow.
        assert bars[0]["count"] == (numbers == 0).sum()
        bars, edges = bars[1:], edges[1:]
        numbers_above = numbers[numbers > 0]
    else:
        numbers_above = numbers
    if len(bars) > 1:
        assert [bar["count"] for bar in bars] == np.histogram(numbers_above, edges)[0].tolist()
    for percent, value in found["percentiles"]:
        exact = np.percentile(numbers, percent, method="inverted_cdf")
        close = min(abs(exact) / 100, (numbers.max() - numbers.min()) / 2000)
        assert exact - close - 1e-12 * abs(exact) <= value <= exact, (percent, exact, value)


@pytest.mark.parametrize("seed", SEEDS)
def test_values_are_counted(tmp_path, seed):
    rng = np.random.default_rng(seed)
    samples = []
    for _ in range(int(rng.integers(1, 2000))):
        sample = {"label": int(rng.integers(7)), "split": ["train", "val"][rng.integers(2)]}
        if rng.random() < 0.8:
            sample["caption"] = [None, "", "größe " * int(rng.integers(9)), "cat"][rng.integers(4)]
        sample["tags"] = ["x"] * int(rng.integers(5))
        sample["when"] = np.datetime64("2020-01-01") + int(rng.integers(4000))
        sample["big"] = int(rng.integers(2**62)) * 4
        samples.append(sample)
    path = written(tmp_path / "v.msgpack", samples)
    facts = ki.stat(path)
    fields = {field["name"]: field for field in facts["fields"]}
    assert facts["samples"] == len(samples)
    labels = Counter(sample["label"] for sample in samples)
    assert dict(fields["label"]["classes"]) == labels
    captions = [sample["caption"] for sample in samples if "caption" in sample]
    if captions:
        caption = fields["caption"]
        assert caption["present"] == len(captions)
        assert caption["nulls"] == captions.count(None)
        assert caption["distinct"] == {"count": len(set(captions)), "exact": True}
        texts = [len(text) for text in captions if text is not None]
        if texts:
            assert caption["characters"]["max"] == max(texts)
            assert caption["characters"]["mean"] == pytest.approx(np.mean(texts))
            assert dict(caption["classes"]) == Counter(text for text in captions if text is not None)
    assert fields["tags"]["elements"]["count"] == len(samples)
    when = [sample["when"] for sample in samples]
    assert fields["when"]["times"]["min"] == f"{min(when)}T00:00:00Z"
    assert sum(bar["count"] for bar in fields["when"]["times"]["bars"]) == len(samples)
    assert fields["big"]["distinct"]["count"] == len({sample["big"] for sample in samples})
    pairs = Counter((sample["label"], sample["split"]) for sample in samples)
    splits = facts["splits"]
    for label, counts in splits["labels"]:
        for split, count in zip(splits["splits"], counts, strict=True):
            assert pairs[label, split] == count


@pytest.mark.parametrize("seed", SEEDS)
def test_planted_duplicates_are_found(tmp_path, seed):
    rng = np.random.default_rng(seed)
    values = [rng.bytes(int(rng.integers(40, 60))) for _ in range(int(rng.integers(1, 300)))]
    samples = [{"image": values[rng.integers(len(values))]} for _ in range(int(rng.integers(1, 600)))]
    path = written(tmp_path / "d.msgpack", samples)
    groups = defaultdict(list)
    for index, sample in enumerate(samples):
        groups[sample["image"]].append(f"{index:06}")
    expected = [group for group in groups.values() if len(group) > 1]
    assert ki.duplicates(path, by="image") == ki.duplicates(path) == expected
    kept = ki.open(path).dedupe(by="image")
    assert len(kept) == len(groups) and not ki.duplicates(kept, by="image")
    with pytest.raises(ki.Error, match="no sample has a field"):
        ki.duplicates(path, by="none")


def test_a_difference_is_more_than_chance(tmp_path):
    rng = np.random.default_rng(1)

    def dataset(name, shift):
        def sample():
            label = int(rng.integers(10))
            return {"label": label, "score": float(rng.normal(shift)), "text": "x" * int(rng.integers(30))}

        return written(tmp_path / name, (sample() for _ in range(3000)))

    same = ki.compare(dataset("a.msgpack", 0), dataset("b.msgpack", 0))
    assert len(same["differences"]) <= 1, same
    found = ki.compare(tmp_path / "a.msgpack", dataset("c.msgpack", 2))
    first = found["differences"][0]
    # Two normal distributions two standard deviations apart.
    assert (first["field"], first["what"]) == ("score", "numbers")
    assert first["distance"] == pytest.approx(0.683, abs=0.03)


def test_pages(tmp_path):
    path = written(tmp_path / "p.msgpack", ({"label": n % 3, "text": f"<b>{n}"} for n in range(90)))
    page = ki.stat_page(path, show=6)
    assert page.startswith("<!DOCTYPE html>") and page.count("<figure ") == 6
    assert "&lt;b&gt;" in page and "<b>1" not in page
    view = ki.open(path).where("label == 1")
    some = ki.samples_page(view, [2, 0], title="step 7", note="rank 0")
    assert some.count("<figure ") == 2 and "step 7" in some
    with pytest.raises(IndexError):
        ki.samples_page(path, [90])
