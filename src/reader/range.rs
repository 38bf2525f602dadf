//! [`RangeReader`]: consecutive samples of another reader.

use std::borrow::Cow;
use std::ops::{Range, RangeBounds};

use super::identity::composed;
use super::{Location, Reader, out_of_range, resolve};
use crate::error::Result;
use crate::format::msgpack::Value;

/// Consecutive samples of another reader, numbered from 0. Takes no memory.
///
/// ```
/// use kiste::reader::{ListReader, Reader, ReaderExt};
/// # let sample = |key: &str| std::collections::BTreeMap::from([("key", key.to_string())]);
///
/// let part = ListReader::pack(["a", "b", "c"].map(sample))?.range(1..);
/// assert_eq!(part.len(), 2);
/// assert_eq!(part.key(0)?, "b");
/// assert_eq!(part.find("a")?, None);
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct RangeReader<R> {
    reader: R,
    range: Range<usize>,
}

impl<R: Reader> RangeReader<R> {
    /// These samples of the reader.
    ///
    /// # Panics
    ///
    /// If the range is not within the reader, as slicing does.
    pub fn new(reader: R, range: impl RangeBounds<usize>) -> RangeReader<R> {
        let range = resolve(range, reader.len());
        RangeReader { reader, range }
    }

    /// The whole reader.
    pub fn inner(&self) -> &R {
        &self.reader
    }

    /// The index in the whole reader.
    fn outer(&self, index: usize) -> Result<usize> {
        let outer = self.range.start.checked_add(index).filter(|outer| self.range.contains(outer));
        outer.ok_or_else(|| out_of_range(index, self.len()))
    }

    /// The first sample in the range with this key; `found` is the first one in the whole reader.
    fn first_within(&self, found: Option<usize>, key: &str) -> Result<Option<usize>> {
        match found {
            // The first one lies before the range, but there may be another.
            Some(first) if first < self.range.start => Ok(self.find_all(key)?.first().copied()),
            found => Ok(found.and_then(|outer| self.within(outer))),
        }
    }

    fn within(&self, outer: usize) -> Option<usize> {
        self.range.contains(&outer).then(|| outer - self.range.start)
    }
}

impl<R: Reader> Reader for RangeReader<R> {
    fn len(&self) -> usize {
        self.range.len()
    }

    fn key(&self, index: usize) -> Result<Cow<'_, str>> {
        self.reader.key(self.outer(index)?)
    }

    fn find(&self, key: &str) -> Result<Option<usize>> {
        self.first_within(self.reader.find(key)?, key)
    }

    fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        self.reader.get_raw(self.outer(index)?)
    }

    fn find_all(&self, key: &str) -> Result<Vec<usize>> {
        let all = self.reader.find_all(key)?;
        Ok(all.into_iter().filter_map(|outer| self.within(outer)).collect())
    }

    fn find_keys(&self, keys: &[&str]) -> Result<Vec<Option<usize>>> {
        let found = self.reader.find_keys(keys)?.into_iter().zip(keys);
        found.map(|(found, key)| self.first_within(found, key)).collect()
    }

    fn contains_key(&self, key: &str) -> Result<bool> {
        Ok(self.reader.contains_key(key)? && self.find(key)?.is_some())
    }

    fn get(&self, index: usize) -> Result<Value> {
        self.reader.get(self.outer(index)?)
    }

    fn get_raw_many(&self, indices: &[usize]) -> Result<Vec<Cow<'_, [u8]>>> {
        let outer: Vec<usize> = indices.iter().map(|&i| self.outer(i)).collect::<Result<_>>()?;
        self.reader.get_raw_many(&outer)
    }

    fn field_raw(&self, index: usize, name: &str) -> Result<Option<Cow<'_, [u8]>>> {
        self.reader.field_raw(self.outer(index)?, name)
    }

    fn field(&self, index: usize, name: &str) -> Result<Option<Value>> {
        self.reader.field(self.outer(index)?, name)
    }

    fn labels(&self) -> Result<Option<Vec<String>>> {
        self.reader.labels()
    }

    fn identity(&self) -> Result<String> {
        let Range { start, end } = self.range;
        composed("range", [self.reader.identity()], [start, end])
    }

    fn locate(&self, index: usize) -> Location {
        match self.outer(index) {
            Ok(outer) => self.reader.locate(outer),
            Err(_) => Location::new(index as u64),
        }
    }

    fn is_remote(&self) -> bool {
        self.reader.is_remote()
    }

    fn sample_bytes(&self) -> Option<u64> {
        self.reader.sample_bytes()
    }

    fn prefetch(&self, indices: &[usize]) {
        let outer: Vec<usize> = indices.iter().filter_map(|&i| self.outer(i).ok()).collect();
        self.reader.prefetch(&outer);
    }
}
