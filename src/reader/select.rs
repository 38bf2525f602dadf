//! [`SelectReader`]: chosen samples of another reader, in a chosen order.

use std::borrow::Cow;
use std::ops::RangeBounds;
use std::sync::Arc;

use super::identity::composed;
use super::lengths::{Choice, Chosen};
use super::{FieldContent, Location, Reader, Selection, out_of_range, resolve};
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::Value;
use crate::sampler::Lengths;

/// Chosen samples of another reader, numbered from 0 in the order they were chosen in: by index,
/// by key, or by a question that each is asked once.
///
/// A sample may be chosen more than once. [`Selection`] says how much memory it takes: nothing for a range.
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
/// assert!(late.selection().iter().eq([2, 3]));
/// # Ok::<(), kiste::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SelectReader<R> {
    reader: R,
    selection: Arc<Selection>,
}

impl<R: Reader> SelectReader<R> {
    /// The samples of these indices, in this order.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if there is no such index.
    pub fn new(reader: R, indices: impl IntoIterator<Item = usize>) -> Result<SelectReader<R>> {
        let selection = Selection::new(reader.len(), indices)?;
        Ok(SelectReader { reader, selection: Arc::new(selection) })
    }

    /// The samples of this selection, which was made for a reader of the same length.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if it has an index that the reader has not.
    pub fn of(reader: R, selection: Selection) -> Result<SelectReader<R>> {
        let last = match selection.is_ascending() {
            true => selection.len().checked_sub(1).and_then(|last| selection.get(last)),
            false => selection.iter().max(),
        };
        match last.filter(|&last| last >= reader.len()) {
            Some(last) => Err(out_of_range(last, reader.len())),
            None => Ok(SelectReader { reader, selection: Arc::new(selection) }),
        }
    }

    /// The samples of a range, numbered from 0.
    ///
    /// # Panics
    ///
    /// If the range is not within the reader, as slicing does.
    pub fn of_range(reader: R, range: impl RangeBounds<usize>) -> SelectReader<R> {
        let selection = Selection::of_range(resolve(range, reader.len()));
        SelectReader { reader, selection: Arc::new(selection) }
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
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    #[inline]
    fn outer(&self, index: usize) -> Result<usize> {
        self.selection.get(index).ok_or_else(|| out_of_range(index, self.len()))
    }

    /// The first chosen sample with this key; `found` is the first one in the whole reader.
    fn first_chosen(&self, found: Option<usize>, key: &str) -> Result<Option<usize>> {
        let Some(first) = found else { return Ok(None) };
        let position = self.selection.position_of(first);
        let is_first = position.is_some() && self.selection.is_ascending();
        if is_first || !self.reader.may_repeat_keys() {
            return Ok(position);
        }
        // Another one may have been chosen, or sooner.
        let all = self.reader.find_all(key)?;
        Ok(all.into_iter().filter_map(|outer| self.selection.position_of(outer)).min())
    }
}

impl<R: Reader> Reader for SelectReader<R> {
    fn len(&self) -> usize {
        self.selection.len()
    }

    fn key(&self, index: usize) -> Result<Cow<'_, str>> {
        self.reader.key(self.outer(index)?)
    }

    fn find(&self, key: &str) -> Result<Option<usize>> {
        self.first_chosen(self.reader.find(key)?, key)
    }

    fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        self.reader.get_raw(self.outer(index)?)
    }

    fn find_all(&self, key: &str) -> Result<Vec<usize>> {
        let all = self.reader.find_all(key)?;
        let mut found: Vec<usize> =
            all.into_iter().flat_map(|outer| self.selection.positions_of(outer)).collect();
        found.sort_unstable();
        Ok(found)
    }

    fn find_keys(&self, keys: &[&str]) -> Result<Vec<Option<usize>>> {
        let found = self.reader.find_keys(keys)?.into_iter().zip(keys);
        found.map(|(found, key)| self.first_chosen(found, key)).collect()
    }

    fn contains_key(&self, key: &str) -> Result<bool> {
        Ok(self.reader.contains_key(key)? && self.find(key)?.is_some())
    }

    fn may_repeat_keys(&self) -> bool {
        self.reader.may_repeat_keys() || self.selection.has_repeats()
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

    fn read_fields(
        &self,
        index: usize,
        names: &[&str],
        take: &mut dyn FnMut(&str, FieldContent<'_>) -> Result<()>,
    ) -> Result<bool> {
        self.reader.read_fields(self.outer(index)?, names, take)
    }

    fn field(&self, index: usize, name: &str) -> Result<Option<Value>> {
        self.reader.field(self.outer(index)?, name)
    }

    fn labels(&self) -> Result<Option<Vec<String>>> {
        self.reader.labels()
    }

    fn lengths(&self, column: &str) -> Result<Option<Arc<dyn Lengths>>> {
        let chosen = |inner| Chosen::new(inner, Choice::Selection(self.selection.clone()));
        Ok(self.reader.lengths(column)?.map(|inner| Arc::new(chosen(inner)) as Arc<dyn Lengths>))
    }

    fn identity(&self) -> Result<String> {
        composed("select", [self.reader.identity()], self.selection.numbers())
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

    fn known_len(&self, index: usize) -> Result<Option<u64>> {
        self.reader.known_len(self.outer(index)?)
    }

    fn sample_bytes(&self) -> Option<u64> {
        self.reader.sample_bytes()
    }

    fn prefetch(&self, indices: &[usize]) {
        let outer: Vec<usize> = indices.iter().filter_map(|&i| self.outer(i).ok()).collect();
        self.reader.prefetch(&outer);
    }
}
