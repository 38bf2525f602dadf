//! What operations read and write, counted in files and bytes: the changed chunks, however many there are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiste::ErrorKind;
use kiste::array::{ArrayOptions, ArrayStore, At, ChunkedArray};
use kiste::format::chunked::segment;
use kiste::storage::{LocalStorage, MemoryStorage};
use kiste::value::DType;
use ndarray::{Array1, Array2};

use super::{open_store, options, root};
use crate::support::snapshot;

/// What happened to the files of an array since the last call.
#[derive(Debug, PartialEq, Eq)]
struct Cost {
    /// Bytes that were read, by file.
    read: BTreeMap<PathBuf, u64>,
    /// Bytes of the new files of chunks and tables.
    written: BTreeMap<PathBuf, u64>,
    /// Creations, writes, syncs and names that changed.
    operations: u64,
}

/// Counts from here on.
struct Meter<'a> {
    storage: &'a MemoryStorage,
    before: BTreeMap<PathBuf, Option<Vec<u8>>>,
    operations: u64,
}

impl Meter<'_> {
    fn new(storage: &MemoryStorage) -> Meter<'_> {
        storage.clear_reads();
        let before = snapshot(storage).into_iter().collect();
        Meter { storage, before, operations: storage.operations() }
    }

    fn cost(&self) -> Cost {
        let mut read = BTreeMap::new();
        // Of a version the size depends on how many digits its numbers have.
        let versions = root().join("meta/versions");
        for one in self.storage.reads().into_iter().filter(|one| !one.path.starts_with(&versions)) {
            *read.entry(one.path).or_insert(0) += one.range.end - one.range.start;
        }
        let now = snapshot(self.storage).into_iter();
        let is_new = |(path, bytes): &(PathBuf, Option<Vec<u8>>)| {
            self.before.get(path) != Some(bytes) && !path.starts_with(root().join("meta/versions"))
        };
        let written =
            now.filter(is_new).map(|(path, bytes)| (path, bytes.map_or(0, |b| b.len() as u64)));
        let operations = self.storage.operations() - self.operations;
        Cost { read, written: written.collect(), operations }
    }
}

/// An array of this many different chunks of 400 bytes, opened for writing.
fn store(storage: &MemoryStorage, chunks: u32) -> ArrayStore {
    let create = options(storage).chunk_shape([100]).superchunk(4);
    let mut store = create.create(root(), DType::of::<u32>(), &[0]).unwrap();
    let numbers = Array1::from_iter(1..=chunks * 100);
    store.append(&(&numbers).into(), "all").unwrap();
    drop(store);
    open_store(storage)
}

#[test]
fn staging_and_committing_cost_the_changed_chunks() {
    let costs = |chunks: u32| {
        let storage = MemoryStorage::new();
        let mut store = store(&storage, chunks);
        let rounds = (0..4_u32).map(|round| {
            let meter = Meter::new(&storage);
            let mut staged = store.stage().unwrap();
            let tables = root().join("meta/manifest");
            assert!(meter.cost().read.keys().all(|path| path.starts_with(&tables)), "no chunk");
            // The end of one chunk and the beginning of the next.
            staged.set_scalar(350..450, round).unwrap();
            store.commit(&mut staged, "two chunks").unwrap();
            meter.cost()
        });
        rounds.collect::<Vec<Cost>>()
    };
    let (few, many) = (costs(16), costs(1000));
    // The first commit verifies the table. Nothing reads it again, and none is written again.
    let table = root().join("meta/manifest/__1__");
    let mut first = many.first().unwrap().read.clone();
    *first.get_mut(&table).unwrap() -= (1000 - 16) * segment::ENTRY as u64;
    assert_eq!(first, few[0].read);
    assert_eq!(many[0].written, few[0].written.iter().map(later).collect());
    for (round, (many, few)) in many.iter().zip(&few).enumerate().skip(1) {
        let later_read: BTreeMap<_, _> = few.read.iter().map(later).collect();
        assert_eq!(many.read, later_read, "{round}");
        assert_eq!(many.written, few.written.iter().map(later).collect(), "{round}");
        assert_eq!(many.operations, few.operations);
        let bytes: u64 = many.written.values().chain(many.read.values()).sum();
        assert!(bytes < 4000, "{round}: {many:?}");
    }
}

/// With 1000 chunks there are 246 superchunks more than with 16 before those of the commits.
fn later((path, len): (&PathBuf, &u64)) -> (PathBuf, u64) {
    let number = path
        .file_name()
        .and_then(|name| name.to_str()?.strip_prefix("__")?.strip_suffix("__.bin")?.parse().ok());
    match number {
        Some(number @ 5_u32..) => (path.with_file_name(format!("__{}__.bin", number + 246)), *len),
        _ => (path.clone(), *len),
    }
}

#[test]
fn a_version_without_new_chunks_is_one_file() {
    let storage = MemoryStorage::new();
    let mut store = store(&storage, 1000);
    for shape in [200_000, 300_000] {
        let meter = Meter::new(&storage);
        store.resize(&[shape], "longer").unwrap();
        let cost = meter.cost();
        assert_eq!((&cost.read, &cost.written), (&BTreeMap::new(), &BTreeMap::new()));
        // Create, write, sync, rename, sync the directory.
        assert_eq!(cost.operations, 5);
    }
    let meter = Meter::new(&storage);
    let attributes = serde_json::json!({"a": 1}).as_object().unwrap().clone();
    store.set_attributes(attributes, "more to say").unwrap();
    assert_eq!((meter.cost().read.len(), meter.cost().operations), (0, 5));
    // What is for people and tools is written once, at the end.
    let meter = Meter::new(&storage);
    drop(store);
    let names: Vec<PathBuf> = meter.cost().written.into_keys().collect();
    assert_eq!(names, [root().join("meta/attributes"), root().join("meta/sizes")]);
    let sizes = storage.get(root().join("meta/sizes")).unwrap();
    assert!(String::from_utf8(sizes).unwrap().contains("300000"));
    let report = options(&storage).open(root()).unwrap().verify().unwrap();
    assert_eq!((report.problems, report.stale), (vec![], vec![]));
}

/// Rows of 2 KiB in chunks of 1 MiB, which are compressed in blocks.
fn rows(storage: &MemoryStorage) -> (Array2<f32>, PathBuf) {
    let content = Array2::from_shape_fn((512, 512), |(i, j)| (i * 3 + j % 19) as f32 / 8.0);
    let create = options(storage).chunk_shape([512, 512]);
    create
        .create_from(
            root(),
            &kiste::value::NdArray::from_ndarray(&content),
            serde_json::Map::new(),
            "rows",
        )
        .unwrap();
    (content, root().join("data/__1__.bin"))
}

fn damage(storage: &MemoryStorage, file: &Path, at: usize) {
    let mut bytes = storage.get(file).unwrap();
    bytes[at] ^= 1;
    storage.put(file, bytes);
}

/// A row is verified by the checksums of the blocks that it is in. The rest of a chunk may be damaged.
#[test]
fn the_blocks_that_are_read_are_verified() {
    let storage = MemoryStorage::new();
    let (content, file) = rows(&storage);
    let len = storage.get(&file).unwrap().len();
    let whole = |array: &ChunkedArray| array.get::<f32>(..).map(drop);
    let mut found = (0, 0);
    for at in (600..len).step_by(len / 50) {
        damage(&storage, &file, at);
        for cache in [0, 32 << 20] {
            let array = options(&storage).cache(cache).open(root()).unwrap();
            for (row, expected) in content.outer_iter().enumerate().step_by(5) {
                match array.get::<f32>(row) {
                    Ok(row) => {
                        assert_eq!(row, expected.into_dyn());
                        found.0 += 1;
                    }
                    Err(e) => {
                        assert_eq!((e.kind(), e.path()), (ErrorKind::Damaged, Some(&*file)));
                        found.1 += 1;
                    }
                }
            }
            assert_eq!(whole(&array).unwrap_err().kind(), ErrorKind::Damaged);
            assert_ne!(array.verify().unwrap().problems, []);
        }
        damage(&storage, &file, at);
    }
    assert!(found.0 > found.1 && found.1 > 0, "{found:?}");
    whole(&options(&storage).open(root()).unwrap()).unwrap();
}

/// Of a changed row only its block is compressed; the others are copied, compressed as they are, unless their
/// chunk was damaged after it was read.
#[test]
fn a_changed_row_copies_other_blocks_where_they_are_intact() {
    let dir = tempfile::tempdir().unwrap();
    let (path, file) = (dir.path().join("array"), dir.path().join("array/data/__1__.bin"));
    let mut content = Array2::from_shape_fn((512, 512), |(i, j)| (i * 3 + j % 19) as f32 / 8.0);
    let options = ArrayOptions::default()
        .storage(Arc::new(LocalStorage::positioned()))
        .chunk_shape([512, 512])
        .durable(false);
    let mut store = options.create(&path, DType::of::<f32>(), &[0, 512]).unwrap();
    store.append(&(&content).into(), "all").unwrap();
    let whole = std::fs::read(&file).unwrap();
    for at in (600..whole.len()).step_by(whole.len() / 20) {
        let mut staged = store.stage_at(At::Version(2)).unwrap();
        staged.set_scalar(300, at as f32).unwrap();
        content.row_mut(300).fill(at as f32);
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        std::fs::write(&file, damaged).unwrap();
        store.commit(&mut staged, "a row").unwrap();
        assert_eq!(store.array().get::<f32>(..).unwrap(), content.clone().into_dyn(), "{at}");
        std::fs::write(&file, &whole).unwrap();
        // As intact as it was, it is of use.
        let mut staged = store.stage_at(At::Version(2)).unwrap();
        staged.set_scalar(300, at as f32 + 0.5).unwrap();
        content.row_mut(300).fill(at as f32 + 0.5);
        store.commit(&mut staged, "a row").unwrap();
        assert_eq!(store.array().get::<f32>(..).unwrap(), content.clone().into_dyn(), "{at}");
    }
    assert_eq!(store.array().verify().unwrap().problems, []);
}

/// Where only the newest version is kept, a new shape is one new file, and one that goes.
#[test]
fn a_new_shape_of_an_unversioned_array_costs_no_chunk_and_no_table() {
    let storage = MemoryStorage::new();
    let create = options(&storage).chunk_shape([100]).superchunk(4).versioned(false);
    let mut store = create.create(root(), DType::of::<u32>(), &[0]).unwrap();
    store.append(&(&Array1::from_iter(1..=100_000_u32)).into(), "all").unwrap();
    let (sizes, attributes) = (root().join("meta/sizes"), root().join("meta/attributes"));
    for shape in [200_000, 300_000] {
        let meter = Meter::new(&storage);
        store.resize(&[shape], "longer").unwrap();
        let cost = meter.cost();
        assert_eq!((&cost.read, &cost.written), (&BTreeMap::new(), &BTreeMap::new()));
        // Create, write, sync, rename, sync the directory; remove, sync it again. Before that, the first one
        // removes what was said of the sizes until then, and syncs that.
        assert_eq!(cost.operations, if shape == 200_000 { 9 } else { 7 });
        assert_eq!(store.versions().unwrap().len(), 1);
        assert_eq!(store.array().verify().unwrap().problems, []);
        assert_eq!((storage.get(&sizes), storage.get(&attributes).is_some()), (None, true));
    }
    drop(store);
    assert!(String::from_utf8(storage.get(&sizes).unwrap()).unwrap().contains("300000"));
    let report = options(&storage).open(root()).unwrap().verify().unwrap();
    assert_eq!((report.problems, report.stale), (vec![], vec![]));
}
