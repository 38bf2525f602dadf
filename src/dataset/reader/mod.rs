//! [`DatasetReader`]: lazy, each side file opened on first need.

use crate::error::Shown;
use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, Range, RangeBounds};
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use crate::error::Result;
use crate::format::msgpack::{self, Value};
use crate::reader::{self, FieldContent, Location, Reader};
use crate::sampler::Lengths;
use crate::storage::{self, Source, Storage};

use super::index::Found;
use super::labels::read_labels_from;
use super::names::Named;

mod once;
mod open;
mod keys;
mod hashes;
mod accelerators;
mod search;
mod key_files;
mod absent;
mod find;
mod rounds;
mod many;
mod one;
mod files;
pub(crate) mod shards;
mod iter;
mod identity;
mod lengths;
#[cfg(feature = "convert")]
pub(crate) mod in_place;
#[cfg(not(feature = "convert"))]
#[path = "no_records.rs"]
mod in_place;
#[cfg(feature = "arrays")]
mod with_arrays;

use files::{Files, Opened};
pub use iter::{Iter, Keys, RawIter};
use one::{OneFile, Opening};
use rounds::Fetch;
use shards::Shards;

/// How to open a dataset.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct ReaderOptions {
    storage: Option<Arc<dyn Storage>>,
    how: Opening,
}

impl From<ReaderOptions> for Opening {
    fn from(options: ReaderOptions) -> Opening {
        options.how
    }
}

impl ReaderOptions {
    /// Where the files are. Default: where the name leads ([`storage::of`]), which
    /// is the local file system, mapped, for all but URLs;
    /// [`LocalStorage::positioned`](crate::storage::LocalStorage::positioned) reads without a map.
    pub fn storage(mut self, storage: Arc<dyn Storage>) -> Self {
        self.storage = Some(storage);
        self
    }

    /// Compares each sample with its checksum in `.crc` before it is handed out, decoded or looked
    /// at for its key: a damaged one is an error that names it, and never a wrong answer. Default:
    /// no.
    ///
    /// Readers that are made of this one, and loaders, check by it too. It reads all bytes of each
    /// sample that is touched, and all of `.crc` and `.offsets` when it opens: twelve bytes a
    /// sample.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("one.msgpack");
    /// let mut writer = kiste::Writer::options().checksums(true).create(&path)?;
    /// writer.write_raw("a", b"\x82\xa3key\xa1a\xa1v\x07")?;
    /// writer.finish()?;
    ///
    /// std::fs::write(&path, b"\x82\xa3key\xa1a\xa1v\x05")?; // a bit falls over
    /// assert!(kiste::DatasetReader::open(&path)?.get(0).is_ok());
    /// let careful = kiste::DatasetReader::options().checksums(true).open(&path)?;
    /// let error = careful.get(0).unwrap_err();
    /// assert_eq!((error.kind(), error.key()), (kiste::ErrorKind::Damaged, Some("a")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn checksums(mut self, yes: bool) -> Self {
        self.how.checksums = yes;
        self
    }

    /// Whether an index of samples in place names files of its folder alone.
    #[cfg(feature = "arrays")]
    pub(crate) fn confined(mut self, yes: bool) -> Self {
        self.how.confined = yes;
        self
    }

    /// How many shards of a dataset of many files stay open at a time, where they are not mapped: each
    /// holds a few file descriptors then. Default: 128; behind a URL, where each holds some kilobytes of
    /// memory instead, 16,384.
    pub fn open_shards(mut self, most: usize) -> Self {
        self.how.most_open = Some(most);
        self
    }

    /// Opens a dataset. See [`DatasetReader::open`].
    ///
    /// # Errors
    ///
    /// With [`checksums`](Self::checksums) also [`NotFound`](crate::ErrorKind::NotFound) if there
    /// is no `.crc`, and [`Damaged`](crate::ErrorKind::Damaged) if it is damaged or of another
    /// version of the dataset: [`index`](crate::index) makes it.
    pub fn open(self, path: impl AsRef<Path>) -> Result<DatasetReader> {
        let (storage, path) = match self.storage {
            Some(storage) => (storage, path.as_ref().to_path_buf()),
            None => storage::of(path)?,
        };
        let shared = match Named::find(&*storage, &path)? {
            Named::Dataset => Shared::One(OneFile::open(&self.how, storage, &path)?),
            Named::Manifest => Shared::Many(Shards::of_manifest(storage, &path, self.how)?),
            Named::Files(files) => Shared::Many(Shards::of_files(storage, &path, self.how, files)?),
        };
        Ok(DatasetReader { shared: Arc::new(shared) })
    }

    /// Datasets behind one another that no manifest lists, next to this path.
    #[cfg(feature = "convert")]
    pub(crate) fn open_entries(
        self,
        path: &Path,
        entries: &[crate::format::dataset::shards::ShardEntry],
    ) -> Result<DatasetReader> {
        let storage = self.storage.unwrap_or_else(|| Arc::new(storage::LocalStorage::mapped()));
        let shards = Shards::of_entries(storage, path, self.how, entries)?;
        Ok(DatasetReader { shared: Arc::new(Shared::Many(shards)) })
    }
}

/// A dataset, open for reading.
///
/// Cheap to clone, and shared by any number of threads: all methods take `&self`, and nothing has
/// a position. It may be used in a process forked from the one that opened it.
///
/// ```
/// use serde::Deserialize;
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("digits.msgpack");
/// # let mut writer = kiste::Writer::create(&path)?;
/// # writer.write(&std::collections::BTreeMap::from([("key", "3/0001.png"), ("label", "three")]))?;
/// # writer.finish()?;
///
/// let digits = kiste::DatasetReader::open(&path)?;
/// assert_eq!(digits.len(), 1);
///
/// // By index or by key; as a dynamic value, or typed and borrowed from the map.
/// assert_eq!(digits.get(0)?["label"].as_str(), Some("three"));
/// let index = digits.find("3/0001.png")?.expect("it was written");
///
/// #[derive(Deserialize)]
/// struct Digit<'a> {
///     label: &'a str,
/// }
/// let digit: Digit = digits.get_as(index)?;
/// assert_eq!(digit.label, "three");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct DatasetReader {
    shared: Arc<Shared>,
}

/// What the clones share. Told apart only where a call through [`Files`] would cost more than what is asked
/// for, and where one file and many have nothing in common.
#[expect(clippy::large_enum_variant, reason = "there is one of it, behind an Arc")]
enum Shared {
    One(OneFile),
    Many(Shards),
}

impl Deref for Shared {
    type Target = dyn Files;

    fn deref(&self) -> &(dyn Files + 'static) {
        match self {
            Shared::One(one) => one,
            Shared::Many(shards) => shards,
        }
    }
}

impl Shared {
    #[inline(always)]
    fn one(&self) -> Option<&OneFile> {
        match self {
            Shared::One(one) => Some(one),
            Shared::Many(_) => None,
        }
    }

    fn many(&self) -> Option<&Shards> {
        match self {
            Shared::One(_) => None,
            Shared::Many(shards) => Some(shards),
        }
    }

    /// The file that a sample is in, and its index there.
    #[inline(always)]
    fn at(&self, index: usize) -> Result<(Opened<'_>, usize)> {
        match self {
            Shared::One(one) => Ok((Opened::Kept(one), index)),
            Shared::Many(shards) => shards.at(index),
        }
    }

    #[inline(always)]
    fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        match self {
            Shared::One(one) => one.raw(index),
            Shared::Many(shards) => {
                let (file, index) = shards.at(index)?;
                file.read(|file| file.raw(index))
            }
        }
    }
}

impl DatasetReader {
    /// Opens a dataset by the name of its data file, or by its URL with the feature `remote`:
    /// `s3://`, `gs://`, `az://`, `abfss://`, `hf://`, `http://`, `https://` and `file://`.
    ///
    /// Touches a few pages, however many samples there are. Without `.offsets` they are taken from
    /// the legacy `.index`, and without that from the data, which takes a pass over it
    /// ([`index`](crate::index) makes the files).
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound); [`Damaged`](crate::ErrorKind::Damaged) if offsets
    /// and data do not belong together; [`Interrupted`](crate::ErrorKind::Interrupted) if a writer
    /// died while it published this dataset, or before it finished it for the first time.
    pub fn open(path: impl AsRef<Path>) -> Result<DatasetReader> {
        DatasetReader::options().open(path)
    }

    /// The options, to be changed before [`open`](ReaderOptions::open).
    pub fn options() -> ReaderOptions {
        ReaderOptions::default()
    }

    /// The dataset that a reader is, if it is one with data files of its own, and no view of others.
    ///
    /// ```
    /// use kiste::DatasetReader;
    /// use kiste::reader::{Reader, ReaderExt};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("words.msgpack");
    /// # kiste::Writer::create(&path)?.finish()?;
    ///
    /// let reader: std::sync::Arc<dyn Reader> = std::sync::Arc::new(DatasetReader::open(&path)?);
    /// assert_eq!(DatasetReader::of(&reader).map(DatasetReader::data_len), Some(0));
    /// assert!(DatasetReader::of(&reader.range(..)).is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of<'a>(reader: &'a (dyn Reader + '_)) -> Option<&'a DatasetReader> {
        DatasetReader::any(reader).filter(|dataset| !dataset.is_in_place())
    }

    /// The same, if its samples are in place too.
    pub(crate) fn any<'a>(reader: &'a (dyn Reader + '_)) -> Option<&'a DatasetReader> {
        reader.as_any()?.downcast_ref()
    }

    /// The path of the data file.
    pub fn path(&self) -> &Path {
        self.shared.path()
    }

    /// The names of the numeric labels, if their file is there.
    ///
    /// # Errors
    ///
    /// [`Damaged`](crate::ErrorKind::Damaged) if they are not UTF-8.
    pub fn labels(&self) -> Result<Option<Vec<String>>> {
        if self.shared.count() == 0 {
            return Ok(None);
        }
        let first = self.shared.file(0)?;
        read_labels_from(&*first.storage, &first.path)
    }

    /// Samples.
    pub fn len(&self) -> usize {
        self.shared.len()
    }

    /// Whether there is no `.offsets` and no legacy `.index`, so that opening took a pass over all of the data, and
    /// always will: [`index`](crate::index) makes the files.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("one.msgpack");
    /// std::fs::write(&path, b"\x81\xa3key\xa1a")?; // data alone is enough, but slow to open
    /// assert!(kiste::DatasetReader::open(&path)?.is_walked());
    /// kiste::index::IndexOptions::default().build(&path)?;
    /// assert!(!kiste::DatasetReader::open(&path)?.is_walked());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_walked(&self) -> bool {
        self.shared.is_walked()
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all samples.
    pub fn data_len(&self) -> u64 {
        self.shared.data_len()
    }

    /// The whole data file, if there is one and it is mapped: [`get_raw`](Self::get_raw) borrows from it.
    #[inline]
    pub fn mapped(&self) -> Option<&[u8]> {
        self.data()?.mapped()
    }

    /// How many files its samples lie in: each may be [mapped](Self::map).
    #[cfg(feature = "arrow")]
    pub(crate) fn maps(&self) -> usize {
        match &*self.shared {
            Shared::One(one) => one.records.as_ref().map_or(1, in_place::Records::count),
            Shared::Many(shards) => shards.count(),
        }
    }

    /// The whole file of this number, if it is open and mapped: it stays so.
    #[cfg(feature = "arrow")]
    pub(crate) fn map(&self, number: usize) -> Option<&[u8]> {
        match &*self.shared {
            Shared::One(one) => match &one.records {
                Some(records) => records.map(number),
                None => one.data.mapped(),
            },
            Shared::Many(shards) => shards.kept(number)?.data.mapped(),
        }
    }

    /// Takes the bytes of these samples out of the memory of this process, where they are mapped. They come back when
    /// they are touched.
    #[cfg(feature = "arrow")]
    pub(crate) fn release(&self, samples: Range<usize>) {
        let Some(last) = samples.end.checked_sub(1).filter(|last| *last >= samples.start) else {
            return;
        };
        let (Ok((first, start)), Ok((file, end))) =
            (self.shared.at(samples.start), self.shared.at(last))
        else {
            return;
        };
        if let (Ok(start), Ok(end)) = (first.byte_range(start), file.byte_range(end)) {
            if std::ptr::eq(&raw const *first, &raw const *file) && file.records.is_none() {
                file.data.release(start.start..end.end);
            }
        }
    }

    /// Where a sample lies in the data file.
    #[inline]
    pub fn byte_range(&self, index: usize) -> Result<Range<u64>> {
        let (file, index) = self.shared.at(index)?;
        file.byte_range(index)
    }

    /// Fetches what [`byte_range`](Self::byte_range) needs for these samples, where they are remote: in one
    /// round, in place of one for each.
    #[cfg(feature = "convert")]
    pub(crate) fn fetch_offsets(&self, indices: &[usize]) -> Result<()> {
        self.shared.fetch_offsets(indices)
    }

    /// The packed bytes of a sample, borrowed from the map where there is one.
    ///
    /// They are what the offsets say and are not looked at, unless with
    /// [`ReaderOptions::checksums`]: decoding checks them, and [`verify`](crate::verify::verify)
    /// checks all.
    #[inline(always)]
    pub fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        self.shared.get_raw(index)
    }

    /// The packed bytes of many samples, in the order of their indices, each as [`get_raw`](Self::get_raw)
    /// returns it. Faster than one by one: while the memory of one sample is on its way, the next ones are
    /// asked for. Remote samples are fetched together.
    ///
    /// ```
    /// # use kiste::{DatasetReader, Writer};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("words.msgpack");
    /// # let mut writer = Writer::create(&path)?;
    /// # writer.write_raw("a", b"\x81\xa3key\xa1a")?;
    /// # writer.write_raw("b", b"\x81\xa3key\xa1b")?;
    /// # writer.finish()?;
    /// let words = DatasetReader::open(&path)?;
    /// let samples = words.get_raw_many(&[1, 0, 1])?;
    /// assert_eq!(samples[0], words.get_raw(1)?);
    /// assert_eq!(samples.len(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The first of those that [`get_raw`](Self::get_raw) has for one of the samples.
    pub fn get_raw_many(&self, indices: &[usize]) -> Result<Vec<Cow<'_, [u8]>>> {
        if let Some(one) = self.shared.one().filter(|one| one.is_mapped()) {
            return one.raw_many(indices);
        }
        if self.shared.is_remote() {
            self.shared.prefetch(indices);
        }
        indices.iter().map(|&index| self.get_raw(index)).collect()
    }

    /// A sample as a dynamic value. Arrays, complex numbers and NumPy scalars are the maps that
    /// msgpack-numpy makes of them.
    pub fn get(&self, index: usize) -> Result<Value> {
        let (file, index) = self.shared.at(index)?;
        file.value(index)
    }

    /// A sample as a type of yours, which may borrow `&str` and `&[u8]` (with `serde_bytes`) from
    /// the map. Fields that it does not have are skipped.
    ///
    /// Without a map, as of a URL or with
    /// [`LocalStorage::positioned`](crate::storage::LocalStorage::positioned), there is nothing to borrow from: such types
    /// are an error then, owned ones work.
    pub fn get_as<'a, T: Deserialize<'a>>(&'a self, index: usize) -> Result<T> {
        reader::unpack(self.get_raw(index)?, || Reader::locate(self, index))
    }

    /// One field of a sample. The rest of the sample is not decoded.
    pub fn field(&self, index: usize, name: &str) -> Result<Option<Value>> {
        let packed = self.field_raw(index, name)?;
        let decoded = packed.map(|packed| msgpack::decode(&packed)).transpose();
        decoded.map_err(|e| Reader::locate(self, index).damaged(e))
    }

    /// The packed bytes of one field.
    pub fn field_raw(&self, index: usize, name: &str) -> Result<Option<Cow<'_, [u8]>>> {
        match self.shared.at(index)? {
            (Opened::Kept(file), index) => file.field_raw(index, name),
            (Opened::Lent(file), index) => {
                Ok(file.field_raw(index, name)?.map(|raw| Cow::Owned(raw.into_owned())))
            }
        }
    }

    /// Compares a sample with its checksum in `.crc`, without decoding it. The first call reads all
    /// of `.crc` and `.offsets`.
    ///
    /// # Errors
    ///
    /// [`Damaged`](crate::ErrorKind::Damaged), naming the sample, its key and its bytes, if it
    /// differs; the errors of [`ReaderOptions::open`] if there is nothing to compare with.
    pub fn check(&self, index: usize) -> Result<()> {
        let (file, index) = self.shared.at(index)?;
        file.check(index)
    }

    /// The key of a sample.
    pub fn key(&self, index: usize) -> Result<Cow<'_, str>> {
        let (file, index) = self.shared.at(index)?;
        file.read(|file| file.key(index))
    }

    /// The keys of all samples, in order.
    pub fn keys(&self) -> Keys<'_> {
        Keys::new(&self.shared)
    }

    /// The index of the sample with this key, if there is one.
    ///
    /// The first look-ups search the mapped hashes, which takes no preparation; when they have
    /// cost about as much as a table does, one is built (see [`prepare_keys`](Self::prepare_keys))
    /// unless there is a `.lookup` file. A match is confirmed against the sample's own key.
    pub fn find(&self, key: &str) -> Result<Option<usize>> {
        match &*self.shared {
            Shared::One(one) => one.find(key, Fetch::Key),
            Shared::Many(shards) => Ok(shards.find_many(&[key])?.pop().flatten()),
        }
    }

    /// The indices of many keys, in their order; `None` for a key that there is not. As
    /// [`find`](Self::find) for each, but faster: keys are hashed several at a time, and while one
    /// look-up waits for memory the next ones are under way.
    ///
    /// ```
    /// # use kiste::{DatasetReader, Writer};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("words.msgpack");
    /// # let mut writer = Writer::create(&path)?;
    /// # for key in ["one", "two"] {
    /// #     writer.write(&std::collections::HashMap::from([("key", key)]))?;
    /// # }
    /// # writer.finish()?;
    /// let words = DatasetReader::open(&path)?;
    /// assert_eq!(words.find_many(&["two", "three", "one"])?, [Some(1), None, Some(0)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn find_many<K: AsRef<str>>(&self, keys: &[K]) -> Result<Vec<Option<usize>>> {
        match &*self.shared {
            Shared::One(one) => one.find_many(keys),
            Shared::Many(shards) => {
                shards.find_many(&keys.iter().map(AsRef::as_ref).collect::<Vec<&str>>())
            }
        }
    }

    /// As [`find`](Self::find), for a sample that will be read next: of a remote dataset the whole sample
    /// is fetched in the round trip that compares its key, where [`find`](Self::find) fetches only what
    /// shows the key of a sample of more than 16 KiB.
    pub fn find_and_fetch(&self, key: &str) -> Result<Option<usize>> {
        match self.shared.one() {
            Some(one) => one.find(key, Fetch::Sample),
            None => self.find(key),
        }
    }

    /// The sample with this key, if there is one.
    pub fn get_by_key(&self, key: &str) -> Result<Option<Value>> {
        self.find_and_fetch(key)?.map(|index| self.get(index)).transpose()
    }

    /// The packed bytes of the sample with this key, if there is one, as [`get_raw`](Self::get_raw) returns them. Faster
    /// than finding it first, which would read its offsets twice.
    ///
    /// ```
    /// # use kiste::{DatasetReader, Writer};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("words.msgpack");
    /// # let mut writer = Writer::create(&path)?;
    /// # writer.write_raw("a", b"\x81\xa3key\xa1a")?;
    /// # writer.finish()?;
    /// let words = DatasetReader::open(&path)?;
    /// assert_eq!(words.get_raw_by_key("a")?.as_deref(), Some(&b"\x81\xa3key\xa1a"[..]));
    /// assert_eq!(words.get_raw_by_key("b")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn get_raw_by_key(&self, key: &str) -> Result<Option<Cow<'_, [u8]>>> {
        match self.shared.one() {
            Some(one) => one.raw_by_key(key),
            None => self.find(key)?.map(|index| self.get_raw(index)).transpose(),
        }
    }

    /// Whether there is a sample with this key.
    ///
    /// `.lookup` answers for most absent keys, or the Bloom filter without one. Either is trusted once it was
    /// compared with its digests, which happens when that has become cheap against the look-ups made (or in
    /// [`prepare_keys`](Self::prepare_keys)); until then, and where there is no digest, other files are asked
    /// as well.
    pub fn contains_key(&self, key: &str) -> Result<bool> {
        match self.shared.one() {
            Some(one) => one.contains(key),
            None => Ok(self.find(key)?.is_some()),
        }
    }

    /// Makes look-ups by key as fast as they get, now rather than after some hundred of them:
    /// builds the table (seven bytes a key in memory, on all cores) or opens `.lookup`, and
    /// compares the filter and, unless it is at a URL, `.lookup` with their digests, for which they are read whole.
    pub fn prepare_keys(&self) -> Result<()> {
        (0..self.shared.count()).try_for_each(|number| self.shared.file(number)?.prepare())
    }

    /// The packed bytes of the samples of a range, in order.
    ///
    /// # Panics
    ///
    /// If the range is not within the dataset, as slicing does.
    pub fn iter_raw(&self, range: impl RangeBounds<usize>) -> RawIter<'_> {
        RawIter::new(&self.shared, self.resolve(range))
    }

    /// The samples of a range as dynamic values, in order. Panics as
    /// [`iter_raw`](Self::iter_raw).
    pub fn iter(&self, range: impl RangeBounds<usize>) -> Iter<'_> {
        Iter { files: &self.shared, range: self.resolve(range) }
    }

    /// The samples of a range as a type of yours, in order. Panics as
    /// [`iter_raw`](Self::iter_raw).
    pub fn iter_as<'a, T: Deserialize<'a>>(
        &'a self,
        range: impl RangeBounds<usize>,
    ) -> impl ExactSizeIterator<Item = Result<T>> {
        let range = self.resolve(range);
        let samples = range.clone().zip(self.iter_raw(range));
        samples.map(move |(index, raw)| reader::unpack(raw?, || Reader::locate(self, index)))
    }

    /// The shards of a dataset of many files.
    pub(crate) fn as_shards(&self) -> Option<&Shards> {
        self.shared.many()
    }

    /// How many data files it has: one, unless it was opened by a manifest or a pattern.
    pub fn shards(&self) -> usize {
        self.shared.count()
    }

    /// Its data files, in order.
    #[cfg(feature = "arrays")]
    pub(crate) fn files(&self) -> Vec<&Path> {
        match self.as_shards() {
            Some(shards) => shards.entries().map(|(path, _)| path).collect(),
            None => vec![self.path()],
        }
    }

    /// Whether its samples lie in files of another format, which an index lists.
    pub fn is_in_place(&self) -> bool {
        self.shared.one().is_some_and(|one| one.records.is_some())
    }

    /// The format of the files that its samples lie in, how many these are, and their bytes.
    #[cfg(feature = "convert")]
    pub(crate) fn files_in_place(&self) -> Option<(&'static str, usize, u64)> {
        self.shared.one()?.records.as_ref().map(in_place::Records::files)
    }

    /// How many of its data files are open.
    pub fn open_shards(&self) -> usize {
        self.as_shards().map_or(1, Shards::open_count)
    }

    /// Where its files are.
    #[cfg(feature = "arrays")]
    pub(crate) fn storage(&self) -> &dyn Storage {
        &**self.shared.storage()
    }

    /// The data file, if there is only one.
    pub(crate) fn data(&self) -> Option<&Source> {
        self.shared.one().filter(|one| one.records.is_none()).map(|one| &one.data)
    }

    /// The data file that a sample is in.
    #[cfg(feature = "convert")]
    pub(crate) fn file_of(&self, index: usize) -> &Path {
        self.as_shards().map_or(self.path(), |shards| shards.file_of(index))
    }

    /// Bytes of the samples of a range: of a dataset of many files about as many, without opening them.
    #[cfg(feature = "convert")]
    pub(crate) fn bytes_of(&self, range: Range<usize>) -> Option<u64> {
        if let Some(shards) = self.as_shards() {
            return Some(shards.bytes_before(range.end) - shards.bytes_before(range.start));
        }
        let end = self.byte_range(range.end.checked_sub(1)?).ok()?.end;
        Some(end.saturating_sub(self.byte_range(range.start).ok()?.start))
    }

    /// Whether there is a `.lookup`, of the hashes that there are; of a dataset of one file.
    pub(crate) fn has_lookup(&self) -> Result<bool> {
        self.shared.one().map_or(Ok(false), OneFile::has_lookup)
    }

    /// Compares a sample that was read by way of [`data`](Self::data) with its checksum, if this
    /// reader does so.
    pub(crate) fn check_read(&self, index: usize, raw: &[u8]) -> Result<()> {
        let (file, index) = self.shared.at(index)?;
        if file.checks_samples() { file.compare(index, raw) } else { Ok(()) }
    }

    /// What there is of a `.crc`.
    pub(crate) fn find_checksums(&self) -> Result<Found> {
        // Only a dataset of one file is appended to.
        self.shared.file(0)?.find_checksums()
    }

    /// An error if the dataset was replaced since it was opened.
    pub(crate) fn check_current(&self) -> Result<()> {
        self.shared.check_current()
    }

    fn resolve(&self, range: impl RangeBounds<usize>) -> Range<usize> {
        reader::resolve(range, self.len())
    }
}

impl Reader for DatasetReader {
    fn len(&self) -> usize {
        DatasetReader::len(self)
    }

    fn key(&self, index: usize) -> Result<Cow<'_, str>> {
        DatasetReader::key(self, index)
    }

    fn find(&self, key: &str) -> Result<Option<usize>> {
        DatasetReader::find(self, key)
    }

    fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        DatasetReader::get_raw(self, index)
    }

    fn find_keys(&self, keys: &[&str]) -> Result<Vec<Option<usize>>> {
        DatasetReader::find_many(self, keys)
    }

    fn get(&self, index: usize) -> Result<Value> {
        DatasetReader::get(self, index)
    }

    fn find_all(&self, key: &str) -> Result<Vec<usize>> {
        match self.as_shards() {
            Some(shards) => shards.find_all(key),
            None => Ok(DatasetReader::find(self, key)?.into_iter().collect()),
        }
    }

    /// Shards may have a key in common.
    fn may_repeat_keys(&self) -> bool {
        self.shards() > 1
    }

    fn get_raw_many(&self, indices: &[usize]) -> Result<Vec<Cow<'_, [u8]>>> {
        DatasetReader::get_raw_many(self, indices)
    }

    fn get_raw_by_key(&self, key: &str) -> Result<Option<Cow<'_, [u8]>>> {
        DatasetReader::get_raw_by_key(self, key)
    }

    fn get_by_key(&self, key: &str) -> Result<Option<Value>> {
        DatasetReader::get_by_key(self, key)
    }

    fn field_raw(&self, index: usize, name: &str) -> Result<Option<Cow<'_, [u8]>>> {
        DatasetReader::field_raw(self, index, name)
    }

    fn read_fields(
        &self,
        index: usize,
        names: &[&str],
        take: &mut dyn FnMut(&str, FieldContent<'_>) -> Result<()>,
    ) -> Result<bool> {
        match self.shared.one().and_then(|one| Some((one, one.records.as_ref()?))) {
            Some((one, records)) => {
                records.read_fields(index, &one.byte_range(index)?, names, take)?;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn field(&self, index: usize, name: &str) -> Result<Option<Value>> {
        DatasetReader::field(self, index, name)
    }

    fn labels(&self) -> Result<Option<Vec<String>>> {
        DatasetReader::labels(self)
    }

    fn lengths(&self, column: &str) -> Result<Option<Arc<dyn Lengths>>> {
        DatasetReader::lengths(self, column)
    }

    fn identity(&self) -> Result<String> {
        DatasetReader::identity(self)
    }

    fn contains_key(&self, key: &str) -> Result<bool> {
        DatasetReader::contains_key(self, key)
    }

    fn name(&self) -> Option<&Path> {
        Some(self.path())
    }

    fn locate(&self, index: usize) -> Location {
        match self.shared.at(index) {
            Ok((file, index)) => {
                let range = file.byte_range(index).ok();
                if let (Some(records), Some(range)) = (&file.records, &range) {
                    return records.locate(index, range);
                }
                let path = Some(file.path.clone());
                Location { path, index: index as u64, range }
            }
            Err(_) => Location::new(index as u64),
        }
    }

    fn is_remote(&self) -> bool {
        self.shared.is_remote()
    }

    fn known_len(&self, index: usize) -> Result<Option<u64>> {
        let range = self.byte_range(index)?;
        Ok((!self.is_in_place()).then_some(range.end - range.start))
    }

    fn sample_bytes(&self) -> Option<u64> {
        self.data_len().checked_div(self.len() as u64)
    }

    /// Advises the kernel, where the data is mapped; neighbours in one call. Of a remote dataset all
    /// samples are fetched, in one round or two.
    fn prefetch(&self, indices: &[usize]) {
        self.shared.prefetch(indices);
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl<'a> IntoIterator for &'a DatasetReader {
    type Item = Result<Value>;
    type IntoIter = Iter<'a>;

    /// All samples in order, as [`iter`](DatasetReader::iter) has them.
    fn into_iter(self) -> Iter<'a> {
        self.iter(..)
    }
}

impl fmt::Debug for DatasetReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatasetReader({}, {} samples)", Shown::of(&self.path()), self.len())
    }
}
