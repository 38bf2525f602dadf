//! Zip archives, as Python's ZipFileReader finds what is in them, and damaged ones.

use std::fs;
use std::io::{Cursor, Write};

use ::zip::write::SimpleFileOptions;
use ::zip::{CompressionMethod, ZipWriter};
use kiste::ErrorKind;
use kiste::reader::{Reader, ReaderExt, ZipReader};
use kiste::storage::MemoryStorage;
use serde_json::Value as Json;

use super::conformance::ask_all;
use super::files::{options, row};
use crate::support::{golden_dir, golden_json};

#[test]
fn archives_hold_what_python_finds() {
    let golden = golden_json("directory.json");
    let path = golden_dir().join("tree.zip");
    let (mut same, mut errors, mut empty) = (0, 0, 0);
    for case in golden["zip"].as_array().unwrap() {
        let patterns = case["patterns"].as_array().unwrap().iter().map(|p| p.as_str().unwrap());
        let reader = options(&case["kwargs"], &golden_dir()).open_zip(&path, patterns);
        let what = format!("{} {}", case["patterns"], case["kwargs"]);
        let Some(expected) = case.get("ok") else {
            match reader {
                // Python cannot iterate what is empty.
                Ok(reader) => {
                    assert_eq!(reader.len(), 0, "{what}");
                    empty += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Invalid, "{what}");
                    errors += 1;
                }
            }
            continue;
        };
        let reader = reader.unwrap();
        let labels: Json = reader.label_values().iter().map(|label| label.as_str()).collect();
        assert_eq!(labels, expected["labels"], "{what}");
        let rows: Vec<Json> = (0..reader.len()).map(|index| row(&reader, index, "")).collect();
        let mut wanted = expected["samples"].as_array().unwrap().clone();
        for row in &mut wanted {
            // Python cuts where the label is in the pattern, not where it is in the name.
            let key = match row[0].as_str().unwrap() {
                "t/sub/x.jpg" => "sub/x.jpg",
                "t/mytree/cat/c.jpg" => "mytree/cat/c.jpg",
                "/lab/q.jpg" => "lab/q.jpg",
                key => key,
            };
            row[0] = key.into();
        }
        assert_eq!(rows, wanted, "{what}");
        let keys: Vec<String> = reader.keys().map(|key| key.unwrap().into_owned()).collect();
        ask_all(&reader, &keys.iter().map(String::as_str).collect::<Vec<_>>(), &what);
        same += 1;
    }
    assert_eq!((same, errors, empty), (10, 1, 1));
}

#[test]
fn samples_are_the_bytes_that_python_packs() {
    let golden = golden_json("directory.json");
    let reader = ZipReader::open(golden_dir().join("tree.zip"), ["{LABEL}/**"]).unwrap();
    let raw = golden["raw"].as_array().unwrap();
    assert_eq!(raw.len(), 3);
    for sample in raw {
        let index = reader.find(sample["key"].as_str().unwrap()).unwrap().unwrap();
        let hex: String =
            reader.get_raw(index).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, sample["hex"]);
    }
}

/// Opens an archive with these bytes and reads all of it: never a panic, and what is read is what
/// was written.
fn read_all(bytes: &[u8], max_bytes: u64) -> Vec<kiste::Error> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.zip");
    fs::write(&path, bytes).unwrap();
    let options = ZipReader::options().numeric_labels(false).max_bytes(max_bytes);
    let reader = match options.open_zip(&path, ["**"]) {
        Ok(reader) => reader,
        Err(error) => return vec![error],
    };
    (0..reader.len()).filter_map(|index| reader.get_raw(index).err()).collect()
}

#[test]
fn damaged_archives_are_errors() {
    let bytes = fs::read(golden_dir().join("tree.zip")).unwrap();
    assert!(read_all(&bytes, u64::MAX).is_empty());
    for len in 0..bytes.len() {
        let errors = read_all(&bytes[..len], u64::MAX);
        assert!(!errors.is_empty(), "cut at {len}");
        assert!(errors.iter().all(|e| e.kind() == ErrorKind::Damaged), "cut at {len}: {errors:?}");
    }
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0xff;
        for error in read_all(&damaged, u64::MAX) {
            assert!(error.path().is_some(), "byte {at}: {error}");
            let kind = error.kind();
            assert!(kind != ErrorKind::Io && kind != ErrorKind::NotFound, "byte {at}: {error:?}");
        }
    }
}

#[test]
fn sizes_are_not_believed() {
    let bytes = fs::read(golden_dir().join("tree.zip")).unwrap();
    let errors = read_all(&bytes, 23);
    assert!(!errors.is_empty() && errors.iter().all(|e| e.kind() == ErrorKind::Limit));
    // Every entry claims to be as long as can be.
    let mut huge = bytes.clone();
    let headers = (0..huge.len() - 4).filter(|&at| bytes[at..].starts_with(b"PK\x01\x02"));
    for at in headers {
        huge[at + 24..at + 28].copy_from_slice(&0xffff_fff0u32.to_le_bytes());
    }
    let errors = read_all(&huge, u64::MAX);
    assert_eq!(errors.len(), 14);
    assert!(errors.iter().all(|e| e.kind() == ErrorKind::Damaged), "{errors:?}");
    // The end promises entries that are not there.
    let end = bytes.len() - 22;
    let mut many = bytes.clone();
    many[end + 8..end + 12].copy_from_slice(&[0xf0; 4]);
    let errors = read_all(&many, u64::MAX);
    assert_eq!(errors[0].kind(), ErrorKind::Damaged);
    assert!(errors[0].to_string().contains("do not fit"), "{}", errors[0]);
}

/// An end record with so many entries, whose directory begins here.
fn end(entries: u16, directory: u32) -> Vec<u8> {
    let numbers = [[0; 4], [entries.to_le_bytes(); 2].concat().try_into().unwrap()];
    let directory = [[0; 4], directory.to_le_bytes()];
    [b"PK\x05\x06", &numbers.concat()[..], &directory.concat(), &[0; 2]].concat()
}

#[test]
fn only_the_last_end_of_an_archive_counts() {
    let bytes = fs::read(golden_dir().join("tree.zip")).unwrap();
    // A whole archive, and then an end whose directory is none: not the archive before it.
    let nothing = [&b"PK\x01\x02"[..], &[0xff; 60]].concat();
    let hidden = [&bytes[..], &nothing, &end(1, bytes.len() as u32)].concat();
    let errors = read_all(&hidden, u64::MAX);
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].kind(), ErrorKind::Damaged, "{errors:?}");
    // An entry that is an archive is read as it is.
    let mut outer = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    outer.start_file("a/inner.zip", stored).unwrap();
    outer.write_all(&bytes).unwrap();
    let outer = outer.finish().unwrap().into_inner();
    let storage = MemoryStorage::new();
    storage.put("outer.zip", outer);
    let reader = ZipReader::options().open_zip_in(&storage, "outer.zip", ["{LABEL}/*"]).unwrap();
    assert_eq!(reader.len(), 1);
    let raw = reader.get_raw(0).unwrap();
    assert!(raw.windows(bytes.len()).any(|part| part == bytes));
}

#[test]
fn two_entries_of_one_name_are_an_error() {
    let mut bytes = fs::read(golden_dir().join("tree.zip")).unwrap();
    for at in 0..bytes.len() - 9 {
        if bytes[at..].starts_with(b"cat/2.jpg") {
            bytes[at + 4] = b'1';
        }
    }
    let errors = read_all(&bytes, u64::MAX);
    assert_eq!((errors.len(), errors[0].kind()), (1, ErrorKind::Damaged));
    assert!(errors[0].to_string().contains("different names"), "{}", errors[0]);
}

#[test]
fn samples_say_which_bytes_of_the_archive_they_take() {
    let path = golden_dir().join("tree.zip");
    let bytes = fs::read(&path).unwrap();
    let reader = ZipReader::options().numeric_labels(false).open_zip(&path, ["**"]).unwrap();
    let index = reader.find("root.txt").unwrap().unwrap();
    let place = reader.locate(index);
    assert_eq!(place.path, Some(path));
    let range = place.range.unwrap();
    // It is stored, not deflated.
    assert_eq!(&bytes[range.start as usize..range.end as usize], b"content of root.txt");
}
