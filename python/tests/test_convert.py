"""Conversions are those of the command: options, parts, progress, and Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import pykiste as ki


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "words.jsonl"
    samples = [{"key": f"{n:05}", "n": n, "junk": "x" * 50} for n in range(20_000)]
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return path


def test_options_and_report(tmp_path, lines):
    told = []
    report = ki.convert(
        lines, tmp_path / "words.msgpack",
        drop="junk", rename={"n": "number"}, limit=10, checksums=True, progress=told.append,
    )
    assert report["outputs"][0]["samples"] == 10 and report["bad"]["count"] == 0
    assert ki.open(tmp_path / "words.msgpack")[9] == {"key": "00009", "number": 9}
    assert (tmp_path / "words.msgpack.crc").exists()
    assert {"phase", "samples", "total_samples", "notices"} <= set(told[-1])
    assert told[-1]["phase"] == "finishing"


def test_other_formats_and_back(tmp_path, lines):
    ki.convert([lines], tmp_path / "a.msgpack", limit=100)
    ki.convert(tmp_path / "a.msgpack", tmp_path / "a.csv", drop=["junk"])
    ki.convert(tmp_path / "a.csv", tmp_path / "b.msgpack", guess_types=True, key_field="key")
    assert [s["n"] for s in ki.open(tmp_path / "b.msgpack")] == list(range(100))


def test_parts_are_one_dataset(tmp_path, lines):
    ki.convert(lines, tmp_path / "one.msgpack")
    for part in (2, 3, 1):
        ki.convert(lines, tmp_path / "parts.msgpack", part=(part, 3))
    assert ki.commit(tmp_path / "parts.msgpack")["outputs"][0]["samples"] == 20_000
    names = ["", ".offsets", ".keys", ".key_hashes", ".filter"]
    for name in names:
        one, parts = (tmp_path / f"{stem}.msgpack{name}" for stem in ("one", "parts"))
        assert one.read_bytes() == parts.read_bytes()


def test_errors_and_bad_input(tmp_path, lines):
    with pytest.raises(FileNotFoundError):
        ki.convert(tmp_path / "none.jsonl", tmp_path / "x.msgpack")
    with pytest.raises(TypeError, match="colour"):
        ki.convert(lines, tmp_path / "x.msgpack", colour="red")
    with pytest.raises(ValueError, match="quarantine"):
        ki.convert(lines, tmp_path / "x.msgpack", bad="maybe")
    with open(lines, "a") as file:
        file.write('{"key": "00000"}\n')
    with pytest.raises(ki.errors.DuplicateKeyError):
        ki.convert(lines, tmp_path / "x.msgpack")
    report = ki.convert(lines, tmp_path / "x.msgpack", skip_duplicates=True)
    assert report["skipped_duplicates"] == 1
    with pytest.raises(FileExistsError):
        ki.convert(lines, tmp_path / "x.msgpack")


def test_options_are_those_of_the_command(tmp_path, lines):
    ki.convert(lines, tmp_path / "many.shards.json", shards=np.int64(2), fields="n")
    assert len(list(tmp_path.glob("many-*.msgpack"))) == 2
    halves = ki.convert(lines, tmp_path / "x.msgpack", split={"a": 0.5, "b": 0.5}, limit=100)
    assert sum(half["samples"] for half in halves["outputs"]) == 100
    ki.convert(lines, tmp_path / "y.msgpack", rename={"n": "count"}, limit=1, bad="skip", root=None)
    assert ki.open(tmp_path / "y.msgpack")[0]["count"] == 0
    for wrong in ({"limit": "ten"}, {"guess_types": 1}, {"max_bytes": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            ki.convert(lines, tmp_path / "z.msgpack", **wrong)
    with pytest.raises(ValueError, match="changes nothing"):
        ki.convert(lines, tmp_path / "z.msgpack", quality=80)


def test_an_exception_in_the_callback_stops_it(tmp_path, lines):
    def stop(told):
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        ki.convert(lines, tmp_path / "x.msgpack", progress=stop)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_stops_it_and_resume_goes_on(tmp_path, lines):
    script = textwrap.dedent(
        """
        import os, signal, sys
        import pykiste as ki

        def interrupt(told):
            if told["samples"]:
                os.kill(os.getpid(), signal.SIGINT)

        try:
            ki.convert([sys.argv[1]] * 1, sys.argv[2], progress=interrupt)
            print("finished")
        except KeyboardInterrupt:
            print("stopped")
        """
    )
    out = tmp_path / "x.msgpack"
    ran = subprocess.run(
        [sys.executable, "-c", script, lines, out], capture_output=True, text=True, timeout=60
    )
    assert ran.stdout in ("stopped\n", "finished\n"), ran.stderr
    if not out.exists():
        ki.convert(lines, out, resume=True)
    assert len(ki.open(out)) == 20_000


def test_splits_of_the_sources_and_of_keys(tmp_path):
    folder = tmp_path / "words"
    folder.mkdir()
    (folder / "train.jsonl").write_text('{"key":"a"}\n{"key":"b"}\n')
    (folder / "test.jsonl").write_text('{"key":"c"}\n')
    report = ki.convert(folder, tmp_path / "words-{split}.msgpack")
    assert [(made["path"].name, made["samples"]) for made in report["outputs"]] == [
        ("words-test.msgpack", 1),
        ("words-train.msgpack", 2),
    ]
    with pytest.raises(ki.Error, match="2 splits, which are not mixed"):
        ki.convert(folder, tmp_path / "words.msgpack")
    with pytest.raises(ki.Error, match="words-test.msgpack"):
        ki.convert(folder, tmp_path / "words-{split}.msgpack")
    keys = tmp_path / "val.txt"
    keys.write_text("a\n")
    split = {"val": keys, "train": 1.0}
    report = ki.convert(tmp_path / "words-train.msgpack", tmp_path / "s.msgpack", split=split)
    assert {made["path"].name: made["samples"] for made in report["outputs"]} == {
        "s-val.msgpack": 1,
        "s-train.msgpack": 1,
    }
    many = [tmp_path / f"words-{name}.msgpack" for name in ("train", "test")]
    parts = [
        ki.convert(many, tmp_path / f"{salt}.msgpack", split={"x": 1, "y": 1}, split_salt=salt)
        for salt in ("p", "q", "r", "s", "t")
    ]
    assert len({tuple(made["samples"] for made in part["outputs"]) for part in parts}) > 1


def test_files_that_fields_name(tmp_path):
    (tmp_path / "a.wav").write_bytes(b"sound")
    (tmp_path / "t.jsonl").write_text('{"key":"a","audio":"a.wav"}\n')
    ki.convert(tmp_path / "t.jsonl", tmp_path / "t.msgpack", load="audio")
    assert ki.open(tmp_path / "t.msgpack")[0]["audio"] == b"sound"
