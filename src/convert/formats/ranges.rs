//! [`Ranges`]: files in ranges of bytes, where records can only be found from the front.
//!
//! In a tar archive, a table or a file of records, nothing at a byte in the middle tells which
//! record it belongs to. So a range has the records that begin in it, as with lines, and the first
//! of them is found by a walk from the first record of the range before: over headers, skipping the
//! content. A walk stops where nothing more is needed, and never goes through files that are not read. The
//! positions are kept, one for each range.
//!
//! A walk reports no damage. Where it cannot continue, no record begins in the ranges behind. The
//! reader of the range before gets to the same place, finds the same damage, and reports it once.
//!
//! A compressed file is one range, and so is text that must be decoded, and anything but a regular file. A file behind a URL is one as
//! well: a walk would fetch much of it once more, one header after the other.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rayon::prelude::*;

use crate::convert::compressed;
use crate::convert::source_file::size_of;
use crate::error::{Error, ErrorKind, Result};
use crate::storage;

/// Bytes of a range: no more than [`InOrder`](crate::convert::InOrder) reads ahead.
const UNIT: u64 = 4 << 20;

/// Bytes that a walk reads at a time. Shorter contents are read instead of skipped: many small
/// seeks would keep the disk from reading ahead.
pub(super) const STEP: usize = 1 << 16;

/// Files in ranges. They are opened when the first range is needed; later clones share what is
/// known about them.
#[derive(Debug, Clone)]
pub(super) struct Ranges {
    paths: Vec<PathBuf>,
    /// Bytes of a range.
    unit: u64,
    /// Whether each file is one range.
    whole: bool,
    cut: OnceLock<Arc<Cut>>,
}

/// Facts about the files that are known by now.
#[derive(Debug)]
struct Cut {
    files: Vec<File>,
    /// The first range of each file, and at the end the number of ranges.
    starts: Vec<usize>,
}

#[derive(Debug)]
struct File {
    size: Option<u64>,
    /// Whether it is read in ranges.
    plain: bool,
    /// For each range so far, the first record that begins in it or after it.
    known: Mutex<Vec<Option<Begin>>>,
}

/// Where a record begins, and what is before it in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Begin {
    pub(super) position: u64,
    /// The number of records before.
    pub(super) number: u64,
    /// The line, counted from 1, for formats that have lines.
    pub(super) line: u64,
}

impl Begin {
    /// The start of a file.
    pub(super) const FRONT: Begin = Begin { position: 0, number: 0, line: 1 };
}

/// The bytes that are read for a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    /// The number of the file.
    pub(super) file: usize,
    pub(super) begin: Begin,
    /// Where the next range begins; beyond all bytes for the last one.
    pub(super) end: u64,
    /// Bytes of the file, if it is seekable because it is not compressed.
    pub(super) size: Option<u64>,
}

impl Ranges {
    /// These files in ranges of [`UNIT`] bytes.
    pub(super) fn new(paths: Vec<PathBuf>) -> Ranges {
        Ranges { paths, unit: UNIT, whole: false, cut: OnceLock::new() }
    }

    /// Sets the size of a range.
    pub(super) fn set_unit(&mut self, unit: u64) {
        self.unit = unit.max(1);
        self.forget();
    }

    /// Makes each file one range.
    #[cfg(feature = "formats")]
    pub(super) fn set_whole(&mut self, yes: bool) {
        self.whole = yes;
        self.forget();
    }

    /// Forgets what walks have found: after an option has changed, they would find something else.
    pub(super) fn forget(&mut self) {
        self.cut = OnceLock::new();
    }

    /// The files.
    pub(super) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    fn cut(&self) -> &Cut {
        self.cut.get_or_init(|| {
            let file = |path: &PathBuf| File::new(path, self.whole);
            let files: Vec<File> = self.paths.par_iter().map(file).collect();
            let mut starts = vec![0usize];
            for file in &files {
                let last = starts[starts.len() - 1];
                starts.push(last.saturating_add(file.ranges(self.unit)));
            }
            Arc::new(Cut { files, starts })
        })
    }

    /// The number of ranges.
    pub(super) fn len(&self) -> usize {
        let cut = self.cut();
        cut.starts[cut.files.len()]
    }

    /// The file of a range, and the number of the range in it.
    fn find(&self, unit: usize) -> (usize, usize) {
        let starts = &self.cut().starts;
        // Each file has at least one range.
        let file = starts.partition_point(|start| *start <= unit) - 1;
        (file, unit - starts[file])
    }

    /// The number of the file of a range.
    pub(super) fn file(&self, unit: usize) -> usize {
        self.find(unit).0
    }

    /// The file of a range.
    pub(super) fn path(&self, unit: usize) -> Option<&Path> {
        self.paths.get(self.find(unit).0).map(PathBuf::as_path)
    }

    /// Bytes of a range, no matter what begins in it.
    pub(super) fn bytes(&self, unit: usize) -> Option<u64> {
        let (file, index) = self.find(unit);
        let file = self.cut().files.get(file)?;
        let start = (index as u64).saturating_mul(self.unit);
        let rest = file.size?.saturating_sub(start);
        Some(if file.plain { rest.min(self.unit) } else { rest })
    }

    /// Where to read a range; `None` if no record begins in it.
    ///
    /// `walk` gets the number of a file, a record in it, and a byte: it returns the first record
    /// that begins at this byte or after it. Only errors of the operating system are errors of a
    /// walk; if it cannot continue for another reason, there is no such record.
    pub(super) fn range(
        &self,
        unit: usize,
        walk: impl Fn(usize, Begin, u64) -> Result<Option<Begin>>,
    ) -> Result<Option<Range>> {
        let (number, index) = self.find(unit);
        let Some(file) = self.cut().files.get(number) else { return Ok(None) };
        let size = self.unit;
        let begins = |index| file.begin(index, size, &|from, to| walk(number, from, to));
        let Some(begin) = begins(index)? else { return Ok(None) };
        let last = index + 1 == file.ranges(size);
        if !last && begin.position >= (index as u64 + 1) * size {
            return Ok(None);
        }
        let end = if last { None } else { begins(index + 1)? };
        let end = end.map_or(u64::MAX, |end| end.position);
        Ok(Some(Range { file: number, begin, end, size: file.plain_size() }))
    }
}

impl File {
    fn new(path: &Path, whole: bool) -> File {
        let size = size_of(path).ok().flatten();
        // If it cannot be opened, reading it reports that.
        let plain = !whole && !storage::is_url(path) && compressed::is_plain(path).unwrap_or(false);
        File { size, plain, known: Mutex::new(vec![Some(Begin::FRONT)]) }
    }

    fn plain_size(&self) -> Option<u64> {
        self.size.filter(|_| self.plain)
    }

    fn ranges(&self, unit: u64) -> usize {
        let size = self.plain_size().unwrap_or(0);
        usize::try_from(size.div_ceil(unit)).unwrap_or(usize::MAX).max(1)
    }

    /// The first record that begins in this range or after it.
    fn begin(
        &self,
        index: usize,
        unit: u64,
        walk: &dyn Fn(Begin, u64) -> Result<Option<Begin>>,
    ) -> Result<Option<Begin>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        while known.len() <= index {
            let wanted = (known.len() as u64).saturating_mul(unit);
            let next = match known.last().copied().flatten() {
                Some(before) if before.position < wanted => walk(before, wanted)?,
                beyond => beyond,
            };
            known.push(next);
        }
        Ok(known[index])
    }
}

/// The end of a walk: only errors of the operating system are reported.
pub(super) fn end_of_walk(error: Error) -> Result<Option<Begin>> {
    match error.kind() {
        ErrorKind::Io | ErrorKind::NotFound => Err(error),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of these lengths; the last one may be broken.
    fn walk(lengths: &[u64], broken: bool, from: Begin, to: u64) -> Result<Option<Begin>> {
        let mut at = from;
        let whole = lengths.len() - usize::from(broken);
        while at.position < to {
            let Some(length) = lengths[..whole].get(at.number as usize) else { return Ok(None) };
            at = Begin { position: at.position + length, number: at.number + 1, line: 1 };
        }
        Ok(Some(at).filter(|at| (at.number as usize) < lengths.len()))
    }

    fn ranges(paths: &[&PathBuf], unit: u64) -> Ranges {
        let mut ranges = Ranges::new(paths.iter().copied().cloned().collect());
        ranges.set_unit(unit);
        ranges
    }

    #[test]
    fn each_record_is_in_one_range() {
        let dir = tempfile::tempdir().unwrap();
        let (path, empty) = (dir.path().join("x"), dir.path().join("empty"));
        let lengths = [1u64, 7, 2, 2, 30, 1, 1, 1, 5];
        let total: u64 = lengths.iter().sum();
        std::fs::write(&path, vec![b'x'; total as usize]).unwrap();
        std::fs::write(&empty, b"").unwrap();
        for broken in [false, true] {
            for unit in 1..=total + 1 {
                let ranges = ranges(&[&empty, &path, &empty], unit);
                assert_eq!(ranges.len() as u64, 2 + total.div_ceil(unit));
                let mut found = Vec::new();
                // Backwards, as another machine may start at the end.
                for number in (0..ranges.len()).rev() {
                    let lengths = |file| if file == 1 { &lengths[..] } else { &[] };
                    let walk = |file, from, to| walk(lengths(file), broken && file == 1, from, to);
                    if let Some(range) = ranges.range(number, walk).unwrap() {
                        found.push((range.file, range.begin.number, range.end));
                    }
                }
                found.reverse();
                assert_eq!(
                    (found[0], found[found.len() - 1]),
                    ((0, 0, u64::MAX), (2, 0, u64::MAX))
                );
                let inner = &found[1..found.len() - 1];
                let begins: Vec<u64> = inner.iter().map(|(_, number, _)| *number).collect();
                assert!(begins.is_sorted() && begins[0] == 0, "{unit}: {found:?}");
                let position = |number: u64| lengths[..number as usize].iter().sum::<u64>();
                for pair in inner.windows(2) {
                    assert_eq!(pair[0].2, position(pair[1].1), "{unit}: {found:?}");
                }
                assert_eq!(inner[inner.len() - 1].2, u64::MAX);
                if unit == 1 && !broken {
                    assert_eq!(begins, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
                }
                let bytes: u64 = (0..ranges.len()).filter_map(|unit| ranges.bytes(unit)).sum();
                assert_eq!(bytes, total);
            }
        }
    }

    #[test]
    fn an_error_of_the_system_is_not_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, b"12").unwrap();
        let ranges = ranges(&[&path], 1);
        let failed = ranges.range(1, |_, _, _| Err(Error::new(ErrorKind::Io, "try again")));
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::Io);
        let next = Begin { position: 1, number: 1, line: 1 };
        assert_eq!(ranges.range(1, |_, _, _| Ok(Some(next))).unwrap().unwrap().begin, next);
    }
}
