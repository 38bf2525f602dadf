//! What is in the files: other programs read them, and we read no more of them than is needed.

use kiste::ErrorKind;
use kiste::array::{ArrayOptions, ChunkedArray};
use kiste::format::blosc::{Codec, Scratch};
use kiste::format::bloscpack::{Checksum, Container};
use kiste::storage::{LocalStorage, MemoryStorage, Storage};
use kiste::value::{DType, NdArray};
use ndarray::ArrayD;
use std::sync::Arc;

use super::{open, options, root, sample};

fn numbers(len: usize) -> ArrayD<f64> {
    ArrayD::from_shape_fn(vec![len], |at| at[0] as f64 * 0.5)
}

#[test]
fn names_are_those_of_the_proposal() {
    let storage = MemoryStorage::new();
    drop(sample(&storage));
    let names: Vec<String> = storage
        .names()
        .into_iter()
        .filter_map(|path| Some(path.strip_prefix(root()).ok()?.to_str()?.to_owned()))
        .filter(|name| !name.is_empty())
        .collect();
    let expected = [
        "data",
        "data/__1__.bin",
        "data/__2__.bin",
        "data/__3__.bin",
        "data/__4__.bin",
        "data/__5__.bin",
        "data/__6__.bin",
        "data/__7__.bin",
        "meta",
        "meta/attributes",
        "meta/lock",
        "meta/manifest",
        "meta/manifest/__1__",
        "meta/manifest/__2__",
        "meta/sizes",
        "meta/storage",
        "meta/versions",
        "meta/versions/__1__",
        "meta/versions/__2__",
        "meta/versions/__3__",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_superchunk_is_a_bloscpack_container() {
    let storage = MemoryStorage::new();
    let create = options(&storage).chunk_shape([100]).checksum(Checksum::Adler32);
    let mut store = create.create(root(), DType::of::<f64>(), &[300]).unwrap();
    let mut staged = store.stage().unwrap();
    staged.set(.., &numbers(300)).unwrap();
    store.commit(&mut staged, "three chunks").unwrap();
    let file = storage.get(root().join("data/__1__.bin")).unwrap();
    let container = Container::parse(&file).unwrap();
    assert_eq!(container.nchunks().unwrap(), 3);
    let expected: Vec<u8> = numbers(300).iter().flat_map(|n| n.to_ne_bytes()).collect();
    assert_eq!(container.to_vec().unwrap(), expected);
    assert_eq!(container.chunk(2).unwrap().to_vec().unwrap(), expected[1600..]);
    let about = container.metadata().unwrap().value().unwrap();
    assert_eq!(about["container"], "kiste-superchunk");
    assert_eq!(about["chunks"], serde_json::json!([0, 1, 2]));
    assert_eq!(about["chunkshape"], serde_json::json!([100]));
    assert_eq!(container.data_start() % 64, 0);
    let mut whole = vec![0; 800];
    container.chunk(1).unwrap().read_into(&mut whole, &mut Scratch::default()).unwrap();
    assert_eq!(whole, expected[800..1600]);
}

#[test]
fn with_room_chunks_are_written_over_and_bloscpack_refuses_the_file() {
    let storage = MemoryStorage::new();
    let create = options(&storage).chunk_shape([100]).versioned(false).room(200).codec(Codec::Zlib);
    let mut store = create.create(root(), DType::of::<f64>(), &[300]).unwrap();
    let mut staged = store.stage().unwrap();
    staged.set(.., &numbers(300)).unwrap();
    store.commit(&mut staged, "three chunks").unwrap();
    let path = root().join("data/__1__.bin");
    let file = storage.get(&path).unwrap();
    assert_eq!(file[4], 0x83);
    assert!(Container::parse(&file).is_err());
    let mut expected = numbers(300);
    for n in 0..20 {
        staged.set_scalar(100 + n, -7.25).unwrap();
        expected[100 + n] = -7.25;
        store.commit(&mut staged, "in its slot").unwrap();
        assert_eq!(open(&storage).get::<f64>(..).unwrap(), expected);
        assert_eq!(open(&storage).verify().unwrap().problems, []);
    }
    assert_eq!(storage.list(&root().join("data")).unwrap(), [&*path]);
    assert_eq!(storage.get(&path).unwrap().len(), file.len());
    assert_eq!(store.versions().unwrap().len(), 1);
    // What does not fit its slot goes elsewhere.
    let noise = ArrayD::from_shape_fn(vec![100], |at| (at[0] as f64).sin());
    staged.set(100..200, &noise).unwrap();
    store.commit(&mut staged, "noise").unwrap();
    assert_eq!(storage.list(&root().join("data")).unwrap().len(), 2);
    assert_eq!(open(&storage).get::<f64>(100..200).unwrap(), noise);
}

/// Nobody may read meanwhile; who did so before does not get the new content for the old.
#[test]
fn a_chunk_that_was_read_and_then_written_over_is_noticed() {
    for level in [0, 5] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("array");
        let create = ArrayOptions::default().chunk_shape([100]).level(level).superchunk(4);
        let create = create.versioned(false).room(200);
        let mut store = create.create(&path, DType::of::<f64>(), &[200]).unwrap();
        store.put(.., &NdArray::from_ndarray(&numbers(200)), "two chunks").unwrap();
        let reader = ChunkedArray::open(&path).unwrap();
        assert_eq!(reader.get::<f64>(..).unwrap(), numbers(200));
        assert_eq!(reader.get::<f64>(3).unwrap().sum(), numbers(200)[3]);
        assert!(reader.chunk_view(&[0]).unwrap().is_none());
        store.put(..100, &NdArray::scalar(-7.25_f64), "in its slot").unwrap();
        assert_eq!(std::fs::read_dir(path.join("data")).unwrap().count(), 1);
        for rows in [0..100, 3..4] {
            let error = reader.get::<f64>(rows).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged, "level {level}: {error}");
        }
        assert_eq!(
            reader.get::<f64>(100..).unwrap(),
            numbers(200).slice(ndarray::s![100..]).into_dyn()
        );
        assert!(store.array().get::<f64>(..100).unwrap().iter().all(|n| *n == -7.25));
    }
}

#[test]
fn chunks_that_are_not_compressed_are_used_where_they_lie() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("array");
    let create = ArrayOptions::default().chunk_shape([100]).level(0);
    let mut store = create.create(&path, DType::of::<f64>(), &[450]).unwrap();
    let mut staged = store.stage().unwrap();
    staged.set(..400, &numbers(400)).unwrap();
    store.commit(&mut staged, "four chunks").unwrap();
    let array = ChunkedArray::open(&path).unwrap();
    for chunk in 0..4 {
        let view = array.chunk_view(&[chunk]).unwrap().expect("mapped and plain");
        let expected = array.get::<f64>(chunk * 100..chunk * 100 + 100).unwrap();
        assert_eq!(view.array().unwrap().view::<f64>().unwrap(), expected);
    }
    assert!(array.chunk_view(&[4]).unwrap().is_none()); // all fill
    assert!(array.chunk_view(&[5]).is_err());
    let positioned = ArrayOptions::default().storage(Arc::new(LocalStorage::positioned()));
    let array = positioned.open(&path).unwrap();
    assert!(array.chunk_view(&[0]).unwrap().is_none());
    assert_eq!(array.get::<f64>(..400).unwrap(), numbers(400));
}

#[test]
fn a_point_reads_one_chunk_once() {
    let storage = MemoryStorage::new();
    let create = options(&storage).chunk_shape([1000]).superchunk(16);
    let mut store = create.create(root(), DType::of::<f64>(), &[100_000]).unwrap();
    let mut staged = store.stage().unwrap();
    staged.set(.., &numbers(100_000)).unwrap();
    store.commit(&mut staged, "a hundred chunks").unwrap();
    storage.clear_reads();
    let array = open(&storage);
    let reads = storage.reads();
    assert!(reads.iter().all(|read| read.path.starts_with(root().join("meta/versions"))));
    storage.clear_reads();
    assert_eq!(array.get::<f64>(50_500).unwrap().first(), Some(&25_250.0));
    let reads = storage.reads();
    let data: Vec<_> =
        reads.iter().filter(|read| read.path.starts_with(root().join("data"))).collect();
    // The head of the superchunk in two parts, and the slot.
    assert_eq!(data.len(), 3, "{data:?}");
    assert!(data.iter().all(|read| read.path.ends_with("__4__.bin")));
    storage.clear_reads();
    let near: Vec<usize> = (50_000..50_900).step_by(7).rev().collect();
    array.get::<f64>(near).unwrap();
    assert_eq!(storage.reads().len(), 1);
    storage.clear_reads();
    array.get::<f64>(..).unwrap();
    let slots = storage.reads().iter().filter(|read| read.range.start > 0).count();
    assert_eq!(slots, 100);
}

#[test]
fn threads_make_no_difference() {
    let dir = tempfile::tempdir().unwrap();
    let expected =
        ArrayD::from_shape_fn(vec![200, 300], |at| ((at[0] * 300 + at[1]) % 1013) as i64);
    let mut files = Vec::new();
    for threads in [1, 4] {
        let path = dir.path().join(threads.to_string());
        let options = ArrayOptions::default().chunk_shape([64, 64]).threads(threads);
        let mut store = options.create(&path, DType::of::<i64>(), &[0, 300]).unwrap();
        store.append(&(&expected).into(), "all").unwrap();
        assert_eq!(options.open(&path).unwrap().get::<i64>(..).unwrap(), expected);
        let file = path.join("data/__1__.bin");
        let source = LocalStorage::positioned().open(&file).unwrap();
        files.push(source.read(0..source.len()).unwrap().into_owned());
    }
    assert_eq!(files[0], files[1]);
}
