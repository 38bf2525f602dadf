"""Numbers of samples in `.lengths`, made from Python."""

import pytest

import pykiste as ki


def written(path):
    with ki.Writer(path) as writer:
        for number in range(5):
            writer.write({"key": str(number), "tokens": list(range(number)), "seconds": number / 2})


def test_columns_are_made_and_checked(tmp_path):
    path = tmp_path / "a.msgpack"
    written(path)
    made = ki.index(path, lengths=["len(tokens)", "ms(seconds)"])
    assert [file.name for file in made["made"]] == ["a.msgpack.lengths"]
    assert ki.index(path, lengths=["len(tokens)"])["made"] == []
    assert ki.verify(path)["good"]
    with pytest.raises(ki.Error, match="expected a whole number .*found 0.5"):
        ki.index(path, lengths=["seconds"])
    with pytest.raises(ki.Error, match="expected the end"):
        ki.index(path, lengths=["count(tokens)"])


def test_samples_in_place_have_them_too(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"key": "a", "tokens": [1, 2]}\n')
    index = tmp_path / "a.inplace.json"
    ki.index(tmp_path / "a.jsonl", output=index, lengths=["len(tokens)"])
    assert (tmp_path / "a.inplace.json.lengths").exists()
    assert ki.verify(index)["good"]
