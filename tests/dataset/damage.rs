//! Damaged files: an error that names the file, or a right answer; never a wrong one, no panic.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiste::format::dataset::{SideFile, filter, keys};
use kiste::format::msgpack;
use kiste::index::IndexOptions;
use kiste::repair::Repair;
use kiste::storage::{LocalStorage, MemoryStorage, Storage};
use kiste::verify::Verify;
use kiste::{DatasetReader, Error, ErrorKind, Result, Value, Writer};

use crate::support::{
    Snapshot, golden_dir, golden_in_memory, golden_json, one_in, open_in, packed, restore, snapshot,
};

/// The file of a dataset by its suffix; the data file has none.
fn file_of(data: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", data.display()))
}

fn hex(digits: &str) -> Vec<u8> {
    (0..digits.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap())
        .collect()
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
    match Verify::of(data).storage(storage).run() {
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

/// Ten samples with every side file there is.
fn small() -> (Snapshot, PathBuf) {
    let (storage, data) = golden_in_memory("ten");
    let shared = Arc::new(storage.clone());
    IndexOptions::default().storage(shared).lookup(true).checksums(true).build(&data).unwrap();
    (snapshot(&storage), data)
}

/// Proper prefixes of these bytes, changes of one bit or of all of each byte, and more bytes.
fn every_damage(bytes: &[u8], mut with: impl FnMut(Vec<u8>, String)) {
    for end in (0..bytes.len()).step_by(one_in(2)) {
        with(bytes[..end].to_vec(), format!("cut to {end}"));
    }
    for at in 0..bytes.len() {
        for mask in [1, 0x10, 0xff].into_iter().skip(at % one_in(3)).step_by(one_in(3)) {
            let mut changed = bytes.to_vec();
            changed[at] ^= mask;
            with(changed, format!("byte {at} ^ {mask:#x}"));
        }
    }
    for more in [&[0][..], &[0; 8], &[0xff; 8]] {
        with([bytes, more].concat(), format!("{} more bytes", more.len()));
    }
}

/// Asks everything several times, so that every way to look up is taken; `damaged` is the suffix
/// of the file that is.
fn ask_all(storage: Arc<dyn Storage>, data: &Path, damaged: &str, what: &str) {
    let reader = match DatasetReader::options().storage(storage).open(data) {
        Ok(reader) => reader,
        Err(e) => {
            told(&e);
            return;
        }
    };
    let in_data = damaged == "data";
    // A list of keys is as good as its digest, like samples.
    let in_keys = [".keys", "several"].contains(&damaged);
    let right = |call: &str, result: Result<bool>| match result {
        Ok(right) => assert!(right, "{damaged} {what}: {call}"),
        Err(e) => {
            assert_eq!(e.kind(), ErrorKind::Damaged, "{damaged} {what}: {call}: {e}");
            told(&e);
        }
    };
    right("len", Ok(reader.len() == 10));
    for round in 0..2 {
        let many: Vec<String> =
            (0..10).flat_map(|i| [format!("k{i}"), format!("absent {i}")]).collect();
        let expected: Vec<_> = (0..10).flat_map(|i| [Some(i), None]).collect();
        right("find many", reader.find_many(&many).map(|found| found == expected));
        for i in 0..10 {
            let key = format!("k{i}");
            let value = msgpack::decode(&packed(&key, i as u64)).unwrap();
            right("find", reader.find(&key).map(|found| found == Some(i)));
            right("contains", reader.contains_key(&key));
            let absent = format!("absent {i}");
            right("find absent", reader.find(&absent).map(|found| found.is_none()));
            right("contains absent", reader.contains_key(&absent).map(|found| !found));
            right("raw by key", reader.get_raw_by_key(&key).map(|raw| raw.is_some()));
            right("raw absent", reader.get_raw_by_key(&absent).map(|raw| raw.is_none()));
            // The content of a sample only its digest knows.
            let free = in_data;
            right("get", reader.get(i).map(|found| free || found == value));
            right("key", reader.key(i).map(|found| free || found == key));
            right("v", reader.field(i, "v").map(|v| free || v == Some(Value::from(i))));
            let _ = reader.get_raw(i);
            let _ = reader.get_raw_many(&[i, 9 - i]);
            let _ = reader.get_as::<std::collections::BTreeMap<String, Value>>(i);
        }
        let mut keys = reader.keys();
        for i in 0..10 {
            match keys.next() {
                Some(Ok(key)) => {
                    assert!(in_data || in_keys || key == format!("k{i}"), "{damaged} {what}")
                }
                Some(Err(e)) => drop(told(&e)),
                None => break,
            }
        }
        for value in reader.iter(..).chain(reader.iter(3..5)) {
            right("iter", value.map(|_| true));
        }
        if round == 0 {
            right("prepare", reader.prepare_keys().map(|()| true));
        }
    }
}

#[test]
fn every_byte_of_every_file_damaged() {
    let (files, data) = small();
    let no_digest = |suffix: &str| ["data", ".md5"].contains(&suffix);
    for (name, content) in &files {
        let suffix = suffix_of(name);
        every_damage(content.as_ref().unwrap(), |damaged, what| {
            if suffix == ".md5" && content.as_ref().unwrap().strip_suffix(b"\n") == Some(&damaged) {
                return; // the end of the last line: nothing is lost
            }
            let storage = restore(&files);
            storage.put(name, damaged);
            ask_all(Arc::new(storage.clone()), &data, suffix, &what);
            // The digests tell every change; without them the files tell on each other.
            for with_digests in [true, false] {
                if !with_digests {
                    if no_digest(suffix) {
                        continue;
                    }
                    storage.remove(&SideFile::Md5.path(&data)).unwrap();
                }
                let options = Verify::of(&data).deep(!with_digests);
                let options = options.storage(Arc::new(storage.clone()));
                let problems = options.run().unwrap().problems;
                let found = problems.iter().any(|problem| problem.file == *name);
                let found = found || (suffix == ".md5" || !with_digests) && !problems.is_empty();
                assert!(found, "{suffix} {what}, digests {with_digests}: {problems:?}");
            }
            ask_all(Arc::new(storage.clone()), &data, suffix, &what);
        });
    }
}

#[test]
fn what_changes_damaged_files_neither_panics_nor_makes_it_worse() {
    let (files, data) = small();
    for (name, content) in &files {
        let content = content.as_ref().unwrap();
        // Some of them: each of these writes a whole dataset.
        let mut count = 0;
        every_damage(content, |damaged, what| {
            count += 1;
            if count % 3 != 0 {
                return;
            }
            let storage = restore(&files);
            storage.put(name, damaged);
            let before = snapshot(&storage);
            let shared: Arc<dyn Storage> = Arc::new(storage.clone());
            let index = IndexOptions::default().storage(shared.clone()).force(true).durable(false);
            let suffix = suffix_of(name);
            match index.lookup(true).build(&data) {
                // All side files follow from the data.
                Ok(_) if suffix != "data" => {
                    assert_eq!(snapshot(&storage), files, "{suffix} {what}")
                }
                Ok(_) => {}
                Err(e) => {
                    told(&e);
                    assert_eq!(snapshot(&storage), before, "{suffix} {what}");
                }
            }
            let storage = restore(&before);
            let shared: Arc<dyn Storage> = Arc::new(storage.clone());
            let repair = Repair::of(&data).storage(shared);
            let saved = repair.salvage("saved.msgpack").unwrap();
            if suffix != "data" {
                assert_eq!((saved.samples, saved.lost.len()), (10, 0), "{suffix} {what}");
            } else {
                assert!(saved.samples >= 9 || what.contains("cut"), "{what}: {saved:?}");
            }
            let saved = open_in(&storage, Path::new("saved.msgpack")).unwrap();
            for key in saved.keys() {
                assert!(saved.contains_key(&key.unwrap()).unwrap());
            }
        });
    }
}

#[test]
fn some_damage_through_a_map() {
    let (files, data) = small();
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &Path| dir.path().join(name);
    for (name, content) in &files {
        std::fs::write(path(name), content.as_ref().unwrap()).unwrap();
    }
    for (name, content) in &files {
        let mut count = 0;
        every_damage(content.as_ref().unwrap(), |damaged, what| {
            count += 1;
            if count % 5 == 0 {
                std::fs::write(path(name), damaged).unwrap();
                let mapped = Arc::new(LocalStorage::mapped());
                ask_all(mapped, &path(&data), suffix_of(name), &what);
            }
        });
        std::fs::write(path(name), content.as_ref().unwrap()).unwrap();
    }
}

#[test]
fn a_damaged_legacy_index() {
    for name in ["empty", "two", "seventeen"] {
        let data = golden_dir().join(format!("legacy/{name}.msgpack"));
        let index = SideFile::Index.path(&data);
        let content = std::fs::read(&index).unwrap();
        every_damage(&content, |damaged, what| {
            let storage = MemoryStorage::new();
            storage.put("x.msgpack", std::fs::read(&data).unwrap());
            storage.put("x.msgpack.index", damaged);
            let shared: Arc<dyn Storage> = Arc::new(storage.clone());
            match open_in(&storage, Path::new("x.msgpack")) {
                Ok(reader) => {
                    for i in 0..reader.len() {
                        let _ = reader.get(i).map_err(|e| told(&e));
                        match reader.key(i) {
                            // Found means that the sample says so itself.
                            Ok(key) => {
                                let found = reader.find(&key);
                                assert!(found.is_err() || found.unwrap().is_some(), "{what}");
                            }
                            Err(e) => drop(told(&e)),
                        }
                    }
                }
                Err(e) => drop(told(&e)),
            }
            let _ = Verify::of("x.msgpack").deep(true).storage(shared.clone()).run();
            if IndexOptions::default().storage(shared.clone()).build("x.msgpack").is_err() {
                assert_eq!(storage.names().len(), 2, "{what}");
            }
        });
    }
}

/// The calls that believe the lengths in side files, if anything does.
fn try_all(storage: &MemoryStorage, data: &Path) {
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    if let Ok(reader) = open_in(storage, data) {
        let _ = reader.prepare_keys();
        let _ = (reader.find("k3"), reader.find("absent"), reader.contains_key("absent"));
        let _ = reader.keys().count();
    }
    let _ = Verify::of(data).deep(true).storage(shared.clone()).run();
    for missing in [SideFile::Filter, SideFile::KeyHashes, SideFile::Offsets] {
        if storage.get(missing.path(data)).is_some() {
            storage.remove(&missing.path(data)).unwrap();
        }
        let _ = IndexOptions::default().storage(shared.clone()).build(data);
    }
}

#[test]
fn lengths_in_headers_are_not_believed() {
    // Each claims billions of entries in a file of a few bytes. Believed, it would take gigabytes.
    let huge: &[(SideFile, &[u8])] = &[
        (SideFile::Keys, b"\xdd\xff\xff\xff\xff"),
        (SideFile::Keys, b"\xdd\xff\xff\xff\xff\xa2k0\xa2k1"),
        (SideFile::Keys, b"\xdd\xff\xff\xff\xf0\xdb\xff\xff\xff\xff"),
        (SideFile::Keys, b"\x9a\xdb\xff\xff\xff\xff"),
        (SideFile::Index, b"\xdf\xff\xff\xff\xff\xa2k0\x00"),
        (SideFile::Index, b"\x81\xdb\xff\xff\xff\xff"),
        (SideFile::Filter, b"SIMPBLOO\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
        (
            SideFile::Filter,
            b"SIMPBLOO\0\0\0\0\0\0\0\x26\0\0\xff\xff\xff\xff\xff\xff\x3f\xb9\x99\x99\x99\x99\x99\x9a\0\0\0\0\0\0",
        ),
    ];
    for (file, content) in huge {
        for offsets in [true, false] {
            let (files, data) = small();
            let storage = restore(&files);
            storage.put(file.path(&data), *content);
            if !offsets {
                storage.remove(&SideFile::Offsets.path(&data)).unwrap();
            }
            try_all(&storage, &data);
        }
    }
    let (files, data) = small();
    let lookup = SideFile::Lookup.path(&data);
    let good = files[&lookup].clone().unwrap();
    for at in 0..good.len() - 8 {
        let storage = restore(&files);
        let mut bad = good.clone();
        bad[at..at + 8].fill(0xff);
        storage.put(&lookup, bad);
        try_all(&storage, &data);
    }
}

#[test]
fn a_message_that_claims_more_than_there_is() {
    let storage = MemoryStorage::new();
    let claims: [&[u8]; 8] = [
        b"\xdf\xff\xff\xff\xff",
        b"\xdd\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\x05",
        b"\x82\xa3key\xa1a\xa1v\xdd\xff\xff\xff\xff",
        b"\x82\xa3key\xa1a\xa1v\xdf\xff\xff\xff\xff\x01",
        &[0x91; 100_000],
    ];
    let options = Writer::options().storage(Arc::new(storage.clone()));
    let mut writer = options.create("x.msgpack").unwrap();
    for (i, claim) in claims.iter().enumerate() {
        writer.write_raw_unchecked(&format!("k{i}"), claim).unwrap();
    }
    writer.finish().unwrap();
    let reader = open_in(&storage, Path::new("x.msgpack")).unwrap();
    for i in 0..claims.len() {
        for error in [
            reader.get(i).unwrap_err(),
            reader.field(i, "v").unwrap_err(),
            reader.get_as::<std::collections::BTreeMap<String, Value>>(i).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Damaged, "{i}: {error}");
            assert_eq!(error.index(), Some(i as u64));
        }
        assert_eq!(reader.find(&format!("k{i}")).unwrap(), Some(i));
    }
}

#[test]
fn side_files_of_another_dataset() {
    // As many keys of the same length, so that every size fits.
    let other = MemoryStorage::new();
    let options = Writer::options().storage(Arc::new(other.clone()));
    let options = options.lookup(true).checksums(true);
    let mut writer = options.create("ten.msgpack").unwrap();
    for i in 0..10 {
        writer.write_raw(&format!("x{i}"), &packed(&format!("x{i}"), i)).unwrap();
    }
    writer.finish().unwrap();
    let (files, data) = small();
    let sides: Vec<SideFile> = SideFile::ALL
        .into_iter()
        .filter(|file| other.get(file.path(&data)).is_some() && *file != SideFile::Offsets)
        .collect();
    for mixed in 1..1 << sides.len() {
        let storage = restore(&files);
        for (bit, file) in sides.iter().enumerate() {
            if mixed >> bit & 1 == 1 {
                storage.put(file.path(&data), other.get(file.path(&data)).unwrap());
            }
        }
        let what = format!("{mixed:07b} of {sides:?}");
        ask_all(Arc::new(storage.clone()), &data, "several", &what);
        let options = Verify::of(&data).storage(Arc::new(storage.clone()));
        assert!(!options.run().unwrap().problems.is_empty(), "{what}");
    }
    assert_eq!(keys::MAX_HEADER + filter::HEADER, 37);
}

#[test]
fn damage_while_side_files_are_missing() {
    // One file damaged, any of the others missing.
    let (files, data) = small();
    let sides = [SideFile::Keys, SideFile::KeyHashes, SideFile::Filter, SideFile::Md5];
    let mut all = sides.to_vec();
    all.extend([SideFile::Lookup, SideFile::Crc]);
    for damaged in all {
        let content = files[&damaged.path(&data)].clone().unwrap();
        for missing in 1..1 << sides.len() {
            let mut rest = files.clone();
            for (bit, file) in sides.iter().enumerate() {
                if missing >> bit & 1 == 1 {
                    rest.remove(&file.path(&data));
                }
            }
            if !rest.contains_key(&damaged.path(&data)) {
                continue;
            }
            for at in (0..content.len()).step_by(one_in(2) * 3) {
                let storage = restore(&rest);
                let mut bad = content.clone();
                bad[at] ^= 0x10;
                storage.put(damaged.path(&data), bad);
                let what = format!("byte {at}, missing {missing:04b}");
                ask_all(Arc::new(storage), &data, damaged.suffix(), &what);
            }
        }
    }
}
