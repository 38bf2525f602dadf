//! Damaged directories: an error that names the file, and never a panic. The format has no
//! checksum, so what is inside a chunk may change unnoticed.

use std::path::Path;

use kiste::ErrorKind;
use kiste::array::Rows;
use kiste::array::bcolz::{Bcolz, BcolzArray};
use kiste::format::__private::bcolz::HEADER;
use kiste::storage::{MemoryStorage, Storage};

use super::{array_in, golden_dir, in_memory, manifest, open_in, sha256, table_in};

/// What a reader makes of each damaged directory: part of the message, or nothing where it is read.
pub(super) const BAD: [(&str, Option<&str>); 18] = [
    ("bad_missing_chunk", Some("data/__2.blp: expected the file of chunk 2 of 8, found none")),
    ("bad_missing_leftover", Some("data/__7.blp: expected the file of chunk 7 of 8, found none")),
    ("bad_truncated_chunk", Some("data/__1.blp: byte 28: expected a chunk up to the end")),
    ("bad_magic", Some("data/__1.blp: byte 0: expected the header of a data file of bcolz")),
    ("bad_version", Some("data/__1.blp: byte 4: expected the header of a data file of bcolz")),
    ("bad_nchunks_2", Some("found a header of bloscpack version 1 with 2 chunks")),
    ("bad_chunk_short_nbytes", Some("byte 20: expected 1024 uncompressed bytes in chunk 1")),
    ("bad_sizes_longer", Some("expected 9024 bytes for [1128] of <f8, found 8000 in meta/sizes")),
    // Python gives 997 rows. The two numbers in the file contradict each other.
    ("bad_sizes_shorter", Some("expected 7976 bytes for [997] of <f8, found 8000 in meta/sizes")),
    ("bad_sizes_no_json", Some("meta/sizes: byte 0: expected a JSON object")),
    ("bad_storage_no_dtype", Some("meta/storage: byte 0: expected \"dtype\"")),
    ("bad_storage_dtype_other_size", Some("expected 4000 bytes for [1000] of <f4")),
    ("bad_storage_chunklen_0", Some("expected at least one row to a chunk")),
    ("bad_no_meta", Some("meta/sizes: expected a file of a bcolz array, found none")),
    ("bad_no_data", Some("data/__0.blp: expected the file of chunk 0 of 8, found none")),
    // Python opens no array without this file, though nothing in it is needed.
    ("bad_no_attrs", None),
    // Nobody asks for a file beyond the last one.
    ("bad_extra_chunk", None),
    // A byte of the numbers, which nothing vouches for. Python reads the same.
    ("bad_flip", None),
];

#[test]
fn damage_is_told_by_file_and_place() {
    let manifest = manifest();
    let whole = BcolzArray::open(golden_dir().join("f8_chunks")).unwrap().read().unwrap();
    for (name, message) in BAD {
        let (_, entry) = manifest.iter().find(|(other, _)| other == name).unwrap();
        let found = BcolzArray::open(golden_dir().join(name)).and_then(|array| array.read());
        let class = entry["expect"]["class"].as_str().unwrap();
        match (found, message) {
            (Ok(found), None) if class == "AnyOutcome" => {
                let python = entry["python"].as_str().unwrap().strip_prefix("OK (1000,) ").unwrap();
                assert!(sha256(found.bytes()).starts_with(python), "{name}");
            }
            (Ok(found), None) => {
                assert_eq!(class, "Ok", "{name}");
                assert_eq!(found, whole, "{name}");
            }
            (Err(error), Some(message)) => {
                assert_ne!(class, "Ok", "{name}");
                assert_eq!(error.kind(), ErrorKind::Damaged, "{name}");
                assert!(error.to_string().contains(message), "{name}: {error}");
            }
            (found, _) => panic!("{name}: {found:?}"),
        }
    }
}

/// Everything that can be asked of an array or a table.
fn look_at(storage: &MemoryStorage) -> kiste::Result<Vec<u8>> {
    let opened = open_in(storage)?;
    let n = opened.shape()[0];
    if let Bcolz::Array(array) = &opened {
        array.fill();
        array.info()?;
        array.select(&[n.saturating_sub(1)])?;
    }
    Ok(opened.read_rows(0..n)?.into_bytes().into_owned())
}

/// Calls `check` on every way in which a file is damaged: cut, a byte changed, gone.
fn damage_each_file(whole: &MemoryStorage, check: impl Fn(&MemoryStorage, &Path, Option<usize>)) {
    for path in whole.names() {
        let Some(bytes) = whole.get(&path) else { continue };
        for at in 0..bytes.len() {
            whole.put(&path, &bytes[..at]);
            check(whole, &path, None);
            for flip in [0x01, 0x10, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= flip;
                whole.put(&path, changed);
                check(whole, &path, Some(at));
            }
        }
        whole.put(&path, [&bytes[..], b"x"].concat());
        check(whole, &path, None);
        whole.remove(&path).unwrap();
        check(whole, &path, None);
        whole.put(&path, bytes);
    }
}

#[test]
fn no_damaged_byte_makes_more_of_an_array() {
    let storage = in_memory(&golden_dir().join("nd_2d"));
    let whole = look_at(&storage).unwrap();
    damage_each_file(&storage, |storage, path, changed| {
        let name = path.to_str().unwrap();
        match (look_at(storage), changed) {
            // Attributes are the user's, and parameters of compression for people.
            (Ok(found), _) if name.ends_with("__attrs__") => assert_eq!(found, whole),
            (Ok(found), _) if name.ends_with("storage") => assert_eq!(found.len(), whole.len()),
            // No reader uses `cbytes`; a line break may as well be a space.
            (Ok(found), _) if name.ends_with("sizes") => assert_eq!(found, whole),
            // Bytes of a chunk, which nothing vouches for.
            (Ok(found), Some(at)) => {
                assert!(at >= HEADER, "{name} {at}");
                assert_eq!(found.len(), whole.len(), "{name} {at}");
            }
            (Ok(_), None) => panic!("{name} is truncated, and no error was reported"),
            (Err(error), _) => {
                let told = error.path().unwrap().to_str().unwrap();
                assert!(told.starts_with('a'), "{error}");
                assert!(error.kind() != ErrorKind::Io, "{error}");
            }
        }
    });
}

#[test]
fn no_damaged_byte_leads_out_of_a_table() {
    let storage = in_memory(&golden_dir().join("ct_delcol_addcol"));
    damage_each_file(&storage, |storage, path, _| {
        if let Err(error) = look_at(storage) {
            assert!(error.path().is_some_and(|told| told.starts_with("a")), "{path:?}: {error}");
        }
    });
}

#[test]
fn columns_of_other_lengths_are_no_table() {
    let storage = in_memory(&golden_dir().join("ct_basic"));
    let other = in_memory(&golden_dir().join("f8_chunks"));
    for path in other.names() {
        if let Some(bytes) = other.get(&path) {
            storage.put(Path::new("a/val").join(path.strip_prefix("a").unwrap()), bytes);
        }
    }
    let error = table_in(&storage).unwrap_err();
    assert_eq!(error.to_string(), "a/val: expected a column of 200 rows, found 1000");
    storage.put("a/__rootdirs__", "{\"names\": [\"id\", \"../b\"]}");
    assert_eq!(table_in(&storage).unwrap_err().kind(), ErrorKind::Damaged);
    storage.put("a/__rootdirs__", "{\"names\": [\"id\", \"none\"]}");
    assert_eq!(table_in(&storage).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_crash_of_bcolz_before_it_wrote_the_sizes_costs_the_new_rows() {
    // bcolz writes the last chunk, with more rows than before, and dies.
    let storage = in_memory(&golden_dir().join("i4_one_more"));
    let whole = array_in(&storage).unwrap().read().unwrap();
    storage.put("a/data/__4.blp", storage.get("a/data/__3.blp").unwrap());
    let found = array_in(&storage).unwrap().read().unwrap();
    assert_eq!(found.shape(), whole.shape());
    assert_eq!(found.bytes()[..2048], whole.bytes()[..2048]);
    // In the middle it would be rows of another place.
    storage.put("a/data/__2.blp", {
        let other = in_memory(&golden_dir().join("i8_defaults"));
        other.get("a/data/__0.blp").unwrap()
    });
    assert_eq!(array_in(&storage).unwrap().read().unwrap_err().kind(), ErrorKind::Damaged);
}

#[test]
fn sizes_that_no_file_can_have_cost_no_memory() {
    let storage = in_memory(&golden_dir().join("i8_defaults"));
    let rows = 1_u64 << 57;
    storage.put(
        "a/meta/sizes",
        format!("{{\"shape\": [{rows}], \"nbytes\": {}, \"cbytes\": 0}}", rows * 8),
    );
    let array = array_in(&storage).unwrap();
    assert_eq!(array.read().unwrap_err().kind(), ErrorKind::Damaged);
    assert_eq!(array.select(&[0]).unwrap_err().kind(), ErrorKind::Damaged);
    for sizes in [
        "{\"shape\": [4611686018427387904], \"nbytes\": 0, \"cbytes\": 0}",
        "{\"shape\": [2, 4611686018427387904, 4], \"nbytes\": 0, \"cbytes\": 0}",
        "{\"shape\": [5, 0], \"nbytes\": 0, \"cbytes\": 0}",
    ] {
        storage.put("a/meta/sizes", sizes);
        assert_eq!(array_in(&storage).unwrap_err().kind(), ErrorKind::Damaged, "{sizes}");
    }
}

#[test]
fn other_directories_are_told_apart() {
    let storage = MemoryStorage::new();
    assert_eq!(open_in(&storage).unwrap_err().kind(), ErrorKind::NotFound);
    storage.put("a/readme", "");
    assert_eq!(open_in(&storage).unwrap_err().kind(), ErrorKind::Damaged);
    storage.put("a/meta/shape", "(300, 200)");
    let error = open_in(&storage).unwrap_err();
    assert!(error.message().contains("carray proposal"), "{error}");
    storage.put("a/meta/sizes", "shape: (5000000000,)\nnbytes: 5000000000\n");
    let error = open_in(&storage).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("YAML"), "{error}");
    storage.put("a/meta/versions/__1__", "{}");
    let error = open_in(&storage).unwrap_err();
    assert!(error.message().contains("chunked array"), "{error}");
}
