//! Numbers at the edges of what files may have: they are seen, or the error says why not; none is
//! passed over, and none overflows.

use std::path::PathBuf;

use kiste::ErrorKind;
use kiste::array::{At, Keep};
use kiste::format::chunked::{Version, names};
use kiste::storage::{MemoryStorage, Storage};
use ndarray::{ArrayD, IxDyn};

use super::{options, root, sample};
use crate::support::{Snapshot, restore, snapshot};

/// The edges, and what is next to them.
fn edges() -> impl Iterator<Item = u64> {
    let powers = [0, 1 << 31, 1 << 32, 1 << 53, (1 << 63) - 1, 1 << 63, u64::MAX];
    let near = powers.map(|n: u64| [n.saturating_sub(1), n, n.saturating_add(1)]);
    near.into_iter().flatten()
}

fn version_path(number: u64) -> PathBuf {
    root().join(names::VERSIONS).join(names::numbered(number))
}

fn newest(files: &Snapshot) -> Version {
    Version::parse(files[&version_path(3)].as_ref().unwrap()).unwrap()
}

/// The newest version under another number.
fn numbered(files: &Snapshot, number: u64) -> Version {
    let mut version = newest(files);
    (version.version, version.parent) = (number, 3);
    version
}

fn put(storage: &MemoryStorage, number: u64, version: &Version) {
    storage.put(version_path(number), version.encode().unwrap());
}

/// Reads, and writes in every way: an error of these kinds, or the right content.
fn exercise(storage: &MemoryStorage, number: u64, what: &str) {
    let refused = |e: kiste::Error| {
        let kinds = [ErrorKind::Limit, ErrorKind::Damaged];
        assert!(kinds.contains(&e.kind()), "{what}: {e:?}");
        assert!(e.path().is_some_and(|path| path.starts_with(root())), "{what}: {e:?}");
    };
    let array = match options(storage).open(root()) {
        Ok(array) => array,
        Err(e) => {
            refused(e);
            return options(storage).open_store(root()).map(drop).unwrap_or_else(refused);
        }
    };
    assert_eq!(array.version(), number, "{what}");
    let content = array.get::<i32>(..).unwrap();
    array.verify().unwrap_or_else(|e| panic!("{what}: {e:?}"));
    let _ = (array.info().to_string(), array.history().unwrap());
    let mut store = match options(storage).open_store(root()) {
        Ok(store) => store,
        Err(e) => return refused(e),
    };
    let rows = ArrayD::from_shape_fn(IxDyn(&[30, 7]), |at| (at[0] * 7 + at[1]) as i32);
    let mut expected = content;
    for _ in 0..4 {
        match store.append(&(&rows).into(), "rows") {
            Ok(info) => {
                expected = super::appended(&expected, &rows);
                let found = options(storage).open(root()).unwrap();
                assert_eq!(found.version(), info.number, "{what}: committed, and not seen");
            }
            Err(e) => refused(e),
        }
        let found = options(storage).open(root()).unwrap();
        assert_eq!(found.get::<i32>(..).unwrap(), expected, "{what}");
    }
    let changed = store.stage().and_then(|mut staged| {
        staged.set_scalar((3..7, 2), 5)?;
        store.commit(&mut staged, "fives")
    });
    if let Err(e) = changed {
        refused(e);
    }
    let kept = store.array().get::<i32>(..).unwrap();
    store.gc(&Keep::Newest(1)).map(drop).unwrap_or_else(refused);
    let found = options(storage).open(root()).unwrap();
    assert_eq!(found.get::<i32>(..).unwrap(), kept, "{what}");
    assert_eq!(found.version(), store.array().version(), "{what}");
}

#[test]
fn versions_of_any_number_are_seen_or_refused() {
    let storage = MemoryStorage::new();
    drop(sample(&storage));
    let files = snapshot(&storage);
    for number in edges().filter(|number| *number > 3) {
        let storage = restore(&files);
        put(&storage, number, &numbered(&files, number));
        let what = format!("version {number}");
        exercise(&storage, number, &what);
        // Nor does one that is too high hide behind the name of another.
        let storage = restore(&files);
        put(&storage, 4, &numbered(&files, number));
        if number != 4 {
            assert_eq!(options(&storage).open(root()).unwrap_err().kind(), ErrorKind::Damaged);
        }
        let at = options(&storage).open_at(root(), At::Version(number));
        assert!(at.is_err(), "{number}");
    }
}

#[test]
fn numbers_that_a_version_records_do_not_overflow() {
    let storage = MemoryStorage::new();
    drop(sample(&storage));
    let files = snapshot(&storage);
    for number in edges() {
        let mut version = newest(&files);
        version.next_segment = number;
        let storage = restore(&files);
        put(&storage, 3, &version);
        exercise(&storage, 3, &format!("next_segment {number}"));

        let mut version = newest(&files);
        version.columns[0].next = number;
        let storage = restore(&files);
        put(&storage, 3, &version);
        exercise(&storage, 3, &format!("next superchunk {number}"));

        // They are for people.
        let mut version = newest(&files);
        (version.columns[0].chunks, version.columns[0].cbytes) = (number, number);
        let storage = restore(&files);
        put(&storage, 3, &version);
        exercise(&storage, 3, &format!("{number} chunks"));
    }
}

#[test]
fn files_of_any_number_are_counted_or_refused() {
    let storage = MemoryStorage::new();
    drop(sample(&storage));
    let files = snapshot(&storage);
    for number in edges().filter(|number| *number > 10) {
        for name in [
            root().join(names::MANIFEST).join(names::numbered(number)),
            root().join("data").join(format!("{}.bin", names::numbered(number))),
        ] {
            let storage = restore(&files);
            storage.put(&name, "left by a crash");
            let what = name.display().to_string();
            exercise(&storage, 3, &what);
            // What is in the way is not written over.
            let there = storage.get(&name);
            assert!(there.is_none_or(|bytes| bytes == b"left by a crash"), "{what}");
        }
    }
}

/// The last numbers of all can be had.
#[test]
fn the_last_version_is_the_last() {
    let storage = MemoryStorage::new();
    drop(sample(&storage));
    let files = snapshot(&storage);
    let last = names::MAX_NUMBER;
    put(&storage, last - 1, &numbered(&files, last - 1));
    let mut store = options(&storage).open_store(root()).unwrap();
    let attributes = serde_json::Map::new;
    assert_eq!(store.set_attributes(attributes(), "last").unwrap().number, last);
    let before = snapshot(&storage);
    let error = store.set_attributes(attributes(), "one more").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.message().contains("more versions than there are numbers"), "{error}");
    assert!(snapshot(&storage) == before);
    drop(store);
    assert_eq!(options(&storage).open(root()).unwrap().version(), last);
    assert!(storage.stat(&version_path(last)).unwrap().is_some());
}
