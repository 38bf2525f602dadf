//! [`SelectReader`]: chosen samples of another reader, in a chosen order.

use std::borrow::Cow;

use super::identity::composed;
use super::{Location, Reader, out_of_range};
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::Value;

/// Chosen samples of another reader, numbered from 0 in the order they were chosen in: by index,
/// by key, or by a question that each is asked once.
///
/// Takes two numbers a chosen sample. A sample may be chosen more than once.
///
/// ```
/// use kiste::reader::{ListReader, Reader, ReaderExt};
/// # let sample = |key: &str| std::collections::BTreeMap::from([("key", key.to_string())]);
///
/// let letters = ListReader::pack(["a", "b", "c", "d"].map(sample))?;
/// let chosen = (&letters).select([3, 0])?;
/// assert_eq!(chosen.key(0)?, "d");
/// assert_eq!(chosen.find("a")?, Some(1));
///
/// let late = letters.filter(|sample| sample["key"].as_str() > Some("b"))?;
/// assert_eq!(late.indices(), [2, 3]);
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SelectReader<R> {
    reader: R,
    indices: Vec<usize>,
    /// Positions in `indices`, sorted by index and then by position; empty where the
    /// indices are ascending themselves.
    order: Vec<usize>,
}

impl<R: Reader> SelectReader<R> {
    /// The samples of these indices, in this order.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if there is no such index.
    pub fn new(reader: R, indices: impl IntoIterator<Item = usize>) -> Result<SelectReader<R>> {
        let indices: Vec<usize> = indices.into_iter().collect();
        if let Some(&index) = indices.iter().find(|&&index| index >= reader.len()) {
            return Err(out_of_range(index, reader.len()));
        }
        let mut order = Vec::new();
        if !indices.is_sorted() {
            order = (0..indices.len()).collect();
            order.sort_unstable_by_key(|&at| (indices[at], at));
        }
        Ok(SelectReader { reader, indices, order })
    }

    /// The samples with these keys, in this order.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) if there is no such key.
    pub fn from_keys<K: AsRef<str>>(
        reader: R,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<SelectReader<R>> {
        let keys: Vec<K> = keys.into_iter().collect();
        let keys: Vec<&str> = keys.iter().map(AsRef::as_ref).collect();
        let found = reader.find_keys(&keys)?.into_iter().zip(&keys);
        let index = |(found, key): (Option<usize>, &&str)| {
            found.ok_or_else(|| {
                Error::new(ErrorKind::NotFound, "there is no such key").with_key(*key)
            })
        };
        let indices: Vec<usize> = found.map(index).collect::<Result<_>>()?;
        SelectReader::new(reader, indices)
    }

    /// The samples for which this is true, in their order. It is called once for each sample, now, and decides
    /// how much of the sample it reads ([`key`](Reader::key), one [`field`](Reader::field), all). Its
    /// errors end the search.
    pub fn filter(
        reader: R,
        mut keep: impl FnMut(&R, usize) -> Result<bool>,
    ) -> Result<SelectReader<R>> {
        let mut indices = Vec::new();
        for index in 0..reader.len() {
            if keep(&reader, index)? {
                indices.push(index);
            }
        }
        SelectReader::new(reader, indices)
    }

    /// The reader that was chosen from.
    pub fn inner(&self) -> &R {
        &self.reader
    }

    /// The indices that were chosen.
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }

    fn outer(&self, index: usize) -> Result<usize> {
        self.indices.get(index).copied().ok_or_else(|| out_of_range(index, self.len()))
    }

    /// Where this index was chosen, ascending.
    fn positions(&self, outer: usize) -> impl Iterator<Item = usize> {
        let at = |rank: usize| self.order.get(rank).copied().unwrap_or(rank);
        let start = partition_point(self.len(), |rank| self.indices[at(rank)] < outer);
        (start..self.len()).map(at).take_while(move |&at| self.indices[at] == outer)
    }
}

/// The first number below `len` for which this is false, if it is true only for numbers before it.
fn partition_point(len: usize, below: impl Fn(usize) -> bool) -> usize {
    let (mut start, mut end) = (0, len);
    while start < end {
        let middle = start + (end - start) / 2;
        if below(middle) {
            start = middle + 1;
        } else {
            end = middle;
        }
    }
    start
}

impl<R: Reader> Reader for SelectReader<R> {
    fn len(&self) -> usize {
        self.indices.len()
    }

    fn key(&self, index: usize) -> Result<Cow<'_, str>> {
        self.reader.key(self.outer(index)?)
    }

    fn find(&self, key: &str) -> Result<Option<usize>> {
        let all = self.reader.find_all(key)?;
        Ok(all.into_iter().filter_map(|outer| self.positions(outer).next()).min())
    }

    fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        self.reader.get_raw(self.outer(index)?)
    }

    fn find_all(&self, key: &str) -> Result<Vec<usize>> {
        let all = self.reader.find_all(key)?;
        let mut found: Vec<usize> =
            all.into_iter().flat_map(|outer| self.positions(outer)).collect();
        found.sort_unstable();
        Ok(found)
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
        composed("select", [self.reader.identity()], self.indices.iter().copied())
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
