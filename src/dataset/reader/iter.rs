//! Iterators over a dataset: raw bytes, values, keys.

use std::borrow::Cow;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::format::dataset::{keys, offsets};
use crate::format::msgpack::Value;
use crate::storage::{Source, prefetch};

use super::open::{Offsets, OpenDataset};
use super::shards::{Opened, Shards};

/// From samples of this size on the processor does not see by itself which lines of its cache are next: it predicts
/// within a page of memory.
const FAR: u64 = 2048;

/// How many samples ahead their beginnings are prefetched: the time of one wait for memory, at the rate at which
/// samples are decoded.
const AHEAD: usize = 8;

/// How many bytes ahead of a smaller sample all lines of the cache are prefetched: the next page of memory, whose
/// address the processor has to translate first.
const NEXT_PAGE: usize = 4096;

/// What an iterator goes over.
#[derive(Clone, Copy)]
enum Files<'a> {
    One(&'a OpenDataset),
    Many(&'a Shards),
}

/// The packed samples of a range, made by
/// [`DatasetReader::iter_raw`](super::DatasetReader::iter_raw).
#[must_use]
pub struct RawIter<'a> {
    files: Files<'a>,
    range: Range<usize>,
    /// What is left of the offsets, from the start of the next sample on, and the data: both only
    /// where they are mapped.
    mapped: Option<(&'a [u8], &'a [u8])>,
}

impl<'a> RawIter<'a> {
    pub(super) fn new(files: &'a OpenDataset, range: Range<usize>) -> RawIter<'a> {
        let mapped = match (&files.offsets, &files.data) {
            // The plain way compares.
            _ if files.checks_samples() => None,
            (Offsets::File(Source::Mapped(ends)), Source::Mapped(data)) => {
                // Both were checked when the dataset was opened.
                let start = range.start * offsets::ENTRY as usize;
                ends.bytes().get(start..).zip(data.bytes().get(..files.data_len as usize))
            }
            _ => None,
        };
        RawIter { files: Files::One(files), range, mapped }
    }

    pub(super) fn of_shards(shards: &'a Shards, range: Range<usize>) -> RawIter<'a> {
        RawIter { files: Files::Many(shards), range, mapped: None }
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
        Some(match self.files {
            Files::One(files) => files.read_sample(index),
            Files::Many(shards) => shards.get_raw(index),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }
}

impl ExactSizeIterator for RawIter<'_> {}

/// The samples of a range, made by [`DatasetReader::iter`](super::DatasetReader::iter).
#[must_use]
pub struct Iter<'a> {
    files: Files<'a>,
    range: Range<usize>,
}

impl<'a> Iter<'a> {
    pub(super) fn new(files: &'a OpenDataset, range: Range<usize>) -> Iter<'a> {
        Iter { files: Files::One(files), range }
    }

    pub(super) fn of_shards(shards: &'a Shards, range: Range<usize>) -> Iter<'a> {
        Iter { files: Files::Many(shards), range }
    }
}

impl Iterator for Iter<'_> {
    type Item = Result<Value>;

    fn next(&mut self) -> Option<Self::Item> {
        self.range.next().map(|index| match self.files {
            Files::One(files) => files.value(index),
            Files::Many(shards) => {
                let (reader, index) = shards.at(index)?;
                reader.get(index)
            }
        })
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
    range: Range<usize>,
    list: List<'a>,
}

enum List<'a> {
    File(&'a OpenDataset, keys::Keys<'a>),
    /// The keys of one shard after the other: those of a shard that stays open, or copies.
    Shards(&'a Shards, Box<ShardKeys<'a>>),
    Samples(&'a OpenDataset),
    /// Opening `.keys` failed: reported once.
    Failed(Option<Error>),
}

impl<'a> Keys<'a> {
    pub(super) fn new(files: &'a OpenDataset) -> Keys<'a> {
        let list = match files.key_list() {
            Ok(Some(Cow::Borrowed(bytes))) => match files.listed_keys(bytes) {
                Ok(keys) => List::File(files, keys),
                Err(error) => List::Failed(Some(error)),
            },
            Ok(_) => List::Samples(files),
            Err(error) => List::Failed(Some(error)),
        };
        Keys { range: 0..files.len, list }
    }

    pub(super) fn of_shards(shards: &'a Shards) -> Keys<'a> {
        Keys { range: 0..0, list: List::Shards(shards, Box::default()) }
    }
}

impl<'a> Iterator for Keys<'a> {
    type Item = Result<Cow<'a, str>>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.list {
            List::File(files, keys) => {
                let key = keys.next()?;
                Some(key.map(Cow::Borrowed).map_err(|e| files.damaged_keys(e)))
            }
            List::Samples(files) => self.range.next().map(|index| files.key(index)),
            List::Shards(shards, keys) => keys.next(shards),
            List::Failed(error) => error.take().map(Err),
        }
    }
}

/// Where a walk over the keys of all shards is.
#[derive(Default)]
struct ShardKeys<'a> {
    /// The next shard.
    number: usize,
    kept: Option<Keys<'a>>,
    /// Those of a shard that may be closed meanwhile.
    copied: std::vec::IntoIter<String>,
}

impl<'a> ShardKeys<'a> {
    fn next(&mut self, shards: &'a Shards) -> Option<Result<Cow<'a, str>>> {
        loop {
            if let Some(key) = self.kept.as_mut().and_then(Iterator::next) {
                return Some(key);
            }
            if let Some(key) = self.copied.next() {
                return Some(Ok(Cow::Owned(key)));
            }
            if self.number == shards.count() {
                return None;
            }
            self.number += 1;
            match shards.open(self.number - 1) {
                Ok(Opened::Kept(reader)) => self.kept = Some(reader.keys()),
                Ok(Opened::Lent(reader)) => {
                    let keys = reader.keys().map(|key| key.map(Cow::into_owned));
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
