//! Tables of Arrow: what pyarrow and Hugging Face `datasets` write, and what we write for them.

use std::fs;
use std::path::Path;

use kiste::convert::{ArrowIpcReader, ArrowIpcWriter, Input, ParquetReader, ParquetWriter};
use kiste::format::msgpack::numpy::Special;
use kiste::value::{DType, NdArray, Unit};
use kiste::{ErrorKind, Result, Value, Writer};

use super::*;

const PYARROW: &str = "pyarrow-26.0.1";
const DATASETS: &str = "datasets-5.2.0";

fn parquet(path: impl AsRef<Path>) -> ParquetReader {
    ParquetReader::open(path.as_ref()).unwrap()
}

fn ipc(path: impl AsRef<Path>) -> ArrowIpcReader {
    ArrowIpcReader::open(path.as_ref()).unwrap()
}

/// The samples as a manifest has them, without their keys.
fn rows(found: &[Value]) -> Json {
    let mut rows: Json = found.iter().map(plain).collect();
    for row in rows.as_array_mut().unwrap() {
        row.as_object_mut().unwrap().remove("key");
    }
    rows
}

fn map(entries: Vec<(&str, Value)>) -> Value {
    Value::Map(entries.into_iter().map(|(name, value)| (name.into(), value)).collect())
}

fn array(dtype: &str, shape: &[usize], data: &[u8]) -> Value {
    let array = NdArray::new(dtype.parse().unwrap(), shape, data).unwrap();
    Special::Array(array).to_value()
}

fn scalar(dtype: DType, data: &[u8]) -> Value {
    Special::scalar(dtype, data).unwrap().to_value()
}

#[test]
fn all_types_of_pyarrow() {
    let manifest = manifest(PYARROW);
    let expected = &manifest["parquet"];
    for codec in ["none", "snappy", "gzip", "brotli", "zstd", "lz4", "v2"] {
        let table = parquet(dir(PYARROW).join(format!("types.{codec}.parquet")));
        assert_eq!(table.units(), if codec == "v2" { 1 } else { 2 }, "{codec}");
        assert_eq!(table.len_hint(), Some(3));
        let found = samples(table).unwrap();
        assert_eq!(rows(&found), *expected, "{codec}");
        assert_eq!(found[2]["key"], format!("types.{codec}/000000002").into());
    }
    for name in ["file", "stream", "lz4", "zstd"] {
        let found = samples(ipc(dir(PYARROW).join(format!("types.{name}.arrow")))).unwrap();
        assert_eq!(rows(&found), manifest["types"], "{name}");
    }
    let found = rows(&samples(parquet(dir(PYARROW).join("plain.parquet"))).unwrap());
    for (found, expected) in found.as_array().unwrap().iter().zip(expected.as_array().unwrap()) {
        for (name, value) in found.as_object().unwrap() {
            assert_eq!(*value, expected[name], "{name}");
        }
    }
    let empty = parquet(dir(PYARROW).join("empty.parquet"));
    assert_eq!((samples(empty.clone()).unwrap().len(), empty.len_hint()), (0, Some(0)));
}

#[test]
fn features_of_datasets() {
    let manifest = manifest(DATASETS);
    let names: Vec<&str> =
        manifest["labels"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    // One image is not embedded, and there is only its path.
    let lone = ipc(dir(DATASETS).join("data-00001-of-00002.arrow"));
    let error = samples(lone).unwrap_err().to_string();
    assert!(error.contains("column \"image\"") && error.contains("next to the table"), "{error}");
    let scratch = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(dir(DATASETS)).unwrap().map(|entry| entry.unwrap().path()) {
        fs::copy(&entry, scratch.path().join(entry.file_name().unwrap())).unwrap();
    }
    let mut all = manifest["rows"].clone();
    all[2]["image"] = all[1]["image"].clone();
    let blue = all[1]["image"]["bytes"].as_str().unwrap();
    let blue: Vec<u8> = (0..blue.len() / 2)
        .map(|at| u8::from_str_radix(&blue[2 * at..2 * at + 2], 16).unwrap())
        .collect();
    fs::create_dir(scratch.path().join("elsewhere")).unwrap();
    fs::write(scratch.path().join("elsewhere/blue.png"), blue).unwrap();
    let streams = ipc(scratch.path().join("data-{00000..00001}-of-00002.arrow"));
    assert_eq!(
        (streams.units(), streams.label_names().unwrap()),
        (2, &names.clone().into_iter().map(str::to_owned).collect::<Vec<_>>()[..])
    );
    assert_eq!(rows(&samples(streams.clone()).unwrap()), all);
    assert_eq!(samples(ipc(scratch.path())).unwrap(), samples(streams).unwrap());

    let hub = parquet(dir(DATASETS).join("hub.parquet"));
    assert_eq!(hub.label_names().unwrap(), names);
    let expected = &manifest["rows"];
    let expected = json!([expected[0], expected[1], expected[3]]);
    assert_eq!(rows(&samples(hub.clone()).unwrap()), expected);
    // A folder of one file.
    assert_eq!(samples(parquet(dir(DATASETS))).unwrap(), samples(hub.clone()).unwrap());

    let error = samples(hub.clone().key("image_path")).unwrap_err();
    assert_eq!(error.index(), Some(1), "{error}");
    let some = samples(hub.clone().without(["image", "pixels", "boxes", "meta", "pages"])).unwrap();
    let fields = |sample: &Value| -> Vec<String> {
        sample.as_map().unwrap().iter().map(|(name, _)| name.as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(fields(&some[0]), ["key", "label", "tokens", "words"]);
}

#[test]
fn keys() {
    let keyed = dir(PYARROW).join("keyed.parquet");
    let keys = |table: ParquetReader| -> Vec<String> {
        let found = samples(table).unwrap();
        found.iter().map(|sample| sample["key"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(parquet(&keyed).units(), 3);
    assert_eq!(keys(parquet(&keyed)), ["a", "b", "c"]);
    assert_eq!(keys(parquet(&keyed).key("id")), ["7", "8", "9"]);
    assert_eq!(
        keys(parquet(&keyed).without(["key"])),
        ["keyed/000000000", "keyed/000000001", "keyed/000000002"]
    );
    let found = samples(parquet(&keyed)).unwrap();
    assert_eq!(found[0], map(vec![("key", "a".into()), ("n", 1.into()), ("id", 7.into())]));
    let error = samples(parquet(&keyed).key("nothing")).unwrap_err();
    assert_eq!(error.message(), "expected a field \"nothing\" for the key, found none");
    let other = dir(PYARROW).join("plain.parquet");
    let both = [keyed.to_str().unwrap(), other.to_str().unwrap()];
    // Each file has its own columns, as those of Arrow have.
    let found = samples(ParquetReader::open_all(both).unwrap()).unwrap();
    assert_eq!(found[0], map(vec![("key", "a".into()), ("n", 1.into()), ("id", 7.into())]));
    assert!(found.len() > 3 && found[3]["key"].as_str().unwrap().starts_with("plain/"));
}

/// Samples of everything that a column can have.
fn everything() -> Vec<Value> {
    let image = |rest: &[u8]| Value::Binary([b"\xff\xd8\xff", rest].concat());
    let full = map(vec![
        ("key", "a/1".into()),
        ("nil", Value::Nil),
        ("truth", true.into()),
        ("int", (-5).into()),
        ("large", u64::MAX.into()),
        ("single", Value::F32(0.1)),
        ("double", Value::F64(f64::NEG_INFINITY)),
        ("text", "zwei–二".into()),
        ("bytes", Value::Binary(vec![0, 255])),
        ("image", image(b"one")),
        ("np_truth", scalar(DType::of::<bool>(), &[1])),
        ("np_half", scalar(DType::of::<half::f16>(), &[0, 0x3c])),
        ("np_u2", scalar(DType::of::<u16>(), &[1, 2])),
        ("np_f8", scalar(DType::of::<f64>(), &1.5f64.to_le_bytes())),
        ("when", scalar(DType::datetime(Unit::Nanosecond), &i64::MIN.to_le_bytes())),
        ("span", scalar(DType::timedelta(Unit::Second), &(-1i64).to_le_bytes())),
        ("zero", array("<i4", &[], &[1, 2, 3, 4])),
        ("line", array("<u2", &[2], &[1, 2, 3, 4])),
        ("truths", array("|b1", &[3], &[1, 0, 1])),
        ("pixels", array("|u1", &[2, 1, 2], &[1, 2, 3, 4])),
        ("boxes", array("<f4", &[1, 2], &[0; 8])),
        ("free", array("|i1", &[1, 2, 1, 1], &[7, 8])),
        ("deep", array("|u1", &[1, 1, 1, 1, 1, 2], &[7, 8])),
        ("none", array("<f8", &[0, 3], &[])),
        ("times", array("<M8[ms]", &[1], &[9; 8])),
        ("list", Value::Array(vec![1.into(), Value::Nil, 3.into()])),
        ("empty", Value::Array(vec![])),
        ("words", Value::Array(vec!["a".into(), "".into()])),
        ("nested", Value::Array(vec![Value::Array(vec![0.5.into()]), Value::Array(vec![])])),
        (
            "meta",
            map(vec![
                ("id", 7.into()),
                (
                    "tags",
                    Value::Array(vec![map(vec![("t", "x".into())]), map(vec![("u", 1.into())])]),
                ),
                ("at", array("<f4", &[2, 1], &[3; 8])),
            ]),
        ),
        ("seldom", "here".into()),
    ]);
    let mut second = full.clone();
    let Value::Map(entries) = &mut second else { unreachable!() };
    entries.retain(|(name, _)| name.as_str() != Some("seldom"));
    for (name, value) in entries.iter_mut() {
        match name.as_str().unwrap() {
            "key" => *value = "a/2".into(),
            "image" => *value = image(b""),
            "boxes" => *value = array("<f4", &[0, 2], &[]),
            "line" => *value = array("<u2", &[0], &[]),
            "free" => *value = array("|i1", &[2, 1, 3, 1], &[1, 2, 3, 4, 5, 6]),
            "list" => *value = Value::Array(vec![]),
            "meta" => *value = map(vec![("tags", Value::Array(vec![]))]),
            _ => {}
        }
    }
    let mut third = second.clone();
    let Value::Map(entries) = &mut third else { unreachable!() };
    for (name, value) in entries.iter_mut() {
        match name.as_str().unwrap() {
            "key" => *value = "a/3".into(),
            "meta" => *value = map(vec![("id", 1.into()), ("at", array("<f4", &[2, 1], &[4; 8]))]),
            _ => *value = Value::Nil,
        }
    }
    vec![full, second, third]
}

fn pack(samples: &[Value]) -> Vec<Vec<u8>> {
    samples.iter().map(|sample| msgpack::to_vec(sample).unwrap()).collect()
}

#[test]
fn what_is_written_is_read_again_to_the_byte() {
    let scratch = tempfile::tempdir().unwrap();
    let expected = pack(&everything());
    let [path, again, many] =
        ["a.parquet", "b.parquet", "c.parquet"].map(|n| scratch.path().join(n));
    for path in [&path, &again] {
        let mut writer = ParquetWriter::create(path).unwrap();
        expected.iter().for_each(|sample| writer.write_packed(sample).unwrap());
        assert!(!path.exists());
        writer.finish().unwrap();
    }
    assert_eq!(fs::read(&path).unwrap(), fs::read(&again).unwrap());
    assert_eq!(packed(&parquet(&path)).unwrap(), expected);
    let error = ParquetWriter::create(&path).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);

    let arrow = scratch.path().join("a.arrow");
    let mut writer = ArrowIpcWriter::create(&arrow).unwrap();
    expected.iter().for_each(|sample| writer.write_packed(sample).unwrap());
    writer.finish().unwrap();
    assert_eq!(packed(&ipc(&arrow)).unwrap(), expected);

    // Several batches and row groups.
    let samples: Vec<Value> = (0..5000)
        .map(|n: i64| {
            let mut sample = everything().swap_remove((n % 3) as usize);
            let Value::Map(entries) = &mut sample else { unreachable!() };
            entries[0].1 = format!("k{n}").into();
            sample
        })
        .collect();
    let expected = pack(&samples);
    let mut writer = ParquetWriter::create(&many).unwrap().row_group_bytes(1);
    expected.iter().for_each(|sample| writer.write_packed(sample).unwrap());
    writer.finish().unwrap();
    let table = parquet(&many);
    assert_eq!(table.units(), 5);
    assert_eq!(packed(&table).unwrap(), expected);
}

#[test]
fn labels_are_kept_and_missing_ones_are_as_before() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("a.parquet");
    let names = ["cat".to_owned(), "dog".to_owned()];
    let expected = pack(&[
        map(vec![("key", "a".into()), ("label", 1.into())]),
        map(vec![("key", "b".into()), ("label", (-1).into())]),
        map(vec![("key", "c".into()), ("label", Value::Nil)]),
    ]);
    let mut writer = ParquetWriter::create(&path).unwrap().labels("label", &names);
    expected.iter().for_each(|sample| writer.write_packed(sample).unwrap());
    writer.finish().unwrap();
    let table = parquet(&path);
    assert_eq!(table.label_names(), Some(&names[..]));
    assert_eq!(packed(&table).unwrap(), expected);
}

#[test]
fn what_no_column_can_have_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("a.parquet");
    let mut writer = ParquetWriter::create(&path).unwrap();
    let sample = |key: &str, value: Value| {
        msgpack::to_vec(&map(vec![("key", key.into()), ("x", value)])).unwrap()
    };
    let refused = |writer: &mut ParquetWriter, value: Value, says: &str| {
        let error = writer.write_packed(&sample("odd", value)).unwrap_err();
        assert_eq!((error.kind(), error.key()), (ErrorKind::Invalid, Some("odd")), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    };
    let mixed = Value::Array(vec![1.into(), "a".into()]);
    let numbered = Value::Map(vec![(1.into(), 2.into())]);
    let twice = Value::Map(vec![("a".into(), 2.into()), ("a".into(), 2.into())]);
    refused(&mut writer, Special::Complex(1.0, 2.0).to_value(), "without an imaginary part");
    refused(&mut writer, array(">i4", &[1], &[0; 4]), "found >i4");
    refused(&mut writer, array("<U1", &[1], &[0; 4]), "found <U1");
    refused(&mut writer, array("<M8[Y]", &[1], &[0; 8]), "found <M8[Y]");
    refused(&mut writer, mixed, "lists of one type, found an integer of 64 bits and text");
    refused(&mut writer, numbered, "maps whose keys are strings");
    refused(&mut writer, twice, "found \"a\" twice");
    refused(&mut writer, Value::Ext(5, vec![]), "found ext");
    for n in 0..1024 {
        writer.write_packed(&sample(&format!("{n}"), n.into())).unwrap();
        if n == 0 {
            let says =
                "field \"x\": expected an integer of 64 bits as in the first samples, found text";
            refused(&mut writer, "text".into(), says);
        }
    }
    // The columns are settled.
    refused(&mut writer, 0.5.into(), "found a float of 64 bits");
    refused(&mut writer, u64::MAX.into(), "found an integer up to 2^64-1");
    let more = msgpack::to_vec(&map(vec![("key", "odd".into()), ("y", 1.into())])).unwrap();
    let error = writer.write_packed(&more).unwrap_err();
    assert!(error.to_string().contains("field \"y\": expected the fields"), "{error}");
    writer.finish().unwrap();
    assert_eq!(packed(&parquet(&path)).unwrap().len(), 1024);

    let path = scratch.path().join("b.parquet");
    let mut writer = ParquetWriter::create(&path).unwrap();
    writer.write_packed(&sample("a", map(vec![]))).unwrap();
    let error = writer.finish().unwrap_err();
    assert!(error.message().contains("expected maps with entries"), "{error}");
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1, "nothing is left behind");
}

/// What comes of a damaged file, if it is no error.
fn told(input: Result<impl Input>) -> Result<String> {
    let samples = packed(&input?)?;
    Ok(samples.iter().map(|sample| hex(sample)).collect::<Vec<_>>().join(" "))
}

#[test]
fn damaged_tables_are_errors_and_nothing_worse() {
    let read = |path: &Path| told(ParquetReader::open(path));
    let stream = |path: &Path| told(ArrowIpcReader::open(path));
    for name in ["types.zstd.parquet", "types.none.parquet", "types.gzip.parquet"] {
        let path = dir(PYARROW).join(name);
        // The footer comes last, so nothing shorter is a table.
        assert_eq!(damage(&path, 397, true, read), [], "{name}");
        // Parquet has few checksums: what is still well-formed is read, but only as other values.
        damage(&path, 149, false, read);
    }
    damage(&dir(PYARROW).join("keyed.parquet"), 7, false, read);
    for name in ["types.file.arrow", "types.stream.arrow", "types.lz4.arrow", "types.zstd.arrow"] {
        let path = dir(PYARROW).join(name);
        let whole = stream(&path).unwrap();
        for (at, found) in damage(&path, 289, true, stream) {
            // The index of a file is not needed.
            assert_eq!((name, &found), ("types.file.arrow", &whole), "{at}");
        }
        damage(&path, 131, false, stream);
    }
}

/// Not all writers mark the end of a stream; a file without its end was not finished.
#[test]
fn streams_may_end_after_any_batch() {
    let scratch = tempfile::tempdir().unwrap();
    // Keys begin with the name.
    let path = scratch.path().join("types.stream.arrow");
    let cut = |name: &str, len: usize| {
        let whole = fs::read(dir(PYARROW).join(name)).unwrap();
        fs::write(&path, &whole[..len]).unwrap();
        ArrowIpcReader::open(&path).and_then(samples)
    };
    let whole = samples(ipc(dir(PYARROW).join("types.stream.arrow"))).unwrap();
    let len = fs::metadata(dir(PYARROW).join("types.stream.arrow")).unwrap().len() as usize;
    // The mark has eight bytes, and messages are a multiple of that.
    assert_eq!(cut("types.stream.arrow", len - 8).unwrap().len(), whole.len());
    assert!(cut("types.stream.arrow", len - 4).is_err(), "half a mark");
    let mut passed = Vec::new();
    for len in (8..len - 8).step_by(8) {
        if let Ok(found) = cut("types.stream.arrow", len) {
            assert_eq!(found[..], whole[..found.len()]);
            passed.push(found.len());
        }
        assert!(cut("types.stream.arrow", len - 1).is_err());
    }
    // After the schema, dictionaries, and all batches but the last.
    assert_eq!(passed, [0, 0, 2]);
    let len = fs::metadata(dir(PYARROW).join("types.file.arrow")).unwrap().len() as usize;
    let passed = (8..len).step_by(8).find(|len| cut("types.file.arrow", *len).is_ok()).unwrap();
    let file = fs::read(dir(PYARROW).join("types.file.arrow")).unwrap();
    assert_eq!(file[passed - 8..passed], [255, 255, 255, 255, 0, 0, 0, 0]);
}

#[test]
fn lying_lengths_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let types = dir(PYARROW).join("types.zstd.parquet");
    let error = samples(parquet(&types).max_bytes(8)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    assert!(error.message().starts_with("expected pages of at most 8 bytes"), "{error}");
    let error = samples(parquet(dir(PYARROW).join("types.gzip.parquet")).max_bytes(8)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    let error = samples(ipc(dir(PYARROW).join("types.lz4.arrow")).max_bytes(8)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");

    // A footer of nested columns, as deep as the file is long.
    let deep = scratch.path().join("deep.parquet");
    let mut footer = vec![0x29, 0xfc, 0xa0, 0x8d, 0x06];
    footer.extend([0x55, 2, 0].repeat(100_000));
    footer.push(0);
    let len = (footer.len() as u32).to_le_bytes();
    fs::write(&deep, [b"PAR1", &footer[..], &len, b"PAR1"].concat()).unwrap();
    let error = ParquetReader::open(&deep).unwrap_err();
    assert!(error.message().contains("at most 64 nested columns"), "{error}");

    // A buffer that says it has 2^62 bytes before it was compressed.
    let lies = scratch.path().join("lies.arrow");
    let mut bytes = fs::read(dir(PYARROW).join("types.zstd.arrow")).unwrap();
    let magic = [0x28, 0xb5, 0x2f, 0xfd];
    let frame = bytes.windows(4).position(|window| window == magic).unwrap();
    bytes[frame - 8..frame].copy_from_slice(&(1u64 << 62).to_le_bytes());
    fs::write(&lies, bytes).unwrap();
    let error = samples(ipc(&lies)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
}

#[test]
fn a_dataset_comes_back_as_it_was() {
    let scratch = tempfile::tempdir().unwrap();
    let [before, table, after] =
        ["a.msgpack", "a.parquet", "b.msgpack"].map(|n| scratch.path().join(n));
    let mut writer = Writer::create(&before).unwrap();
    let mut columns = ParquetWriter::create(&table).unwrap();
    for sample in pack(&everything()) {
        writer.write_packed(&sample).unwrap();
        columns.write_packed(&sample).unwrap();
    }
    writer.finish().unwrap();
    columns.finish().unwrap();
    let mut writer = Writer::create(&after).unwrap();
    let mut source = InOrder::new(parquet(&table));
    kiste::convert::convert(&mut source, &mut writer, kiste::convert::Duplicates::Refuse, |_| {})
        .unwrap();
    writer.finish().unwrap();
    assert_eq!(fs::read(before).unwrap(), fs::read(after).unwrap());
}
