//! Versions: which there are, how they are found, and what it costs to have them.

use std::time::{Duration, SystemTime};

use kiste::ErrorKind;
use kiste::array::{ArrayOptions, At, Keep};
use kiste::storage::{MemoryStorage, Storage};
use kiste::value::DType;
use ndarray::ArrayD;

use super::{open, open_store, options, root, sample};
use crate::support::snapshot;

/// Bytes of all files below this directory.
fn bytes_in(storage: &MemoryStorage, dir: &str) -> usize {
    let dir = root().join(dir);
    let files = snapshot(storage).into_iter().filter(|(path, _)| path.starts_with(&dir));
    files.filter_map(|(_, bytes)| bytes).map(|bytes| bytes.len()).sum()
}

#[test]
fn a_version_of_one_changed_point_costs_less_than_a_tenth_of_a_whole_table() {
    let storage = MemoryStorage::new();
    let create = options(&storage).chunk_shape([8, 8]);
    let mut store = create.create(root(), DType::of::<f64>(), &[128, 128]).unwrap();
    let mut staged = store.stage().unwrap();
    staged
        .set(.., &ArrayD::from_shape_fn(vec![128, 128], |at| (at[0] * 128 + at[1]) as f64))
        .unwrap();
    store.commit(&mut staged, "256 chunks").unwrap();
    let mut most = 0;
    for n in 0..40 {
        let before = bytes_in(&storage, "meta");
        staged.set_scalar((n * 3, n), -1.0).unwrap();
        store.commit(&mut staged, "one point").unwrap();
        most = most.max(bytes_in(&storage, "meta") - before);
    }
    // versioned-hdf5 writes 39.8 kB there.
    assert!(most < 3_980, "{most}");
    let segments = storage.list(&root().join("meta/manifest")).unwrap().len();
    assert!(segments <= 41, "{segments}");
}

#[test]
fn a_thousand_versions_have_few_segments_each() {
    let storage = MemoryStorage::new();
    let create = options(&storage).chunk_shape([4]);
    let mut store = create.create(root(), DType::of::<u32>(), &[0]).unwrap();
    for n in 0..500_u32 {
        store.append(&(&ArrayD::from_elem(vec![4], n + 1)).into(), "four more").unwrap();
    }
    let text = storage.get(root().join("meta/versions/__501__")).unwrap();
    let line = text.split(|byte| *byte == b'\n').next().unwrap();
    let version: serde_json::Value = serde_json::from_slice(line).unwrap();
    let segments = version["columns"][0]["segments"].as_array().unwrap().len();
    assert!(segments <= 9, "{segments}");
    let array = open(&storage);
    assert_eq!(array.len(), 2000);
    assert_eq!(array.get::<u32>(1999).unwrap().into_iter().next(), Some(500));
    assert_eq!(array.at(At::Version(11)).unwrap().len(), 40);
}

#[test]
fn versions_are_found_by_number_distance_and_time() {
    let storage = MemoryStorage::new();
    sample(&storage);
    let array = open(&storage);
    let infos = array.versions().unwrap();
    let told: Vec<_> = infos.iter().map(|v| (v.number, v.parent, &*v.message)).collect();
    assert_eq!(told, [(1, 0, "created"), (2, 1, "all of it"), (3, 2, "a line")]);
    assert!(infos.is_sorted_by_key(|info| info.time.clone()));
    assert_eq!(infos[0].chunks, 0);
    let number = |at| array.at(at).map(|array| array.version());
    assert_eq!(number(At::Newest).unwrap(), 3);
    assert_eq!(number(At::Back(0)).unwrap(), 3);
    assert_eq!(number(At::Back(2)).unwrap(), 1);
    assert_eq!(number(At::Back(3)).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(number(At::Version(2)).unwrap(), 2);
    assert_eq!(number(At::Version(4)).unwrap_err().kind(), ErrorKind::NotFound);
    let now = SystemTime::now();
    assert_eq!(number(At::Time(now)).unwrap(), 3);
    let long_ago = At::Time(now - Duration::from_secs(3600));
    assert_eq!(number(long_ago).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(array.attrs()["unit"], "m");
    assert!(array.at(At::Version(1)).unwrap().attrs().is_empty());
}

#[test]
fn changes_to_what_is_no_longer_the_newest_are_refused() {
    let storage = MemoryStorage::new();
    let mut store = sample(&storage);
    let mut first = store.stage().unwrap();
    let mut second = store.stage().unwrap();
    first.set_scalar((0, 0), 1).unwrap();
    second.set_scalar((0, 0), 2).unwrap();
    store.commit(&mut first, "first").unwrap();
    let error = store.commit(&mut second, "second").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Replaced);
    assert!(error.message().contains("changed since you opened it"), "{error}");
    assert_eq!(second.get::<i32>((0, 0)).unwrap().into_iter().next(), Some(2));
    assert_eq!(open(&storage).version(), 4);
    // What was committed can be changed on.
    first.set_scalar((0, 0), 3).unwrap();
    store.commit(&mut first, "third").unwrap();
    assert_eq!(open(&storage).get::<i32>((0, 0)).unwrap().into_iter().next(), Some(3));
}

#[test]
fn changes_to_a_version_that_was_removed_are_refused() {
    let storage = MemoryStorage::new();
    let mut store = sample(&storage);
    let mut staged = store.stage_at(At::Version(2)).unwrap();
    staged.set_scalar((0, 0), 1).unwrap();
    store.gc(&Keep::Newest(1)).unwrap();
    let error = store.commit(&mut staged, "too late").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Replaced);
    assert!(error.message().ends_with("version 2, which was removed since"), "{error}");
    assert_eq!(open(&storage).verify().unwrap().problems, []);
}

#[test]
fn differences_are_told_by_chunk() {
    let storage = MemoryStorage::new();
    let mut store = sample(&storage);
    let second = store.array().at(At::Version(2)).unwrap();
    let third = store.array().clone();
    let told = |a: &kiste::array::ChunkedArray, b: &kiste::array::ChunkedArray| -> Vec<_> {
        let diffs = a.diff(b).unwrap();
        assert_eq!(diffs.len(), b.diff(a).unwrap().len());
        diffs.into_iter().map(|diff| (diff.coordinates, diff.region)).collect()
    };
    assert_eq!(told(&third, &third), []);
    let line = [
        (vec![0, 0], vec![0..4, 0..3]),
        (vec![1, 0], vec![4..8, 0..3]),
        (vec![2, 0], vec![8..10, 0..3]),
    ];
    assert_eq!(told(&second, &third), line);
    // Another numbering, and chunks that only one of them has.
    store.resize(&[4, 50], "wide").unwrap();
    let wide = told(&third, store.array());
    let expected: Vec<Vec<u64>> =
        vec![vec![1, 0], vec![1, 1], vec![1, 2], vec![2, 0], vec![2, 1], vec![2, 2]];
    assert_eq!(wide.into_iter().map(|(at, _)| at).collect::<Vec<_>>(), expected);
}

#[test]
fn equal_chunks_are_stored_once_and_fill_not_at_all() {
    let storage = MemoryStorage::new();
    let create = options(&storage).chunk_shape([100]).codec(kiste::format::blosc::Codec::Zlib);
    let mut store = create.create(root(), DType::of::<u64>(), &[1000]).unwrap();
    let mut staged = store.stage().unwrap();
    let pattern = ArrayD::from_shape_fn(vec![1000], |at| (at[0] % 100) as u64 * 12345);
    staged.set(.., &pattern).unwrap();
    store.commit(&mut staged, "ten times the same").unwrap();
    assert_eq!(store.array().info().columns[0].1, 10);
    let once = bytes_in(&storage, "data");
    staged.set_scalar(.., 0_u64).unwrap();
    store.commit(&mut staged, "fill").unwrap();
    assert_eq!(store.array().info().columns[0], (String::new(), 0, 0));
    staged.set(.., &pattern).unwrap();
    store.commit(&mut staged, "again").unwrap();
    assert!(once < 1500, "{once}");
    // The chunk was not written again: not for the other places, not for the later version.
    assert!(bytes_in(&storage, "data") <= 2 * once);
    assert_eq!(open(&storage).get::<u64>(..).unwrap(), pattern);
}

#[test]
fn numbers_of_removed_files_are_not_given_again() {
    let storage = MemoryStorage::new();
    let mut store = sample(&storage);
    let newest = |storage: &MemoryStorage| {
        let files = storage.list(&root().join("data")).unwrap();
        let name = |path: &std::path::PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            name.trim_matches('_').trim_end_matches("__.bin").parse::<u32>().unwrap()
        };
        files.iter().map(name).max().unwrap()
    };
    let mut staged = store.stage().unwrap();
    staged.set_scalar(.., 123).unwrap();
    store.commit(&mut staged, "to be undone").unwrap();
    let used = newest(&storage);
    let mut back = store.stage_at(At::Version(1)).unwrap();
    store.commit(&mut back, "empty again").unwrap();
    store.gc(&Keep::Newest(1)).unwrap();
    assert_eq!(storage.list(&root().join("data")).unwrap(), [] as [std::path::PathBuf; 0]);
    drop(store);
    let mut store = open_store(&storage);
    let mut staged = store.stage().unwrap();
    staged.set_scalar(.., 5).unwrap();
    store.commit(&mut staged, "new").unwrap();
    assert!(newest(&storage) > used);
}

#[test]
fn garbage_is_what_no_kept_version_needs() {
    let storage = MemoryStorage::new();
    let mut store = sample(&storage);
    let all = snapshot(&storage);
    let nothing = store.gc(&Keep::All).unwrap();
    assert_eq!((nothing.files, &*nothing.versions), (0, &[][..]));
    assert_eq!(snapshot(&storage), all);
    let kept = store.array().at(At::Version(2)).unwrap().get::<i32>(..).unwrap();
    let first = store.array().at(At::Version(1)).unwrap();
    let removed = store.gc(&Keep::Versions(vec![2])).unwrap();
    assert_eq!(removed.versions, [1]); // the newest stays
    assert_eq!(store.array().at(At::Version(2)).unwrap().get::<i32>(..).unwrap(), kept);
    // What is open of a removed version needs no file here.
    assert!(first.get::<i32>(..).unwrap().iter().all(|n| *n == -1));
    let removed = store.gc(&Keep::Since(SystemTime::now())).unwrap();
    assert_eq!(removed.versions, [2]);
    assert_eq!(store.versions().unwrap().len(), 1);
    assert_eq!(store.array().verify().unwrap().problems, []);
}

#[test]
fn a_removed_version_that_is_still_open_says_so() {
    let storage = MemoryStorage::new();
    let mut store = sample(&storage);
    let second = options(&storage).open_at(root(), At::Version(2)).unwrap();
    let mut staged = store.stage().unwrap();
    staged.set_scalar(.., 0).unwrap();
    store.commit(&mut staged, "all else").unwrap();
    store.gc(&Keep::Newest(1)).unwrap();
    let error = second.get::<i32>(..).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Replaced, "{error:?}");
    assert!(error.message().contains("version 2 was removed"), "{error}");
}

#[test]
fn copies_for_people_are_those_of_the_newest_version() {
    let storage = MemoryStorage::new();
    let store = sample(&storage);
    let json = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&storage.get(root().join("meta").join(name)).unwrap()).unwrap()
    };
    let shown = store.array().info().to_string();
    // They are written when the writer is done.
    drop(store);
    assert_eq!(json("sizes")["shape"], serde_json::json!([10, 7]));
    assert_eq!(json("sizes")["nbytes"], 280);
    assert_eq!(json("storage")["dtype"], DType::of::<i32>().to_string());
    assert_eq!(json("storage")["dflt"], -1);
    assert_eq!(json("attributes"), serde_json::json!({ "unit": "m" }));
    assert!(shown.contains("shape      [10, 7]\n"), "{shown}");
    assert!(shown.contains("attribute  unit = \"m\"\n"), "{shown}");
    // A writer that died before it wrote them leaves older ones; the next renews them.
    storage.put(root().join("meta/sizes"), "{}\n");
    assert_eq!(open(&storage).verify().unwrap().problems.len(), 1);
    open_store(&storage);
    assert_eq!(json("sizes")["nbytes"], 280);
}

#[test]
fn attributes_alone_make_a_version() {
    let storage = MemoryStorage::new();
    let mut store = sample(&storage);
    let attributes = serde_json::from_str(r#"{"a":{"b":[1,null,"ü"]}}"#).unwrap();
    let info = store.set_attributes(attributes, "only attributes").unwrap();
    assert_eq!((info.number, info.parent), (4, 3));
    assert_eq!(open(&storage).attrs()["a"]["b"][2], "ü");
    assert_eq!(open(&storage).diff(&open(&storage).at(At::Back(1)).unwrap()).unwrap(), []);
}

#[test]
fn what_cannot_be_created_leaves_nothing() {
    let storage = MemoryStorage::new();
    let dtype = DType::of::<i32>;
    let refused = |options: ArrayOptions, dtype: DType, shape: &[usize]| {
        let kind = options.create(root(), dtype, shape).unwrap_err().kind();
        assert_eq!(storage.names(), [] as [std::path::PathBuf; 0]);
        kind
    };
    let new = || options(&storage);
    assert_eq!(refused(new().chunk_shape([1]), dtype(), &[1, 1]), ErrorKind::Invalid);
    assert_eq!(refused(new().chunk_shape([0]), dtype(), &[1]), ErrorKind::Invalid);
    assert_eq!(refused(new().fill(1.0), dtype(), &[1]), ErrorKind::Invalid);
    assert_eq!(refused(new().room(8), dtype(), &[1]), ErrorKind::Invalid);
    assert_eq!(refused(new().superchunk(0), dtype(), &[1]), ErrorKind::Invalid);
    assert_eq!(refused(new().level(10), dtype(), &[1]), ErrorKind::Invalid);
    assert_eq!(refused(new(), dtype(), &[1; 33]), ErrorKind::Limit);
    assert_eq!(refused(new(), DType::object(), &[1]), ErrorKind::Unsupported);
    sample(&storage);
    let again = new().create(root(), dtype(), &[1]).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    let absent = new().open("elsewhere").unwrap_err();
    assert_eq!(absent.kind(), ErrorKind::NotFound);
    assert_eq!(new().open_store("elsewhere").unwrap_err().kind(), ErrorKind::NotFound);
}
