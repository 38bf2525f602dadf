//! A crash at every operation of every write: one committed version, never a mixture.

use std::path::PathBuf;

use kiste::array::{At, Index, Keep};
use kiste::storage::MemoryStorage;
use kiste::value::{DType, NdArray};
use kiste::{ErrorKind, Result};
use ndarray::{ArrayD, IxDyn};
use serde_json::json;

use super::{options, root, sample};
use crate::support::{restore, snapshot};

type Write = fn(&MemoryStorage) -> Result<()>;

/// All that a reader can see: each version with its content.
type Seen = Vec<(u64, String, ArrayD<i32>, serde_json::Value)>;

fn seen(storage: &MemoryStorage) -> Result<Seen> {
    let newest = options(storage).open(root())?;
    let versions = newest.versions()?.into_iter().map(|info| {
        let array = newest.at(At::Version(info.number))?;
        let attributes = serde_json::Value::Object(array.attrs().clone());
        Ok((info.number, info.message, array.get(..)?, attributes))
    });
    versions.collect()
}

/// `kill -9`, or a power failure that keeps what a seed decides of what was not synced.
fn crash(storage: &MemoryStorage, kind: u64, operation: u64) {
    match kind {
        0 => storage.restart(),
        1 => storage.lose_power(0),
        _ => storage.lose_power(kind * 1000 + operation),
    }
}

fn check(before: fn(&MemoryStorage), write: Write) {
    let storage = MemoryStorage::new();
    before(&storage);
    let files = snapshot(&storage);
    let old = seen(&storage).ok();
    let first = storage.operations();
    write(&storage).unwrap();
    let operations = storage.operations() - first;
    let new = seen(&storage).unwrap();
    let mut told = (0, 0);
    for operation in 0..operations {
        for kind in 0..4 {
            let what = format!("crash of kind {kind} at {operation} of {operations}");
            let storage = restore(&files);
            storage.fail_after(operation);
            let result = write(&storage);
            crash(&storage, kind, operation);
            let found = match seen(&storage) {
                Ok(found) => Some(found),
                // The creation of an array may have left nothing that is one.
                Err(e) if e.kind() == ErrorKind::NotFound && old.is_none() => None,
                Err(e) => panic!("{what}: {e:?}"),
            };
            let is_new = found.as_ref() == Some(&new);
            assert!(is_new || found == old || is_between(&found, &old, &new), "{what}: {found:?}");
            // What was reported as done is done.
            assert!(is_new || result.is_err(), "{what}");
            told = (told.0 + u64::from(is_new), told.1 + u64::from(found == old));
            // The next writer works, and nothing stays behind.
            if !is_new {
                let again = write(&storage);
                again.unwrap_or_else(|e| panic!("{what}, then again: {e:?}"));
            }
            let mut store = options(&storage).open_store(root()).unwrap();
            store.gc(&Keep::All).unwrap();
            let report = store.array().verify().unwrap();
            assert_eq!(report.problems, [], "{what}");
            assert_eq!(report.unused, [] as [PathBuf; 0], "{what}");
            assert_eq!(seen(&storage).unwrap().last().map(|v| &v.2), new.last().map(|v| &v.2));
        }
    }
    assert!(told.0 > 0 && told.1 > 0, "{told:?}");
}

/// A garbage collection may have removed some of its versions; those that are left are whole.
fn is_between(found: &Option<Seen>, old: &Option<Seen>, new: &Seen) -> bool {
    let (Some(found), Some(old)) = (found, old) else { return false };
    found.iter().all(|version| old.contains(version)) && new.iter().all(|v| found.contains(v))
}

fn three_versions(storage: &MemoryStorage) {
    sample(storage);
}

fn nothing(_: &MemoryStorage) {}

#[test]
fn a_creation() {
    check(nothing, |storage| {
        let options = options(storage).chunk_shape([4, 3]);
        options.create(root(), DType::of::<i32>(), &[10, 7]).map(drop)
    });
}

#[test]
fn a_commit() {
    check(three_versions, |storage| {
        let mut store = options(storage).open_store(root())?;
        let mut staged = store.stage()?;
        staged.set_scalar((3..10, 4..), 77)?;
        staged.set_scalar((0..4, 0..3), -1)?; // a whole chunk becomes fill
        staged.attrs_mut().insert("more".into(), json!([1, 2]));
        store.commit(&mut staged, "crash").map(drop)
    });
}

#[test]
fn a_commit_that_changes_the_shape() {
    check(three_versions, |storage| {
        let mut store = options(storage).open_store(root())?;
        let mut staged = store.stage()?;
        staged.resize(&[5, 20])?;
        staged.set_scalar((.., 15), 5)?;
        store.commit(&mut staged, "wider, shorter").map(drop)
    });
}

#[test]
fn an_append() {
    check(three_versions, |storage| {
        let rows = ArrayD::from_elem(IxDyn(&[7, 7]), 9_i32);
        let mut store = options(storage).open_store(root())?;
        store.append(&(&rows).into(), "rows").map(drop)
    });
}

#[test]
fn an_array_made_of_rows() {
    check(nothing, |storage| {
        let rows = ArrayD::from_elem(IxDyn(&[10, 7]), 9_i32);
        let options = options(storage).chunk_shape([4, 3]).superchunk(2);
        let attributes = json!({"unit": "m"}).as_object().unwrap().clone();
        options.create_from(root(), &NdArray::from_ndarray(&rows), attributes, "rows").map(drop)
    });
}

#[test]
fn rows_of_another_array() {
    check(three_versions, |storage| {
        let rows = ArrayD::from_shape_fn(IxDyn(&[9, 7]), |at| (at[0] + 2 * at[1]) as i16);
        let mut store = options(storage).open_store(root())?;
        store.append_rows(&NdArray::from_ndarray(&rows), "rows").map(drop)
    });
    check(three_versions, |storage| {
        let rows = ArrayD::from_shape_fn(IxDyn(&[5, 7]), |at| (at[0] + 2 * at[1]) as i32);
        let mut store = options(storage).open_store(root())?;
        let even = Index::range(None, None, -2);
        store.put_rows(even, &NdArray::from_ndarray(&rows), "rows").map(drop)
    });
}

#[test]
fn attributes() {
    check(three_versions, |storage| {
        let mut store = options(storage).open_store(root())?;
        let attributes = json!({"unit": "km", "scale": [1, 2]}).as_object().unwrap().clone();
        store.set_attributes(attributes, "attributes").map(drop)
    });
}

#[test]
fn a_checkout() {
    check(three_versions, |storage| {
        let mut store = options(storage).open_store(root())?;
        let mut staged = store.stage_at(At::Version(2))?;
        store.commit(&mut staged, "back").map(drop)
    });
}

#[test]
fn a_resize() {
    for shape in [[12, 9], [8, 6], [5, 20]] {
        static SHAPE: std::sync::Mutex<[usize; 2]> = std::sync::Mutex::new([0; 2]);
        *SHAPE.lock().unwrap() = shape;
        check(three_versions, |storage| {
            let shape = *SHAPE.lock().unwrap();
            options(storage).open_store(root())?.resize(&shape, "resize").map(drop)
        });
    }
}

#[test]
fn a_garbage_collection() {
    check(three_versions, |storage| {
        let mut store = options(storage).open_store(root())?;
        store.gc(&Keep::Newest(1)).map(drop)
    });
}

/// Without versions and without room every file is new all the same.
#[test]
fn a_commit_of_an_array_without_versions() {
    fn unversioned(storage: &MemoryStorage) {
        let options = options(storage).chunk_shape([4, 3]).versioned(false);
        let mut store = options.create(root(), DType::of::<i32>(), &[10, 7]).unwrap();
        let mut staged = store.stage().unwrap();
        staged.set_scalar(.., 5).unwrap();
        store.commit(&mut staged, "fives").unwrap();
    }
    let storage = MemoryStorage::new();
    unversioned(&storage);
    let files = snapshot(&storage);
    let old = options(&storage).open(root()).unwrap().get::<i32>(..).unwrap();
    let mut new = old.clone();
    new.slice_mut(ndarray::s![1..9, 2]).fill(6);
    for operation in 0.. {
        for kind in 0..4 {
            let storage = restore(&files);
            storage.fail_after(operation);
            let write = || -> Result<()> {
                let mut store = options(&storage).open_store(root())?;
                let mut staged = store.stage()?;
                staged.set_scalar((1..9, 2), 6)?;
                store.commit(&mut staged, "six").map(drop)
            };
            let done = write().is_ok();
            let finished = storage.operations();
            crash(&storage, kind, operation);
            let found = options(&storage).open(root()).unwrap().get::<i32>(..).unwrap();
            assert!(found == new || (found == old && !done), "{operation}, {kind}");
            if done && finished < operation {
                return;
            }
        }
    }
}

/// Nor does a crash leave what looks damaged: a summary of a version that is gone.
#[test]
fn a_resize_of_an_array_without_versions() {
    let storage = MemoryStorage::new();
    let create = options(&storage).chunk_shape([4]).versioned(false);
    drop(create.create(root(), DType::of::<i32>(), &[10]).unwrap());
    let files = snapshot(&storage);
    for operation in 0.. {
        for kind in 0..4 {
            let storage = restore(&files);
            storage.fail_after(operation);
            let mut done = 10;
            let mut write = || -> Result<()> {
                let mut store = options(&storage).open_store(root())?;
                for len in [20, 30] {
                    store.resize(&[len], "longer")?;
                    done = len;
                }
                Ok(())
            };
            let whole = write().is_ok();
            let finished = storage.operations();
            crash(&storage, kind, operation);
            let array = options(&storage).open(root()).unwrap();
            assert!(array.len() == done || array.len() == done + 10, "{operation}, {kind}");
            assert_eq!(array.verify().unwrap().problems, [], "{operation}, {kind}");
            let mut store = options(&storage).open_store(root()).unwrap();
            store.resize(&[40], "longer").unwrap();
            assert_eq!(store.versions().unwrap().len(), 1, "{operation}, {kind}");
            drop(store);
            let report = array.verify().unwrap();
            assert_eq!((report.problems, report.stale), (vec![], vec![]), "{operation}, {kind}");
            if whole && finished < operation {
                return;
            }
        }
    }
}

/// With room a crash may cost the chunks that were being written over: they are told from whole ones.
#[test]
fn a_crash_while_chunks_are_written_over_is_noticed() {
    let storage = MemoryStorage::new();
    let options_of = |storage: &MemoryStorage| options(storage).chunk_shape([8]).versioned(false);
    let create = options_of(&storage).room(64).level(0).superchunk(4);
    let mut store = create.create(root(), DType::of::<u64>(), &[64]).unwrap();
    let mut staged = store.stage().unwrap();
    let old = ArrayD::from_shape_fn(IxDyn(&[64]), |at| at[0] as u64 + 1);
    staged.set(.., &old).unwrap();
    store.commit(&mut staged, "numbers").unwrap();
    drop((store, staged));
    let files = snapshot(&storage);
    let (mut lost, mut whole) = (0, 0);
    for operation in 0..60 {
        for kind in 0..4 {
            let storage = restore(&files);
            storage.fail_after(operation);
            let write = || -> Result<()> {
                let mut store = options(&storage).open_store(root())?;
                let mut staged = store.stage()?;
                staged.set_scalar(4..20, 1000_u64)?;
                store.commit(&mut staged, "over").map(drop)
            };
            let _ = write();
            crash(&storage, kind, operation);
            let array = options(&storage).open(root()).unwrap();
            for chunk in 0..8 {
                let read = array.chunk(&[chunk]).map(|c| c.to_ndarray::<u64>().unwrap());
                match read {
                    Ok(found) => {
                        let expect = |new: bool| {
                            (chunk * 8..chunk * 8 + 8).map(move |i| match (new, i) {
                                (true, 4..20) => 1000,
                                _ => i as u64 + 1,
                            })
                        };
                        let new = array.version() == 3;
                        assert!(found.iter().copied().eq(expect(new)), "{operation}, {chunk}");
                        whole += 1;
                    }
                    Err(e) => {
                        assert_eq!(e.kind(), ErrorKind::Damaged);
                        assert!(chunk < 3, "chunk {chunk} was not written to");
                        let report = array.verify().unwrap();
                        let named = Some((String::new(), vec![chunk as u64]));
                        assert!(report.problems.iter().any(|p| p.chunk == named));
                        lost += 1;
                    }
                }
            }
        }
    }
    assert!(lost > 0 && whole > 0);
}
