//! Every golden dataset answers the same questions alike, wherever its bytes are.

use std::ops::Bound;
use std::sync::Arc;

use kiste::format::msgpack;
use kiste::storage::{LocalStorage, MemoryStorage, Storage};
use kiste::{DatasetReader, ErrorKind, Value};
use serde::Deserialize;

use crate::support::{Dataset, files_of, golden_dir, legacy, manifest};

/// The same file by each of the ways to read it.
fn storages(dataset: &str) -> Vec<(&'static str, Arc<dyn Storage>)> {
    let memory = MemoryStorage::new();
    for file in files_of(&golden_dir().join(dataset)) {
        memory.put(&file, std::fs::read(&file).unwrap());
    }
    vec![
        ("mapped", Arc::new(LocalStorage::mapped())),
        ("positioned", Arc::new(LocalStorage::positioned())),
        ("memory", Arc::new(memory)),
    ]
}

/// A sample by nothing but its key, borrowed from the map.
#[derive(Deserialize)]
struct Keyed<'a> {
    key: &'a str,
}

#[derive(Deserialize)]
struct KeyedOwned {
    key: String,
}

/// The list of questions.
fn ask(reader: &DatasetReader, expected: &Dataset, mapped: bool, what: &str) {
    let Dataset { keys, offsets, .. } = expected;
    assert_eq!(reader.len(), keys.len(), "{what}");
    assert_eq!(reader.is_empty(), keys.is_empty(), "{what}");
    assert_eq!(Some(&reader.data_len()), offsets.last(), "{what}");
    let listed: Vec<String> = reader.keys().map(|key| key.unwrap().into_owned()).collect();
    assert_eq!(&listed, keys, "{what}");
    // Every question about every sample, but not five thousand times.
    let step = keys.len() / 500 + 1;
    for (index, key) in keys.iter().enumerate().step_by(step) {
        let what = format!("{what}: {key:?}");
        let range = offsets[index]..offsets[index + 1];
        assert_eq!(reader.byte_range(index).unwrap(), range, "{what}");
        assert_eq!(reader.key(index).unwrap(), *key, "{what}");
        assert_eq!(reader.find(key).unwrap(), Some(index), "{what}");
        assert!(reader.contains_key(key).unwrap(), "{what}");
        let raw = reader.get_raw(index).unwrap();
        assert_eq!(raw.len() as u64, range.end - range.start, "{what}");
        let value = reader.get(index).unwrap();
        assert_eq!(format!("{value:?}"), format!("{:?}", msgpack::decode(&raw).unwrap()), "{what}");
        if expected.all_reencode_identically == Some(true) {
            assert!(msgpack::to_vec(&value).unwrap() == *raw, "{what}");
        }
        assert_eq!(
            format!("{:?}", reader.get_by_key(key).unwrap()),
            format!("{:?}", Some(&value)),
            "{what}"
        );
        let field = reader.field(index, "key").unwrap();
        assert_eq!(field, Some(Value::from(key.as_str())), "{what}");
        assert_eq!(reader.field(index, "no such field").unwrap(), None, "{what}");
        let packed = reader.field_raw(index, "key").unwrap().unwrap();
        assert_eq!(msgpack::decode(&packed).unwrap().as_str(), Some(key.as_str()), "{what}");
        assert_eq!(reader.get_as::<KeyedOwned>(index).unwrap().key, *key, "{what}");
        match reader.get_as::<Keyed<'_>>(index) {
            Ok(borrowed) => assert_eq!((borrowed.key, mapped), (key.as_str(), true), "{what}"),
            Err(e) => assert_eq!((e.kind(), mapped), (ErrorKind::Invalid, false), "{what}"),
        }
    }
    for (absent, _) in &expected.absent_keys.keys {
        assert_eq!(reader.find(absent).unwrap(), None, "{what}: {absent:?}");
        assert!(!reader.contains_key(absent).unwrap(), "{what}: {absent:?}");
        assert_eq!(reader.get_by_key(absent).unwrap(), None, "{what}: {absent:?}");
    }
    ask_ranges(reader, what);
    ask_nonsense(reader, what);
}

fn ask_ranges(reader: &DatasetReader, what: &str) {
    let n = reader.len();
    let all: Vec<Vec<u8>> = (0..n).map(|i| reader.get_raw(i).unwrap().into_owned()).collect();
    let raw = |range: (Bound<usize>, Bound<usize>)| -> Vec<Vec<u8>> {
        let iter = reader.iter_raw(range);
        let promised = iter.len();
        let found: Vec<_> = iter.map(|raw| raw.unwrap().into_owned()).collect();
        assert_eq!(promised, found.len(), "{what}");
        found
    };
    use Bound::{Excluded, Included, Unbounded};
    assert_eq!(raw((Unbounded, Unbounded)), all, "{what}");
    for (start, end) in [(0, n), (0, 0), (n, n), (n / 3, n / 2), (n / 2, n), (0, n / 2)] {
        assert_eq!(raw((Included(start), Excluded(end))), all[start..end], "{what}");
        assert_eq!(raw((Included(start), Unbounded)), all[start..], "{what}");
        assert_eq!(raw((Unbounded, Excluded(end))), all[..end], "{what}");
        if start < end {
            assert_eq!(raw((Included(start), Included(end - 1))), all[start..end], "{what}");
            assert_eq!(raw((Excluded(start), Excluded(end))), all[start + 1..end], "{what}");
        }
    }
    let few = 0..n.min(20);
    let values: Vec<String> =
        reader.iter(few.clone()).map(|v| format!("{:?}", v.unwrap())).collect();
    let single = |i| format!("{:?}", reader.get(i).unwrap());
    assert_eq!(values, few.clone().map(single).collect::<Vec<_>>(), "{what}");
    let keys: Vec<String> =
        reader.iter_as::<KeyedOwned>(few.clone()).map(|sample| sample.unwrap().key).collect();
    let single = |i| reader.key(i).unwrap().into_owned();
    assert_eq!(keys, few.map(single).collect::<Vec<_>>(), "{what}");
}

fn ask_nonsense(reader: &DatasetReader, what: &str) {
    let n = reader.len();
    for index in [n, n + 1, usize::MAX / 8, usize::MAX / 8 + 1, usize::MAX] {
        let errors = [
            reader.get(index).unwrap_err(),
            reader.get_raw(index).unwrap_err(),
            reader.key(index).unwrap_err(),
            reader.byte_range(index).unwrap_err(),
            reader.field(index, "key").unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Invalid, "{what}");
            assert!(error.to_string().contains("msgpack"), "{what}: {error}");
        }
    }
    type AnyRange = (Bound<usize>, Bound<usize>);
    use Bound::{Excluded, Included, Unbounded};
    let nonsense: [AnyRange; 5] = [
        (Included(0), Excluded(n + 1)),
        (Included(n + 1), Unbounded),
        (Excluded(usize::MAX), Unbounded),
        (Unbounded, Included(usize::MAX)),
        (Unbounded, Included(n)),
    ];
    for range in nonsense {
        let asked = std::panic::AssertUnwindSafe(|| reader.iter_raw(range).count());
        assert!(std::panic::catch_unwind(asked).is_err(), "{what}: {range:?}");
    }
}

#[test]
fn every_golden_dataset_answers_alike_wherever_its_bytes_are() {
    let datasets = manifest().datasets;
    assert_eq!(datasets.len(), 20);
    for (name, expected) in datasets {
        for (how, storage) in storages(&expected.path) {
            let path = golden_dir().join(&expected.path);
            let reader = DatasetReader::options().storage(storage).open(path).unwrap();
            ask(&reader, &expected, how == "mapped", &format!("{name}, {how}"));
            // And once more when look-ups have their table.
            reader.prepare_keys().unwrap();
            for (index, key) in expected.keys.iter().enumerate() {
                assert_eq!(reader.find(key).unwrap(), Some(index), "{name}, {how}");
            }
            for (absent, _) in &expected.absent_keys.keys {
                assert_eq!(reader.find(absent).unwrap(), None, "{name}, {how}");
                assert!(!reader.contains_key(absent).unwrap(), "{name}, {how}");
            }
        }
    }
}

#[test]
fn legacy_datasets_answer_alike_too() {
    let datasets = manifest().datasets;
    let legacy = legacy();
    assert_eq!(legacy.len(), 7);
    for (name, old) in legacy {
        for (how, storage) in storages(&old.path) {
            let path = golden_dir().join(&old.path);
            let reader = DatasetReader::options().storage(storage).open(path).unwrap();
            let what = format!("legacy {name}, {how}");
            ask(&reader, &datasets[&old.same_data_as], how == "mapped", &what);
        }
    }
}
