//! Records that the package tfrecord wrote, and ours.

use std::fs;
use std::path::Path;

use kiste::convert::{TfRecordReader, TfRecordWriter};
use kiste::format::__private::tfrecord::{encode, example};
use kiste::format::msgpack::{self, numpy};
use kiste::value::NdArray;
use kiste::{ErrorKind, Value};
use serde_json::{Value as Json, json};

use super::{damage, dir, hex, manifest, packed, samples};

const PRODUCER: &str = "tfrecord-1.14.6";

fn open(path: &Path) -> TfRecordReader {
    TfRecordReader::open(path).unwrap()
}

fn plain(feature: &example::Feature<'_>) -> Json {
    match feature {
        example::Feature::Empty => Json::Null,
        example::Feature::Bytes(list) => {
            json!({"bytes": list.iter().map(|b| hex(b)).collect::<Vec<_>>()})
        }
        example::Feature::Floats(list) => {
            json!({"floats": list.iter().map(|f| hex(&f.to_le_bytes())).collect::<Vec<_>>()})
        }
        example::Feature::Ints(list) => json!({"ints": list}),
    }
}

/// The features of a record that has no checksums left.
fn features(record: &[u8]) -> Json {
    let features = example::decode(record).unwrap();
    Json::Object(features.iter().map(|(name, f)| (name.to_string(), plain(f))).collect())
}

#[test]
fn features_are_those_of_the_real_one() {
    let mut rest = &fs::read(dir(PRODUCER).join("some.tfrecord")).unwrap()[..];
    for expected in manifest(PRODUCER).as_array().unwrap() {
        let len = u64::from_le_bytes(*rest.first_chunk().unwrap()) as usize;
        assert_eq!(features(&rest[12..12 + len]), *expected);
        let mut ours = Vec::new();
        encode(&rest[12..12 + len], &mut ours);
        assert!(rest.starts_with(&ours));
        rest = &rest[12 + len + 4..];
    }
    assert!(rest.is_empty());
}

fn scalar(value: f32) -> Value {
    numpy::Special::Scalar(NdArray::scalar(value)).to_value()
}

fn ints(values: &[i64]) -> Value {
    let array = NdArray::from_ndarray(&ndarray::aview1(values)).into_owned();
    numpy::Special::Array(array).to_value()
}

fn map(entries: Vec<(&str, Value)>) -> Value {
    Value::Map(entries.into_iter().map(|(name, value)| (name.into(), value)).collect())
}

#[test]
fn samples_of_all_kinds() {
    for name in ["some.tfrecord", "some.tfrecord.gz"] {
        let path = dir(PRODUCER).join(name);
        let found = samples(open(&path).texts(["names"])).unwrap();
        let floats = [0.5f32, 1.5, -2.25, f32::INFINITY];
        let floats = NdArray::from_ndarray(&ndarray::aview1(&floats)).into_owned();
        let image = |bytes: &[u8]| Value::Binary(bytes.to_vec());
        let expected = [
            map(vec![
                ("key", "some/000000000000".into()),
                ("image", image(b"\xff\xd8 no image")),
                ("label", 7.into()),
                ("score", scalar(0.1)),
            ]),
            map(vec![
                ("key", "some/000000000001".into()),
                ("box", numpy::Special::Array(floats).to_value()),
                ("ids", ints(&[0, 127, 128, 300, -1, i64::MAX, i64::MIN])),
                ("image", image(b"")),
                ("label", (-1).into()),
                ("names", Value::Array(vec!["a".into(), "".into(), "zwei–二".into()])),
                ("none", ints(&[])),
            ]),
            map(vec![("key", "some/000000000002".into())]),
        ];
        assert_eq!(found, expected);
    }
}

#[test]
fn options() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("one.tfrecord");
    let mut bytes = Vec::new();
    let features =
        [("id", example::Feature::Bytes(vec![b"k1"])), ("key", example::Feature::Ints(vec![5]))];
    encode(&example::encode(&features), &mut bytes);
    fs::write(&path, &bytes).unwrap();
    let found = samples(open(&path).key("id").lists(["key"])).unwrap();
    let id = Value::Binary(b"k1".to_vec());
    assert_eq!(found, [map(vec![("key", "k1".into()), ("id", id), ("_key", ints(&[5]))])]);
    assert_eq!(samples(open(&path).key("key")).unwrap()[0]["key"].as_str(), Some("5"));
    let error = samples(open(&path).key("nothing")).unwrap_err();
    assert_eq!(
        error.message(),
        "record 0 at byte 0: expected a field \"nothing\" for the key, found none"
    );
    assert_eq!(samples(open(&path).max_bytes(3)).unwrap_err().kind(), ErrorKind::Limit);

    // A length that does not fit into any memory, with the right checksum.
    let length = u64::MAX.to_le_bytes();
    let header =
        [&length[..], &kiste::format::__private::tfrecord::checksum(&length).to_le_bytes()]
            .concat();
    fs::write(&path, header).unwrap();
    assert_eq!(samples(open(&path)).unwrap_err().kind(), ErrorKind::Limit);
    assert_eq!(samples(open(&path).max_bytes(u64::MAX)).unwrap_err().kind(), ErrorKind::Damaged);
}

#[test]
fn damaged_files() {
    let path = dir(PRODUCER).join("some.tfrecord");
    let read = |path: &Path| packed(&open(path)).map(|samples| samples.len().to_string());
    let passed: Vec<_> = damage(&path, 1, true, read).into_iter().map(|(_, found)| found).collect();
    // Only where a record ends can the file end as well.
    assert_eq!(passed, ["0", "1", "2"]);
    assert_eq!(damage(&path, 1, false, read), []);
}

#[test]
fn what_is_written_is_read_again() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("out.tfrecord");
    let sample = map(vec![
        ("key", "k".into()),
        ("image", Value::Binary(vec![0, 0xff])),
        ("label", (-3).into()),
        ("score", Value::F64(0.5)),
        ("words", Value::Array(vec!["a".into(), "b".into()])),
        ("ids", ints(&[1, -2, 3])),
        ("nil", Value::Nil),
        ("empty", Value::Array(vec![])),
        ("truth", true.into()),
    ]);
    let mut writer = TfRecordWriter::create(&path).unwrap();
    writer.write_packed(&msgpack::to_vec(&sample).unwrap()).unwrap();
    let complex = numpy::Special::Complex(1.0, 2.0).to_value();
    let mixed = Value::Array(vec![1.into(), "a".into()]);
    for odd in [complex, mixed, map(vec![]), u64::MAX.into(), Value::Ext(5, vec![])] {
        let sample = map(vec![("key", "k".into()), ("odd", odd)]);
        let error = writer.write_packed(&msgpack::to_vec(&sample).unwrap()).unwrap_err();
        assert_eq!((error.kind(), error.key()), (ErrorKind::Invalid, Some("k")), "{sample}");
    }
    writer.finish().unwrap();
    let found = samples(open(&path).key("key").texts(["words", "key"])).unwrap();
    assert_eq!(found.len(), 1);
    let fields = found[0].as_map().unwrap();
    let expected = [
        ("key", "k".into()),
        ("empty", Value::Array(vec![])),
        ("ids", ints(&[1, -2, 3])),
        ("image", Value::Binary(vec![0, 0xff])),
        ("_key", "k".into()),
        ("label", (-3).into()),
        ("nil", Value::Nil),
        ("score", scalar(0.5)),
        ("truth", 1.into()),
        ("words", Value::Array(vec!["a".into(), "b".into()])),
    ];
    assert_eq!(*fields, *map(expected.to_vec()).as_map().unwrap());
}
