//! Iterators over a dataset: raw bytes, values, keys.

use std::borrow::Cow;
use std::ops::Range;

use crate::error::Result;
use crate::format::dataset::offsets;
use crate::format::msgpack::Value;
use crate::storage::{Source, prefetch};

use super::Shared;
use super::files::Opened;
use super::keys::FileKeys;
use super::open::Offsets;

/// From samples of this size on the processor does not see by itself which lines of its cache are next: it predicts
/// within a page of memory.
const FAR: u64 = 2048;

/// How many samples ahead their beginnings are prefetched: the time of one wait for memory, at the rate at which
/// samples are decoded.
const AHEAD: usize = 8;

/// How many bytes ahead of a smaller sample all lines of the cache are prefetched: the next page of memory, whose
/// address the processor has to translate first.
const NEXT_PAGE: usize = 4096;

/// The packed samples of a range, made by
/// [`DatasetReader::iter_raw`](super::DatasetReader::iter_raw).
#[must_use]
pub struct RawIter<'a> {
    files: &'a Shared,
    range: Range<usize>,
    /// What is left of the offsets, from the start of the next sample on, and the data: both only
    /// where they are mapped.
    mapped: Option<(&'a [u8], &'a [u8])>,
}

impl<'a> RawIter<'a> {
    pub(super) fn new(files: &'a Shared, range: Range<usize>) -> RawIter<'a> {
        let mapped = files.one().and_then(|one| match (&one.offsets, &one.data) {
            // The plain way compares.
            _ if one.checks_samples() => None,
            (Offsets::File(Source::Mapped(ends)), Source::Mapped(data)) => {
                // Both were checked when the dataset was opened.
                let start = range.start * offsets::ENTRY as usize;
                ends.bytes().get(start..).zip(data.bytes().get(..one.data_len as usize))
            }
            _ => None,
        });
        RawIter { files, range, mapped }
    }

    /// Out of the loop, whose few instructions are not to make room for it.
    #[inline(never)]
    fn otherwise(&self, index: usize) -> Result<Cow<'a, [u8]>> {
        self.files.get_raw(index)
    }
}

impl<'a> Iterator for RawIter<'a> {
    type Item = Result<Cow<'a, [u8]>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let index = self.range.next()?;
        if let Some((ends, data)) = &mut self.mapped {
            if let (Some(start), Some(end)) = (offsets::entry(ends, 0), offsets::entry(ends, 1)) {
                let coming = if end.saturating_sub(start) >= FAR {
                    offsets::entry(ends, AHEAD).and_then(|at| usize::try_from(at).ok())
                } else {
                    usize::try_from(start).ok().and_then(|at| at.checked_add(NEXT_PAGE))
                };
                if let Some(coming) = coming.and_then(|at| data.get(at..)) {
                    prefetch(coming);
                }
                *ends = &ends[offsets::ENTRY as usize..];
                // What is beyond memory is beyond the data, not at its front.
                let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
                if let Some(raw) = range.and_then(|(start, end)| data.get(start..end)) {
                    return Some(Ok(Cow::Borrowed(raw)));
                }
            }
        }
        // Not mapped, or wrong: the plain way says which.
        Some(self.otherwise(index))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }
}

impl ExactSizeIterator for RawIter<'_> {}

/// The samples of a range, made by [`DatasetReader::iter`](super::DatasetReader::iter).
#[must_use]
pub struct Iter<'a> {
    pub(super) files: &'a Shared,
    pub(super) range: Range<usize>,
}

impl Iterator for Iter<'_> {
    type Item = Result<Value>;

    fn next(&mut self) -> Option<Self::Item> {
        let index = self.range.next()?;
        Some(self.files.at(index).and_then(|(file, index)| file.value(index)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// The keys of a dataset, made by [`DatasetReader::keys`](super::DatasetReader::keys).
///
/// They come from `.keys` where it is mapped or remote, and from the samples otherwise.
#[must_use]
pub struct Keys<'a> {
    files: &'a Shared,
    /// The next data file.
    number: usize,
    kept: Option<FileKeys<'a>>,
    /// Those of a file that may be closed meanwhile.
    copied: std::vec::IntoIter<String>,
}

impl<'a> Keys<'a> {
    pub(super) fn new(files: &'a Shared) -> Keys<'a> {
        Keys { files, number: 0, kept: None, copied: Vec::new().into_iter() }
    }
}

impl<'a> Iterator for Keys<'a> {
    type Item = Result<Cow<'a, str>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(key) = self.kept.as_mut().and_then(Iterator::next) {
                return Some(key);
            }
            if let Some(key) = self.copied.next() {
                return Some(Ok(Cow::Owned(key)));
            }
            if self.number == self.files.count() {
                return None;
            }
            self.number += 1;
            match self.files.file(self.number - 1) {
                Ok(Opened::Kept(file)) => self.kept = Some(file.keys()),
                Ok(Opened::Lent(file)) => {
                    let keys = file.keys().map(|key| key.map(Cow::into_owned));
                    match keys.collect::<Result<Vec<String>>>() {
                        Ok(keys) => self.copied = keys.into_iter(),
                        Err(error) => return Some(Err(error)),
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
