"""Ray Data: samples as rows in tasks, and a dataset from parts."""

import os

import numpy as np
import pytest

import pykiste as ki

ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")

from pykiste.ray import KisteDatasink, KisteDatasource  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def cluster():
    # Workers import pykiste and this file as this process does.
    paths = [os.path.dirname(os.path.dirname(ki.__file__)), os.path.dirname(__file__)]
    variables = {"PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])}
    ray.init(
        num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20,
        runtime_env={"env_vars": variables}, configure_logging=False,
    )
    yield
    ray.shutdown()


def double(row):
    return {**row, "label": row["label"] * 2}


def fail(row):
    raise RuntimeError("broken row")


def test_rows_are_read_in_tasks_and_written_as_parts(numbers, tmp_path):
    source = KisteDatasource(numbers)
    tasks = source.get_read_tasks(7)
    assert len(tasks) == 7 and sum(task.metadata.num_rows for task in tasks) == 100
    rows = ray.data.read_datasource(source, override_num_blocks=4)
    assert rows.count() == 100
    assert sorted(row["label"] for row in rows.take_all()) == list(range(100))
    out = tmp_path / "out.msgpack"
    rows.map(double).write_datasink(KisteDatasink(out))
    written = ki.open(out)
    assert len(written) == 100 and ki.verify(out, deep=True)["good"]
    for sample in ki.open(numbers):
        other = written[sample["key"]]
        assert other["label"] == 2 * sample["label"] and other["data"] == sample["data"]
        assert np.array_equal(other["image"], sample["image"])
    assert not (tmp_path / "out.msgpack.parts").exists()
    with pytest.raises(FileExistsError):
        rows.write_datasink(KisteDatasink(out))


def test_rows_of_views(numbers, tmp_path):
    view = ki.open(numbers).where("label >= 90").select(indices=[9, 0, 3])
    rows = ray.data.read_datasource(KisteDatasource(view), override_num_blocks=2)
    assert sorted(row["label"] for row in rows.take_all()) == [90, 93, 99]
    view.save(tmp_path / "some.kiste.toml")
    both = KisteDatasource([tmp_path / "some.kiste.toml", numbers])
    rows = ray.data.read_datasource(both, override_num_blocks=3)
    assert sorted(row["label"] for row in rows.take_all()) == sorted([90, 93, 99, *range(100)])
    index = tmp_path / "lines.inplace.json"
    (tmp_path / "lines.jsonl").write_text("".join(f'{{"key": "{n}", "label": {n}}}\n' for n in range(40)))
    ki.index(tmp_path / "lines.jsonl", output=index)
    rows = ray.data.read_datasource(KisteDatasource(index), override_num_blocks=2)
    assert sorted(row["label"] for row in rows.take_all()) == list(range(40))


def test_a_write_that_fails_leaves_nothing(numbers, tmp_path):
    rows = ray.data.read_datasource(KisteDatasource([numbers]))
    with pytest.raises(Exception, match="broken row"):
        rows.map(fail).write_datasink(KisteDatasink(tmp_path / "out.msgpack"))
    assert [path.name for path in tmp_path.glob("out*")] == []
