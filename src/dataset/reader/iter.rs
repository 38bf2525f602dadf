//! Iterators over a dataset: raw bytes, values, keys.

use std::borrow::Cow;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::format::dataset::{keys, offsets};
use crate::format::msgpack::Value;
use crate::storage::Source;

use super::open::{Offsets, OpenDataset};

/// The packed samples of a range, made by
/// [`DatasetReader::iter_raw`](super::DatasetReader::iter_raw).
#[must_use]
pub struct RawIter<'a> {
    files: &'a OpenDataset,
    range: Range<usize>,
    /// What is left of the offsets, from the start of the next sample on, and the data: both only
    /// where they are mapped.
    mapped: Option<(&'a [u8], &'a [u8])>,
}

impl<'a> RawIter<'a> {
    pub(super) fn new(files: &'a OpenDataset, range: Range<usize>) -> RawIter<'a> {
        let mapped = match (&files.offsets, &files.data) {
            // The plain way compares.
            _ if files.check => None,
            (Offsets::File(Source::Mapped(ends)), Source::Mapped(data)) => {
                // Both were checked when the dataset was opened.
                let start = range.start * offsets::ENTRY as usize;
                ends.bytes().get(start..).zip(data.bytes().get(..files.data_len as usize))
            }
            _ => None,
        };
        RawIter { files, range, mapped }
    }
}

impl<'a> Iterator for RawIter<'a> {
    type Item = Result<Cow<'a, [u8]>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let index = self.range.next()?;
        if let Some((ends, data)) = &mut self.mapped {
            if let (Some(start), Some(end)) = (offsets::entry(ends, 0), offsets::entry(ends, 1)) {
                *ends = &ends[offsets::ENTRY as usize..];
                // What is beyond memory is beyond the data, not at its front.
                let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
                if let Some(raw) = range.and_then(|(start, end)| data.get(start..end)) {
                    return Some(Ok(Cow::Borrowed(raw)));
                }
            }
        }
        // Not mapped, or wrong: the plain way says which.
        Some(self.files.raw(index))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }
}

impl ExactSizeIterator for RawIter<'_> {}

/// The samples of a range, made by [`DatasetReader::iter`](super::DatasetReader::iter).
#[must_use]
pub struct Iter<'a> {
    files: &'a OpenDataset,
    range: Range<usize>,
}

impl<'a> Iter<'a> {
    pub(super) fn new(files: &'a OpenDataset, range: Range<usize>) -> Iter<'a> {
        Iter { files, range }
    }
}

impl Iterator for Iter<'_> {
    type Item = Result<Value>;

    fn next(&mut self) -> Option<Self::Item> {
        self.range.next().map(|index| self.files.value(index))
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
    files: &'a OpenDataset,
    range: Range<usize>,
    list: List<'a>,
}

enum List<'a> {
    File(keys::Keys<'a>),
    Samples,
    /// Opening `.keys` failed: reported once.
    Failed(Option<Error>),
}

impl<'a> Keys<'a> {
    pub(super) fn new(files: &'a OpenDataset) -> Keys<'a> {
        let list = match files.key_list() {
            Ok(Some(Cow::Borrowed(bytes))) => match files.listed_keys(bytes) {
                Ok(keys) => List::File(keys),
                Err(error) => List::Failed(Some(error)),
            },
            Ok(_) => List::Samples,
            Err(error) => List::Failed(Some(error)),
        };
        Keys { files, range: 0..files.len, list }
    }
}

impl<'a> Iterator for Keys<'a> {
    type Item = Result<Cow<'a, str>>;

    fn next(&mut self) -> Option<Self::Item> {
        let files = self.files;
        match &mut self.list {
            List::File(keys) => {
                let key = keys.next()?;
                Some(key.map(Cow::Borrowed).map_err(|e| files.damaged_keys(e)))
            }
            List::Samples => self.range.next().map(|index| files.key(index)),
            List::Failed(error) => error.take().map(Err),
        }
    }
}
