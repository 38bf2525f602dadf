//! Every file cut off, changed and removed: an error that names file and chunk, or the right answer;
//! `verify` finds it; the chunks beside it stay readable.

use std::path::{Path, PathBuf};

use kiste::array::{At, Check, ChunkedArray};
use kiste::storage::{MemoryStorage, Storage};
use kiste::value::{DType, NdArray};
use kiste::{Error, ErrorKind};
use ndarray::ArrayD;

use super::{open, options, root, sample};
use crate::support::{Snapshot, one_in, restore, snapshot};

/// All versions of the sample, undamaged.
fn contents(storage: &MemoryStorage) -> Vec<ArrayD<i32>> {
    let array = open(storage);
    (1..=3).map(|n| array.at(At::Version(n)).unwrap().get(..).unwrap()).collect()
}

fn is_lock(path: &Path) -> bool {
    path.ends_with("lock")
}

/// Whether nothing is read from the file that it would be missed for.
fn is_copy(path: &Path) -> bool {
    path.parent() == Some(&root().join("meta"))
}

fn told(error: &Error, file: &Path, what: &str) {
    assert!(
        matches!(error.kind(), ErrorKind::Damaged | ErrorKind::Unsupported | ErrorKind::NotFound),
        "{what}: {error:?}"
    );
    let path = error.path().unwrap_or_else(|| panic!("{what}: {error:?}"));
    // A version that is gone is not there: nobody can say which file it was.
    assert!(path == file || error.kind() == ErrorKind::NotFound, "{what}: {error:?}");
}

/// Reads all of every version, and chunk by chunk where that fails. Returns how many chunks could not
/// be read.
fn read_all(storage: &MemoryStorage, file: &Path, right: &[ArrayD<i32>], what: &str) -> usize {
    let mut lost = 0;
    for (number, right) in (1..).zip(right) {
        let array = match options(storage).open_at(root(), At::Version(number)) {
            Ok(array) => array,
            Err(e) => {
                told(&e, file, what);
                lost += 1;
                continue;
            }
        };
        match array.get::<i32>(..) {
            Ok(found) => {
                assert_eq!(&found, right, "{what}");
                continue;
            }
            Err(e) => told(&e, file, what),
        }
        for cell in 0..array.grid().len() {
            let at = array.grid().coordinates(cell);
            let region = array.grid().region(cell);
            let part = right.slice_each_axis(|axis| {
                let range = &region[axis.axis.index()];
                ndarray::Slice::from(range.start..range.end)
            });
            match array.chunk(&at) {
                Ok(found) => assert_eq!(found.to_ndarray::<i32>().unwrap(), part, "{what}"),
                Err(e) => {
                    told(&e, file, what);
                    let is_data = file.starts_with(root().join("data"));
                    let chunk = format!("chunk {at:?}: ");
                    assert!(!is_data || e.message().starts_with(&chunk), "{what}: {e:?}");
                    lost += 1;
                }
            }
        }
    }
    lost
}

fn check(files: &Snapshot, file: &Path, bytes: Option<Vec<u8>>, right: &[ArrayD<i32>], what: &str) {
    let storage = restore(files);
    match bytes {
        Some(bytes) => storage.put(file, bytes),
        None => storage.remove(file).unwrap(),
    }
    let what = format!("{} {what}", file.display());
    let lost = read_all(&storage, file, right, &what);
    let all = right.len() * 9;
    assert!(lost < all, "{what}: nothing was left");
    let newest_is_gone = match options(&storage).open(root()) {
        Ok(array) => {
            let report = array.verify().unwrap();
            let found = report.problems.iter().any(|p| p.file == file)
                || report.unused.iter().chain(&report.stale).any(|path| path == file);
            let removed = storage.stat(file).unwrap().is_none() && is_version(file);
            assert!(found || removed || is_lock(file), "{what}: verify found {report:?}");
            return;
        }
        Err(e) => {
            told(&e, file, &what);
            file.ends_with("__3__") && is_version(file)
        }
    };
    assert!(newest_is_gone, "{what}");
    // An older version still opens, and finds what is wrong with the newest.
    let old = options(&storage).open_at(root(), At::Version(1)).unwrap();
    assert!(old.verify().unwrap().problems.iter().any(|p| p.file == file), "{what}");
}

fn is_version(file: &Path) -> bool {
    file.parent() == Some(&root().join("meta/versions"))
}

fn all_files(files: &Snapshot) -> Vec<(PathBuf, Vec<u8>)> {
    let all = files.iter().filter_map(|(path, bytes)| Some((path.clone(), bytes.clone()?)));
    let all: Vec<_> = all.collect();
    assert!(all.len() > 10, "{}", all.len());
    all
}

#[test]
fn every_file_cut_off_or_removed() {
    let storage = MemoryStorage::new();
    sample(&storage);
    let (files, right) = (snapshot(&storage), contents(&storage));
    for (path, bytes) in all_files(&files) {
        if !bytes.is_empty() && !is_copy(&path) {
            for len in (0..bytes.len()).step_by(one_in(3) * 3) {
                let what = format!("cut to {len} of {}", bytes.len());
                check(&files, &path, Some(bytes[..len].to_vec()), &right, &what);
            }
            let longer = [&bytes[..], b"\0"].concat();
            check(&files, &path, Some(longer), &right, "with a byte more");
        }
        if !is_lock(&path) {
            check(&files, &path, None, &right, "removed");
        }
    }
}

#[test]
fn every_byte_of_every_file_changed() {
    let storage = MemoryStorage::new();
    sample(&storage);
    let (files, right) = (snapshot(&storage), contents(&storage));
    for (path, bytes) in all_files(&files) {
        for at in (0..bytes.len()).step_by(one_in(3)) {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            check(&files, &path, Some(changed), &right, &format!("byte {at} changed"));
        }
    }
}

#[test]
fn without_compression_and_checksums_too() {
    let storage = MemoryStorage::new();
    let create = options(&storage).chunk_shape([4]).level(0).superchunk(2);
    let mut store = create.create(root(), DType::of::<i32>(), &[13]).unwrap();
    for version in 0..2 {
        let mut staged = store.stage().unwrap();
        let numbers = ArrayD::from_shape_fn(vec![13], |at| at[0] as i32 + version);
        staged.set(.., &numbers).unwrap();
        store.commit(&mut staged, "numbers").unwrap();
    }
    let (files, right) = (snapshot(&storage), contents(&storage));
    for (path, bytes) in all_files(&files) {
        for at in (0..bytes.len()).step_by(one_in(3)) {
            let mut changed = bytes.clone();
            changed[at] ^= 0x80 >> (at % 8);
            // The header of a copied chunk has bits that say nothing, and no checksum over them.
            let from_end = bytes.len() - 1 - at;
            if path.starts_with(root().join("data")) && at >= 192 && from_end % 32 >= 16 {
                let storage = restore(&files);
                storage.put(&path, changed);
                read_all(&storage, &path, &right, &format!("byte {at} changed"));
                continue;
            }
            check(&files, &path, Some(changed), &right, &format!("byte {at} changed"));
        }
    }
}

#[test]
fn chunks_that_changed_places_are_noticed() {
    let storage = MemoryStorage::new();
    let create = options(&storage).chunk_shape([4]).level(0).superchunk(2);
    let mut store = create.create(root(), DType::of::<i32>(), &[8]).unwrap();
    let mut staged = store.stage().unwrap();
    staged.set(.., &ArrayD::from_shape_fn(vec![8], |at| at[0] as i32)).unwrap();
    store.commit(&mut staged, "numbers").unwrap();
    let path = root().join("data/__1__.bin");
    let bytes = storage.get(&path).unwrap();
    let first = bytes.len() - 2 * 32;
    let swapped = [&bytes[..first], &bytes[first + 32..], &bytes[first..first + 32]].concat();
    storage.put(&path, swapped);
    let error = open(&storage).get::<i32>(..).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Damaged, Some(&*path)));
    // Who wants no checks gets what is there.
    let unchecked = options(&storage).check(Check::Nothing).open(root()).unwrap();
    assert_eq!(unchecked.get::<i32>(0).unwrap().into_iter().next(), Some(4));
}

#[test]
fn a_newer_format_is_told_from_damage() {
    let storage = MemoryStorage::new();
    sample(&storage);
    let line = r#"{"kiste_array":2,"version":4}"#;
    let text = format!("{line}\n{}\n", blake3::hash(line.as_bytes()).to_hex());
    storage.put(root().join("meta/versions/__4__"), text);
    assert_eq!(options(&storage).open(root()).unwrap_err().kind(), ErrorKind::Unsupported);
    let third: ChunkedArray = options(&storage).open_at(root(), At::Version(3)).unwrap();
    assert_eq!(third.version(), 3);
}

#[test]
fn a_chunk_that_is_written_anew_heals() {
    let storage = MemoryStorage::new();
    let mut store = sample(&storage);
    let path = root().join("data/__1__.bin");
    let mut bytes = storage.get(&path).unwrap();
    let at = bytes.len() - 10;
    bytes[at] ^= 1;
    storage.put(&path, bytes);
    drop(store);
    store = options(&storage).open_store(root()).unwrap();
    let damaged: Vec<_> = store.array().verify().unwrap().problems;
    assert!(damaged.iter().any(|problem| problem.versions.contains(&3)), "{damaged:?}");
    let mut staged = store.stage().unwrap();
    staged.set_scalar(.., 5).unwrap();
    store.commit(&mut staged, "anew").unwrap();
    assert!(open(&storage).get::<i32>(..).unwrap().iter().all(|n| *n == 5));
}

/// Changes one byte of every chunk of a superchunk.
fn spoil(storage: &MemoryStorage, name: &str, places: &[usize]) {
    let path = root().join(name);
    let mut bytes = storage.get(&path).unwrap();
    for place in places {
        let at = bytes.len() - place;
        bytes[at] ^= 1;
    }
    storage.put(path, bytes);
}

#[test]
fn content_that_is_committed_again_heals() {
    for level in [0, 5] {
        let storage = MemoryStorage::new();
        let create = options(&storage).chunk_shape([100]).level(level).superchunk(2);
        let mut store = create.create(root(), DType::of::<i32>(), &[400]).unwrap();
        let numbers = ArrayD::from_shape_fn(vec![400], |at| at[0] as i32 * at[0] as i32);
        store.put(.., &NdArray::from_ndarray(&numbers), "numbers").unwrap();
        drop(store);
        // Chunk 1 is the second of the first file.
        spoil(&storage, "data/__1__.bin", &[30]);
        assert!(open(&storage).get::<i32>(..).is_err());
        let mut store = options(&storage).open_store(root()).unwrap();
        store.put(.., &NdArray::from_ndarray(&numbers), "the same").unwrap();
        assert_eq!(open(&storage).get::<i32>(..).unwrap(), numbers, "level {level}");
        let history = store.array().history().unwrap();
        let added: Vec<u64> = history.iter().map(|(_, added)| added.chunks).collect();
        assert_eq!(added, [0, 4, 1], "level {level}");
        // What is older keeps what it has.
        let report = open(&storage).verify().unwrap();
        assert!(!report.problems.is_empty());
        assert!(report.problems.iter().all(|p| p.versions == [2]), "{report:?}");
        // The same content elsewhere is that of the chunk that is whole, and is stored no third time.
        let first = numbers.slice(ndarray::s![100..200]).to_owned();
        store.put(300..400, &NdArray::from_ndarray(&first), "twice").unwrap();
        store.put(.., &NdArray::from_ndarray(&numbers), "once again").unwrap();
        let history = store.array().history().unwrap();
        assert_eq!(history[3].1.chunks, 0, "{history:?}");
        assert_eq!(
            open(&storage).at(At::Back(1)).unwrap().get::<i32>(300..).unwrap(),
            first.into_dyn()
        );
        assert_eq!(open(&storage).get::<i32>(..).unwrap(), numbers);
    }
}

#[test]
fn healed_content_is_found_when_tables_have_become_one() {
    let storage = MemoryStorage::new();
    let create = options(&storage).chunk_shape([100]).superchunk(4);
    let mut store = create.create(root(), DType::of::<i32>(), &[800]).unwrap();
    let numbers = ArrayD::from_shape_fn(vec![800], |at| {
        let i = if at[0] < 700 { at[0] } else { at[0] - 100 } as i32;
        i * i
    });
    store.put(.., &NdArray::from_ndarray(&numbers), "the last two are equal").unwrap();
    drop(store);
    // Both are the last chunk of the second file.
    spoil(&storage, "data/__2__.bin", &[30]);
    let mut store = options(&storage).open_store(root()).unwrap();
    let same = numbers.slice(ndarray::s![700..]).to_owned();
    let same = NdArray::from_ndarray(&same);
    // With so many versions a table has been merged into one segment, in which the damaged chunk
    // stands behind those that are whole.
    for cell in 0..6 {
        store.put(cell * 100..cell * 100 + 100, &same, "the same content").unwrap();
    }
    // What is as it was makes no file of chunks, whole or healed.
    let files = storage.list(&root().join("data")).unwrap();
    store.put(..600, &store.array().read(..600).unwrap(), "as it is").unwrap();
    assert_eq!(storage.list(&root().join("data")).unwrap(), files);
    let history = store.array().history().unwrap();
    let added: Vec<u64> = history.iter().map(|(_, added)| added.chunks).collect();
    assert_eq!(added, [0, 7, 1, 0, 0, 0, 0, 0, 0]);
    store.put(600.., &NdArray::from_ndarray(&numbers.slice(ndarray::s![600..])), "all").unwrap();
    assert_eq!(storage.list(&root().join("data")).unwrap(), files);
    let found = open(&storage).get::<i32>(..).unwrap();
    for chunk in found.as_slice().unwrap().chunks(100) {
        assert_eq!(chunk, numbers.slice(ndarray::s![700..]).as_slice().unwrap());
    }
}

#[test]
fn a_lost_file_is_healed_by_its_content() {
    let storage = MemoryStorage::new();
    drop(sample(&storage));
    let whole = open(&storage).get::<i32>(..).unwrap();
    storage.remove(&root().join("data/__1__.bin")).unwrap();
    let mut store = options(&storage).open_store(root()).unwrap();
    store.put(.., &NdArray::from_ndarray(&whole), "restored").unwrap();
    assert_eq!(open(&storage).get::<i32>(..).unwrap(), whole);
    store.gc(&kiste::array::Keep::Newest(1)).unwrap();
    assert_eq!(open(&storage).get::<i32>(..).unwrap(), whole);
    assert!(open(&storage).verify().unwrap().problems.is_empty());
}
