//! Several at once: two writers, a reader during a publication, threads that share a reader.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use kiste::format::dataset::SideFile;
use kiste::index::IndexOptions;
use kiste::storage::{Create, LocalStorage, Lock, MemoryStorage, Sink, Source, Stat, Storage};
use kiste::verify::Verify;
use kiste::{DatasetReader, ErrorKind, Writer};

use crate::support::{open_in, packed, snapshot};

/// What someone else does meanwhile.
type Meanwhile = Box<dyn FnOnce() + Send>;

/// A storage where something happens right before a given call, as if by another process.
struct Hooked {
    inner: MemoryStorage,
    call: &'static str,
    path: PathBuf,
    meanwhile: Mutex<Option<Meanwhile>>,
}

impl Hooked {
    fn new(
        inner: &MemoryStorage,
        call: &'static str,
        path: impl AsRef<Path>,
        meanwhile: impl FnOnce() + Send + 'static,
    ) -> Arc<Hooked> {
        Arc::new(Hooked {
            inner: inner.clone(),
            call,
            path: path.as_ref().to_path_buf(),
            meanwhile: Mutex::new(Some(Box::new(meanwhile))),
        })
    }

    fn before(&self, call: &str, path: &Path) -> &MemoryStorage {
        if call == self.call && path == self.path {
            let meanwhile = self.meanwhile.lock().unwrap().take();
            if let Some(meanwhile) = meanwhile {
                meanwhile();
            }
        }
        &self.inner
    }

    fn happened(&self) -> bool {
        self.meanwhile.lock().unwrap().is_none()
    }
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hooked({} {})", self.call, self.path.display())
    }
}

impl Storage for Hooked {
    fn open(&self, path: &Path) -> kiste::Result<Source> {
        self.before("open", path).open(path)
    }

    fn stat(&self, path: &Path) -> kiste::Result<Option<Stat>> {
        self.before("stat", path).stat(path)
    }

    fn create_with(&self, path: &Path, how: Create) -> kiste::Result<Box<dyn Sink>> {
        self.before("create", path).create_with(path, how)
    }

    fn reopen(&self, path: &Path) -> kiste::Result<Box<dyn Sink>> {
        self.before("reopen", path).reopen(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> kiste::Result<()> {
        self.before("rename away", from);
        self.before("rename", to).rename(from, to)
    }

    fn remove(&self, path: &Path) -> kiste::Result<()> {
        self.before("remove", path).remove(path)
    }

    fn create_dir(&self, path: &Path) -> kiste::Result<()> {
        self.before("create_dir", path).create_dir(path)
    }
    fn remove_dir(&self, path: &Path) -> kiste::Result<()> {
        self.before("remove_dir", path).remove_dir(path)
    }

    fn list(&self, dir: &Path) -> kiste::Result<Vec<PathBuf>> {
        self.inner.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> kiste::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> kiste::Result<Option<Lock>> {
        self.before("lock", path).lock(path)
    }

    fn lock_file(&self, path: &Path) -> kiste::Result<Option<Lock>> {
        self.inner.lock_file(path)
    }
}

fn dataset() -> PathBuf {
    PathBuf::from("x.msgpack")
}

fn write(storage: &MemoryStorage, keys: std::ops::Range<u64>, value: u64) {
    let options = Writer::options().storage(Arc::new(storage.clone())).overwrite(true);
    let mut writer = options.create(dataset()).unwrap();
    for i in keys {
        writer.write_raw(&format!("k{i}"), &packed(&format!("k{i}"), value)).unwrap();
    }
    writer.finish().unwrap();
}

fn append(storage: &MemoryStorage, keys: std::ops::Range<u64>) {
    let options = Writer::options().storage(Arc::new(storage.clone()));
    let mut writer = options.append(dataset()).unwrap();
    for i in keys {
        writer.write_raw(&format!("k{i}"), &packed(&format!("k{i}"), 0)).unwrap();
    }
    writer.finish().unwrap();
}

fn assert_good(storage: &MemoryStorage) {
    let options = Verify::of(dataset()).deep(true).storage(Arc::new(storage.clone()));
    let report = options.run().unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

#[test]
fn a_second_writer_is_refused_and_harms_nothing() {
    let storage = MemoryStorage::new();
    write(&storage, 0..3, 0);
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let options = Writer::options().storage(shared.clone());
    let mut first = options.clone().append(dataset()).unwrap();
    first.write_raw("new", &packed("new", 1)).unwrap();

    let locked = |result: kiste::Result<()>| {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Locked);
    };
    locked(options.clone().append(dataset()).map(drop));
    locked(options.clone().overwrite(true).create(dataset()).map(drop));
    locked(options.clone().resume(dataset()).map(drop));
    locked(IndexOptions::default().force(true).storage(shared.clone()).build(dataset()).map(drop));
    let repair = kiste::repair::Repair::of(dataset()).storage(shared);
    locked(repair.leftover().map(drop));
    locked(repair.finish().map(drop));
    locked(repair.undo());

    // A reader meanwhile sees the old dataset.
    assert_eq!(open_in(&storage, &dataset()).unwrap().len(), 3);
    first.finish().unwrap();
    assert_eq!(open_in(&storage, &dataset()).unwrap().len(), 4);
    assert_good(&storage);
}

#[test]
fn a_second_writer_is_refused_on_the_file_system() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.msgpack");
    let mut first = Writer::create(&path).unwrap();
    first.write_raw("a", &packed("a", 1)).unwrap();
    assert_eq!(Writer::create(&path).unwrap_err().kind(), ErrorKind::Locked);
    drop(first);
    assert_eq!(Writer::create(&path).unwrap_err().kind(), ErrorKind::Interrupted);
    Writer::options().overwrite(true).create(&path).unwrap().abort().unwrap();
    assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none());
}

#[test]
fn a_write_that_was_overtaken_by_another_one_is_refused() {
    let partial = dataset().with_extension("msgpack.partial");
    let setup = || {
        let storage = MemoryStorage::new();
        write(&storage, 0..3, 0);
        storage
    };
    let overtaken = |storage: &MemoryStorage| {
        let other = storage.clone();
        Hooked::new(storage, "create_dir", &partial, move || append(&other, 3..6))
    };
    let check = |storage: &MemoryStorage, what: &str| {
        assert_good(storage);
        assert_eq!(open_in(storage, &dataset()).unwrap().len(), 6, "{what}");
        assert!(!storage.names().contains(&partial), "{what}");
    };

    let storage = setup();
    let hooked = overtaken(&storage);
    let result = Writer::options().storage(hooked.clone()).append(dataset());
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Replaced);
    assert!(hooked.happened());
    check(&storage, "append");

    let storage = setup();
    storage.remove(&SideFile::Filter.path(&dataset())).unwrap();
    storage.remove(&SideFile::Md5.path(&dataset())).unwrap();
    let hooked = overtaken(&storage);
    let _ = IndexOptions::default().storage(hooked.clone()).build(dataset());
    assert!(hooked.happened());
    check(&storage, "index");

    let storage = MemoryStorage::new();
    let other = storage.clone();
    let hooked = Hooked::new(&storage, "create_dir", &partial, move || write(&other, 0..6, 0));
    let result = Writer::options().storage(hooked.clone()).create(dataset());
    assert_eq!(result.unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert!(hooked.happened());
    check(&storage, "create");
}

/// The answers of a reader that was opened before the dataset was replaced.
fn assert_old_or_replaced(reader: &DatasetReader) {
    let check = |result: kiste::Result<bool>| match result {
        Ok(right) => assert!(right),
        Err(e) => assert_eq!(e.kind(), ErrorKind::Replaced, "{e:?}"),
    };
    assert_eq!(reader.len(), 3);
    for i in 0..3 {
        let key = format!("k{i}");
        check(reader.find(&key).map(|found| found == Some(i)));
        check(reader.contains_key(&key));
        check(reader.get_raw(i).map(|raw| *raw == packed(&key, 0)));
        check(reader.key(i).map(|found| found == key));
    }
    check(reader.find("k4").map(|found| found.is_none()));
    check(reader.contains_key("k4").map(|found| !found));
    check(reader.prepare_keys().map(|()| true));
    for key in reader.keys() {
        check(key.map(|key| ["k0", "k1", "k2"].contains(&&*key)));
    }
}

#[test]
fn a_reader_answers_from_the_old_dataset_or_says_that_it_was_replaced() {
    for append_only in [false, true] {
        for warm in [false, true] {
            let storage = MemoryStorage::new();
            write(&storage, 0..3, 0);
            let reader = open_in(&storage, &dataset()).unwrap();
            if warm {
                reader.find("k0").unwrap();
            }
            if append_only {
                append(&storage, 3..6);
            } else {
                write(&storage, 0..6, 9);
            }
            assert_old_or_replaced(&reader);
            if !warm {
                assert_eq!(reader.find("k0").unwrap_err().kind(), ErrorKind::Replaced);
            }
        }
    }
}

#[test]
fn a_reader_that_opens_while_a_dataset_is_published() {
    // Stops the writer before each of its steps and opens the dataset there.
    let side = |file: SideFile| file.path(&dataset());
    let commit = dataset().with_extension("msgpack.partial").join("commit");
    let steps: Vec<(&str, PathBuf)> = vec![
        ("rename", commit.clone()),
        ("rename away", side(SideFile::Offsets)),
        ("rename away", dataset()),
        ("rename away", side(SideFile::Keys)),
        ("rename away", side(SideFile::Md5)),
        ("rename", dataset()),
        ("rename", side(SideFile::Keys)),
        ("rename", side(SideFile::KeyHashes)),
        ("rename", side(SideFile::Filter)),
        ("rename", side(SideFile::Md5)),
        ("rename", side(SideFile::Offsets)),
        ("remove", commit),
    ];
    for appending in [false, true] {
        for (call, path) in &steps {
            if appending && *path == dataset() {
                continue;
            }
            let storage = MemoryStorage::new();
            write(&storage, 0..3, 0);
            let (other, what) = (storage.clone(), format!("{call} {}", path.display()));
            let hooked =
                Hooked::new(&storage, call, path, move || match open_in(&other, &dataset()) {
                    Ok(reader) if reader.len() == 3 => assert_old_or_replaced(&reader),
                    Ok(reader) => {
                        assert_eq!(reader.find("k5").unwrap(), Some(5), "{what}");
                        assert!(!reader.contains_key("k9").unwrap());
                    }
                    Err(e) => assert_eq!(e.kind(), ErrorKind::Interrupted, "{what}: {e:?}"),
                });
            let options = Writer::options().storage(hooked.clone()).overwrite(true);
            let (mut writer, from) = match appending {
                true => (options.append(dataset()).unwrap(), 3),
                false => (options.create(dataset()).unwrap(), 0),
            };
            for i in from..6 {
                writer.write_raw(&format!("k{i}"), &packed(&format!("k{i}"), 9)).unwrap();
            }
            writer.finish().unwrap();
            assert!(hooked.happened(), "{call} {}", path.display());
            assert_good(&storage);
        }
    }
}

#[test]
fn a_whole_publication_within_the_opening_of_a_reader() {
    let calls: Vec<(&str, PathBuf)> = vec![
        ("stat", dataset().with_extension("msgpack.partial").join("commit")),
        ("stat", SideFile::Offsets.path(&dataset())),
        ("stat", dataset()),
        ("open", dataset()),
        ("open", SideFile::Offsets.path(&dataset())),
        ("open", SideFile::KeyHashes.path(&dataset())),
        ("open", SideFile::Filter.path(&dataset())),
        ("open", SideFile::Keys.path(&dataset())),
        ("open", dataset().with_extension("msgpack.partial").join("journal")),
    ];
    for appending in [false, true] {
        for (call, path) in &calls {
            for keep_offsets in [true, false] {
                let storage = MemoryStorage::new();
                write(&storage, 0..3, 0);
                if !keep_offsets {
                    storage.remove(&SideFile::Offsets.path(&dataset())).unwrap();
                }
                let other = storage.clone();
                let hooked = Hooked::new(&storage, call, path, move || match appending {
                    true => append(&other, 3..6),
                    false => write(&other, 0..6, 9),
                });
                let what = format!("{call} {} {appending} {keep_offsets}", path.display());
                let opened = DatasetReader::options().storage(hooked.clone()).open(dataset());
                match opened {
                    Ok(reader) if reader.len() == 3 => {
                        assert_old_or_replaced(&reader);
                    }
                    Ok(reader) => assert_eq!(reader.find("k5").unwrap(), Some(5), "{what}"),
                    Err(e) => assert_eq!(e.kind(), ErrorKind::Replaced, "{what}: {e:?}"),
                }
            }
        }
    }
}

#[test]
fn an_append_that_starts_or_ends_within_the_opening_of_a_reader() {
    for (call, path) in [
        ("open", SideFile::Offsets.path(&dataset())),
        ("open", dataset()),
        ("open", dataset().with_extension("msgpack.partial").join("journal")),
    ] {
        let storage = MemoryStorage::new();
        write(&storage, 0..3, 0);
        let options = Writer::options().storage(Arc::new(storage.clone()));
        let mut writer = options.append(dataset()).unwrap();
        writer.write_raw("k3", &packed("k3", 0)).unwrap();
        writer.flush().unwrap();
        let hooked = Hooked::new(&storage, call, path, move || {
            writer.finish().unwrap();
        });
        match DatasetReader::options().storage(hooked.clone()).open(dataset()) {
            Ok(reader) if reader.len() == 3 => assert_old_or_replaced(&reader),
            Ok(reader) => assert_eq!((reader.len(), reader.find("k3").unwrap()), (4, Some(3))),
            Err(e) => assert_eq!(e.kind(), ErrorKind::Replaced, "{call}: {e:?}"),
        }
        assert!(hooked.happened());
    }
}

#[test]
fn many_threads_share_a_reader_from_a_cold_start() {
    const N: u64 = 3000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.msgpack");
    for lookup in [false, true] {
        let options = Writer::options().overwrite(true).durable(false).lookup(lookup);
        let mut writer = options.create(&path).unwrap();
        for i in 0..N {
            writer.write_raw(&format!("k{i}"), &packed(&format!("k{i}"), i)).unwrap();
        }
        writer.finish().unwrap();
        for storage in [LocalStorage::mapped(), LocalStorage::positioned()] {
            let reader = DatasetReader::options().storage(Arc::new(storage)).open(&path).unwrap();
            // A few hundred searches make the table due, so these threads cross that point.
            std::thread::scope(|scope| {
                for thread in 0..8 {
                    let reader = reader.clone();
                    scope.spawn(move || {
                        for step in 0..150 {
                            let i = (thread * 379 + step * 7919) % N;
                            let key = format!("k{i}");
                            assert_eq!(reader.find(&key).unwrap(), Some(i as usize));
                            assert!(reader.contains_key(&key).unwrap());
                            assert_eq!(&*reader.get_raw(i as usize).unwrap(), packed(&key, i));
                            assert_eq!(reader.find(&format!("absent {key}")).unwrap(), None);
                            assert!(!reader.contains_key(&format!("absent {key}")).unwrap());
                            let raw = reader.get_raw_by_key(&key).unwrap();
                            assert_eq!(raw.as_deref(), Some(&packed(&key, i)[..]));
                            assert_eq!(
                                reader.get_raw_by_key(&format!("absent {key}")).unwrap(),
                                None
                            );
                        }
                    });
                }
            });
        }
    }
}

/// The data goes on behind what a reader may see.
#[test]
fn a_reader_during_an_append_sees_what_was_there_before() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.msgpack");
    let mut writer = Writer::options().durable(false).lookup(true).create(&path).unwrap();
    for i in 0..50 {
        writer.write_raw(&format!("k{i}"), &packed(&format!("k{i}"), i)).unwrap();
    }
    writer.finish().unwrap();
    let before = std::fs::metadata(&path).unwrap().len();
    let mut writer = Writer::append(&path).unwrap();
    for i in 50..200_000 {
        writer.write_raw(&format!("k{i}"), &packed(&format!("k{i}"), i)).unwrap();
    }
    assert!(std::fs::metadata(&path).unwrap().len() > before);
    for storage in [LocalStorage::mapped(), LocalStorage::positioned()] {
        let reader = DatasetReader::options().storage(Arc::new(storage)).open(&path).unwrap();
        assert_eq!((reader.len(), reader.data_len()), (50, before));
        for round in 0..2 {
            for i in 0..50 {
                let (key, expected) = (format!("k{i}"), packed(&format!("k{i}"), i));
                assert_eq!(*reader.get_raw(i as usize).unwrap(), expected, "{round}");
                assert_eq!(*reader.get_raw_by_key(&key).unwrap().unwrap(), expected, "{round}");
            }
            assert_eq!(reader.get_raw_by_key("k50").unwrap(), None);
            assert!(reader.get_raw(50).is_err());
            reader.prepare_keys().unwrap();
        }
    }
    writer.abort().unwrap();
}

#[test]
fn directories_that_a_writer_makes_survive_a_power_failure() {
    let storage = MemoryStorage::new();
    let path = PathBuf::from("a/b/x.msgpack");
    let mut writer = Writer::options().storage(Arc::new(storage.clone())).create(&path).unwrap();
    writer.write_raw("a", &packed("a", 1)).unwrap();
    writer.finish().unwrap();
    let finished = snapshot(&storage);
    storage.lose_power(0);
    assert_eq!(snapshot(&storage), finished);
    assert_eq!(open_in(&storage, &path).unwrap().len(), 1);
}
