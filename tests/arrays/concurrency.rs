//! Two writers, and readers while one of them commits and removes.

use std::sync::atomic::{AtomicBool, Ordering};

use kiste::ErrorKind;
use kiste::array::{ArrayOptions, ArrayStore, ChunkedArray, Keep};
use kiste::storage::MemoryStorage;
use kiste::value::DType;

use super::{options, root, sample};

#[test]
fn a_second_writer_is_told_that_there_is_one() {
    let storage = MemoryStorage::new();
    let store = sample(&storage);
    let second = || options(&storage).open_store(root()).map(drop);
    assert_eq!(second().unwrap_err().kind(), ErrorKind::Locked);
    drop(store);
    second().unwrap();

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("array");
    let first = ArrayOptions::default().create(&path, DType::of::<u8>(), &[1]).unwrap();
    let error = ArrayStore::open(&path).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Locked, Some(&*path)));
    drop(first);
    ArrayStore::open(&path).unwrap();
}

/// Whoever opens the newest version sees all of one commit, whatever the writer does meanwhile.
#[test]
fn readers_see_whole_versions_while_others_are_made_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("array");
    let create = ArrayOptions::default().chunk_shape([16, 16]).superchunk(3).durable(false);
    let mut store = create.create(&path, DType::of::<u64>(), &[100, 40]).unwrap();
    let done = AtomicBool::new(false);
    let read = || {
        let (mut whole, mut last) = (0, 0);
        while !done.load(Ordering::Relaxed) || whole == 0 {
            let array = match ChunkedArray::open(&path) {
                Ok(array) => array,
                Err(e) => panic!("{e:?}"),
            };
            assert!(array.version() >= last);
            last = array.version();
            match array.get::<u64>(..) {
                Ok(found) => {
                    let first = found[[0, 0]];
                    assert!(found.iter().all(|n| *n == first), "version {last}");
                    assert_eq!(first, last - 1);
                    whole += 1;
                }
                // It was removed meanwhile.
                Err(e) => assert_eq!(e.kind(), ErrorKind::Replaced, "{e:?}"),
            }
        }
        whole
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3).map(|_| scope.spawn(read)).collect();
        for n in 1..=150_u64 {
            let mut staged = store.stage().unwrap();
            // One chunk is another each time, the others are equal to one another.
            staged.set_scalar(.., n).unwrap();
            store.commit(&mut staged, "n").unwrap();
            if n % 5 == 0 {
                store.gc(&Keep::Newest(1)).unwrap();
            }
        }
        done.store(true, Ordering::Relaxed);
        assert!(readers.into_iter().all(|reader| reader.join().unwrap() > 0));
    });
    assert_eq!(store.array().verify().unwrap().problems, []);
}

/// Where the file of the lock is gone, two writers do not know of each other. The second one to commit is
/// told, and takes nothing from the first.
#[test]
fn a_writer_whose_lock_is_gone_takes_nothing_from_another() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("array");
    let create = ArrayOptions::default().chunk_shape([4]).durable(false);
    let mut first = create.create(&path, DType::of::<u32>(), &[12]).unwrap();
    let mut staged = first.stage().unwrap();
    staged.set_scalar(0..4, 1_u32).unwrap();
    std::fs::remove_file(path.join("meta/lock")).unwrap();

    let mut second = ArrayStore::open(&path).unwrap();
    let mut other = second.stage().unwrap();
    other.set_scalar(4..8, 2_u32).unwrap();
    second.commit(&mut other, "the second").unwrap();
    let whole = [[0; 4], [2; 4], [0; 4]].concat();

    let refused = [
        first.gc(&Keep::Newest(1)).map(drop).unwrap_err(),
        first.commit(&mut staged, "the first").map(drop).unwrap_err(),
        first.resize(&[16], "longer").map(drop).unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::Replaced, "{error}");
    }
    drop(first);
    let array = ChunkedArray::open(&path).unwrap();
    assert_eq!(array.get::<u32>(..).unwrap().into_raw_vec_and_offset().0, whole);
    assert_eq!(array.verify().unwrap().problems, []);
}

/// Whoever copies files into the array takes no notice of the lock, which is in place all the while.
#[test]
fn versions_that_come_or_go_without_the_lock_are_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("array"), dir.path().join("other"));
    let create = ArrayOptions::default().chunk_shape([4]).durable(false);
    let mut first = create.clone().create(&path, DType::of::<u32>(), &[12]).unwrap();
    let mut second = create.create(&other, DType::of::<u32>(), &[12]).unwrap();
    second.resize(&[13], "of another").unwrap();
    let (come, foreign) = (path.join("meta/versions/__2__"), other.join("meta/versions/__2__"));
    std::fs::copy(&foreign, &come).unwrap();
    let error = first.resize(&[16], "longer").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Replaced, "{error}");
    assert_eq!(std::fs::read(&come).unwrap(), std::fs::read(&foreign).unwrap());
    assert!(!path.join("meta/versions/__2__.tmp").exists());
    drop(first);

    let mut first = ArrayOptions::default().open_store(&path).unwrap();
    std::fs::rename(&come, path.join("meta/versions/__4__")).unwrap();
    let error = first.resize(&[16], "longer").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Replaced, "{error}");
    assert!(!path.join("meta/versions/__3__").exists());
}
