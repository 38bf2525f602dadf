//! Damaged files: an error that names the file, or a right answer; never a wrong one, no panic.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiste::format::dataset::{SideFile, filter, keys};
use kiste::format::msgpack;
use kiste::index::IndexOptions;
use kiste::repair::RepairOptions;
use kiste::storage::{LocalStorage, MemoryStorage, Storage};
use kiste::verify::VerifyOptions;
use kiste::{DatasetReader, Error, ErrorKind, Result, Value, Writer};

use crate::support::{
    Snapshot, golden_dir, golden_in_memory, golden_json, open_in, packed, restore, snapshot,
};

/// The file of a dataset by its suffix; the data file has none.
fn file_of(data: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", data.display()))
}

fn hex(digits: &str) -> Vec<u8> {
    (0..digits.len()).step_by(2).map(|i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap()).collect()
}

/// Applies an edit of `broken.json`.
fn edit(storage: &MemoryStorage, data: &Path, edit: &serde_json::Value) {
    let path = file_of(data, edit[0].as_str().unwrap());
    let mut bytes = storage.get(&path).unwrap();
    let hex_at = |i: usize| hex(edit[i].as_str().unwrap());
    match edit[1].as_str().unwrap() {
        "delete" => return storage.remove(&path).unwrap(),
        "truncate" => bytes.truncate(edit[2].as_u64().unwrap() as usize),
        "append" => bytes.extend_from_slice(&hex_at(2)),
        "replace" => bytes = hex_at(2),
        "write_at" => {
            let (at, new) = (edit[2].as_u64().unwrap() as usize, hex_at(3));
            bytes[at..at + new.len()].copy_from_slice(&new);
        }
        other => panic!("{other}"),
    }
    storage.put(&path, bytes);
}

/// What is wrong, and in which file: `Damaged .keys`.
fn told(error: &Error) -> String {
    let path = error.path().unwrap_or_else(|| panic!("{error:?} names no file"));
    assert!(error.to_string().starts_with(path.to_str().unwrap()), "{error:?}");
    format!("{:?} {}", error.kind(), suffix_of(path))
}

/// What sets a file of a dataset apart from the others.
fn suffix_of(file: &Path) -> &str {
    match file.to_str().unwrap().split_once(".msgpack") {
        Some((_, "")) | None => "data",
        Some((_, suffix)) => suffix,
    }
}

/// Asks all the questions of `broken.json`: what is answered otherwise than by the undamaged
/// dataset.
fn outcome(storage: Arc<dyn Storage>, data: &Path) -> Vec<(&'static str, String)> {
    let mut other = Vec::new();
    let mut note = |call: &'static str, result: Result<bool>| match result {
        Ok(true) => {}
        Ok(false) => other.push((call, "WRONG".to_string())),
        Err(e) => other.push((call, told(&e))),
    };
    let right = |i: usize, value: &Value| {
        *value == msgpack::decode(&packed(&format!("k{i}"), i as u64)).unwrap()
    };
    match DatasetReader::options().storage(storage.clone()).open(data) {
        Err(e) => note("open", Err(e)),
        Ok(reader) => {
            note("len", Ok(reader.len() == 10));
            note("get(0)", reader.get(0).map(|value| right(0, &value)));
            note("get(9)", reader.get(9).map(|value| right(9, &value)));
            note("key(0)", reader.key(0).map(|key| key == "k0"));
            note("key(9)", reader.key(9).map(|key| key == "k9"));
            note("find(k3)", reader.find("k3").map(|found| found == Some(3)));
            note("contains(k3)", reader.contains_key("k3"));
            note("contains(absent)", reader.contains_key("absent").map(|found| !found));
            let samples: Result<Vec<_>> = reader.iter(..).collect();
            let all_right =
                |s: Vec<Value>| s.len() == 10 && s.iter().enumerate().all(|(i, s)| right(i, s));
            note("iter", samples.map(all_right));
            let keys: Result<Vec<_>> = reader.keys().collect();
            let all_right = |keys: Vec<Cow<'_, str>>| {
                keys.len() == 10 && keys.iter().enumerate().all(|(i, key)| *key == format!("k{i}"))
            };
            note("keys", keys.map(all_right));
            note("prepare", reader.prepare_keys().map(|()| true));
        }
    }
    match VerifyOptions::default().storage(storage).verify(data) {
        Err(e) => note("verify", Err(e)),
        Ok(report) => {
            let files: BTreeSet<_> = report.problems.iter().map(|p| suffix_of(&p.file)).collect();
            if !files.is_empty() {
                other.push(("verify", Vec::from_iter(files).join(" ")));
            }
        }
    }
    other
}

/// What we answer to each case, on the file system: which calls give another answer than for the
/// undamaged dataset. Only errors, and only from what needs the broken file.
type Expected = &'static [(&'static str, &'static str)];

const FILTER: Expected = &[
    ("contains(k3)", "Damaged .filter"),
    ("contains(absent)", "Damaged .filter"),
    ("prepare", "Damaged .filter"),
    ("verify", ".filter"),
];
const HASHES: Expected = &[
    ("find(k3)", "Damaged .key_hashes"),
    ("contains(k3)", "Damaged .key_hashes"),
    ("contains(absent)", "Damaged .key_hashes"),
    ("prepare", "Damaged .key_hashes"),
    ("verify", ".key_hashes"),
];
/// Hashes and filter are compared with the list, so they disagree with a wrong one.
const KEYS: Expected = &[("keys", "Damaged .keys"), ("verify", ".filter .key_hashes .keys")];
const OFFSETS: Expected = &[("open", "Damaged .offsets"), ("verify", ".offsets")];
/// Another number of samples: the keys disagree with it as well.
const COUNT: Expected = &[("open", "Damaged .offsets"), ("verify", ".keys .offsets")];
const DATA_SIZE: Expected = &[("open", "Damaged .offsets"), ("verify", ".offsets data")];

const OURS: &[(&str, Expected)] = &[
    // What is missing is derived; only its digest is left to say that it was there.
    ("missing .offsets", &[("verify", ".offsets")]),
    ("missing .keys", &[("verify", ".keys")]),
    ("missing .key_hashes", &[("verify", ".key_hashes")]),
    ("missing .filter", &[("verify", ".filter")]),
    ("missing .md5", &[]),
    ("missing .keys and .key_hashes", &[("verify", ".key_hashes .keys")]),
    ("missing .key_hashes and .filter", &[("verify", ".filter .key_hashes")]),
    ("missing data", &[("open", "NotFound data"), ("verify", "NotFound data")]),
    ("offsets: last entry cut off", COUNT),
    ("offsets: partial last entry", OFFSETS),
    ("offsets: empty file", OFFSETS),
    ("offsets: half", COUNT),
    ("offsets: one extra entry", COUNT),
    ("offsets: one extra byte", OFFSETS),
    ("offsets: not ascending", &[("iter", "Damaged .offsets"), ("verify", ".offsets")]),
    ("keys: one byte short", KEYS),
    ("keys: header only", KEYS),
    ("keys: empty file", KEYS),
    ("keys: trailing byte", &[("keys", "Damaged .keys"), ("verify", ".keys")]),
    ("keys: a map", KEYS),
    ("keys: fewer than offsets", KEYS),
    ("keys: more than offsets", KEYS),
    ("keys: integers", KEYS),
    ("key_hashes: one short", HASHES),
    ("key_hashes: partial last", HASHES),
    ("key_hashes: salt only", HASHES),
    ("key_hashes: short salt", HASHES),
    ("key_hashes: empty", HASHES),
    ("key_hashes: wrong salt", HASHES),
    ("key_hashes: extra entry", HASHES),
    ("filter: one byte short (missing bytes read as zero)", FILTER),
    ("filter: header only", FILTER),
    ("filter: short header", FILTER),
    ("filter: empty", FILTER),
    ("filter: trailing byte is ignored", FILTER),
    ("filter: bad magic", FILTER),
    ("filter: total size field off by one", FILTER),
    ("filter: num_elements 1", FILTER),
    ("filter: probability 0", FILTER),
    (
        "filter: all zero bits",
        &[
            ("contains(k3)", "Damaged .filter"),
            ("prepare", "Damaged .filter"),
            ("verify", ".filter"),
        ],
    ),
    ("data: one byte short", DATA_SIZE),
    ("data: empty", DATA_SIZE),
    ("data: trailing byte", DATA_SIZE),
    (
        "data: first byte flipped to 0xc1",
        &[("get(0)", "Damaged data"), ("iter", "Damaged data"), ("verify", "data")],
    ),
    ("md5: empty", &[("verify", ".md5")]),
    ("md5: wrong", &[("prepare", "Damaged .md5"), ("verify", ".md5")]),
    // Python compares the digits as text, and so says that all files are damaged.
    ("md5: uppercase hex does not verify", &[]),
];

#[test]
fn where_python_is_wrong_or_fails_we_are_right_or_say_which_file_it_is() {
    let broken = golden_json("broken.json");
    let cases = broken["cases"].as_array().unwrap();
    assert_eq!(cases.len(), OURS.len());
    for (case, (ours, expected)) in cases.iter().zip(OURS) {
        let name = case["name"].as_str().unwrap();
        assert_eq!(name, *ours);
        let (storage, data) = golden_in_memory("ten");
        for e in case["edits"].as_array().unwrap() {
            edit(&storage, &data, e);
        }
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in snapshot(&storage) {
            std::fs::write(dir.path().join(name), content.unwrap()).unwrap();
        }
        let found = outcome(Arc::new(LocalStorage::mapped()), &dir.path().join(&data));
        let found: Vec<(&str, &str)> =
            found.iter().map(|(call, what)| (*call, what.as_str())).collect();
        assert_eq!(found, *expected, "{name}");
        // Without a map the keys come from the samples, so less depends on the broken file.
        let positioned: Arc<dyn Storage> = Arc::new(LocalStorage::positioned());
        let elsewhere =
            [(positioned, dir.path().join(&data)), (Arc::new(storage) as Arc<dyn Storage>, data)];
        for (storage, data) in elsewhere {
            for (call, what) in outcome(storage, &data) {
                let derived = call == "keys" && what.starts_with("Damaged");
                assert!(expected.contains(&(call, &what)) || derived, "{name}: {call} {what}");
            }
        }
    }
}
