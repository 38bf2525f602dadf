//! Access: a sample by index or by key.
//!
//! [`Reader`] is the one small trait: how many samples, the key of one, the index of a key, the
//! packed bytes of one. All else is provided, and a reader that has a faster way overrides it.
//! [`ReaderExt`] has the conveniences on top of it, for any reader and for `dyn Reader`.
//!
//! | reader | samples |
//! | --- | --- |
//! | [`DatasetReader`](crate::DatasetReader) | a dataset on storage: the data file and its offsets are mapped, every other side file is opened when it is first needed, and none is ever loaded whole |
//! | [`ShardedReader`] | several readers seen as one: shards, or any concatenation |
//! | [`ListReader`] | values in memory |
//! | [`DirectoryReader`] | files of a directory tree or of a list |
//! | `ZipReader` | files in a zip archive (feature `zip`) |
//! | [`SelectReader`] | part of another reader: a range, chosen indices or keys, what passes a filter |
//! | [`FieldsReader`] | the samples of another reader with some of their fields, or under other names |
//! | `ArrayRows` | rows of arrays (feature `arrays`, as the next) |
//! | `WithArrays` | another reader's samples, with rows of arrays where they refer to them |
//! | [`JoinReader`] | the samples that two readers have in common by key, with the fields of both |
//!
//! A key may come twice in a concatenation or a selection. Then [`Reader::find`] gives the first
//! index that has it, [`Reader::find_all`] all of them.
//!
//! Absent on purpose: positions. No reader has a "next" sample; an order of indices is the matter
//! of a sampler.
//!
//! # Where Python datadings is silently wrong
//!
//! | case | Python 3.4.7 | here |
//! | --- | --- | --- |
//! | `get(-1)`, `get(-2)` | an error; the last sample | no negative indices |
//! | `.offsets` cut short, too long, or not of this data | the first samples, then an error; or nothing | an error on opening |
//! | data cut short | short samples, without an error when raw | an error on opening |
//! | `.keys` missing | cannot be opened | keys are taken from the samples |
//! | `.filter` cut short or cleared | keys that are there are absent | an error |
//! | `.key_hashes` cut short, or of another salt | keys that are there are absent | an error |
//! | two keys with one hash | the wrong sample | the key of the sample decides |
//! | `.filter` missing | `in` fails | the hashes answer |
//! | files of two datasets after a crash | a mixture | refused until repaired |
//! | an empty dataset, or an empty shard between others | an error when iterated | no samples |
//! | a shard pattern that matches nothing | no samples | an error |
//! | the order of shards of a pattern | as text: 10 before 2 | natural: 2 before 10 |
//! | a key in two shards | the first one, unnoticed | the first one; [`ShardedReader::duplicates`] tells |
//! | `slice(n, n)` of shards | an error | no samples |
//! | labels `01` and `1` | numbered by chance in each run | ordered by code points |
//! | a sample whose label is not among those given | an error when it is read | an error on opening |
//! | files without labels where labels are not numbered | an error unless labels are given | no label |
//! | a list sample without a key | has its index, a number, for a key | its index as text |
//! | samples of a list | changed in place | copied |
//! | the order of a directory | as the file system lists it | natural order of the paths |
//! | the part of a path that is no key (`tree/`) | removed wherever it occurs | removed at the front |
//! | several patterns: `tree/b2/**`, `tree/b10/**` | keys `2/…`, `10/…` | keys `b2/…`, `b10/…` |
//! | a pattern below `root_dir` | searched elsewhere, opened there | searched there |
//! | blank lines of a list file | samples without a name | nothing |
//! | a wildcard before `{LABEL}` in an archive | keys cut at the wrong place | keys begin with the label |
//! | two entries of one name in an archive | an error | an error |
//!
//! A key counts as absent only when two files agree on it, or one of them was compared with
//! its MD5: see [`DatasetReader::contains_key`](crate::DatasetReader::contains_key).

use crate::error::Shown;
use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::ops::{Bound, Range, RangeBounds};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::format::FormatError;
#[cfg(feature = "arrays")]
use crate::format::msgpack::numpy;
use crate::format::msgpack::{self, Cursor, Value};
use crate::sampler::Lengths;

pub(crate) mod links;
#[cfg(feature = "readers")]
pub(crate) mod pattern;
#[cfg(feature = "readers")]
pub(crate) mod labels;
#[cfg(feature = "arrays")]
mod arrays;
mod key_index;
pub(crate) mod identity;
pub(crate) mod lengths;
pub(crate) mod pack;
mod sharded;
#[cfg(feature = "readers")]
mod list;
#[cfg(feature = "readers")]
mod files;
#[cfg(feature = "readers")]
mod directory;
#[cfg(feature = "zip")]
mod zip;
mod select;
mod selection;
mod packed_fields;
mod fields;
mod join;

#[cfg(feature = "arrays")]
pub use arrays::{ArrayRows, ArraySource, WithArrays};
#[cfg(feature = "readers")]
pub use directory::DirectoryReader;
#[cfg(feature = "stat")]
pub(crate) use fields::has_field;
pub use fields::{FieldContent, FieldNames, FieldsReader};
#[cfg(feature = "readers")]
pub use files::{FileEntry, FileOptions};
pub use join::{How, Join, JoinReader, Shared};
#[cfg(feature = "readers")]
pub use labels::Labels;
#[cfg(feature = "readers")]
pub use list::{ListOptions, ListReader};
#[cfg(feature = "convert")]
pub(crate) use pattern::Filter;
#[cfg(feature = "readers")]
pub use pattern::NamePattern;
#[cfg(feature = "convert")]
pub(crate) use pattern::{PathPattern, check_named};
pub use select::SelectReader;
pub use selection::Selection;
pub use sharded::ShardedReader;
#[cfg(feature = "zip")]
pub use zip::ZipReader;
#[cfg(feature = "zip")]
pub(crate) use zip::{LabelPattern, ZipDirectory};

/// Keyed samples by index: what a loader, a command or another reader needs to know of a dataset.
///
/// Indices run from 0 to [`len`](Reader::len); there are no negative ones. All methods take
/// `&self`, and a reader is shared by any number of threads. Four methods are enough; the others
/// follow from them, and readers that know a faster way have one. Methods that need a type of
/// yours, or make another reader, are in [`ReaderExt`].
///
/// ```
/// use kiste::reader::{ListReader, Reader, ReaderExt};
///
/// fn labels(reader: &dyn Reader) -> kiste::Result<Vec<i64>> {
///     reader.iter(..).map(|sample| Ok(sample?["label"].as_i64().unwrap_or(-1))).collect()
/// }
///
/// let list = ListReader::pack([[("key", "a"), ("label", "no")], [("key", "b"), ("label", "yes")]]
///     .map(std::collections::BTreeMap::from))?;
/// assert_eq!(labels(&list)?, [0, 1]);
/// # Ok::<(), kiste::Error>(())
/// ```
pub trait Reader: Send + Sync {
    /// Samples.
    fn len(&self) -> usize;

    /// The key of a sample.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if there is no such index, here and wherever one is asked
    /// for; [`Damaged`](ErrorKind::Damaged) if the key cannot be read.
    fn key(&self, index: usize) -> Result<Cow<'_, str>>;

    /// The index of the sample with this key, the first one if there are several, `None` if there
    /// is none.
    fn find(&self, key: &str) -> Result<Option<usize>>;

    /// The packed bytes of a sample: one msgpack map. They are borrowed where the reader has them
    /// in memory or in a map, and not checked before they are decoded.
    fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>>;

    /// Whether there are no samples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All indices of samples with this key, ascending. At most one, except where readers or
    /// selections were put together.
    fn find_all(&self, key: &str) -> Result<Vec<usize>> {
        Ok(self.find(key)?.into_iter().collect())
    }

    /// The indices of many keys, in their order, each as [`find`](Self::find) returns it.
    /// [`ReaderExt::find_many`] takes keys of any kind.
    fn find_keys(&self, keys: &[&str]) -> Result<Vec<Option<usize>>> {
        keys.iter().map(|key| self.find(key)).collect()
    }

    /// Whether there is a sample with this key.
    fn contains_key(&self, key: &str) -> Result<bool> {
        Ok(self.find(key)?.is_some())
    }

    /// Whether a key may come more than once. Datasets never have a key twice; readers that were put together
    /// may. Default: yes.
    fn may_repeat_keys(&self) -> bool {
        true
    }

    /// A sample as a dynamic value.
    fn get(&self, index: usize) -> Result<Value> {
        let raw = self.get_raw(index)?;
        msgpack::decode(&raw).map_err(|e| self.locate(index).damaged(e))
    }

    /// The packed bytes of many samples, in the order of their indices, each as
    /// [`get_raw`](Self::get_raw) returns it. Remote samples are fetched together.
    ///
    /// # Errors
    ///
    /// The first of those that [`get_raw`](Self::get_raw) has for one of the samples.
    fn get_raw_many(&self, indices: &[usize]) -> Result<Vec<Cow<'_, [u8]>>> {
        if self.is_remote() {
            self.prefetch(indices);
        }
        indices.iter().map(|&index| self.get_raw(index)).collect()
    }

    /// The packed bytes of the sample with this key, if there is one.
    fn get_raw_by_key(&self, key: &str) -> Result<Option<Cow<'_, [u8]>>> {
        self.find(key)?.map(|index| self.get_raw(index)).transpose()
    }

    /// The sample with this key, if there is one.
    fn get_by_key(&self, key: &str) -> Result<Option<Value>> {
        self.find(key)?.map(|index| self.get(index)).transpose()
    }

    /// The packed bytes of one field, `None` if the sample has none of this name. Of several with one
    /// name it is the last. Readers that put samples together make only this field.
    fn field_raw(&self, index: usize, name: &str) -> Result<Option<Cow<'_, [u8]>>> {
        let damaged = |e| self.locate(index).damaged(e);
        Ok(match self.get_raw(index)? {
            Cow::Borrowed(raw) => msgpack::field(raw, name).map_err(damaged)?.map(Cow::Borrowed),
            Cow::Owned(raw) => {
                let field = msgpack::field(&raw, name).map_err(damaged)?;
                field.map(|field| Cow::Owned(field.to_vec()))
            }
        })
    }

    /// Calls `take` with the name and the content of each field that has one of these names, or of all where there are no
    /// names, where samples are made of records of another format; other fields are not decoded. False where samples are packed already, or made by
    /// [`get_raw`](Self::get_raw) alone, which is the default. Loaders ask for the fields of their columns this way.
    ///
    /// # Errors
    ///
    /// Those of reading, and the first one of `take`.
    fn read_fields(
        &self,
        index: usize,
        names: &[&str],
        take: &mut dyn FnMut(&str, FieldContent<'_>) -> Result<()>,
    ) -> Result<bool> {
        let _ = (index, names, take);
        Ok(false)
    }

    /// One field of a sample; the others are not decoded.
    fn field(&self, index: usize, name: &str) -> Result<Option<Value>> {
        let packed = self.field_raw(index, name)?;
        let decoded = packed.map(|packed| msgpack::decode(&packed)).transpose();
        decoded.map_err(|e| self.locate(index).damaged(e))
    }

    /// The names of the numeric labels, by their numbers, if they are known.
    fn labels(&self) -> Result<Option<Vec<String>>> {
        Ok(None)
    }

    /// Numbers of the samples that are known without reading them, such as `len(tokens)`: the columns of `.lengths`,
    /// which [`DatasetReader::lengths`](crate::DatasetReader::lengths) opens. `None` if there are none, which is the
    /// default.
    ///
    /// # Errors
    ///
    /// Those of a file that is damaged, of other data, or without this column.
    fn lengths(&self, column: &str) -> Result<Option<Arc<dyn Lengths>>> {
        let _ = column;
        Ok(None)
    }

    /// A text that tells these samples from others of the same number: for those who keep the name of a
    /// dataset and open it again later. It is made of digests where there are some, or else of some of the
    /// samples.
    fn identity(&self) -> Result<String> {
        identity::by_samples(self)
    }

    /// The name that it was opened by, for messages, if it has one.
    fn name(&self) -> Option<&Path> {
        None
    }

    /// Where a sample comes from, for messages, if it is known without reading it.
    fn locate(&self, index: usize) -> Location {
        Location::new(index as u64)
    }

    /// Whether reading a sample may be a round trip over a network, which [`prefetch`](Self::prefetch)
    /// saves: it fetches all samples together then, and returns when they are there. Loaders have a thread
    /// that prefetches the next batches.
    fn is_remote(&self) -> bool {
        false
    }

    /// How many bytes a packed sample has, if that is known without reading it. [`ReaderExt::raw_len`] reads it
    /// where it is not.
    fn known_len(&self, index: usize) -> Result<Option<u64>> {
        let _ = index;
        Ok(None)
    }

    /// About how many bytes a sample has, if that is known without reading any. Loaders fetch this way
    /// as many samples of a remote reader at a time as pay off.
    fn sample_bytes(&self) -> Option<u64> {
        None
    }

    /// Announces that these samples will be read soon, so that a slow storage can begin. Never an
    /// error: an index that does not exist is passed over, and what could not be fetched is an error of
    /// the first read of that sample, which does not try another time.
    fn prefetch(&self, indices: &[usize]) {
        let _ = indices;
    }

    /// The reader as the type that it is, for those who have a faster way for one type: see
    /// [`DatasetReader::of`](crate::DatasetReader::of). Default: none.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

macro_rules! forward {
    ($($pointer:ty),*) => {$(
        impl<R: Reader + ?Sized> Reader for $pointer {
            fn len(&self) -> usize {
                (**self).len()
            }
            fn key(&self, index: usize) -> Result<Cow<'_, str>> {
                (**self).key(index)
            }
            fn find(&self, key: &str) -> Result<Option<usize>> {
                (**self).find(key)
            }
            fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
                (**self).get_raw(index)
            }
            fn is_empty(&self) -> bool {
                (**self).is_empty()
            }
            fn find_all(&self, key: &str) -> Result<Vec<usize>> {
                (**self).find_all(key)
            }
            fn find_keys(&self, keys: &[&str]) -> Result<Vec<Option<usize>>> {
                (**self).find_keys(keys)
            }
            fn get_raw_many(&self, indices: &[usize]) -> Result<Vec<Cow<'_, [u8]>>> {
                (**self).get_raw_many(indices)
            }
            fn get_raw_by_key(&self, key: &str) -> Result<Option<Cow<'_, [u8]>>> {
                (**self).get_raw_by_key(key)
            }
            fn get_by_key(&self, key: &str) -> Result<Option<Value>> {
                (**self).get_by_key(key)
            }
            fn field_raw(&self, index: usize, name: &str) -> Result<Option<Cow<'_, [u8]>>> {
                (**self).field_raw(index, name)
            }
            fn field(&self, index: usize, name: &str) -> Result<Option<Value>> {
                (**self).field(index, name)
            }
            fn read_fields(
                &self,
                index: usize,
                names: &[&str],
                take: &mut dyn FnMut(&str, FieldContent<'_>) -> Result<()>,
            ) -> Result<bool> {
                (**self).read_fields(index, names, take)
            }
            fn labels(&self) -> Result<Option<Vec<String>>> {
                (**self).labels()
            }
            fn lengths(&self, column: &str) -> Result<Option<Arc<dyn Lengths>>> {
                (**self).lengths(column)
            }
            fn identity(&self) -> Result<String> {
                (**self).identity()
            }
            fn contains_key(&self, key: &str) -> Result<bool> {
                (**self).contains_key(key)
            }
            fn may_repeat_keys(&self) -> bool {
                (**self).may_repeat_keys()
            }
            fn get(&self, index: usize) -> Result<Value> {
                (**self).get(index)
            }
            fn name(&self) -> Option<&Path> {
                (**self).name()
            }
            fn locate(&self, index: usize) -> Location {
                (**self).locate(index)
            }
            fn is_remote(&self) -> bool {
                (**self).is_remote()
            }
            fn known_len(&self, index: usize) -> Result<Option<u64>> {
                (**self).known_len(index)
            }
            fn sample_bytes(&self) -> Option<u64> {
                (**self).sample_bytes()
            }
            fn prefetch(&self, indices: &[usize]) {
                (**self).prefetch(indices);
            }
            fn as_any(&self) -> Option<&dyn Any> {
                (**self).as_any()
            }
        }
    )*};
}

forward!(&R, Box<R>, Arc<R>);

impl fmt::Debug for dyn Reader + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reader({} samples)", self.len())
    }
}

/// Methods for every [`Reader`]: typed samples, iteration, parts and joins.
pub trait ReaderExt: Reader {
    /// A sample as a type of yours, which may borrow `&str` and `&[u8]` (with `serde_bytes`) from
    /// the reader where [`get_raw`](Reader::get_raw) does: see [`DatasetReader::get_as`](crate::DatasetReader::get_as).
    fn get_as<'a, T: Deserialize<'a>>(&'a self, index: usize) -> Result<T> {
        unpack(self.get_raw(index)?, || self.locate(index))
    }

    /// How many bytes a packed sample has. It is read where there is no other way to know.
    ///
    /// ```
    /// use kiste::reader::{ListReader, Reader, ReaderExt};
    ///
    /// let list = ListReader::pack([std::collections::BTreeMap::from([("key", "a")])])?;
    /// assert_eq!(list.raw_len(0)?, list.get_raw(0)?.len() as u64);
    /// # Ok::<(), kiste::Error>(())
    /// ```
    fn raw_len(&self, index: usize) -> Result<u64> {
        match self.known_len(index)? {
            Some(len) => Ok(len),
            None => Ok(self.get_raw(index)?.len() as u64),
        }
    }

    /// The indices of many keys, in their order, each as [`find`](Reader::find) returns it. Datasets are
    /// faster than one by one.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use kiste::reader::{ListReader, ReaderExt};
    ///
    /// let samples = ["a", "b"].map(|key| std::collections::BTreeMap::from([("key", key)]));
    /// let letters = Arc::new(ListReader::pack(samples)?);
    /// assert_eq!(letters.find_many(&["b", "c"])?, [Some(1), None]);
    /// assert_eq!(letters.find_many(&vec![String::from("a")])?, [Some(0)]);
    /// # Ok::<(), kiste::Error>(())
    /// ```
    fn find_many<K: AsRef<str>>(&self, keys: &[K]) -> Result<Vec<Option<usize>>> {
        self.find_keys(&keys.iter().map(AsRef::as_ref).collect::<Vec<&str>>())
    }

    /// The sample with this key as a type of yours, if there is one: [`get_as`](Self::get_as) by
    /// key.
    ///
    /// ```
    /// use kiste::reader::{ListReader, ReaderExt};
    ///
    /// #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    /// struct Word<'a> {
    ///     key: &'a str,
    ///     length: u64,
    /// }
    ///
    /// let words = ListReader::pack([Word { key: "one", length: 3 }])?;
    /// assert_eq!(words.get_by_key_as::<Word>("one")?.map(|word| word.length), Some(3));
    /// assert_eq!(words.get_by_key_as::<Word>("two")?, None);
    /// # Ok::<(), kiste::Error>(())
    /// ```
    fn get_by_key_as<'a, T: Deserialize<'a>>(&'a self, key: &str) -> Result<Option<T>> {
        let Some(raw) = self.get_raw_by_key(key)? else { return Ok(None) };
        // An error says where the sample is, which is looked up only then.
        let locate = || match self.find(key) {
            Ok(Some(index)) => self.locate(index),
            _ => Location::default(),
        };
        unpack(raw, locate).map(Some)
    }

    /// The samples of a range as dynamic values, in order.
    ///
    /// # Panics
    ///
    /// Here and below, if the range is not within the reader, as slicing does.
    fn iter(&self, range: impl RangeBounds<usize>) -> impl ExactSizeIterator<Item = Result<Value>> {
        resolve(range, self.len()).map(|index| self.get(index))
    }

    /// The packed bytes of the samples of a range, in order.
    fn iter_raw(
        &self,
        range: impl RangeBounds<usize>,
    ) -> impl ExactSizeIterator<Item = Result<Cow<'_, [u8]>>> {
        resolve(range, self.len()).map(|index| self.get_raw(index))
    }

    /// The samples of a range as a type of yours, in order.
    fn iter_as<'a, T: Deserialize<'a>>(
        &'a self,
        range: impl RangeBounds<usize>,
    ) -> impl ExactSizeIterator<Item = Result<T>> {
        resolve(range, self.len()).map(|index| self.get_as(index))
    }

    /// The keys of all samples, in order.
    fn keys(&self) -> impl ExactSizeIterator<Item = Result<Cow<'_, str>>> {
        (0..self.len()).map(|index| self.key(index))
    }

    /// These samples only.
    ///
    /// # Panics
    ///
    /// If the range is not within the reader, as slicing does.
    fn range(self, range: impl RangeBounds<usize>) -> SelectReader<Self>
    where
        Self: Sized,
    {
        SelectReader::of_range(self, range)
    }

    /// The samples of these indices, in this order: see [`SelectReader`].
    fn select(self, indices: impl IntoIterator<Item = usize>) -> Result<SelectReader<Self>>
    where
        Self: Sized,
    {
        SelectReader::new(self, indices)
    }

    /// The samples with these keys, in this order: see [`SelectReader`].
    fn select_keys<K: AsRef<str>>(
        self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<SelectReader<Self>>
    where
        Self: Sized,
    {
        SelectReader::from_keys(self, keys)
    }

    /// The samples for which this is true. All are decoded, now and once.
    fn filter(self, mut keep: impl FnMut(&Value) -> bool) -> Result<SelectReader<Self>>
    where
        Self: Sized,
    {
        SelectReader::filter(self, |reader, index| Ok(keep(&reader.get(index)?)))
    }

    /// The samples with the fields that another reader has for their keys: see [`JoinReader`].
    fn join<R: Reader>(self, other: R, join: Join) -> Result<JoinReader<Self, R>>
    where
        Self: Sized,
    {
        JoinReader::new(self, other, join, |_| Ok(()))
    }

    /// The samples with some of their fields, or under other names: see [`FieldsReader`].
    fn with_fields(self, names: FieldNames) -> FieldsReader<Self>
    where
        Self: Sized,
    {
        FieldsReader::new(self, names)
    }
}

impl<R: Reader + ?Sized> ReaderExt for R {}

/// Where a sample comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Location {
    /// The file, unless the sample is made or in memory.
    pub path: Option<PathBuf>,
    /// The index of the sample in that file (of its shard, say), or in the reader where there is
    /// no file.
    pub index: u64,
    /// The bytes of the file that it takes, where they are known.
    pub range: Option<Range<u64>>,
}

impl Location {
    /// Of the sample at this index, of which nothing else is known. The fields can be set.
    ///
    /// ```
    /// use kiste::reader::Location;
    ///
    /// let mut place = Location::new(7);
    /// (place.path, place.range) = (Some("train.bin".into()), Some(700..800));
    /// assert_eq!(place.to_string(), "train.bin: sample 7: bytes 700..800");
    /// ```
    pub fn new(index: u64) -> Location {
        Location { index, ..Location::default() }
    }

    /// Adds to an error what is known of the place. An error at another file (one that decoding the
    /// sample needs, say) becomes the [source](std::error::Error::source) of one at this place.
    pub fn describe(self, mut error: Error) -> Error {
        if error.path().is_some() && error.path() != self.path.as_deref() {
            error = Error::new(error.kind(), error.to_string()).with_source(error);
        }
        if error.index().is_none() {
            error = error.with_index(self.index);
        }
        if let Some(path) = self.path {
            error = error.at(path);
        }
        match self.range {
            Some(range) if error.range().is_none() => error.with_range(range),
            _ => error,
        }
    }

    #[cold]
    pub(crate) fn damaged(self, error: FormatError) -> Error {
        self.describe(Error::from(error))
    }
}

/// Adds the file and the key of its sample to an error that has only an index of this reader, as one of planned
/// batches has.
pub fn located(reader: &dyn Reader, error: Error) -> Error {
    let index = error.index().filter(|_| error.path().is_none());
    let index = index.and_then(|index| usize::try_from(index).ok());
    let Some(index) = index.filter(|index| *index < reader.len()) else { return error };
    let place = Location { range: None, ..reader.locate(index) };
    let error = place.clone().describe(error.with_index(place.index));
    match reader.key(index) {
        Ok(key) if error.key().is_none() => error.with_key(key),
        _ => error,
    }
}

/// The error where a field was asked for that no sample has: most likely a typing error.
pub(crate) fn no_field(reader: &(impl Reader + ?Sized), name: &str) -> Error {
    let error = Error::new(ErrorKind::Invalid, format!("no sample has a field {name:?}"));
    let error = error.with_remedy(Remedy::ListFields);
    reader.locate(0).path.into_iter().fold(error, Error::at)
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}: ", Shown::of(&path))?;
        }
        write!(f, "sample {}", self.index)?;
        match &self.range {
            Some(range) => write!(f, ": bytes {}..{}", range.start, range.end),
            None => Ok(()),
        }
    }
}

/// The name of a reader, or the file that its first sample comes from: for messages.
#[cfg(feature = "arrays")]
pub(crate) fn name_of(reader: &dyn Reader) -> Option<PathBuf> {
    let first = || if reader.is_empty() { None } else { reader.locate(0).path };
    reader.name().map(Path::to_path_buf).or_else(first)
}

/// An error about a reader, with its name if it has one.
#[cfg(feature = "arrays")]
#[cold]
pub(crate) fn at_reader(reader: &dyn Reader, error: Error) -> Error {
    name_of(reader).into_iter().fold(error, Error::at)
}

/// A packed sample as a type that may borrow from it, where it is borrowed itself.
pub(crate) fn unpack<'a, T: Deserialize<'a>>(
    raw: Cow<'a, [u8]>,
    locate: impl Fn() -> Location,
) -> Result<T> {
    let mut cursor = Cursor::new(&raw);
    cursor.skip().and_then(|()| cursor.expect_end()).map_err(|e| locate().damaged(e))?;
    let value = match &raw {
        Cow::Borrowed(raw) => rmp_serde::from_slice(raw),
        Cow::Owned(raw) => {
            T::deserialize(&mut rmp_serde::Deserializer::new(std::io::Cursor::new(raw)))
        }
    };
    value.map_err(|e| {
        let error = not_of_type(&raw, &e);
        let Location { path, index, range } = locate();
        // A type that does not fit is no flaw of these bytes.
        let range = range.filter(|_| error.kind() == ErrorKind::Damaged);
        Location { path, index, range }.describe(error)
    })
}

/// Why a well-formed sample is not of the type asked for: one of its arrays is damaged, or it is a
/// sample of another type.
#[cold]
pub(crate) fn not_of_type(sample: &[u8], error: &rmp_serde::decode::Error) -> Error {
    #[cfg(feature = "arrays")]
    if let Some(damaged) = damaged_array(sample) {
        return damaged;
    }
    #[cfg(not(feature = "arrays"))]
    let _ = sample;
    let message = format!("the sample is not of the type asked for: {error}");
    Error::new(ErrorKind::Invalid, message)
}

/// The problem of the first array of a sample that cannot be decoded, if there is one.
#[cfg(feature = "arrays")]
fn damaged_array(sample: &[u8]) -> Option<Error> {
    let mut arrays = numpy::arrays_in(sample).ok()?;
    arrays.find_map(|stored| {
        let stored = stored.ok()?;
        let flaw = stored.check().err()?;
        let error = Error::new(ErrorKind::Damaged, flaw.to_string());
        let error = error.with_field(stored.field_name().to_string());
        Some(match msgpack::key(sample) {
            Ok(Some(key)) => error.with_key(key),
            _ => error,
        })
    })
}

/// The indices of a range, which must lie within the length.
pub(crate) fn resolve(range: impl RangeBounds<usize>, len: usize) -> Range<usize> {
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&start) => start.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&end) => end.saturating_add(1),
        Bound::Excluded(&end) => end,
        Bound::Unbounded => len,
    };
    assert!(start <= end && end <= len, "{start}..{end} is not within {len}");
    start..end
}

#[cold]
pub(crate) fn out_of_range(index: usize, len: usize) -> Error {
    Error::new(ErrorKind::Invalid, format!("there is no sample {index}: there are {len}"))
}
