//! Compaction: what versions need moves to other files, and nobody who reads notices.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use kiste::array::{ArrayOptions, ArrayStore, At, ChunkedArray, Keep};
use kiste::storage::{MemoryStorage, Storage};
use kiste::value::DType;
use ndarray::{ArrayD, IxDyn};

use super::{open, open_store, options, root};
use crate::support::{Random, restore, snapshot};

/// The bytes and the number of the files in a directory of the array.
fn size(storage: &MemoryStorage, dir: &str) -> (usize, usize) {
    let files: Vec<PathBuf> = storage.list(&root().join(dir)).unwrap();
    let bytes = files.iter().filter_map(|file| storage.get(file)).map(|bytes| bytes.len()).sum();
    (bytes, files.len())
}

fn noise(seed: u64, len: usize) -> ArrayD<u64> {
    let mut random = Random(seed);
    ArrayD::from_shape_fn(IxDyn(&[len]), |_| random.next())
}

/// Versions 1 to 9: sixteen chunks in two files, all but two of them replaced in the next version, and
/// six commits of one chunk each.
fn used(storage: &MemoryStorage, level: u8) -> ArrayStore {
    let create = options(storage).chunk_shape([32]).superchunk(8).level(level);
    let mut store = create.create(root(), DType::of::<u64>(), &[512]).unwrap();
    let mut staged = store.stage().unwrap();
    staged.set(.., &noise(1, 512)).unwrap();
    store.commit(&mut staged, "all of it").unwrap();
    staged.set(64..512, &noise(2, 448)).unwrap();
    store.commit(&mut staged, "nearly all of it").unwrap();
    for n in 0..6 {
        staged.set_scalar(40 * n + 83, n as u64).unwrap();
        store.commit(&mut staged, "one chunk").unwrap();
    }
    store
}

fn all_versions(storage: &MemoryStorage) -> Vec<(u64, String, ArrayD<u64>)> {
    let newest = open(storage);
    let read = |info: kiste::array::VersionInfo| {
        let array = newest.at(At::Version(info.number)).unwrap();
        (info.number, format!("{info:?}"), array.get(..).unwrap())
    };
    newest.versions().unwrap().into_iter().map(read).collect()
}

#[test]
fn files_become_fewer_and_smaller_and_versions_stay_what_they_are() {
    for level in [0, 5] {
        let storage = MemoryStorage::new();
        let mut store = used(&storage, level);
        let before = size(&storage, "data");
        let kept = all_versions(&storage).split_off(4);
        let removed = store.gc(&Keep::Newest(5)).unwrap();
        assert_eq!(removed.versions, [1, 2, 3, 4]);
        assert!(removed.moved == 8 && removed.bytes > removed.written, "{removed:?}");
        let after = size(&storage, "data");
        assert!(after.0 * 100 < before.0 * 75 && after.1 < before.1 / 2, "{before:?}, {after:?}");
        assert_eq!(all_versions(&storage), kept);
        let report = store.array().verify().unwrap();
        assert_eq!((report.problems, report.unused), (vec![], vec![]));
        // Once more there is nothing to do, and what is written next goes on from there.
        let files = snapshot(&storage);
        assert_eq!(store.gc(&Keep::All).unwrap().moved, 0);
        assert_eq!(snapshot(&storage), files);
        let mut staged = store.stage().unwrap();
        staged.set_scalar(0, 9_u64).unwrap();
        store.commit(&mut staged, "after it").unwrap();
        assert_eq!(all_versions(&storage)[..5], kept);
        assert_eq!(open(&storage).get::<u64>(0).unwrap().into_iter().next(), Some(9));
    }
}

#[test]
fn without_it_chunks_stay_where_they_are() {
    let storage = MemoryStorage::new();
    drop(used(&storage, 5));
    let mut store = options(&storage).compact(false).open_store(root()).unwrap();
    let removed = store.gc(&Keep::Newest(1)).unwrap();
    assert_eq!((removed.moved, removed.written), (0, 0));
    let mut store = {
        drop(store);
        open_store(&storage)
    };
    assert!(store.gc(&Keep::All).unwrap().moved > 0);
}

#[test]
fn many_small_commits_do_not_stay_many_files() {
    let storage = MemoryStorage::new();
    let create = options(&storage).chunk_shape([32]).superchunk(64);
    let mut store = create.create(root(), DType::of::<u64>(), &[0]).unwrap();
    let mut written = 0;
    for n in 0..60 {
        store.append(&(&noise(n, 32)).into(), "a chunk").unwrap();
        written += store.gc(&Keep::All).unwrap().moved;
    }
    assert!(size(&storage, "data").1 <= 12, "{:?}", size(&storage, "data"));
    assert!(written < 60 * 6, "{written} chunks were moved");
    let versions = all_versions(&storage);
    assert_eq!(versions.len(), 61);
    for (number, _, array) in versions {
        for (n, chunk) in array.exact_chunks(IxDyn(&[32])).into_iter().enumerate() {
            assert_eq!(chunk, noise(n as u64, 32), "chunk {n} of version {number}");
        }
    }
}

/// Every operation of it fails once, the process dies, or the power: all that was kept reads the same.
#[test]
fn a_crash_at_any_operation_costs_nothing() {
    let storage = MemoryStorage::new();
    drop(used(&storage, 5));
    let files = snapshot(&storage);
    let old = all_versions(&storage);
    let kept = &old[4..];
    let first = storage.operations();
    open_store(&storage).gc(&Keep::Newest(5)).unwrap();
    let operations = storage.operations() - first;
    let small = size(&storage, "data");
    assert!(operations > 20, "{operations}");
    for operation in 0..operations {
        for kind in 0..5 {
            let what = format!("crash of kind {kind} at {operation} of {operations}");
            let storage = restore(&files);
            let reader = options(&storage).open_at(root(), At::Version(5)).unwrap();
            storage.fail_after(operation);
            let done = options(&storage).open_store(root()).and_then(|mut store| {
                let done = store.gc(&Keep::Newest(5));
                // Also the writer, whom it failed for, reads on.
                assert_eq!(store.array().get::<u64>(..).unwrap(), kept[4].2, "{what}");
                done
            });
            assert!(done.is_err(), "{what}");
            match kind {
                0 => storage.restart(),
                1 => storage.lose_power(0),
                _ => storage.lose_power(kind * 1000 + operation),
            }
            let found = all_versions(&storage);
            assert_eq!(found[found.len() - 5..], *kept, "{what}");
            assert!(found.iter().all(|version| old.contains(version)), "{what}");
            assert_eq!(reader.get::<u64>(..).unwrap(), kept[0].2, "{what}");
            let mut store = open_store(&storage);
            store.gc(&Keep::Newest(5)).unwrap();
            let report = store.array().verify().unwrap();
            assert_eq!((report.problems, report.unused), (vec![], vec![]), "{what}");
            assert_eq!(all_versions(&storage), kept, "{what}");
            // Three small files are not worth joining, if the crash left them to some versions.
            let now = size(&storage, "data");
            let most = (small.0 + 1600, small.1 + 3);
            assert!(now.0 <= most.0 && now.1 <= most.1, "{what}: {now:?}, {small:?}");
        }
    }
}

/// What is open finds its chunks where they are now: readers, their parts, and staged changes.
#[test]
fn what_was_open_before_goes_on() {
    let storage = MemoryStorage::new();
    let mut store = used(&storage, 5);
    let expected = all_versions(&storage);
    let reader = open(&storage);
    let other = options(&storage).open_at(root(), At::Version(5)).unwrap();
    let mut staged = store.stage().unwrap();
    staged.set_scalar(100, 7_u64).unwrap();
    assert!(store.gc(&Keep::Newest(5)).unwrap().moved > 0);
    assert_eq!(other.diff(&reader).unwrap().len(), 4);
    assert_eq!(other.get::<u64>(..).unwrap(), expected[4].2);
    assert_eq!(reader.chunk(&[1]).unwrap().to_ndarray::<u64>().unwrap().len(), 32);
    assert_eq!(reader.get::<u64>(..).unwrap(), expected[8].2);
    staged.set_scalar(500, 8_u64).unwrap();
    store.commit(&mut staged, "begun before").unwrap();
    let mut plain = expected[8].2.clone();
    (plain[[100]], plain[[500]]) = (7, 8);
    assert_eq!(open(&storage).get::<u64>(..).unwrap(), plain);
    let report = open(&storage).verify().unwrap();
    assert_eq!((report.problems, report.unused), (vec![], vec![]));
}

#[test]
fn a_damaged_chunk_stays_where_it_is_with_its_neighbours() {
    let storage = MemoryStorage::new();
    let mut store = used(&storage, 5);
    let path = root().join("data/__1__.bin");
    let mut file = storage.get(&path).unwrap();
    file[700] ^= 1;
    storage.put(&path, file.clone());
    drop(store);
    store = open_store(&storage);
    let before = store.array().verify().unwrap().problems.len();
    assert!(before > 0);
    store.gc(&Keep::Newest(5)).unwrap();
    assert!(storage.get(&path) == Some(file));
    assert!(!store.array().verify().unwrap().problems.is_empty());
}

#[test]
fn numbers_are_not_given_again_after_it() {
    let storage = MemoryStorage::new();
    let mut store = used(&storage, 5);
    store.gc(&Keep::Newest(5)).unwrap();
    let numbers = |storage: &MemoryStorage| -> Vec<u32> {
        let name = |path: PathBuf| path.file_stem()?.to_str()?.trim_matches('_').parse().ok();
        storage.list(&root().join("data")).unwrap().into_iter().filter_map(name).collect()
    };
    let used = numbers(&storage).into_iter().max().unwrap();
    let mut empty = store.stage().unwrap();
    empty.set_scalar(.., 0_u64).unwrap();
    store.commit(&mut empty, "empty").unwrap();
    store.gc(&Keep::Newest(1)).unwrap();
    assert_eq!(numbers(&storage), [] as [u32; 0]);
    drop(store);
    let mut store = open_store(&storage);
    let mut staged = store.stage().unwrap();
    staged.set_scalar(5, 5_u64).unwrap();
    store.commit(&mut staged, "again").unwrap();
    assert!(numbers(&storage)[0] > used);
}

/// Readers that opened a version, some of them not the newest, while another thread compacts.
#[test]
fn readers_do_not_notice() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("array");
    let create = ArrayOptions::default().chunk_shape([16]).superchunk(4).durable(false);
    let mut store = create.create(&path, DType::of::<u64>(), &[320]).unwrap();
    let mut staged = store.stage().unwrap();
    staged.set(.., &ArrayD::from_elem(IxDyn(&[320]), 1_u64)).unwrap();
    staged.set_scalar(0, 0_u64).unwrap();
    store.commit(&mut staged, "one").unwrap();
    let done = AtomicBool::new(false);
    let read = || {
        let mut rounds = 0;
        while !done.load(Ordering::Relaxed) || rounds == 0 {
            // All versions stay, so nothing may fail.
            let array = ChunkedArray::open(&path).unwrap();
            let version = array.version();
            std::thread::yield_now();
            for part in (0..320).step_by(64) {
                let found = array.get::<u64>(part..part + 64).unwrap();
                let sum: u64 = found.iter().filter(|n| **n > 1).sum();
                assert!(sum <= version * 64, "{sum} in version {version}");
            }
            let first = array.at(At::Version(2)).unwrap();
            assert_eq!(first.get::<u64>(..).unwrap().sum(), 319);
            rounds += 1;
        }
        rounds
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2).map(|_| scope.spawn(read)).collect();
        for n in 0..80_usize {
            staged.set_scalar(n * 37 % 320, n as u64 + 2).unwrap();
            staged.set_scalar(0, 0_u64).unwrap();
            store.commit(&mut staged, "n").unwrap();
            if n % 5 == 0 {
                store.gc(&Keep::All).unwrap();
            }
        }
        done.store(true, Ordering::Relaxed);
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    });
}
