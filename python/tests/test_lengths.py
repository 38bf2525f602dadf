"""Numbers of samples in `.lengths`, made from Python."""

import pytest

import pykiste as ki


def written(path):
    with ki.Writer(path) as writer:
        for number in range(5):
            writer.write({"key": str(number), "tokens": list(range(number)), "seconds": number / 2})


def numbers(path, column=0):
    data = path.with_name(path.name + ".lengths").read_bytes()
    number = int.from_bytes(data[16:24], "little")
    start = int.from_bytes(data[52:56], "little") + column * (4 * number + 7) // 8 * 8
    return [int.from_bytes(data[start + 4 * at : start + 4 * at + 4], "little") for at in range(number)]


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


def test_writers_and_conversions_make_them(tmp_path):
    with ki.Writer(tmp_path / "a.msgpack", lengths=["len(tokens)", "bytes"]) as writer:
        writer.write({"key": "a", "tokens": [1, 2, 3]})
        with pytest.raises(ki.errors.InvalidError, match="expected a field of this name") as raised:
            writer.write({"key": "b"})
        assert (raised.value.key, raised.value.field) == ("b", "tokens")
        writer.write({"key": "c", "tokens": []})
    made = (tmp_path / "a.msgpack.lengths").read_bytes()
    (tmp_path / "a.msgpack.lengths").unlink()
    ki.index(tmp_path / "a.msgpack", lengths=["len(tokens)", "bytes"])
    assert (tmp_path / "a.msgpack.lengths").read_bytes() == made
    with pytest.raises(ki.Error, match="expected the end"):
        ki.Writer(tmp_path / "b.msgpack", lengths=["count(tokens)"])
    assert not (tmp_path / "b.msgpack.partial").exists()

    with ki.Writer(tmp_path / "a.msgpack", append=True) as writer:
        writer.write({"key": "d", "tokens": [4]})
    assert numbers(tmp_path / "a.msgpack") == [3, 0, 1]
    info = ki.open(tmp_path / "a.msgpack").info()
    assert info["lengths"][0] == {"name": "len(tokens)", "min": 0, "mean": 4 / 3, "max": 3, "total": 4}

    (tmp_path / "c.jsonl").write_text('{"key": "a", "tokens": [1, 2]}\n{"key": "b", "tokens": []}\n')
    ki.convert(tmp_path / "c.jsonl", tmp_path / "c.msgpack", lengths=["len(tokens)"])
    assert numbers(tmp_path / "c.msgpack") == [2, 0]
    ki.sort(tmp_path / "c.msgpack", tmp_path / "r.msgpack", reverse=True, lengths=["len(tokens)"])
    assert numbers(tmp_path / "r.msgpack") == [0, 2]
    with pytest.raises(ki.Error, match="expected the end"):
        ki.convert(tmp_path / "c.jsonl", tmp_path / "d.msgpack", lengths=["count(tokens)"])


def test_outdated_columns_are_made_again(tmp_path):
    path = tmp_path / "a.msgpack"
    written(path)
    ki.index(path, lengths=["len(tokens)"])
    kept = (tmp_path / "a.msgpack.lengths").read_bytes()
    with ki.Writer(path, overwrite=True) as writer:
        writer.write({"key": "a", "tokens": [1]})
    (tmp_path / "a.msgpack.lengths").write_bytes(kept)
    assert ki.index(path, lengths=["bytes"])["dropped_lengths"] == []
    assert numbers(path) == [1]
