//! Two writers, and readers while one of them commits and removes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use kiste::ErrorKind;
use kiste::array::{ArrayOptions, ArrayStore, ChunkedArray, Keep};
use kiste::storage::{Create, Lock, MemoryStorage, Sink, Source, Stat, Storage};
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

type Deed = Box<dyn FnMut() + Send>;
type When = Box<dyn Fn(u64) -> bool + Send>;
/// What a writer does, by the number of the call, and its name.
type NamedDeed = (&'static str, fn(&mut ArrayStore, u64));

/// A storage in which something else happens before some of the calls.
struct Meanwhile {
    inner: MemoryStorage,
    /// Counts calls, and says before which ones the deed is done.
    state: Mutex<(u64, When, Deed)>,
}

impl Meanwhile {
    fn call(&self) -> &MemoryStorage {
        let mut state = self.state.lock().unwrap();
        let (calls, when, deed) = &mut *state;
        if when(*calls) {
            deed();
        }
        *calls += 1;
        &self.inner
    }
}

impl fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meanwhile")
    }
}

impl Storage for Meanwhile {
    fn open(&self, path: &Path) -> kiste::Result<Source> {
        self.call().open(path)
    }

    fn stat(&self, path: &Path) -> kiste::Result<Option<Stat>> {
        self.call().stat(path)
    }

    fn create_with(&self, path: &Path, how: Create) -> kiste::Result<Box<dyn Sink>> {
        self.inner.create_with(path, how)
    }

    fn reopen(&self, path: &Path) -> kiste::Result<Box<dyn Sink>> {
        self.inner.reopen(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> kiste::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> kiste::Result<()> {
        self.inner.remove(path)
    }

    fn create_dir(&self, path: &Path) -> kiste::Result<()> {
        self.inner.create_dir(path)
    }
    fn remove_dir(&self, path: &Path) -> kiste::Result<()> {
        self.inner.remove_dir(path)
    }

    fn list(&self, dir: &Path) -> kiste::Result<Vec<PathBuf>> {
        self.call().list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> kiste::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> kiste::Result<Option<Lock>> {
        self.inner.lock(path)
    }

    fn lock_file(&self, path: &Path) -> kiste::Result<Option<Lock>> {
        self.inner.lock_file(path)
    }
}

/// What a writer may do while an array is verified.
fn deeds() -> Vec<NamedDeed> {
    fn commit(store: &mut ArrayStore, n: u64) {
        let mut staged = store.stage().unwrap();
        staged.set_scalar((n as usize % 10, ..), n as i32).unwrap();
        staged.attrs_mut().insert("n".into(), n.into());
        store.commit(&mut staged, "meanwhile").unwrap();
    }
    vec![
        ("commit", commit),
        ("remove", |store, n| {
            commit(store, n);
            store.gc(&Keep::Newest(1)).unwrap();
        }),
        ("remove some and compact", |store, n| {
            commit(store, n);
            store.gc(&Keep::Newest(3)).unwrap();
        }),
        ("compact", |store, _| drop(store.gc(&Keep::All).unwrap())),
        ("shorter and wider", |store, n| {
            let wide = store.array().shape()[1];
            store.resize(&[5, wide + 7], "wider").unwrap();
            store.resize(&[10, wide], "longer").unwrap();
            commit(store, n);
            store.gc(&Keep::Newest(2)).unwrap();
        }),
    ]
}

/// At each moment, and at several.
#[test]
fn what_a_writer_does_while_an_array_is_verified_is_no_damage() {
    for versioned in [true, false] {
        for (name, deed) in deeds() {
            for every in [u64::MAX, 7] {
                let mut first = 0;
                while verified_meanwhile(versioned, deed, first, every, name) {
                    // What happens again and again meets each call from several beginnings.
                    first += if every == u64::MAX { 1 } else { 4 };
                }
                assert!(first > 10, "{name} {first}");
            }
        }
    }
}

/// Verifies while this is done before the call of this number, and again and again. Returns whether there are
/// so many calls.
fn verified_meanwhile(
    versioned: bool,
    deed: fn(&mut ArrayStore, u64),
    first: u64,
    every: u64,
    name: &str,
) -> bool {
    let inner = MemoryStorage::new();
    let create = options(&inner).chunk_shape([4, 3]).superchunk(2).versioned(versioned);
    let mut store = create.create(root(), DType::of::<i32>(), &[10, 7]).unwrap();
    for n in 0..5_u64 {
        let mut staged = store.stage().unwrap();
        staged.set_scalar((n as usize.., n as usize), n as i32 + 50).unwrap();
        store.commit(&mut staged, "before").unwrap();
    }
    let (done, mut n) = (Arc::new(AtomicBool::new(false)), 0);
    let happened = done.clone();
    let act: Deed = Box::new(move || {
        n += 1;
        deed(&mut store, n);
        done.store(true, Ordering::Relaxed);
    });
    let when = move |call: u64| {
        call == first || (every != u64::MAX && call > first && (call - first) % every == 0)
    };
    let state = Mutex::new((0, Box::new(when) as _, act));
    let storage = Arc::new(Meanwhile { inner: inner.clone(), state });
    let reader = options(&inner).storage(storage).threads(1);
    let report = reader.open(root()).and_then(|array| array.verify());
    let happened = happened.load(Ordering::Relaxed);
    let what = format!("{name} before call {first}, versioned {versioned}, every {every}");
    match report {
        Ok(report) => {
            assert_eq!((&report.problems, &report.unused), (&vec![], &vec![]), "{what}");
            assert!(report.versions > 0, "{what}");
        }
        // As often as that something is replaced, nothing can be said.
        Err(error) => {
            assert!(happened && every != u64::MAX, "{what}: {error}");
            assert_eq!(error.kind(), ErrorKind::Replaced, "{what}: {error}");
        }
    }
    happened
}

/// New files of a commit that is not made yet.
#[test]
fn files_of_a_writer_at_work_are_told_from_what_a_crash_left() {
    let storage = MemoryStorage::new();
    let store = sample(&storage);
    let file = storage.get(root().join("data/__1__.bin")).unwrap();
    storage.put(root().join("data/__99__.bin"), file);
    let report = super::open(&storage).verify().unwrap();
    assert_eq!((report.unused.len(), report.writer), (1, true), "{report:?}");
    drop(store);
    let report = super::open(&storage).verify().unwrap();
    assert_eq!((report.unused.len(), report.writer), (1, false), "{report:?}");
}
