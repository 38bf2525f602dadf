//! Files and directories that take the place of older ones: every operation fails once, the process
//! dies and the power fails at each of them, and there is the old one or the new one, whole.

use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use kiste::storage::{
    Expected, FileId, LocalStorage, MemoryStorage, ReplaceDir, ReplaceFile, ReplaceOptions, Storage,
};
use kiste::{ErrorKind, Result};

const OLD: &[u8] = b"old";
const NEW: &[u8] = b"the new one";

fn replace(storage: &MemoryStorage, options: &ReplaceOptions) -> Result<()> {
    let mut file = ReplaceFile::create_in(storage, "dir/list", options)?;
    let (head, rest) = NEW.split_at(4);
    file.append(b"THE ")?;
    file.append(rest)?;
    file.write_at(head, 0)?;
    file.finish()
}

fn make_dir(storage: &MemoryStorage) -> Result<()> {
    let dir = ReplaceDir::create_in(storage, "dir/made/", &ReplaceOptions::default())?;
    storage.create(&dir.path().join("a"))?.append(OLD)?;
    storage.create_dir(&dir.path().join("sub"))?;
    storage.create(&dir.path().join("sub/b"))?.append(NEW)?;
    dir.finish()
}

fn old() -> MemoryStorage {
    let storage = MemoryStorage::new();
    storage.put("dir/list", OLD);
    storage
}

/// The names of what no one would look for.
fn litter(storage: &MemoryStorage) -> Vec<PathBuf> {
    let known = ["dir", "dir/list", "dir/made", "dir/made/a", "dir/made/sub", "dir/made/sub/b"];
    let names = storage.names().into_iter();
    names.filter(|name| !known.iter().any(|known| name == Path::new(known))).collect()
}

/// How many operations it takes.
fn operations(storage: &MemoryStorage, work: impl Fn(&MemoryStorage) -> Result<()>) -> u64 {
    let before = storage.operations();
    work(storage).unwrap();
    storage.operations() - before
}

#[test]
fn a_file_is_the_old_or_the_new_one_whichever_operation_fails() {
    let options = ReplaceOptions::default();
    for at in 0..operations(&old(), |storage| replace(storage, &options)) {
        let storage = old();
        storage.fail_once_after(at);
        let error = replace(&storage, &options).unwrap_err();
        assert!(error.path().is_some_and(|path| path.starts_with("dir")), "{at}: {error}");
        assert!(!error.to_string().contains("partial"), "{at}: {error}");
        let now = storage.get("dir/list").unwrap();
        assert!(now == OLD || now == NEW, "{at}: {now:?}");
        assert_eq!(litter(&storage), [""; 0].map(PathBuf::from), "{at}");
        replace(&storage, &options).unwrap();
        assert_eq!(storage.get("dir/list").unwrap(), NEW, "{at}");
    }
}

#[test]
fn a_file_is_the_old_or_the_new_one_wherever_the_process_dies() {
    let options = ReplaceOptions::default();
    for at in 0..operations(&old(), |storage| replace(storage, &options)) {
        for seed in 0..20 {
            let storage = old();
            storage.fail_after(at);
            replace(&storage, &options).unwrap_err();
            match seed {
                0 => storage.restart(),
                seed => storage.lose_power(seed),
            }
            let now = storage.get("dir/list").unwrap();
            assert!(now == OLD || now == NEW, "{at} {seed}: {now:?}");
            // What a process that died has left is in no one's way.
            replace(&storage, &options).unwrap();
            storage.lose_power(0);
            assert_eq!(storage.get("dir/list").unwrap(), NEW, "{at} {seed}");
        }
    }
}

#[test]
fn a_directory_is_there_with_everything_in_it_or_not_at_all() {
    for at in 0..operations(&old(), make_dir) {
        let storage = old();
        storage.fail_once_after(at);
        make_dir(&storage).unwrap_err();
        assert_eq!(litter(&storage), [""; 0].map(PathBuf::from), "{at}");
        for seed in 0..20 {
            let storage = old();
            storage.fail_after(at);
            make_dir(&storage).unwrap_err();
            storage.lose_power(seed);
            let whole = |storage: &MemoryStorage| {
                storage.get("dir/made/a").as_deref() == Some(OLD)
                    && storage.get("dir/made/sub/b").as_deref() == Some(NEW)
            };
            let is_there = storage.stat(Path::new("dir/made")).unwrap().is_some();
            assert!(!is_there || whole(&storage), "{at} {seed}: {:?}", storage.names());
            if !is_there {
                make_dir(&storage).unwrap();
                storage.lose_power(0);
                assert!(whole(&storage), "{at} {seed}");
            }
        }
    }
    let storage = old();
    make_dir(&storage).unwrap();
    assert_eq!(make_dir(&storage).unwrap_err().kind(), ErrorKind::AlreadyExists);
}

#[test]
fn a_file_that_must_not_be_overwritten_is_not() {
    let keep = ReplaceOptions::default().overwrite(false);
    let storage = old();
    assert_eq!(replace(&storage, &keep).unwrap_err().kind(), ErrorKind::AlreadyExists);
    // Nor is one that was made meanwhile.
    storage.remove(Path::new("dir/list")).unwrap();
    let mut file = ReplaceFile::create_in(&storage, "dir/list", &keep).unwrap();
    file.append(NEW).unwrap();
    storage.put("dir/list", OLD);
    assert_eq!(file.finish().unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(storage.get("dir/list").unwrap(), OLD);
    assert!(litter(&storage).is_empty());
    // A directory never is.
    let options = ReplaceOptions::default();
    let error = ReplaceFile::create_in(&storage, "dir", &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn a_file_is_written_as_any_other() {
    let storage = old();
    let mut file =
        ReplaceFile::create_in(&storage, "dir/list", &ReplaceOptions::default()).unwrap();
    file.write_all(b"0123456").unwrap();
    file.seek(SeekFrom::Start(5)).unwrap();
    file.write_all(b"ABC").unwrap();
    assert_eq!((file.len(), file.stream_position().unwrap()), (8, 8));
    file.seek(SeekFrom::End(1)).unwrap_err();
    file.finish().unwrap();
    assert_eq!(storage.get("dir/list").unwrap(), b"01234ABC");
}

#[cfg(unix)]
#[test]
fn a_file_keeps_its_permissions_and_a_link_stays() {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    let dir = tempfile::tempdir().unwrap();
    let (file, link) = (dir.path().join("file"), dir.path().join("link"));
    fs::write(&file, OLD).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("file", &link).unwrap();
    let mut new = ReplaceFile::create(&link).unwrap();
    new.append(NEW).unwrap();
    new.finish().unwrap();
    assert_eq!(fs::read(&file).unwrap(), NEW);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    fs::remove_file(&file).unwrap();
    let error = ReplaceFile::create(&link).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// Writes only if there is what is expected.
fn put(storage: &dyn Storage, path: &Path, bytes: &[u8], expected: Expected) -> Result<FileId> {
    storage.put_if(path, bytes, expected)
}

#[test]
fn a_file_is_put_only_where_the_expected_one_is() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("dir")).unwrap();
    let memory = old();
    memory.remove(Path::new("dir/list")).unwrap();
    let local = LocalStorage::mapped();
    let cases: [(&dyn Storage, PathBuf); 2] =
        [(&memory, "dir/list".into()), (&local, dir.path().join("dir/list"))];
    for (storage, path) in cases {
        let content = || storage.open(&path).unwrap().read(0..3).unwrap().into_owned();
        let refused = |bytes: &[u8], expected, kind| {
            let error = put(storage, &path, bytes, expected).unwrap_err();
            assert_eq!((error.kind(), error.path()), (kind, Some(&*path)), "{error}");
        };
        refused(b"no.", Expected::Version((7, 7)), ErrorKind::Replaced);
        let first = put(storage, &path, b"one", Expected::Absent).unwrap();
        assert_eq!(storage.stat(&path).unwrap().unwrap().id, first);
        refused(b"no.", Expected::Absent, ErrorKind::AlreadyExists);
        let open = storage.open(&path).unwrap();
        let second = put(storage, &path, b"two", Expected::Version(open.id())).unwrap();
        assert_ne!(first, second);
        refused(b"no.", Expected::Version(open.id()), ErrorKind::Replaced);
        assert_eq!(content(), b"two");
        put(storage, &path, b"any", Expected::Anything).unwrap();
        assert_eq!(content(), b"any");
        let names = storage.list(path.parent().unwrap()).unwrap();
        assert!(names == [&*path], "no lock and no unfinished file stays");
    }
}

#[test]
fn a_new_name_replaces_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let memory = old();
    let local = LocalStorage::mapped();
    local.create_dir(&dir.path().join("dir")).unwrap();
    local.create(&dir.path().join("dir/list")).unwrap().append(OLD).unwrap();
    let cases: [(&dyn Storage, PathBuf); 2] =
        [(&memory, "dir".into()), (&local, dir.path().join("dir"))];
    for (storage, dir) in cases {
        let (from, to, free) = (dir.join("made"), dir.join("list"), dir.join("free"));
        storage.create(&from).unwrap().append(NEW).unwrap();
        let content = |path| storage.open(path).unwrap().read(0..3).unwrap().into_owned();
        let error = storage.rename_new(&from, &to).unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::AlreadyExists, Some(&*to)));
        assert_eq!((content(&to), content(&from)), (OLD.to_vec(), NEW[..3].to_vec()));
        storage.rename_new(&from, &free).unwrap();
        assert_eq!((content(&free), storage.stat(&from).unwrap()), (NEW[..3].to_vec(), None));
        let error = storage.rename_new(&from, &dir.join("more")).unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::NotFound, Some(&*from)));
    }
    // Not a link that leads nowhere either.
    #[cfg(unix)]
    {
        let (link, free) = (dir.path().join("dir/link"), dir.path().join("dir/free"));
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        let error = local.rename_new(&free, &link).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        assert!(link.is_symlink() && free.exists());
    }
}

#[test]
fn of_many_that_put_a_file_at_once_one_wins() {
    let dir = tempfile::tempdir().unwrap();
    let memory = MemoryStorage::new();
    let local = LocalStorage::mapped();
    let cases: [(&dyn Storage, PathBuf); 2] =
        [(&memory, "list".into()), (&local, dir.path().join("list"))];
    for (storage, path) in cases {
        let race = |expected: Expected, lost: ErrorKind| {
            let start = std::sync::Barrier::new(8);
            let attempt = |writer: u8| {
                start.wait();
                put(storage, &path, &[writer; 3], expected)
            };
            let attempt = &attempt;
            let results: Vec<Result<FileId>> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..8).map(|n| scope.spawn(move || attempt(n))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let won: Vec<usize> = (0..8).filter(|&n| results[n].is_ok()).collect();
            assert_eq!(won.len(), 1, "{results:?}");
            let lose = |result: &Result<FileId>| result.as_ref().err().map(|e| e.kind());
            assert!(results.iter().filter_map(lose).all(|kind| kind == lost), "{results:?}");
            let content = storage.open(&path).unwrap().read(0..3).unwrap().into_owned();
            assert_eq!(content, [won[0] as u8; 3]);
        };
        race(Expected::Absent, ErrorKind::AlreadyExists);
        for _ in 0..20 {
            let open = storage.open(&path).unwrap();
            race(Expected::Version(open.id()), ErrorKind::Replaced);
        }
    }
}

#[test]
fn a_put_file_is_the_old_or_the_new_one_wherever_the_process_dies() {
    let put = |storage: &MemoryStorage| {
        let expected = Expected::Version(storage.stat(Path::new("dir/list"))?.unwrap().id);
        put(storage, Path::new("dir/list"), NEW, expected).map(drop)
    };
    for at in 0..operations(&old(), put) {
        for seed in 0..20 {
            let storage = old();
            storage.fail_after(at);
            // The lock is removed last of all, and stays where that fails.
            let died = put(&storage);
            storage.lose_power(seed);
            let now = storage.get("dir/list").unwrap();
            assert!(now == OLD || now == NEW, "{at} {seed}: {now:?}");
            assert!(died.is_err() || now == NEW, "{at} {seed}");
            put(&storage).unwrap();
            storage.lose_power(0);
            assert_eq!(storage.get("dir/list").unwrap(), NEW, "{at} {seed}");
        }
    }
}

#[test]
fn directories_are_made_with_those_above_them() {
    let dir = tempfile::tempdir().unwrap();
    let (local, memory) = (LocalStorage::mapped(), MemoryStorage::new());
    for (storage, root) in [(&local as &dyn Storage, dir.path()), (&memory, Path::new("root"))] {
        let at = |name: &str| root.join(name);
        for _ in 0..2 {
            storage.create_dir_all(&at("a/b/c")).unwrap();
            assert!(storage.stat(&at("a/b/c")).unwrap().unwrap().is_dir());
        }
        storage.create(&at("a/file")).unwrap().append(OLD).unwrap();
        assert_eq!(
            storage.create_dir_all(&at("a/file")).unwrap_err().kind(),
            ErrorKind::AlreadyExists
        );
        assert!(storage.create_dir_all(&at("a/file/below")).is_err());
        assert_eq!(storage.open(&at("a/file")).unwrap().read(0..3).unwrap(), OLD);
    }
    #[cfg(unix)]
    {
        let (link, storage) = (dir.path().join("link"), &local as &dyn Storage);
        std::os::unix::fs::symlink(dir.path().join("nowhere"), &link).unwrap();
        assert_eq!(storage.create_dir_all(&link).unwrap_err().kind(), ErrorKind::AlreadyExists);
        std::fs::create_dir(dir.path().join("nowhere")).unwrap();
        storage.create_dir_all(&link).unwrap();
    }
}
