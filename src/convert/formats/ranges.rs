//! [`Ranges`]: files cut into ranges of bytes, where only who comes from the front knows what begins
//! where.
//!
//! In a tar archive, a table or a file of records nothing tells, of a byte in the middle, what it is
//! part of. So a range has what begins in it, as with lines, and where the first of that begins is
//! found by a walk from where the first one of the range before begins: over headers, with what they
//! are about passed over. A walk goes no further than it is asked for, and not at all through files
//! in which nobody reads. The places are kept, one for each range.
//!
//! A walk never says what is wrong. Where it cannot go on, nothing begins in the ranges behind, and
//! who reads the one before reads up to there, finds the same and tells it, once.
//!
//! What is compressed, and what is no regular file, is one range.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rayon::prelude::*;

use crate::convert::compressed;
use crate::error::{Error, ErrorKind, Result};

/// Bytes of a range: no more than is read ahead of its turn.
const UNIT: u64 = 4 << 20;

/// Bytes that a walk reads at once. What is shorter than this is not passed over but read, one after
/// the other: many small steps would keep the disk from reading ahead.
pub(super) const STEP: usize = 1 << 16;

/// Files in ranges. They are looked at when the first range is asked for; clones made later share
/// what is known of them.
#[derive(Debug, Clone)]
pub(super) struct Ranges {
    paths: Vec<PathBuf>,
    /// Bytes of a range.
    unit: u64,
    cut: OnceLock<Arc<Cut>>,
}

/// What is known of the files.
#[derive(Debug)]
struct Cut {
    files: Vec<File>,
    /// The first range of each file, and last their number.
    starts: Vec<usize>,
}

#[derive(Debug)]
struct File {
    size: Option<u64>,
    /// Whether it falls into ranges.
    plain: bool,
    /// Where the first thing begins that is in a range or behind it, of the ranges so far.
    known: Mutex<Vec<Option<Begin>>>,
}

/// Where something begins, and what is before it in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Begin {
    pub(super) position: u64,
    /// How many of its kind.
    pub(super) number: u64,
    /// Line feeds and one more, where they matter.
    pub(super) line: u64,
}

impl Begin {
    /// The front of a file.
    pub(super) const FRONT: Begin = Begin { position: 0, number: 0, line: 1 };
}

/// What is read for a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    /// The number of the file.
    pub(super) file: usize,
    pub(super) begin: Begin,
    /// Where the next range begins; of the last one beyond all bytes.
    pub(super) end: u64,
    /// Bytes of the file, if they are in it as they are, so that one may go to them.
    pub(super) size: Option<u64>,
}

impl Ranges {
    /// These files in ranges of [`UNIT`].
    pub(super) fn new(paths: Vec<PathBuf>) -> Ranges {
        Ranges { paths, unit: UNIT, cut: OnceLock::new() }
    }

    /// Makes ranges of so many bytes.
    pub(super) fn set_unit(&mut self, unit: u64) {
        self.unit = unit.max(1);
        self.forget();
    }

    /// Forgets what walks have found, as another option changes what they find.
    pub(super) fn forget(&mut self) {
        self.cut = OnceLock::new();
    }

    /// The files.
    pub(super) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    fn cut(&self) -> &Cut {
        self.cut.get_or_init(|| {
            let files: Vec<File> = self.paths.par_iter().map(|path| File::new(path)).collect();
            let mut starts = vec![0usize];
            for file in &files {
                let last = starts[starts.len() - 1];
                starts.push(last.saturating_add(file.ranges(self.unit)));
            }
            Arc::new(Cut { files, starts })
        })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        let cut = self.cut();
        cut.starts[cut.files.len()]
    }

    /// The file that a range is of, and which of its ranges it is.
    fn find(&self, unit: usize) -> (usize, usize) {
        let starts = &self.cut().starts;
        // No file has none.
        let file = starts.partition_point(|start| *start <= unit) - 1;
        (file, unit - starts[file])
    }

    /// The file that a range is of.
    pub(super) fn path(&self, unit: usize) -> Option<&Path> {
        self.paths.get(self.find(unit).0).map(PathBuf::as_path)
    }

    /// Bytes of a range, whatever begins in it.
    pub(super) fn bytes(&self, unit: usize) -> Option<u64> {
        let (file, index) = self.find(unit);
        let file = self.cut().files.get(file)?;
        let start = (index as u64).saturating_mul(self.unit);
        let rest = file.size?.saturating_sub(start);
        Some(if file.plain { rest.min(self.unit) } else { rest })
    }

    /// Where to read a range; `None` if nothing begins in it.
    ///
    /// `walk` goes through the file of this number from a place on to the first thing that begins at
    /// a byte or behind it. Only an error of the system is one; where it cannot go on for another
    /// reason, there is no such thing.
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
    fn new(path: &Path) -> File {
        let size = path.metadata().ok().as_ref().map(Metadata::len);
        // What cannot be opened is told by who reads it.
        let plain = compressed::is_plain(path).unwrap_or(false);
        File { size, plain, known: Mutex::new(vec![Some(Begin::FRONT)]) }
    }

    fn plain_size(&self) -> Option<u64> {
        self.size.filter(|_| self.plain)
    }

    fn ranges(&self, unit: u64) -> usize {
        let size = self.plain_size().unwrap_or(0);
        usize::try_from(size.div_ceil(unit)).unwrap_or(usize::MAX).max(1)
    }

    /// Where the first thing begins that is in this range or behind it.
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

/// What a walk makes of an error: only those of the system are its own.
pub(super) fn end_of_walk(error: Error) -> Result<Option<Begin>> {
    match error.kind() {
        ErrorKind::Io | ErrorKind::NotFound => Err(error),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Things of these lengths, the last of which is broken if so said.
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
    fn all_things_are_in_one_range_each() {
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
                // Backwards, as another machine may begin at the end.
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
