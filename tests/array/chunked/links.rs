//! Symbolic links, hard links and other things where files of an array should be: reading follows
//! links; writing, removing and overwriting reach nothing that is not the array's own.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use kiste::array::{ArrayOptions, ArrayStore, ChunkedArray, Keep};
use kiste::value::{DType, NdArray};
use kiste::{ErrorKind, Result};
use ndarray::{Array1, arr1};
use tempfile::TempDir;

/// A structured array with three versions, the directories `data/a` and `data/b/c`, and what a writer
/// that died left in all of them.
fn with_array() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("array");
    let dtype: DType = "[('a', '<i4'), ('b', [('c', '<f8')])]".parse().unwrap();
    let options = ArrayOptions::default().chunk_shape([4]);
    let mut store = options.create(&path, dtype, &[10]).unwrap();
    for version in 2..4 {
        let mut staged = store.stage().unwrap();
        let bytes = vec![version; 24];
        let rows = NdArray::new(store.array().dtype().clone(), [2], bytes).unwrap();
        staged.write(..2, &rows).unwrap();
        store.commit(&mut staged, "two rows").unwrap();
    }
    drop(store);
    for leftover in LEFTOVERS {
        fs::write(path.join(leftover), "cut short").unwrap();
    }
    (dir, path)
}

const LEFTOVERS: [&str; 5] = [
    "data/a/__9__.bin.tmp",
    "data/b/c/__9__.bin.tmp",
    "meta/sizes.tmp",
    "meta/manifest/__9__.tmp",
    "meta/versions/__9__.tmp",
];
const DIRS: [&str; 7] =
    ["data", "data/a", "data/b", "data/b/c", "meta", "meta/manifest", "meta/versions"];

/// All files below a directory, with their content; links by where they lead.
fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_dir() {
            found.extend(tree(&path));
        } else if kind.is_symlink() {
            let to = fs::read_link(&path).unwrap();
            found.insert(path, to.into_os_string().into_encoded_bytes());
        } else if kind.is_file() {
            let bytes = fs::read(&path).unwrap();
            found.insert(path, bytes);
        }
    }
    found
}

type Write = fn(&Path) -> Result<()>;

/// What writes or removes.
fn writes() -> [(&'static str, Write); 4] {
    fn gc(path: &Path) -> Result<()> {
        ArrayStore::open(path)?.gc(&Keep::Newest(1)).map(drop)
    }
    fn open(path: &Path) -> Result<()> {
        ArrayStore::open(path).map(drop)
    }
    fn commit(path: &Path) -> Result<()> {
        let mut store = ArrayStore::open(path)?;
        let rows = NdArray::new(store.array().dtype().clone(), [1], vec![9; 12])?;
        store.append(&rows, "a row").map(drop)
    }
    fn attributes(path: &Path) -> Result<()> {
        ArrayStore::open(path)?.set_attributes(serde_json::Map::new(), "none").map(drop)
    }
    [("gc", gc), ("open", open), ("commit", commit), ("attributes", attributes)]
}

#[test]
fn nothing_is_written_or_removed_behind_a_link_to_a_directory() {
    for (what, write) in writes() {
        for linked in DIRS {
            let (dir, path) = with_array();
            // The directory is somewhere else now, with other files in it too.
            let elsewhere = dir.path().join("elsewhere");
            fs::rename(path.join(linked), &elsewhere).unwrap();
            fs::write(elsewhere.join("notes.tmp"), "of the user").unwrap();
            symlink(&elsewhere, path.join(linked)).unwrap();
            let before = tree(dir.path());
            let error = write(&path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{what} {linked}: {error}");
            let said = error.to_string();
            assert!(said.contains("expected a directory, found a symbolic link"), "{said}");
            assert_eq!(error.path(), Some(&*path.join(linked)), "{what}");
            let after = tree(dir.path());
            assert!(before == after, "{what} {linked}: {after:?}");
            // It is read all the same, and reading removes nothing.
            let array = ChunkedArray::open(&path).unwrap();
            assert_eq!(array.column("a").unwrap().get::<i32>(..2).unwrap().sum(), 2 * 0x0303_0303);
            array.verify().unwrap();
            assert!(before == tree(dir.path()), "{what} {linked}");
        }
    }
}

#[test]
fn a_link_in_the_place_of_a_file_is_neither_removed_nor_replaced() {
    for (place, leftover) in LEFTOVERS.iter().map(|place| (*place, true)).chain([
        ("data/a/__7__.bin", false),
        ("meta/manifest/__7__", false),
        ("meta/versions/__1__", false),
    ]) {
        let (dir, path) = with_array();
        let target = dir.path().join("precious");
        fs::write(&target, "precious").unwrap();
        let _ = fs::remove_file(path.join(place));
        symlink(&target, path.join(place)).unwrap();
        // Where there is nothing behind it too.
        symlink(dir.path().join("nowhere"), path.join("data/a/__8__.bin")).unwrap();
        let before = tree(dir.path());
        let error = match ArrayStore::open(&path) {
            Err(error) => error,
            Ok(mut store) => {
                assert!(!leftover, "{place}");
                let error = store.gc(&Keep::Newest(1)).unwrap_err();
                // But for leftovers, which opening had removed.
                let mut expected = before.clone();
                LEFTOVERS.iter().for_each(|leftover| drop(expected.remove(&path.join(leftover))));
                assert!(tree(dir.path()) == expected, "{place}");
                error
            }
        };
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{place}: {error}");
        assert!(error.to_string().contains("found a symbolic link"), "{place}: {error}");
        let named = error.path().unwrap();
        assert!(named == path.join(place) || named.ends_with("data/a/__8__.bin"), "{error}");
        if leftover {
            assert!(tree(dir.path()) == before, "{place}");
        }
        assert_eq!(fs::read(&target).unwrap(), b"precious", "{place}");
    }
}

#[test]
fn only_names_of_the_format_are_removed() {
    let (dir, path) = with_array();
    let foreign = [
        "data/notes.tmp",
        "data/a/__1__.bin.bak",
        "data/a/__1__.tmp",
        "data/a/x.tmp",
        "data/b/__1__.bin",
        "data/b/c/__0__.bin",
        "meta/lock.tmp",
        "meta/__1__",
        "meta/notes.tmp",
        "meta/manifest/__1__.bin",
        "meta/manifest/mine.tmp",
        "meta/versions/readme.tmp",
    ];
    for name in foreign {
        fs::write(path.join(name), "of the user").unwrap();
    }
    let mut store = ArrayStore::open(&path).unwrap();
    for leftover in LEFTOVERS {
        assert!(!path.join(leftover).exists(), "{leftover}");
    }
    store.gc(&Keep::Newest(1)).unwrap();
    assert!(!path.join("meta/versions/__1__").exists());
    for name in foreign {
        assert_eq!(fs::read(path.join(name)).unwrap(), b"of the user", "{name}");
    }
    drop(dir);
}

#[test]
fn an_array_is_not_created_behind_links() {
    for linked in ["data", "meta", "meta/versions"] {
        let dir = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (dir.path().join("array"), dir.path().join("elsewhere"));
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("__1__.bin.tmp"), "of another array").unwrap();
        fs::create_dir_all(path.join(linked).parent().unwrap()).unwrap();
        symlink(&elsewhere, path.join(linked)).unwrap();
        let before = tree(dir.path());
        let error = ArrayOptions::default().create(&path, DType::of::<i32>(), &[4]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(tree(dir.path()) == before, "{linked}");
    }
}

/// The name of an array may be a link: it is the array that it leads to that is locked and written.
#[test]
fn an_array_is_one_under_all_its_names() {
    let (dir, path) = with_array();
    let (link, parent) = (dir.path().join("link"), dir.path().join("parent"));
    symlink("array", &link).unwrap();
    symlink(".", &parent).unwrap();
    let aliases =
        [path.clone(), link.clone(), parent.join("array"), parent.join("link"), path.join(".")];
    for first in &aliases {
        let mut store = ArrayStore::open(first).unwrap();
        for second in &aliases {
            let error = ArrayStore::open(second).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Locked, "{first:?} and {second:?}: {error}");
        }
        let versions = store.versions().unwrap().len();
        let rows = NdArray::new(store.array().dtype().clone(), [1], vec![9; 12]).unwrap();
        store.append(&rows, "a row").unwrap();
        for other in &aliases {
            let array = ChunkedArray::open(other).unwrap();
            assert_eq!(array.versions().unwrap().len(), versions + 1);
            assert!(array.diff(store.array()).unwrap().is_empty());
        }
    }
    // A link that leads elsewhere from now on does not lead the writer there.
    let other = dir.path().join("other");
    drop(ArrayOptions::default().create(&other, DType::of::<i32>(), &[4]).unwrap());
    let mut store = ArrayStore::open(&link).unwrap();
    let before = tree(&other);
    fs::remove_file(&link).unwrap();
    symlink(&other, &link).unwrap();
    store.gc(&Keep::Newest(1)).unwrap();
    store.set_attributes(serde_json::Map::new(), "none").unwrap();
    assert!(tree(&other) == before);
    assert_eq!(ChunkedArray::open(&path).unwrap().version(), store.array().version());
}

/// Copies by hard links are how snapshots are made: chunks that are written over in place would
/// change there too.
#[test]
fn a_snapshot_by_hard_links_stays_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("array");
    let options = ArrayOptions::default().chunk_shape([100]).versioned(false).room(200).level(0);
    let mut store = options.create(&path, DType::of::<f64>(), &[300]).unwrap();
    let numbers = Array1::from_iter((0..300).map(f64::from));
    store.put(.., &NdArray::from_ndarray(&numbers), "numbers").unwrap();
    let superchunk = path.join("data/__1__.bin");
    fs::hard_link(&superchunk, dir.path().join("snapshot")).unwrap();
    let before = fs::read(&superchunk).unwrap();
    store.put(..100, &NdArray::scalar(-1.0), "over").unwrap();
    assert!(fs::read(dir.path().join("snapshot")).unwrap() == before);
    let found = ChunkedArray::open(&path).unwrap().get::<f64>(98..102).unwrap();
    assert_eq!(found, arr1(&[-1.0, -1.0, 100.0, 101.0]).into_dyn());
    assert!(path.join("data/__2__.bin").exists());
    // Without another name it is written over as ever.
    fs::remove_file(dir.path().join("snapshot")).unwrap();
    store.put(100..200, &NdArray::scalar(-2.0), "over").unwrap();
    assert!(fs::read(&superchunk).unwrap() != before && !path.join("data/__3__.bin").exists());
    assert_eq!(ChunkedArray::open(&path).unwrap().verify().unwrap().problems, []);
}

#[test]
fn a_private_array_stays_private() {
    let (_dir, path) = with_array();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for (file, _) in tree(&path) {
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let mut store = ArrayStore::open(&path).unwrap();
    let rows = NdArray::new(store.array().dtype().clone(), [9], vec![9; 108]).unwrap();
    store.append(&rows, "rows").unwrap();
    store.gc(&Keep::Newest(1)).unwrap();
    let mut attributes = serde_json::Map::new();
    attributes.insert("unit".into(), "m".into());
    store.set_attributes(attributes, "unit").unwrap();
    let files = tree(&path);
    assert!(files.len() > 8, "{files:?}");
    for file in files.keys() {
        assert_eq!(mode(file), 0o600, "{}", file.display());
    }
}
