//! Datasets behind the trait, as far as Python's reader answers rightly.

use std::sync::Arc;

use kiste::format::msgpack;
use kiste::reader::{Reader, ReaderExt};
use kiste::storage::LocalStorage;
use kiste::{DatasetReader, ErrorKind, Value, Writer};
use serde_json::Value as Json;

use crate::support::{golden, golden_json};

fn value(json: &Json) -> Value {
    match json {
        Json::Object(map) => {
            let fields = map["$map"].as_array().unwrap().iter();
            Value::Map(fields.map(|field| (value(&field[0]), value(&field[1]))).collect())
        }
        Json::String(text) => text.as_str().into(),
        other => other.as_u64().unwrap().into(),
    }
}

/// Python's slices count from the end where they are negative, and are cut to what is there.
fn bound(json: &Json, len: usize, default: usize) -> usize {
    match json.as_i64() {
        Some(bound) if bound < 0 => len.saturating_sub(bound.unsigned_abs() as usize),
        Some(bound) => (bound as usize).min(len),
        None => default,
    }
}

#[test]
fn datasets_answer_as_python_does() {
    let golden_answers = golden_json("reader_api.json");
    let (mut samples, mut keys, mut errors, mut slices) = (0, 0, 0, 0);
    for (name, answers) in golden_answers.as_object().unwrap() {
        let dataset = DatasetReader::open(golden(name)).unwrap();
        let reader: &dyn Reader = &dataset;
        let questions = |about: &str| answers[about].as_array().unwrap().iter();
        // There are no negative indices here.
        let indexed = |q: &Json| q[0].as_u64().map(|index| (index as usize, q[1].clone()));
        for (index, answer) in questions("get").filter_map(indexed) {
            match answer.get("ok") {
                Some(sample) => {
                    assert_eq!(reader.get(index).unwrap(), value(sample), "{name}");
                    samples += 1;
                }
                None => {
                    assert_eq!(reader.get(index).unwrap_err().kind(), ErrorKind::Invalid);
                    errors += 1;
                }
            }
        }
        for (index, answer) in questions("find_key").filter_map(indexed) {
            match answer.get("ok") {
                Some(key) => {
                    assert_eq!(reader.key(index).unwrap(), key.as_str().unwrap(), "{name}");
                    keys += 1;
                }
                None => {
                    assert_eq!(reader.key(index).unwrap_err().kind(), ErrorKind::Invalid);
                    errors += 1;
                }
            }
        }
        for slice in questions("slice") {
            let Some(expected) = slice[2]["ok"].as_array() else { continue };
            let start = bound(&slice[0], reader.len(), 0);
            let end = bound(&slice[1], reader.len(), reader.len()).max(start);
            let found = reader.range(start..end);
            let found: Vec<String> = found.keys().map(|key| key.unwrap().into_owned()).collect();
            assert_eq!(found, expected.iter().map(|k| k.as_str().unwrap()).collect::<Vec<_>>());
            slices += 1;
        }
    }
    assert_eq!((samples, keys, errors, slices), (11, 11, 12, 136));
}

#[test]
fn what_will_be_read_can_be_said_wherever_the_bytes_are() {
    for name in ["many5000", "empty"] {
        for storage in
            [kiste::storage::LocalStorage::mapped(), kiste::storage::LocalStorage::positioned()]
        {
            let options = DatasetReader::options().storage(std::sync::Arc::new(storage));
            let reader = options.open(golden(name)).unwrap();
            reader.prefetch(&(0..reader.len() + 2).rev().step_by(3).collect::<Vec<_>>());
            reader.prefetch(&[usize::MAX, 0, 0]);
        }
    }
}

#[test]
fn many_samples_are_those_that_come_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data.msgpack");
    let mut writer = Writer::options().durable(false).checksums(true).create(&path).unwrap();
    for i in 0..100u64 {
        // Some are larger than a page.
        writer.write_raw(&format!("k{i}"), &packed(&format!("k{i}"), i % 10 * 700)).unwrap();
    }
    writer.finish().unwrap();
    // More than one group, not in order, some of them twice.
    let wanted: Vec<usize> = (0..150).map(|i| i * 37 % 100).collect();
    let positioned = DatasetReader::options().storage(Arc::new(LocalStorage::positioned()));
    let readers = [DatasetReader::options(), DatasetReader::options().checksums(true), positioned];
    for options in readers {
        let reader = options.open(&path).unwrap();
        let many = reader.get_raw_many(&wanted).unwrap();
        assert_eq!(many.len(), wanted.len());
        for (&index, raw) in wanted.iter().zip(&many) {
            assert_eq!(*raw, reader.get_raw(index).unwrap(), "{index}");
        }
        assert!(reader.get_raw_many(&[]).unwrap().is_empty());
        let beyond = reader.get_raw_many(&[0, 100, 1]).unwrap_err();
        assert_eq!(beyond.kind(), ErrorKind::Invalid);
        assert!(beyond.to_string().contains("no sample 100"), "{beyond}");
        let beyond = reader.get_raw_many(&[usize::MAX]).unwrap_err();
        assert_eq!(beyond.kind(), ErrorKind::Invalid);
    }
    // Offsets that lead out of the data are an error of their sample, however it is asked for.
    let side = path.with_extension("msgpack.offsets");
    let mut offsets = std::fs::read(&side).unwrap();
    offsets[8 * 50] = 0x7f;
    std::fs::remove_file(&side).unwrap();
    std::fs::write(&side, offsets).unwrap();
    let reader = DatasetReader::open(&path).unwrap();
    assert_eq!(reader.get_raw_many(&[48, 51]).unwrap().len(), 2);
    let damaged = reader.get_raw_many(&[48, 50, 51]).unwrap_err();
    assert_eq!((damaged.kind(), damaged.index()), (ErrorKind::Damaged, Some(50)));
    assert_eq!(reader.iter_raw(..).filter(Result::is_err).count(), 2);
}

/// A sample with this key, and about as many bytes.
fn packed(key: &str, bytes: u64) -> Vec<u8> {
    let payload = Value::Binary(vec![7; bytes as usize]);
    let fields = [("key", Value::from(key)), ("payload", payload)];
    let fields = fields.map(|(name, value)| (Value::from(name), value)).to_vec();
    msgpack::to_vec(&Value::Map(fields)).unwrap()
}
