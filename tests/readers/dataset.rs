//! Datasets behind the trait, as far as Python's reader answers rightly.

use kiste::reader::{Reader, ReaderExt};
use kiste::{DatasetReader, ErrorKind, Value};
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
