//! Arrays whose tables do not have what was committed, as early writers left them: what `verify` can tell
//! of it, and what it cannot.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kiste::array::{ArrayOptions, ArrayStore, ChunkedArray, Keep, Report};
use kiste::format::chunked::segment::{self, Entry, Segment};
use kiste::format::chunked::{Numbering, Version};
use kiste::value::DType;

use super::copy;

fn golden(dir: &Path) -> PathBuf {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/kiste-0.1.0-bc0d5446");
    let path = dir.join("lost-chunk");
    copy(&golden.join("lost-chunk"), &path);
    path
}

fn verify(path: &Path) -> Report {
    ChunkedArray::open(path).unwrap().verify().unwrap()
}

fn chunks(problems: &[kiste::array::Problem]) -> Vec<(Vec<u64>, Vec<u64>)> {
    problems.iter().map(|p| (p.chunk.clone().unwrap().1, p.versions.clone())).collect()
}

/// The chunk that was written is still there, although no version names its file.
#[test]
fn a_chunk_that_an_early_writer_lost_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = golden(dir.path());
    let report = verify(&path);
    assert_eq!(chunks(&report.problems), [(vec![1, 0], vec![3])]);
    assert_eq!(chunks(&report.doubts), [(vec![0, 2], vec![3])]);
    assert!(report.doubts[0].message.starts_with("the fill value, or lost: "), "{report:?}");
    assert!(report.problems[0].file.ends_with("data/__2__.bin"), "{report:?}");
    assert!(report.problems[0].message.contains("written to slot 0 for version 3"), "{report:?}");

    // Without that file it can no longer be told from a chunk that stayed as it was.
    ArrayStore::open(&path).unwrap().gc(&Keep::All).unwrap();
    let report = verify(&path);
    let both = vec![(vec![0, 2], vec![3]), (vec![1, 0], vec![3])];
    assert_eq!((report.problems.len(), chunks(&report.doubts)), (0, both));
    assert!(report.doubts[1].message.starts_with("as in version 2, or lost: "), "{report:?}");

    // Without the version before nothing is left that tells.
    ArrayStore::open(&path).unwrap().gc(&Keep::Newest(2)).unwrap();
    let report = verify(&path);
    assert_eq!((report.problems.len(), report.doubts.len()), (0, 0), "{report:?}");
}

/// An array of ones, then of twos, shorter along the first axis and longer along the second.
fn shorter_and_wider(path: &Path) {
    let options = ArrayOptions::default().chunk_shape([1, 5]).durable(false);
    let mut store = options.create(path, DType::of::<i32>(), &[5, 4]).unwrap();
    let mut staged = store.stage().unwrap();
    staged
        .set(.., &ndarray::Array::from_shape_fn((5, 4), |(i, j)| (i * 4 + j) as i32 + 1))
        .unwrap();
    store.commit(&mut staged, "one").unwrap();
    staged.resize(&[2, 11]).unwrap();
    staged
        .set(.., &ndarray::Array::from_shape_fn((2, 11), |(i, j)| (i * 99 + j) as i32 * 7))
        .unwrap();
    store.commit(&mut staged, "two").unwrap();
}

/// Does to the newest version what an early writer did: its table loses the entries under the old numbers of
/// chunks that were cut off, and has those of the version before, where there are any.
fn lose(path: &Path) {
    let read = |number: u64| {
        let bytes = std::fs::read(path.join(format!("meta/versions/__{number}__"))).unwrap();
        Version::parse(&bytes).unwrap()
    };
    let entries = |version: &Version| {
        let (number, _) = version.columns[0].segments[0];
        let file = path.join(format!("meta/manifest/__{number}__"));
        let bytes = std::fs::read(&file).unwrap();
        (file, Segment::parse(&bytes).unwrap().iter().collect::<Vec<Entry>>())
    };
    let (old, mut new) = (read(2), read(3));
    let numbering = |version: &Version| -> Numbering { version.numbering().unwrap() };
    let cut_off = |entry: &Entry| {
        let at = numbering(&old).coordinates(entry.chunk);
        at.iter().zip(new.grid()).any(|(i, n)| *i >= n)
    };
    let lost: Vec<u64> = entries(&old).1.iter().filter(|e| cut_off(e)).map(|e| e.chunk).collect();
    let before = |entry: &Entry| {
        let at = numbering(&new).coordinates(entry.chunk);
        let chunk =
            at.iter().zip(old.grid()).all(|(i, n)| *i < n).then(|| numbering(&old).number(&at))?;
        entries(&old).1.into_iter().find(|e| e.chunk == chunk)
    };
    let (file, there) = entries(&new);
    let kept = |entry: Entry| match lost.contains(&entry.chunk) {
        true => before(&entry).map(|old| Entry { place: old.place, ..entry }),
        false => Some(entry),
    };
    let left: Vec<Entry> = there.into_iter().filter_map(kept).collect();
    std::fs::write(file, segment::encode(&left)).unwrap();
    new.columns[0].segments[0].1 = left.len() as u64;
    new.renumbered = None;
    std::fs::write(path.join("meta/versions/__3__"), new.encode().unwrap()).unwrap();
}

#[test]
fn a_version_that_contradicts_its_counts_is_found_also_later() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    shorter_and_wider(&path);
    let sound = verify(&path);
    assert_eq!((sound.problems.len(), sound.doubts.len()), (0, 0), "{sound:?}");
    lose(&path);
    let report = verify(&path);
    let counts = |report: &Report, version: u64| {
        let about = |p: &&kiste::array::Problem| p.versions == [version] && p.chunk.is_none();
        report.problems.iter().find(about).map(|p| p.message.clone())
    };
    let told = counts(&report, 3).unwrap();
    assert!(told.starts_with("expected 6 chunks in the table, as committed, found 5"), "{told}");
    // Each chunk that was lost is named.
    let lost: Vec<_> = report.problems.iter().filter(|p| p.chunk.is_some()).cloned().collect();
    let lost: BTreeSet<Vec<u64>> = chunks(&lost).into_iter().map(|(at, _)| at).collect();
    assert_eq!(lost, BTreeSet::from([vec![0, 2], vec![1, 0]]), "{report:?}");

    // What is made of it has the same fault, also when all before it is gone.
    let mut store = ArrayStore::open(&path).unwrap();
    store.put((0, 0), &kiste::value::NdArray::scalar(1_i32), "later").unwrap();
    store.gc(&Keep::Newest(1)).unwrap();
    drop(store);
    let report = verify(&path);
    assert!(counts(&report, 4).unwrap().starts_with("expected 6 chunks"), "{report:?}");
}

/// A writer that tells old and new numbers apart says so: its versions are not in doubt.
#[test]
fn versions_of_today_are_not_in_doubt() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    let options = ArrayOptions::default().chunk_shape([2, 2]).durable(false);
    let mut store = options.create(&path, DType::of::<u8>(), &[8, 2]).unwrap();
    let mut staged = store.stage().unwrap();
    staged.set_scalar(.., 9_u8).unwrap();
    store.commit(&mut staged, "nines").unwrap();
    store.resize(&[4, 6], "shorter and wider").unwrap();
    store.resize(&[4, 7], "wider").unwrap();
    let renumbered = |number: u64| {
        let bytes = std::fs::read(path.join(format!("meta/versions/__{number}__"))).unwrap();
        Version::parse(&bytes).unwrap().renumbered
    };
    assert_eq!((renumbered(2), renumbered(3), renumbered(4)), (None, Some(3), None));
    let report = store.array().verify().unwrap();
    assert_eq!((report.problems.len(), report.doubts.len()), (0, 0), "{report:?}");
}

/// The bytes that a version records stay right when it replaces chunks of a file that is gone.
#[test]
fn counts_are_right_after_damaged_chunks_were_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    let options = ArrayOptions::default().chunk_shape([4]).superchunk(2).durable(false);
    let numbers = ndarray::Array1::from_iter(0..16_i32);
    let rows = kiste::value::NdArray::from(&numbers);
    drop(options.create_from(&path, &rows, Default::default(), "made").unwrap());
    std::fs::remove_file(path.join("data/__1__.bin")).unwrap();
    let mut store = ArrayStore::open(&path).unwrap();
    store.put(0..8, &(&ndarray::Array1::from_iter(100..108_i32)).into(), "again").unwrap();
    store.gc(&Keep::Newest(1)).unwrap();
    drop(store);
    assert_eq!(verify(&path).problems, []);
}
