"""Writes the tables of this folder with pyarrow: python generate.py"""

import datetime
import decimal
import json
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).parent


def array(values, dtype):
    values = np.asarray(values, dtype)
    return {"array": values.dtype.str, "shape": list(values.shape), "data": values.tobytes().hex()}


def scalar(value, dtype):
    value = np.asarray(value, dtype)
    return {"scalar": value.dtype.str, "data": value.tobytes().hex()}


def raw(data):
    return {"bytes": data.hex()}


moment = datetime.datetime(2024, 2, 29, 12, 30, 15, 123456)
day = datetime.date(1969, 12, 31)

# Name, column, and what becomes of its three rows.
COLUMNS = [
    ("truth", pa.array([True, None, False]), [True, None, False]),
    ("i8", pa.array([-128, 0, 127], pa.int8()), [-128, 0, 127]),
    ("i16", pa.array([-300, None, 300], pa.int16()), [-300, None, 300]),
    ("i32", pa.array([-70000, 1, 2], pa.int32()), [-70000, 1, 2]),
    ("i64", pa.array([-(2**63), 0, 2**63 - 1]), [-(2**63), 0, 2**63 - 1]),
    ("u8", pa.array([0, 200, 255], pa.uint8()), [0, 200, 255]),
    ("u16", pa.array([0, 1, 65535], pa.uint16()), [0, 1, 65535]),
    ("u32", pa.array([0, 1, 2**32 - 1], pa.uint32()), [0, 1, 2**32 - 1]),
    ("u64", pa.array([0, None, 2**64 - 1], pa.uint64()), [0, None, 2**64 - 1]),
    ("f16", pa.array([np.float16(0.5), None, np.float16(-2)], pa.float16()),
     [scalar(0.5, "<f2"), None, scalar(-2, "<f2")]),
    ("f32", pa.array([0.5, None, -1.25], pa.float32()), [0.5, None, -1.25]),
    ("f64", pa.array([0.1, None, 1e300]), [0.1, None, 1e300]),
    ("text", pa.array(["", None, "zwei–二"]), ["", None, "zwei–二"]),
    ("large_text", pa.array(["a", "b", None], pa.large_string()), ["a", "b", None]),
    ("text_view", pa.array(["a", "longer than twelve bytes", None], pa.string_view()),
     ["a", "longer than twelve bytes", None]),
    ("dictionary", pa.array(["x", None, "x"]).dictionary_encode(), ["x", None, "x"]),
    ("data", pa.array([b"\x00\xff", None, b""]), [raw(b"\x00\xff"), None, raw(b"")]),
    ("large_data", pa.array([b"1", b"2", None], pa.large_binary()), [raw(b"1"), raw(b"2"), None]),
    ("data_view", pa.array([b"1", b"two and more than twelve", None], pa.binary_view()),
     [raw(b"1"), raw(b"two and more than twelve"), None]),
    ("fixed_data", pa.array([b"ab", None, b"cd"], pa.binary(2)), [raw(b"ab"), None, raw(b"cd")]),
    ("ints", pa.array([[1, 2], [], None], pa.list_(pa.int16())),
     [array([1, 2], "<i2"), array([], "<i2"), None]),
    ("large_list", pa.array([[1.5], None, [2, 3]], pa.large_list(pa.float32())),
     [array([1.5], "<f4"), None, array([2, 3], "<f4")]),
    ("fixed_list", pa.array([[1, 2], [3, 4], None], pa.list_(pa.uint8(), 2)),
     [array([1, 2], "u1"), array([3, 4], "u1"), None]),
    ("matrix", pa.array([[[1, 2], [3, 4], [5, 6]], [], None], pa.list_(pa.list_(pa.float64()))),
     [array([[1, 2], [3, 4], [5, 6]], "<f8"), array(np.zeros((0, 0)), "<f8"), None]),
    ("fixed_matrix", pa.array([[[1, 2]] * 3, [[3, 4]] * 3, None], pa.list_(pa.list_(pa.int8(), 2), 3)),
     [array([[1, 2]] * 3, "i1"), array([[3, 4]] * 3, "i1"), None]),
    ("ragged", pa.array([[[1], [2, 3]], [[1, 2], [3, 4]], [None]], pa.list_(pa.list_(pa.int32()))),
     [[array([1], "<i4"), array([2, 3], "<i4")], array([[1, 2], [3, 4]], "<i4"), [None]]),
    ("holes", pa.array([[1, None], None, [2]], pa.list_(pa.int64())),
     [[1, None], None, array([2], "<i8")]),
    ("truths", pa.array([[True, False], [], None], pa.list_(pa.bool_())),
     [array([True, False], "?"), array([], "?"), None]),
    ("words", pa.array([["a", None], [], None], pa.list_(pa.string())), [["a", None], [], None]),
    ("struct", pa.array([{"a": 1, "b": ["x"]}, {"a": None, "b": None}, None],
                        pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])),
     [{"a": 1, "b": ["x"]}, {"a": None, "b": None}, None]),
    ("structs", pa.array([[{"a": 1}, None], [], None], pa.list_(pa.struct([("a", pa.int8())]))),
     [[{"a": 1}, None], [], None]),
    ("map", pa.array([[("k", 1), ("l", None)], [], None], pa.map_(pa.string(), pa.int32())),
     [{"k": 1, "l": None}, {}, None]),
    ("seconds", pa.array([moment.replace(microsecond=0), None, datetime.datetime(1, 1, 1)], pa.timestamp("s")),
     [scalar(np.datetime64("2024-02-29T12:30:15", "s"), "<M8[s]"), None,
      scalar(np.datetime64("0001-01-01", "s"), "<M8[s]")]),
    ("zoned", pa.array([moment, None, None], pa.timestamp("us", "Europe/Berlin")),
     [scalar(np.datetime64(moment, "us"), "<M8[us]"), None, None]),
    ("date", pa.array([day, None, None], pa.date32()), [scalar(-1, "<i8") | {"scalar": "<M8[D]"}, None, None]),
    ("time", pa.array([datetime.time(1, 2, 3), None, None], pa.time32("ms")),
     [scalar(3723000, "<i8") | {"scalar": "<m8[ms]"}, None, None]),
    ("span", pa.array([datetime.timedelta(seconds=-1), None, None], pa.duration("ms")),
     [scalar(-1000, "<i8") | {"scalar": "<m8[ms]"}, None, None]),
    ("times", pa.array([[day, day], [], None], pa.list_(pa.date64())),
     [{"array": "<M8[ms]", "shape": [2], "data": np.array([-86400000] * 2).tobytes().hex()},
      {"array": "<M8[ms]", "shape": [0], "data": ""}, None]),
    ("decimal", pa.array([decimal.Decimal("-1.50"), None, decimal.Decimal("12345678901234567.89")],
                         pa.decimal128(20, 2)), ["-1.50", None, "12345678901234567.89"]),
    ("nothing", pa.nulls(3), [None] * 3),
    ("tensor", pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(12, dtype=np.int32).reshape(3, 2, 2)),
     [array([[0, 1], [2, 3]], "<i4"), array([[4, 5], [6, 7]], "<i4"), array([[8, 9], [10, 11]], "<i4")]),
]


def main():
    table = pa.table({name: column for name, column, _ in COLUMNS})
    rows = [{name: rows[at] for name, _, rows in COLUMNS} for at in range(3)]
    # Parquet has no times to the second: they are read as milliseconds.
    in_parquet = [dict(row) for row in rows]
    for row in in_parquet:
        if row["seconds"]:
            seconds = int.from_bytes(bytes.fromhex(row["seconds"]["data"]), "little", signed=True)
            row["seconds"] = scalar(seconds * 1000, "<i8") | {"scalar": "<M8[ms]"}
    for codec in ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]:
        pq.write_table(table, HERE / f"types.{codec}.parquet", compression=codec, row_group_size=2)
    pq.write_table(table, HERE / "types.v2.parquet", data_page_version="2.0", version="2.6",
                   use_dictionary=False, write_page_index=True, write_page_checksum=True)
    # Without the schema of Arrow, as others than pyarrow write.
    plain = table.select(["truth", "i32", "f64", "text", "data", "ints", "matrix", "struct", "map", "date"])
    pq.write_table(plain, HERE / "plain.parquet", store_schema=False)
    with pa.OSFile(str(HERE / "types.file.arrow"), "wb") as file:
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
    for codec in [None, "lz4", "zstd"]:
        options = pa.ipc.IpcWriteOptions(compression=codec)
        with pa.OSFile(str(HERE / f"types.{codec or 'stream'}.arrow"), "wb") as file:
            with pa.ipc.new_stream(file, table.schema, options=options) as writer:
                writer.write_table(table, max_chunksize=2)
    pq.write_table(table.slice(0, 0), HERE / "empty.parquet")
    keyed = pa.table({"n": [1, 2, 3], "key": ["a", "b", "c"], "id": [7, 8, 9]})
    pq.write_table(keyed, HERE / "keyed.parquet", row_group_size=1)
    (HERE / "manifest.json").write_text(json.dumps({"types": rows, "parquet": in_parquet}, indent=1, ensure_ascii=False) + "\n")


main()
