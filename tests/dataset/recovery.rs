//! A recovery touches only what it can prove to be its own: links, files of others, datasets that
//! another program has written since, names that cannot be replaced.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use kiste::format::dataset::SideFile;
use kiste::index::IndexOptions;
use kiste::repair::{Leftover, Repair};
use kiste::storage::{Create, Lock, MemoryStorage, Sink, Source, Stat, Storage};
use kiste::verify::Verify;
use kiste::{DatasetReader, ErrorKind, Result, Writer, WriterOptions};

use crate::support::{Snapshot, open_in, packed, restore, snapshot};

fn dataset() -> PathBuf {
    PathBuf::from("x.msgpack")
}

fn options(storage: &MemoryStorage) -> WriterOptions {
    Writer::options().storage(Arc::new(storage.clone()))
}

fn repair(storage: &MemoryStorage, path: impl AsRef<Path>) -> Repair {
    Repair::of(path).storage(Arc::new(storage.clone()))
}

/// Writes samples `from..to` with values from `value` on.
fn fill(writer: Result<Writer>, from: u64, to: u64, value: u64) -> Result<()> {
    let mut writer = writer?;
    for i in from..to {
        writer.write_raw(&format!("k{i}"), &packed(&format!("k{i}"), value + i))?;
        writer.sync()?;
    }
    writer.finish().map(drop)
}

fn old(storage: &MemoryStorage) {
    fill(options(storage).lookup(true).create(dataset()), 0, 5, 100).unwrap();
}

fn append(storage: &MemoryStorage) -> Result<()> {
    fill(options(storage).append(dataset()), 5, 8, 0)
}

fn overwrite(storage: &MemoryStorage) -> Result<()> {
    fill(options(storage).overwrite(true).create(dataset()), 0, 7, 0)
}

fn index(storage: &MemoryStorage) -> Result<()> {
    let options = IndexOptions::default().force(true).lookup(true);
    options.storage(Arc::new(storage.clone())).build(dataset()).map(drop)
}

/// The files of the dataset alone.
fn family(storage: &MemoryStorage) -> Snapshot {
    let partial = Path::new("x.msgpack.partial");
    snapshot(storage).into_iter().filter(|(name, _)| !name.starts_with(partial)).collect()
}

fn is_good(storage: &MemoryStorage) -> bool {
    let options = Verify::of(dataset()).deep(true).storage(Arc::new(storage.clone()));
    options.run().is_ok_and(|report| report.problems.is_empty())
}

/// Datasets that another program may have written meanwhile: shorter, as long to the byte, longer.
fn others() -> Vec<Snapshot> {
    let of = |keys: u64, value: u64| {
        let storage = MemoryStorage::new();
        fill(options(&storage).create(dataset()), 0, keys, value).unwrap();
        snapshot(&storage)
    };
    vec![of(2, 7), of(5, 101), of(7, 1), of(30, 7)]
}

/// Puts these files there as a program does that knows nothing of staging directories: with new
/// numbers, or into the files that are there.
fn rewrite(storage: &MemoryStorage, files: &Snapshot, in_place: bool) {
    for (name, bytes) in files {
        let bytes = bytes.clone().unwrap();
        match storage.reopen(name) {
            Ok(mut file) if in_place => {
                file.set_len(0).unwrap();
                file.append(&bytes).unwrap();
                file.sync().unwrap();
            }
            _ => storage.put(name, bytes),
        }
    }
}

/// After a crash at any operation of a write, and another program's dataset in the place: nothing
/// of it changes, whatever is asked for.
fn is_never_touched(act: fn(&MemoryStorage) -> Result<()>, digests: bool) {
    let storage = MemoryStorage::new();
    old(&storage);
    let before = snapshot(&storage);
    let start = storage.operations();
    act(&storage).unwrap();
    let operations = storage.operations() - start;
    let mut refused = 0;
    for k in 0..operations {
        for (other, in_place) in others().iter().flat_map(|o| [(o, false), (o, true)]) {
            let crashed = || {
                let storage = restore(&before);
                storage.fail_after(k);
                assert!(act(&storage).is_err());
                storage.restart();
                rewrite(&storage, other, in_place);
                if !digests {
                    storage.remove(&SideFile::Md5.path(&dataset())).unwrap();
                }
                let family = family(&storage);
                (storage, family)
            };
            let (storage, now) = crashed();
            let what = format!("{k} of {operations}");
            let left = repair(&storage, dataset()).leftover().unwrap();
            assert_eq!(family(&storage), now, "{what}: inspect");
            let foreign = matches!(left, Some(Leftover::Foreign { .. }));
            refused += u64::from(foreign);
            match repair(&storage, dataset()).finish() {
                Ok(_) => assert!(!foreign, "{what}"),
                Err(e) if foreign => assert_eq!(e.kind(), ErrorKind::Foreign, "{what}: {e}"),
                Err(e) => assert_eq!(e.kind(), ErrorKind::NotFound, "{what}: {e}"),
            }
            assert_eq!(family(&storage), now, "{what}: finish");
            let (storage, now) = crashed();
            match repair(&storage, dataset()).undo() {
                Ok(()) => {}
                Err(e) => assert_eq!(e.kind(), ErrorKind::NotFound, "{what}: {e}"),
            }
            assert_eq!(snapshot(&storage), now, "{what}: undo leaves the dataset and nothing else");
            let (storage, _) = crashed();
            overwrite(&storage).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(is_good(&storage), "{what}: written over");
        }
    }
    assert!(refused > 50, "{refused}");
}

/// What another program does.
type Deed = Box<dyn FnOnce() + Send>;

/// A storage where another program does something right before a call of this number.
struct Meanwhile {
    inner: MemoryStorage,
    left: Mutex<(u64, Option<Deed>)>,
}

impl Meanwhile {
    /// Counts the call; those that give a file of the dataset its name are one with the check
    /// before them, as nothing can be done about that moment.
    fn call(&self) -> &MemoryStorage {
        let mut left = self.left.lock().unwrap();
        match left.0 {
            0 => {
                if let Some(act) = left.1.take() {
                    act();
                }
            }
            _ => left.0 -= 1,
        }
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
        self.call().create_with(path, how)
    }

    fn reopen(&self, path: &Path) -> kiste::Result<Box<dyn Sink>> {
        self.call().reopen(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> kiste::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> kiste::Result<()> {
        self.call().remove(path)
    }

    fn create_dir(&self, path: &Path) -> kiste::Result<()> {
        self.call().create_dir(path)
    }
    fn remove_dir(&self, path: &Path) -> kiste::Result<()> {
        self.call().remove_dir(path)
    }

    fn list(&self, dir: &Path) -> kiste::Result<Vec<PathBuf>> {
        self.call().list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> kiste::Result<()> {
        self.call().sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> kiste::Result<Option<Lock>> {
        self.call().lock(path)
    }

    fn lock_file(&self, path: &Path) -> kiste::Result<Option<Lock>> {
        self.call().lock_file(path)
    }
}

#[test]
fn a_dataset_that_is_rewritten_while_side_files_are_made_or_samples_appended() {
    type Act = fn(Arc<dyn Storage>) -> Result<()>;
    let acts: [Act; 3] = [
        |storage| fill(Writer::options().storage(storage).append(dataset()), 5, 8, 0),
        |storage| IndexOptions::default().force(true).storage(storage).build(dataset()).map(drop),
        |storage| IndexOptions::default().lookup(true).storage(storage).build(dataset()).map(drop),
    ];
    let other = others().remove(1);
    let (mut refused, mut calls) = (0, 0);
    for (act, in_place) in acts.into_iter().flat_map(|act| [(act, false), (act, true)]) {
        // Two programs that write into one file at the same time spoil it: a new file is what
        // can be told from the old one.
        if in_place && act as usize == acts[0] as usize {
            continue;
        }
        for n in 0.. {
            let inner = MemoryStorage::new();
            fill(options(&inner).create(dataset()), 0, 5, 100).unwrap();
            let (elsewhere, files) = (inner.clone(), other.clone());
            let rewrite = move || rewrite(&elsewhere, &files, in_place);
            let left = Mutex::new((n, Some(Box::new(rewrite) as Deed)));
            let storage = Arc::new(Meanwhile { inner: inner.clone(), left });
            let result = act(storage.clone());
            if storage.left.lock().unwrap().1.is_some() {
                assert!(n > 50, "{n}");
                break; // fewer calls than that
            }
            calls += 1;
            inner.restart();
            if result.is_err() {
                refused += 1;
                if repair(&inner, dataset()).leftover().unwrap().is_some() {
                    repair(&inner, dataset()).undo().unwrap();
                }
                assert_eq!(snapshot(&inner), other, "{n}, {in_place}: {result:?}");
            }
            assert!(is_good(&inner), "{n}, {in_place}: {result:?}");
        }
    }
    assert!(refused > calls / 3, "{refused} of {calls}");
}

#[test]
fn a_dataset_that_was_rewritten_after_a_killed_append() {
    is_never_touched(append, true);
    is_never_touched(append, false);
}

#[test]
fn a_dataset_that_was_rewritten_after_a_killed_overwrite() {
    is_never_touched(overwrite, true);
}

/// One file that another program has written is no reason to lose a dataset: neither the old one,
/// whose files wait in the staging directory, nor the new one.
#[test]
fn a_foreign_side_file_costs_no_dataset() {
    let storage = MemoryStorage::new();
    old(&storage);
    let before = snapshot(&storage);
    let start = storage.operations();
    overwrite(&storage).unwrap();
    let operations = storage.operations() - start;
    let samples = |storage: &MemoryStorage| -> Result<usize> {
        let reader = open_in(storage, &dataset())?;
        reader.iter_raw(..).map(|raw| raw.map(drop)).collect::<Result<Vec<()>>>().map(|s| s.len())
    };
    for k in 0..operations {
        for suffix in [".md5", ".filter", ".labels", ".lookup"] {
            let crashed = || {
                let storage = restore(&before);
                storage.fail_after(k);
                assert!(overwrite(&storage).is_err());
                storage.restart();
                storage.put(format!("x.msgpack{suffix}"), "hello");
                storage
            };
            let what = format!("{k} of {operations}, {suffix}");
            let storage = crashed();
            if repair(&storage, dataset()).leftover().unwrap().is_some() {
                repair(&storage, dataset()).undo().unwrap_or_else(|e| panic!("{what}: {e}"));
            }
            let found = samples(&storage).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(found == 5 || found == 7, "{what}: {found}");
            assert!(!storage.names().iter().any(|n| n.starts_with("x.msgpack.partial")), "{what}");
            // A write in its place that comes to nothing.
            let storage = crashed();
            let writer = options(&storage).overwrite(true).create(dataset());
            drop(writer.unwrap_or_else(|e| panic!("{what}: {e}")));
            let found = samples(&storage).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(found == 5 || found == 7, "{what}: {found}");
        }
    }
}

/// Another program that has begun, but not finished: the old files may be the only good ones.
#[test]
fn a_foreign_data_file_without_offsets_is_waited_for() {
    let storage = MemoryStorage::new();
    old(&storage);
    let before = snapshot(&storage);
    let start = storage.operations();
    overwrite(&storage).unwrap();
    let mut kept = 0;
    for k in 0..storage.operations() - start {
        let storage = restore(&before);
        storage.fail_after(k);
        assert!(overwrite(&storage).is_err());
        storage.restart();
        let aside = PathBuf::from("x.msgpack.partial/old-data");
        let offsets = SideFile::Offsets.path(&dataset());
        if storage.get(&aside).is_none() || storage.get(&offsets).is_some() {
            continue;
        }
        storage.put(dataset(), "half of something");
        let now = snapshot(&storage);
        for result in [
            repair(&storage, dataset()).finish().map(drop),
            repair(&storage, dataset()).undo(),
            options(&storage).overwrite(true).create(dataset()).map(drop),
        ] {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::Foreign, "{k}");
            assert_eq!(snapshot(&storage), now, "{k}");
        }
        kept += 1;
    }
    assert!(kept > 3, "{kept}");
}

#[test]
fn side_files_are_not_published_over_those_of_another_dataset() {
    let storage = MemoryStorage::new();
    old(&storage);
    let before = snapshot(&storage);
    let start = storage.operations();
    index(&storage).unwrap();
    for k in 0..storage.operations() - start {
        for other in others() {
            let storage = restore(&before);
            storage.fail_after(k);
            assert!(index(&storage).is_err());
            storage.restart();
            rewrite(&storage, &other, true);
            let now = family(&storage);
            let _ = repair(&storage, dataset()).finish();
            assert_eq!(family(&storage), now, "{k}");
        }
    }
}

/// One operation fails, as on a full disk or at a file that cannot be replaced, and the process
/// lives on: the old dataset is readable at once, and both ways out lead to a whole one.
#[test]
fn an_operation_that_fails_leaves_the_old_dataset_readable() {
    for act in [overwrite, append, index] {
        let storage = MemoryStorage::new();
        old(&storage);
        let before = snapshot(&storage);
        let start = storage.operations();
        act(&storage).unwrap();
        let (after, operations) = (snapshot(&storage), storage.operations() - start);
        for k in 0..operations {
            let failed = || {
                let storage = restore(&before);
                storage.fail_once_after(k);
                let result = act(&storage);
                // As a process that ends: its locks go.
                storage.restart();
                (storage, result)
            };
            let (storage, result) = failed();
            let Err(error) = result else {
                assert_eq!(snapshot(&storage), after, "{k}");
                continue;
            };
            assert!(error.path().is_some(), "{error}");
            let reader = open_in(&storage, &dataset());
            let len = reader.unwrap_or_else(|e| panic!("{k} of {operations}: {e}")).len();
            assert!(len == 5 || family(&storage) == after, "{k}: {len}");
            let published = family(&storage) == after;
            match repair(&storage, dataset()).leftover().unwrap() {
                None => assert!([&before, &after].contains(&&snapshot(&storage)), "{k}"),
                Some(left) => {
                    repair(&storage, dataset()).undo().unwrap();
                    let now = snapshot(&storage);
                    let expected = if published { &after } else { &before };
                    assert_eq!(&now, expected, "{k}: {left:?}");
                    let (storage, _) = failed();
                    repair(&storage, dataset()).finish().unwrap();
                    assert!(is_good(&storage), "{k}");
                }
            }
        }
    }
}

#[test]
fn a_write_that_cannot_begin_leaves_nothing_behind() {
    let storage = MemoryStorage::new();
    old(&storage);
    let before = snapshot(&storage);
    let begin: [fn(&MemoryStorage) -> Result<Writer>; 2] = [
        |storage| options(storage).overwrite(true).create(dataset()),
        |storage| options(storage).append(dataset()),
    ];
    for begin in begin {
        let start = storage.operations();
        let writer = begin(&storage).unwrap();
        let operations = storage.operations() - start;
        drop(writer);
        assert!(operations > 5);
        for k in 0..operations {
            let storage = restore(&before);
            storage.fail_once_after(k);
            assert!(begin(&storage).is_err(), "{k}");
            assert_eq!(snapshot(&storage), before, "{k} of {operations}");
        }
    }
}

#[test]
fn finishing_takes_no_labels_of_another_dataset() {
    let labels = kiste::dataset::labels_path(&dataset());
    let first = |storage: &MemoryStorage| {
        let mut writer = options(storage).create(dataset()).unwrap();
        writer.set_labels(Some(&["cat", "dog"])).unwrap();
        fill(Ok(writer), 0, 3, 0).unwrap();
    };
    let second = |storage: &MemoryStorage| -> Result<()> {
        let mut writer = options(storage).overwrite(true).create(dataset())?;
        writer.write_raw("k0", &packed("k0", 0))?;
        writer.sync()?;
        writer.set_labels(Some(&["cow"]))?;
        fill(Ok(writer), 1, 4, 0)
    };
    let storage = MemoryStorage::new();
    first(&storage);
    let before = snapshot(&storage);
    let start = storage.operations();
    second(&storage).unwrap();
    let mut found = std::collections::BTreeSet::new();
    for k in 0..storage.operations() - start {
        let storage = restore(&before);
        storage.fail_after(k);
        assert!(second(&storage).is_err());
        storage.restart();
        if repair(&storage, dataset()).leftover().unwrap().is_some() {
            repair(&storage, dataset()).finish().unwrap();
        }
        let names = storage.get(&labels).map(|text| String::from_utf8(text).unwrap());
        if snapshot(&storage) == before {
            continue;
        }
        assert!(is_good(&storage), "{k}");
        found.insert(names);
    }
    // None before they were known, and never those of the animals before.
    assert_eq!(found.into_iter().collect::<Vec<_>>(), [None, Some("cow\n".to_owned())]);
}

#[test]
fn finishing_puts_no_empty_dataset_in_the_place_of_a_full_one() {
    let storage = MemoryStorage::new();
    old(&storage);
    let before = snapshot(&storage);
    let writer = options(&storage).overwrite(true).create(dataset()).unwrap();
    std::mem::forget(writer); // as if the process had died
    storage.restart();
    assert_eq!(repair(&storage, dataset()).whole_samples().unwrap(), 0);
    assert_eq!(repair(&storage, dataset()).finish().unwrap(), None);
    assert_eq!(snapshot(&storage), before);
}

#[test]
fn a_dataset_that_appears_meanwhile_is_not_replaced() {
    let storage = MemoryStorage::new();
    let mut writer = options(&storage).create(dataset()).unwrap();
    writer.write_raw("k0", &packed("k0", 0)).unwrap();
    for (name, bytes) in others().remove(0) {
        storage.put(name, bytes.unwrap());
    }
    let now = family(&storage);
    assert_eq!(writer.finish().unwrap_err().kind(), ErrorKind::Foreign);
    assert_eq!(family(&storage), now);
    repair(&storage, dataset()).undo().unwrap();
    assert_eq!(snapshot(&storage), now);
}

#[test]
fn a_journal_of_another_version_is_not_believed() {
    let storage = MemoryStorage::new();
    old(&storage);
    for version in [0, 1, 3, u64::MAX] {
        for file in ["journal", "commit"] {
            let storage = restore(&snapshot(&storage));
            let text = format!("{{\"version\":{version},\"base\":{{\"samples\":0,\"bytes\":0}}}}");
            storage.put(format!("x.msgpack.partial/{file}"), text);
            let now = snapshot(&storage);
            for result in [
                repair(&storage, dataset()).leftover().map(drop),
                repair(&storage, dataset()).finish().map(drop),
                repair(&storage, dataset()).undo(),
                overwrite(&storage),
            ] {
                let error = result.unwrap_err();
                let expected = match version > u64::from(u32::MAX) {
                    true => ErrorKind::Damaged,
                    false => ErrorKind::Unsupported,
                };
                assert_eq!(error.kind(), expected, "{error}");
            }
            let lock = PathBuf::from("x.msgpack.partial/lock");
            let rest: Snapshot =
                snapshot(&storage).into_iter().filter(|(name, _)| *name != lock).collect();
            assert_eq!(rest, now);
        }
    }
}

#[test]
fn a_stale_lookup_changes_no_answer() {
    // The accelerator of another dataset with as many keys, as when Python rewrites one.
    let other = MemoryStorage::new();
    let mut writer = options(&other).lookup(true).create(dataset()).unwrap();
    for i in 0..5 {
        writer.write_raw(&format!("o{i}"), &packed(&format!("o{i}"), i)).unwrap();
    }
    writer.finish().unwrap();
    let lookup = SideFile::Lookup.path(&dataset());
    let stale = other.get(&lookup).unwrap();
    let storage = MemoryStorage::new();
    old(&storage);
    let own = storage.get(&lookup).unwrap();
    // Of another dataset; with slots that are wrong; with slots that make no sense; cut; no table.
    let mut swapped = own.clone();
    swapped[128..].rotate_left(4);
    let mut senseless = own.clone();
    senseless[128..].fill(0x77);
    for bad in [stale, swapped, senseless, own[..own.len() - 4].to_vec(), b"?".to_vec()] {
        storage.put(&lookup, bad);
        let reader = open_in(&storage, &dataset()).unwrap();
        for _ in 0..2 {
            for i in 0..5 {
                let key = format!("k{i}");
                assert_eq!(reader.find(&key).unwrap(), Some(i), "{key}");
                assert!(reader.contains_key(&key).unwrap());
            }
            assert_eq!(reader.find("o1").unwrap(), None);
            assert!(!reader.contains_key("o1").unwrap());
        }
        reader.prepare_keys().unwrap();
        assert_eq!(reader.find("k3").unwrap(), Some(3));
        assert!(!is_good(&storage), "verifying tells");
    }
}

#[test]
fn verifying_during_an_append_is_about_the_dataset_as_it_was() {
    let storage = MemoryStorage::new();
    old(&storage);
    let mut writer = options(&storage).append(dataset()).unwrap();
    writer.write_raw("k5", &packed("k5", 5)).unwrap();
    writer.flush().unwrap();
    let verify = |deep| {
        let options = Verify::of(dataset()).deep(deep).storage(Arc::new(storage.clone()));
        options.run().unwrap()
    };
    for deep in [false, true] {
        let report = verify(deep);
        assert!(report.being_written && report.problems.is_empty(), "{:?}", report.problems);
        assert_eq!(report.samples, 5);
    }
    drop(writer);
    // The same when its writer is dead, but for the leftover.
    let report = verify(true);
    assert!(!report.being_written);
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    assert!(report.problems[0].file.ends_with("x.msgpack.partial"));
    repair(&storage, dataset()).finish().unwrap();
    assert_eq!(verify(true).samples, 6);
}

/// What needs a file system with links, modes and owners.
#[cfg(unix)]
mod on_disk {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    use super::*;

    fn write(path: &Path, keys: std::ops::Range<u64>) {
        fill(Writer::create(path), keys.start, keys.end, 0).unwrap();
    }

    /// Every file below a directory with its bytes; of links, where they lead.
    fn tree(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let kind = path.symlink_metadata().unwrap();
            if kind.is_symlink() {
                let to = fs::read_link(&path).unwrap();
                found.push((path, to.into_os_string().into_encoded_bytes()));
            } else if kind.is_dir() {
                found.push((path.clone(), Vec::new()));
                found.extend(tree(&path));
            } else {
                found.push((path.clone(), fs::read(&path).unwrap()));
            }
        }
        found.sort();
        found
    }

    /// Everything that recovers refuses, and nothing below the directory has changed.
    fn all_refuse(dir: &Path, path: &Path) {
        let before = tree(dir);
        for result in [
            Repair::of(path).leftover().map(drop),
            Repair::of(path).whole_samples().map(drop),
            Repair::of(path).finish().map(drop),
            Repair::of(path).undo(),
            Writer::options().overwrite(true).create(path).map(drop),
            Writer::create(path).map(drop),
            Writer::options().resume(path).map(drop),
            Writer::append(path).map(drop),
            IndexOptions::default().force(true).build(path).map(drop),
        ] {
            let error = result.unwrap_err();
            let kinds =
                [ErrorKind::Foreign, ErrorKind::AlreadyExists, ErrorKind::NotFound, ErrorKind::Io];
            assert!(kinds.contains(&error.kind()), "{error:?}");
        }
        assert_eq!(tree(dir), before);
    }

    #[test]
    fn a_link_in_the_place_of_the_staging_directory_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (victim, path) = (dir.path().join("victim"), dir.path().join("x.msgpack"));
        fs::create_dir(&victim).unwrap();
        for name in ["a", "b", "data", "journal", "lock"] {
            fs::write(victim.join(name), name).unwrap();
        }
        symlink(&victim, dir.path().join("x.msgpack.partial")).unwrap();
        all_refuse(dir.path(), &path);
        write(&dir.path().join("y.msgpack"), 0..3);
        symlink(&victim, dir.path().join("y.msgpack.partial")).unwrap();
        all_refuse(dir.path(), &dir.path().join("y.msgpack"));
    }

    #[test]
    fn nothing_but_regular_files_of_ours_is_touched_in_the_staging_directory() {
        type Plant = fn(&Path, &Path);
        let plants: [(&str, Plant); 6] = [
            ("a link for the data", |partial, victim| {
                symlink(victim, partial.join("data")).unwrap();
            }),
            ("a link for the journal", |partial, victim| {
                fs::remove_file(partial.join("journal")).unwrap();
                symlink(victim, partial.join("journal")).unwrap();
            }),
            ("a link for the lock", |partial, victim| {
                fs::remove_file(partial.join("lock")).unwrap();
                symlink(victim, partial.join("lock")).unwrap();
            }),
            ("a directory for a side file", |partial, _| {
                fs::create_dir(partial.join("md5")).unwrap();
            }),
            ("somebody's notes", |partial, _| {
                fs::write(partial.join("notes.txt"), "mine").unwrap();
            }),
            ("a name that is nearly ours", |partial, _| {
                fs::write(partial.join("scratch-1.bak"), "mine").unwrap();
            }),
        ];
        for (what, plant) in plants {
            let dir = tempfile::tempdir().unwrap();
            let (path, victim) = (dir.path().join("x.msgpack"), dir.path().join("victim"));
            fs::write(&victim, "thesis").unwrap();
            let mut writer = Writer::create(&path).unwrap();
            writer.write_raw("a", &packed("a", 0)).unwrap();
            drop(writer);
            let partial = dir.path().join("x.msgpack.partial");
            if what.ends_with("the data") {
                fs::remove_file(partial.join("data")).unwrap();
            }
            plant(&partial, &victim);
            let before = tree(dir.path());
            for result in [
                Repair::of(&path).leftover().map(drop),
                Repair::of(&path).finish().map(drop),
                Repair::of(&path).undo(),
                Writer::options().overwrite(true).create(&path).map(drop),
            ] {
                let error = result.expect_err(what);
                assert!(
                    [ErrorKind::Foreign, ErrorKind::Io].contains(&error.kind()),
                    "{what}: {error:?}"
                );
            }
            assert_eq!(tree(dir.path()), before, "{what}");
        }
    }

    #[test]
    fn a_planted_journal_truncates_nothing_behind_a_link() {
        // A real journal of an append, moved next to a link.
        let dir = tempfile::tempdir().unwrap();
        let (path, thesis) = (dir.path().join("x.msgpack"), dir.path().join("thesis"));
        write(&path, 0..3);
        let mut writer = Writer::append(&path).unwrap();
        writer.write_raw("k3", &packed("k3", 3)).unwrap();
        drop(writer);
        let mut content = fs::read(&path).unwrap();
        content.extend_from_slice(b"and a thesis");
        fs::write(&thesis, content).unwrap();
        symlink(&thesis, dir.path().join("y.msgpack")).unwrap();
        fs::rename(dir.path().join("x.msgpack.partial"), dir.path().join("y.msgpack.partial"))
            .unwrap();
        let before = fs::read(&thesis).unwrap();
        let y = dir.path().join("y.msgpack");
        assert!(matches!(Repair::of(&y).leftover().unwrap(), Some(Leftover::Foreign { .. })));
        assert_eq!(Repair::of(&y).finish().unwrap_err().kind(), ErrorKind::Foreign);
        Repair::of(&y).undo().unwrap();
        assert_eq!(fs::read(&thesis).unwrap(), before);
        assert!(!dir.path().join("y.msgpack.partial").exists());
    }

    #[test]
    fn two_names_of_a_data_file_have_one_lock() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("x.msgpack"), dir.path().join("link.msgpack"));
        let (hard, other) = (dir.path().join("hard.msgpack"), dir.path().join("other.msgpack"));
        write(&path, 0..3);
        symlink("x.msgpack", &link).unwrap();
        let mut writer = Writer::append(&path).unwrap();
        writer.write_raw("k3", &packed("k3", 3)).unwrap();
        assert_eq!(Writer::append(&link).unwrap_err().kind(), ErrorKind::Locked);
        // A hard link made while the append is at work has a staging directory of its own.
        fs::hard_link(&path, &hard).unwrap();
        for side in SideFile::WRITTEN {
            fs::copy(side.path(&path), side.path(&hard)).unwrap();
        }
        // That the data file is longer than its offsets say may be seen first.
        let error = Writer::append(&hard).unwrap_err();
        assert!([ErrorKind::Locked, ErrorKind::Damaged].contains(&error.kind()), "{error:?}");
        let build = IndexOptions::default().force(true).build(&hard);
        assert_eq!(build.unwrap_err().kind(), ErrorKind::Locked);
        writer.finish().unwrap();
        // Through a link the dataset itself is appended to, and goes on being one.
        fs::remove_file(&hard).unwrap();
        fill(Writer::append(&link), 4, 6, 0).unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert!(!dir.path().join("link.msgpack.offsets").exists());
        assert_eq!(DatasetReader::open(&path).unwrap().len(), 6);
        assert!(kiste::verify::verify(&path).unwrap().problems.is_empty());
        // Side files next to the link would no longer fit.
        write(&other, 0..6);
        fs::copy(SideFile::Keys.path(&other), SideFile::Keys.path(&link)).unwrap();
        let error = Writer::append(&link).unwrap_err();
        assert_eq!(
            (error.kind(), error.path()),
            (ErrorKind::Invalid, Some(&*SideFile::Keys.path(&link)))
        );
    }

    /// What an append through a link left is next to what the link leads to, and seen through it.
    #[test]
    fn an_append_through_a_link_is_repaired_through_it() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("x.msgpack"), dir.path().join("link.msgpack"));
        write(&path, 0..3);
        for (file, name) in [("x.msgpack", "link.msgpack")] {
            symlink(file, dir.path().join(name)).unwrap();
            for side in SideFile::WRITTEN {
                let (file, name) = (side.path(Path::new(file)), side.path(Path::new(name)));
                symlink(file, dir.path().join(name)).unwrap();
            }
        }
        let before = tree(dir.path());
        let mut writer = Writer::append(&link).unwrap();
        writer.write_raw("k3", &packed("k3", 3)).unwrap();
        writer.flush().unwrap();
        // A reader by the link sees the dataset as it was, too.
        assert_eq!(DatasetReader::open(&link).unwrap().len(), 3);
        assert!(kiste::verify::verify(&link).unwrap().being_written);
        let build = IndexOptions::default().force(true).build(&link);
        assert_eq!(build.unwrap_err().kind(), ErrorKind::Locked);
        drop(writer);
        assert!(matches!(Repair::of(&link).leftover().unwrap(), Some(Leftover::Samples { .. })));
        let build = IndexOptions::default().force(true).build(&link);
        assert_eq!(build.unwrap_err().kind(), ErrorKind::Interrupted);
        Repair::of(&link).undo().unwrap();
        assert_eq!(tree(dir.path()), before);
    }

    #[test]
    fn a_link_that_leads_elsewhere_now_is_another_dataset() {
        use kiste::storage::LocalStorage;
        let dir = tempfile::tempdir().unwrap();
        let [one, two, link] = ["1.msgpack", "2.msgpack", "l.msgpack"].map(|n| dir.path().join(n));
        write(&one, 0..3);
        write(&two, 5..9);
        symlink("1.msgpack", &link).unwrap();
        // A publication that was cut short before its first rename.
        struct Cut;
        impl fmt::Debug for Cut {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("Cut")
            }
        }
        const REAL: fn() -> LocalStorage = LocalStorage::mapped;
        impl Storage for Cut {
            fn open(&self, path: &Path) -> kiste::Result<Source> {
                REAL().open(path)
            }
            fn stat(&self, path: &Path) -> kiste::Result<Option<Stat>> {
                REAL().stat(path)
            }
            fn lstat(&self, path: &Path) -> kiste::Result<Option<Stat>> {
                REAL().lstat(path)
            }
            fn create_with(&self, path: &Path, how: Create) -> kiste::Result<Box<dyn Sink>> {
                REAL().create_with(path, how)
            }
            fn reopen(&self, path: &Path) -> kiste::Result<Box<dyn Sink>> {
                REAL().reopen(path)
            }
            fn rename(&self, from: &Path, to: &Path) -> kiste::Result<()> {
                match to.starts_with(from.parent().unwrap()) && to.extension().is_none() {
                    true => REAL().rename(from, to),
                    false => Err(kiste::Error::io(to, io::Error::other("cut short"))),
                }
            }
            fn remove(&self, path: &Path) -> kiste::Result<()> {
                match path.ends_with("commit") {
                    true => Err(kiste::Error::io(path, io::Error::other("cut short"))),
                    false => REAL().remove(path),
                }
            }
            fn create_dir(&self, path: &Path) -> kiste::Result<()> {
                REAL().create_dir(path)
            }
            fn remove_dir(&self, path: &Path) -> kiste::Result<()> {
                REAL().remove_dir(path)
            }
            fn list(&self, dir: &Path) -> kiste::Result<Vec<PathBuf>> {
                REAL().list(dir)
            }
            fn sync_dir(&self, dir: &Path) -> kiste::Result<()> {
                REAL().sync_dir(dir)
            }
            fn lock(&self, path: &Path) -> kiste::Result<Option<Lock>> {
                REAL().lock(path)
            }
            fn lock_file(&self, path: &Path) -> kiste::Result<Option<Lock>> {
                REAL().lock_file(path)
            }
        }
        IndexOptions::default().storage(Arc::new(Cut)).build(&link).unwrap_err();
        assert_eq!(Repair::of(&link).leftover().unwrap(), Some(Leftover::Committed));
        fs::remove_file(&link).unwrap();
        symlink("2.msgpack", &link).unwrap();
        assert!(matches!(Repair::of(&link).leftover().unwrap(), Some(Leftover::Foreign { .. })));
        assert_eq!(Repair::of(&link).finish().unwrap_err().kind(), ErrorKind::Foreign);
        Repair::of(&link).undo().unwrap();
        assert!(!dir.path().join("l.msgpack.offsets").exists());
    }

    #[test]
    fn a_dataset_that_is_read_only_is_replaced_by_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.msgpack");
        write(&path, 0..3);
        for file in crate::support::files_of(&path) {
            fs::set_permissions(file, fs::Permissions::from_mode(0o444)).unwrap();
        }
        let mut writer = Writer::options().overwrite(true).create(&path).unwrap();
        writer.write_raw("new", &packed("new", 0)).unwrap();
        drop(writer);
        // Its owner can resume it.
        let data = dir.path().join("x.msgpack.partial/data");
        assert_eq!(fs::metadata(data).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(Repair::of(&path).finish().unwrap().map(|stats| stats.samples), Some(1));
        for file in crate::support::files_of(&path) {
            let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o444, "{}", file.display());
        }
    }

    #[test]
    fn an_append_does_not_spoil_a_copy_made_of_hard_links() {
        let dir = tempfile::tempdir().unwrap();
        let (path, copy) = (dir.path().join("x.msgpack"), dir.path().join("backup.msgpack"));
        write(&path, 0..3);
        fs::hard_link(&path, &copy).unwrap();
        for side in SideFile::WRITTEN.into_iter().filter(|side| *side != SideFile::Md5) {
            fs::hard_link(side.path(&path), side.path(&copy)).unwrap();
        }
        let before = tree(dir.path());
        let error = Writer::append(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("2 names"), "{error}");
        assert_eq!(tree(dir.path()), before);
        // A dataset that replaces it leaves the other name alone.
        fill(Writer::options().overwrite(true).create(&path), 0, 7, 9).unwrap();
        assert_eq!(DatasetReader::open(&copy).unwrap().len(), 3);
        assert!(kiste::verify::verify(&copy).unwrap().problems.is_empty());
    }

    #[test]
    fn names_that_cannot_be_had_are_told_before_the_work() {
        let dir = tempfile::tempdir().unwrap();
        // With ".key_hashes" it has 257 bytes, with ".partial" 254.
        let long = dir.path().join("n".repeat(246));
        assert!(Writer::create(&long).unwrap_err().path().unwrap().to_str().unwrap().len() > 246);
        assert!(tree(dir.path()).is_empty());
        let path = dir.path().join("x.msgpack");
        fs::create_dir(SideFile::Keys.path(&path)).unwrap();
        let error = Writer::create(&path).unwrap_err();
        assert_eq!(error.path(), Some(&*SideFile::Keys.path(&path)), "{error}");
        assert_eq!(tree(dir.path()).len(), 1);
        fs::remove_dir(SideFile::Keys.path(&path)).unwrap();
        write(&path, 0..3);
        // One that gets in the way meanwhile.
        let keys = SideFile::Keys.path(&path);
        let mut writer = Writer::options().overwrite(true).create(&path).unwrap();
        writer.write_raw("new", &packed("new", 0)).unwrap();
        fs::rename(&keys, dir.path().join("keys")).unwrap();
        fs::create_dir(&keys).unwrap();
        let error = writer.finish().unwrap_err();
        assert_eq!(error.path(), Some(&*keys), "{error}");
        assert_eq!(DatasetReader::open(&path).unwrap().len(), 3);
        fs::remove_dir(&keys).unwrap();
        fs::rename(dir.path().join("keys"), &keys).unwrap();
        Repair::of(&path).undo().unwrap();
        assert!(kiste::verify::verify(&path).unwrap().problems.is_empty());
    }

    #[test]
    fn permissions_stay_those_of_the_dataset() {
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        for bits in [0o600, 0o640, 0o666] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("x.msgpack");
            fill(Writer::options().lookup(true).create(&path), 0, 3, 0).unwrap();
            let sides = SideFile::WRITTEN.into_iter().chain([SideFile::Lookup]);
            let files: Vec<PathBuf> = [path.clone()]
                .into_iter()
                .chain(sides.map(|side| side.path(&path)))
                .chain([kiste::dataset::labels_path(&path)])
                .collect();
            let labelled = |writer: Result<Writer>| {
                let mut writer = writer.unwrap();
                writer.set_labels(Some(&["a"])).unwrap();
                writer
            };
            fs::write(kiste::dataset::labels_path(&path), "a\n").unwrap();
            for file in &files {
                fs::set_permissions(file, fs::Permissions::from_mode(bits)).unwrap();
            }
            let check = |what: &str| {
                for file in &files {
                    assert_eq!(mode(file), bits, "{what}: {}", file.display());
                }
            };
            let writer = labelled(Writer::options().overwrite(true).lookup(true).create(&path));
            fill(Ok(writer), 0, 4, 0).unwrap();
            check("replaced");
            fill(Ok(labelled(Writer::append(&path))), 4, 6, 0).unwrap();
            check("appended to");
            IndexOptions::default().force(true).build(&path).unwrap();
            check("indexed");
            let mut writer = labelled(Writer::options().overwrite(true).lookup(true).create(&path));
            writer.write_raw("k0", &packed("k0", 0)).unwrap();
            drop(writer);
            let partial = dir.path().join("x.msgpack.partial");
            for file in fs::read_dir(partial).unwrap().map(|entry| entry.unwrap().path()) {
                assert!(mode(&file) == bits || file.ends_with("lock"), "{}", file.display());
            }
            Repair::of(&path).finish().unwrap();
            check("finished");
        }
    }

    /// As in a directory that many may write to.
    #[test]
    fn what_another_user_put_there_is_not_finished() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.msgpack");
        write(&path, 0..3);
        let mut writer = Writer::options().overwrite(true).create(&path).unwrap();
        writer.write_raw("theirs", &packed("theirs", 0)).unwrap();
        drop(writer);
        let partial = dir.path().join("x.msgpack.partial");
        let owner = fs::metadata(&partial).unwrap().uid();
        if owner != 0 || chown(&partial, Some(12345), None).is_err() {
            return; // only the superuser can give files away
        }
        for result in [Repair::of(&path).leftover().map(drop), Repair::of(&path).finish().map(drop)]
        {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
            assert!(error.to_string().contains("12345"), "{error}");
        }
        assert_eq!(DatasetReader::open(&path).unwrap().len(), 3);
        // That of the owner of the dataset is: somebody has to repair it for them.
        chown(&path, Some(12345), None).unwrap();
        assert!(Repair::of(&path).finish().unwrap().is_some());
    }
}

/// A disk that is full, or a call that fails, at any moment of a command whose samples can be made again:
/// nothing is left of them, unless they are complete. So what a repair finishes lacks nothing.
#[test]
fn what_a_failing_call_leaves_is_nothing_or_complete() {
    use kiste::Remedy;
    use kiste::rearrange::NewDataset;

    fn make(storage: &MemoryStorage) -> Result<()> {
        let new = NewDataset::new(dataset()).writer(options(storage)).overwrite(true);
        let labels = ["cat".to_owned()];
        let made = new.make(Some(&labels), |writer| {
            (0..7)
                .try_for_each(|i| writer.write_raw(&format!("k{i}"), &packed(&format!("k{i}"), i)))
        });
        made.map(drop)
    }
    fn save(storage: &MemoryStorage) -> Result<()> {
        let repair = repair(storage, "damaged.msgpack").writer(options(storage).overwrite(true));
        repair.salvage(dataset()).map(drop)
    }
    for (act, of) in [(make as fn(&MemoryStorage) -> Result<()>, 7), (save, 8)] {
        let storage = MemoryStorage::new();
        old(&storage);
        fill(options(&storage).create("damaged.msgpack"), 0, 9, 0).unwrap();
        // The sample in the middle.
        let mut bytes = storage.get("damaged.msgpack").unwrap();
        bytes[4 * 11] = 0xc1;
        storage.put("damaged.msgpack", bytes);
        let before = snapshot(&storage);
        let start = storage.operations();
        act(&storage).unwrap();
        let (after, operations) = (family(&storage), storage.operations() - start);
        let mut kept = 0;
        for k in 0..operations {
            let storage = restore(&before);
            storage.fail_once_after(k);
            let Err(error) = act(&storage) else { continue };
            storage.restart();
            let left = repair(&storage, dataset()).leftover().unwrap();
            match left {
                None | Some(Leftover::Nothing) => {
                    let report = |name: &PathBuf| name.ends_with("x.msgpack.repair.json");
                    let partial = |name: &PathBuf| name.starts_with("x.msgpack.partial");
                    let mut now = snapshot(&storage);
                    now.retain(|name, _| !report(name) && !partial(name));
                    if now != before {
                        // The last steps: it is published.
                        assert_eq!(
                            open_in(&storage, &dataset()).unwrap().len(),
                            of,
                            "{k}: {error}"
                        );
                    }
                }
                Some(Leftover::Committed) => {}
                Some(Leftover::Samples { complete, .. }) => {
                    kept += 1;
                    assert!(complete, "{k}: {error}");
                    let expected = Remedy::Repair(dataset());
                    assert_eq!(error.remedy(), Some(&expected), "{k}: {error}");
                    let repaired = repair(&storage, dataset()).plan(None).unwrap().run().unwrap();
                    assert!(!repaired.cut_short);
                    assert_eq!(family(&storage)[&dataset()], after[&dataset()], "{k}: {error}");
                    assert_eq!(open_in(&storage, &dataset()).unwrap().len(), of, "{k}: {error}");
                }
                other => panic!("{k}: {error}: {other:?}"),
            }
        }
        assert!(kept > 3, "{kept} of {operations}");
    }
}

/// A writer that was cut short, and one that lacks its last steps, are told apart: what a repair publishes
/// of the former is a beginning, and stays one if that repair is cut short too.
#[test]
fn a_beginning_is_not_taken_for_all_of_it() {
    let storage = MemoryStorage::new();
    let mut writer = options(&storage).create(dataset()).unwrap();
    for i in 0..3 {
        writer.write_raw(&format!("k{i}"), &packed(&format!("k{i}"), i)).unwrap();
    }
    writer.flush().unwrap();
    drop(writer);
    let before = snapshot(&storage);
    let finish = |storage: &MemoryStorage| {
        let repair = repair(storage, dataset());
        let plan = repair.plan(Some(kiste::repair::Ending::Finish))?;
        assert!(!plan.complete);
        plan.run()
    };
    let start = storage.operations();
    assert!(finish(&storage).unwrap().cut_short);
    for k in 0..storage.operations() - start {
        let storage = restore(&before);
        storage.fail_after(k);
        let _ = finish(&storage);
        storage.restart();
        if let Some(Leftover::Samples { complete, .. }) =
            repair(&storage, dataset()).leftover().unwrap()
        {
            assert!(!complete, "{k}");
        }
    }
}

/// The last that a writer does is to remove its directory: one that died just before has left nothing that
/// is wrong with the dataset.
#[test]
fn a_directory_with_nothing_but_a_lock_is_no_problem() {
    let (storage, partial) = (MemoryStorage::new(), Path::new("x.msgpack.partial"));
    old(&storage);
    storage.create_dir(partial).unwrap();
    let verify = || {
        let report = Verify::of(dataset()).storage(Arc::new(storage.clone())).run().unwrap();
        (report.is_good(), report.leftover)
    };
    assert_eq!(verify(), (true, Some(partial.to_path_buf())));
    for name in ["lock", "old-keys", "units", "complete"] {
        storage.put(partial.join(name), "");
        assert_eq!(verify(), (true, Some(partial.to_path_buf())), "{name}");
    }
    for name in ["journal", "commit", "data", "thesis.txt"] {
        storage.put(partial.join(name), "");
        // One that is no journal is an error of its own.
        let report = Verify::of(dataset()).storage(Arc::new(storage.clone())).run();
        assert!(report.is_ok_and(|report| !report.is_good()), "{name}");
        storage.remove(&partial.join(name)).unwrap();
    }
    repair(&storage, dataset()).plan(None).unwrap().run().unwrap();
    assert!(storage.list(partial).is_err() || storage.list(partial).unwrap().is_empty());
}
