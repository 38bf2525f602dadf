//! The golden directories: the same values, the same small files.

use std::collections::BTreeSet;
use std::fs;

use kiste::ErrorKind;
use kiste::array::bcolz::{Bcolz, BcolzArray, BcolzTable};
use kiste::array::{Pieces, Rows};
use kiste::format::__private::bcolz::{
    Sizes, Storage, attrs_to_json, names_to_json, parse_attrs, parse_names,
};
use kiste::value::{DType, NdArray};
use serde_json::Value as Json;

use super::{golden_dir, in_memory, manifest, sha256};

#[test]
fn no_directory_is_forgotten() {
    let there = fs::read_dir(golden_dir()).unwrap();
    let there: BTreeSet<String> =
        there.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let named: BTreeSet<String> = manifest().into_iter().map(|(name, _)| name).collect();
    assert_eq!(there, named);
    assert_eq!(named.len(), 71);
    let bad = named.iter().filter(|name| name.starts_with("bad_")).count();
    assert_eq!(bad, super::damage::BAD.len());
}

#[test]
fn the_manifest_is_of_these_files() {
    for (name, entry) in manifest() {
        for (file, expected) in entry["files"].as_object().into_iter().flatten() {
            let bytes = fs::read(golden_dir().join(&name).join(file)).unwrap();
            assert_eq!(sha256(&bytes), expected["sha256"], "{name}/{file}");
        }
    }
}

#[test]
fn arrays_have_the_values_that_bcolz_reads() {
    let mut count = 0;
    for (name, entry) in manifest() {
        let is_bad = name.starts_with("bad_") || name == "object_pickle";
        if entry["kind"] != "carray" || is_bad {
            continue;
        }
        count += 1;
        let array = BcolzArray::open(golden_dir().join(&name)).unwrap();
        assert_eq!(array.shape(), lens(&entry["shape"]), "{name}");
        assert_eq!(sha256(array.read().unwrap().bytes()), entry["sha256"], "{name}");
        assert_eq!(*array.dtype(), dtype_of(&entry), "{name}");
        // bcolz cannot open the structured one again, and says nothing more about it.
        if name != "struct" {
            assert_eq!(array.chunklen() as u64, entry["chunklen"], "{name}");
            assert_eq!(Json::Object(array.attrs().clone()), entry["attrs"], "{name}");
            let full = entry["nchunks_full"].as_u64().unwrap();
            let leftover = u64::from(entry["leftover"] != 0);
            let info = array.info().unwrap();
            assert_eq!((info.chunks, info.nbytes), (full + leftover, array.nbytes() as u64));
        }
        assert!(array.fill().is_some(), "{name}");
        assert_parts_are_those_of_the_whole(&array);
    }
    assert_eq!(count, 47);
}

fn dtype_of(entry: &Json) -> DType {
    entry["dtype"].as_str().unwrap().parse().unwrap()
}

fn lens(shape: &Json) -> Vec<usize> {
    serde_json::from_value(shape.clone()).unwrap()
}

fn assert_parts_are_those_of_the_whole(array: &BcolzArray) {
    let whole = array.read().unwrap();
    let row = whole.bytes().len() / array.len().max(1);
    let bytes_of = |rows: &[usize]| -> Vec<u8> {
        rows.iter().flat_map(|row_at| &whole.bytes()[row_at * row..][..row]).copied().collect()
    };
    let n = array.len();
    for range in [0..0, 0..n, n / 3..n - n / 3, n.saturating_sub(1)..n, n / 2..n / 2] {
        let part = array.rows(range.clone()).unwrap();
        assert_eq!(part.bytes(), bytes_of(&range.collect::<Vec<_>>()));
    }
    let chosen: Vec<usize> = (0..n.min(50)).map(|i| (i * 37 + n - 1) % n).collect();
    let some = array.select(&chosen).unwrap();
    assert_eq!(some.bytes(), bytes_of(&chosen));
    assert_eq!(some.shape()[1..], array.shape()[1..]);
    let chunks: Vec<NdArray<'_>> = array.chunks().collect::<Result<_, _>>().unwrap();
    let joined: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.bytes()).copied().collect();
    assert_eq!(joined, whole.bytes());
    let pieces = Pieces::of(array, 1000).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    let joined: Vec<u8> = pieces.iter().flat_map(|piece| piece.bytes()).copied().collect();
    assert_eq!(joined, whole.bytes());
    for wrong in [0..n + 1, n + 1..n + 1] {
        assert_eq!(array.rows(wrong).unwrap_err().kind(), ErrorKind::Invalid);
    }
    assert_eq!(array.select(&[n]).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn tables_have_the_columns_that_bcolz_reads() {
    let mut count = 0;
    for (name, entry) in manifest() {
        if entry["kind"] != "ctable" {
            continue;
        }
        count += 1;
        let path = golden_dir().join(&name);
        let table = BcolzTable::open(&path).unwrap();
        assert_eq!(serde_json::json!(table.names().collect::<Vec<_>>()), entry["names"]);
        assert_eq!(table.len() as u64, entry["nrows"]);
        assert_eq!(*table.dtype(), dtype_of(&entry), "{name}");
        assert_eq!(Json::Object(table.attrs().clone()), entry["attrs"], "{name}");
        let whole = table.read().unwrap();
        for (column, expected) in entry["columns"].as_object().unwrap() {
            let values = table.column(column).unwrap().read().unwrap();
            assert_eq!(sha256(values.bytes()), expected["sha256"], "{name}");
            assert_eq!(values.shape(), lens(&expected["shape"]));
            assert_eq!(whole.field(column).unwrap(), values, "{name}");
        }
        let n = table.len();
        let size = table.dtype().item_size();
        let part = table.rows(n / 3..n / 2).unwrap();
        assert_eq!(part.bytes(), &whole.bytes()[n / 3 * size..n / 2 * size]);
        let last: Vec<usize> = (0..n).rev().take(3).collect();
        let found = table.select(&last).unwrap();
        let rows = last.iter().flat_map(|row| &whole.bytes()[row * size..][..size]).copied();
        assert_eq!(found.bytes(), rows.collect::<Vec<u8>>());
        assert!(matches!(Bcolz::open(&path).unwrap(), Bcolz::Table(_)));
        assert_eq!(Bcolz::open(&path).unwrap().shape(), [n]);
        let error = BcolzArray::open(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(table.column("none").is_err());
    }
    assert_eq!(count, 5);
    let columns = BcolzTable::open(golden_dir().join("ct_attrs_append")).unwrap();
    assert_eq!(columns.column("a").unwrap().attrs()["unit"], "m");
}

#[test]
fn small_files_are_written_as_bcolz_writes_them() {
    let mut count = 0;
    for (name, _) in manifest() {
        if name.starts_with("bad_") {
            continue;
        }
        let storage = in_memory(&golden_dir().join(&name));
        for path in storage.names() {
            let Some(bytes) = storage.get(&path) else { continue };
            let again = match path.file_name().unwrap().to_str().unwrap() {
                "sizes" => Sizes::parse(&bytes).unwrap().to_json(),
                "storage" => Storage::parse(&bytes).unwrap().to_json(),
                "__rootdirs__" => names_to_json(&parse_names(&bytes).unwrap()),
                // Python keeps the order in which attributes were set; we sort them.
                "__attrs__" if name == "attrs" => continue,
                "__attrs__" => attrs_to_json(&parse_attrs(&bytes).unwrap()),
                _ => continue,
            };
            count += 1;
            assert_eq!(again.as_bytes(), bytes, "{name} {}", path.display());
        }
    }
    assert!(count > 150);
}

#[test]
fn only_the_blocks_that_are_needed_are_read() {
    let storage = in_memory(&golden_dir().join("f8_chunks"));
    let array = super::array_in(&storage).unwrap();
    let opened = storage.reads();
    assert!(opened.iter().all(|read| !read.path.starts_with("a/data")), "{opened:?}");
    storage.clear_reads();
    array.rows(130..140).unwrap();
    let files = |storage: &kiste::storage::MemoryStorage| -> BTreeSet<String> {
        let name = |read: &kiste::storage::LoggedRead| {
            read.path.file_name().unwrap().to_str().unwrap().to_owned()
        };
        storage.reads().iter().map(name).collect()
    };
    assert_eq!(files(&storage), BTreeSet::from(["__1.blp".to_owned()]));
    storage.clear_reads();
    array.select(&[999, 0, 999, 5]).unwrap();
    assert_eq!(files(&storage), BTreeSet::from(["__0.blp".to_owned(), "__7.blp".to_owned()]));
    assert_eq!(storage.reads().len(), 2);
}

#[test]
fn objects_are_never_unpickled() {
    let error = Bcolz::open(golden_dir().join("object_pickle")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("pickle"), "{error}");
}
