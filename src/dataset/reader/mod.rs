//! [`DatasetReader`]: lazy, each side file opened on first need.

use crate::error::Shown;
use std::borrow::Cow;
use std::fmt;
use std::ops::{Range, RangeBounds};
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use crate::error::Result;
use crate::format::dataset::key_hashes::{self, Salt};
use crate::format::msgpack::{self, Value};
use crate::reader::{self, Location, Reader};
use crate::storage::{self, LocalStorage, Source, Storage};

use super::index::Found;
use super::labels::read_labels_from;
use super::names::Named;

mod open;
mod iter;
mod many;
mod hashes;
mod table;
mod absent;
mod accelerators;
mod search;
pub(crate) mod shards;
mod identity;
#[cfg(feature = "arrays")]
mod with_arrays;

use accelerators::ShardFilter;
pub use iter::{Iter, Keys, RawIter};
use open::{OpenDataset, Room};
use search::Search;
use shards::{Opened, Shards};

/// Samples at most this many bytes apart are fetched as one: they share pages, or nearly.
const NEIGHBOUR: u64 = 4096;

/// How to open a dataset.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct ReaderOptions {
    storage: Option<Arc<dyn Storage>>,
    checksums: bool,
    most_open: Option<usize>,
    /// For the offsets of all shards.
    room: Room,
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
        self.checksums = yes;
        self
    }

    /// How many shards of a dataset of many files stay open at a time, where they are not mapped: each
    /// holds a few file descriptors then. Default: 128; behind a URL, where each holds some kilobytes of
    /// memory instead, 16,384.
    pub fn open_shards(mut self, most: usize) -> Self {
        self.most_open = Some(most);
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
        let options = ReaderOptions { storage: None, room: Room::default(), ..self };
        let shards = match Named::find(&*storage, &path)? {
            Named::Dataset => return options.storage(storage).open_one(&path),
            Named::Manifest => Shards::of_manifest(storage, &path, options)?,
            Named::Files(files) => Shards::of_files(storage, &path, options, files)?,
        };
        Ok(DatasetReader { shared: Arc::new(Shared::Many(shards)) })
    }

    /// Datasets behind one another that no manifest lists, next to this path.
    #[cfg(feature = "convert")]
    pub(crate) fn open_entries(
        self,
        path: &Path,
        entries: &[crate::format::dataset::shards::ShardEntry],
    ) -> Result<DatasetReader> {
        let storage = self.storage.clone().unwrap_or_else(|| Arc::new(LocalStorage::mapped()));
        let shards = Shards::of_entries(storage, path, self, entries)?;
        Ok(DatasetReader { shared: Arc::new(Shared::Many(shards)) })
    }

    /// Opens a dataset of one file.
    fn open_one(self, path: &Path) -> Result<DatasetReader> {
        let storage = self.storage.unwrap_or_else(|| Arc::new(LocalStorage::mapped()));
        let mut files = OpenDataset::open_in(&self.room, storage, path)?;
        if self.checksums {
            files.checksums()?;
            files.check_samples();
        }
        let one = One { files, search: Search::default() };
        Ok(DatasetReader { shared: Arc::new(Shared::One(one)) })
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

/// What the clones share.
#[expect(clippy::large_enum_variant, reason = "there is one of it, behind an Arc")]
enum Shared {
    One(One),
    Many(Shards),
}

/// A dataset of one data file.
struct One {
    files: OpenDataset,
    search: Search,
}

impl One {
    /// The packed bytes of one field.
    fn field_raw(&self, index: usize, name: &str) -> Result<Option<Cow<'_, [u8]>>> {
        let damaged = |e| self.files.damaged_sample(index, e);
        match self.files.raw(index)? {
            Cow::Borrowed(raw) => {
                Ok(msgpack::field(raw, name).map_err(damaged)?.map(Cow::Borrowed))
            }
            Cow::Owned(raw) => {
                let field = msgpack::field(&raw, name).map_err(damaged)?;
                Ok(field.map(|field| Cow::Owned(field.to_vec())))
            }
        }
    }
}

impl DatasetReader {
    /// Opens a dataset by the name of its data file, or by its URL with the feature `remote`:
    /// `s3://`, `gs://`, `az://`, `abfss://`, `http://`, `https://` and `file://`.
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

    /// Its files, if it is a dataset of one.
    fn one(&self) -> Option<&OpenDataset> {
        match &*self.shared {
            Shared::One(one) => Some(&one.files),
            Shared::Many(_) => None,
        }
    }

    /// The path of the data file.
    pub fn path(&self) -> &Path {
        match &*self.shared {
            Shared::One(one) => &one.files.path,
            Shared::Many(shards) => shards.path(),
        }
    }

    /// The names of the numeric labels, if their file is there.
    ///
    /// # Errors
    ///
    /// [`Damaged`](crate::ErrorKind::Damaged) if they are not UTF-8.
    pub fn labels(&self) -> Result<Option<Vec<String>>> {
        match &*self.shared {
            Shared::One(one) => read_labels_from(&*one.files.storage, self.path()),
            Shared::Many(shards) => match shards.count() {
                0 => Ok(None),
                _ => shards.open(0)?.labels(),
            },
        }
    }

    /// Samples.
    pub fn len(&self) -> usize {
        match &*self.shared {
            Shared::One(one) => one.files.len,
            Shared::Many(shards) => shards.len(),
        }
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
        match &*self.shared {
            Shared::One(one) => one.files.is_walked,
            Shared::Many(shards) => shards.is_walked(),
        }
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all samples.
    pub fn data_len(&self) -> u64 {
        match &*self.shared {
            Shared::One(one) => one.files.data_len,
            Shared::Many(shards) => shards.data_len(),
        }
    }

    /// The whole data file, if there is one and it is mapped: [`get_raw`](Self::get_raw) borrows from it.
    #[inline]
    pub fn mapped(&self) -> Option<&[u8]> {
        match &*self.shared {
            Shared::One(one) => one.files.data.mapped(),
            Shared::Many(_) => None,
        }
    }

    /// Where a sample lies in the data file.
    #[inline]
    pub fn byte_range(&self, index: usize) -> Result<Range<u64>> {
        match &*self.shared {
            Shared::One(one) => one.files.byte_range(index),
            Shared::Many(shards) => {
                let (reader, index) = shards.at(index)?;
                reader.byte_range(index)
            }
        }
    }

    /// Fetches what [`byte_range`](Self::byte_range) needs for these samples, where they are remote: in one
    /// round, in place of one for each.
    #[cfg(feature = "convert")]
    pub(crate) fn fetch_offsets(&self, indices: &[usize]) -> Result<()> {
        match &*self.shared {
            Shared::One(one) => one.files.fetch_offsets(indices),
            Shared::Many(shards) => shards.fetch_offsets(indices),
        }
    }

    /// The packed bytes of a sample, borrowed from the map where there is one.
    ///
    /// They are what the offsets say and are not looked at, unless with
    /// [`ReaderOptions::checksums`]: decoding checks them, and [`verify`](crate::verify::verify)
    /// checks all.
    #[inline(always)]
    pub fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        match &*self.shared {
            Shared::One(one) => one.files.raw(index),
            Shared::Many(shards) => shards.get_raw(index),
        }
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
        match &*self.shared {
            Shared::One(one) if self.is_mapped() => one.files.raw_many(indices),
            _ => {
                if Reader::is_remote(self) {
                    Reader::prefetch(self, indices);
                }
                indices.iter().map(|&index| self.get_raw(index)).collect()
            }
        }
    }

    /// A sample as a dynamic value. Arrays, complex numbers and NumPy scalars are the maps that
    /// msgpack-numpy makes of them.
    pub fn get(&self, index: usize) -> Result<Value> {
        match &*self.shared {
            Shared::One(one) => one.files.value(index),
            Shared::Many(shards) => {
                let (reader, index) = shards.at(index)?;
                reader.get(index)
            }
        }
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
        match &*self.shared {
            Shared::One(one) => one.field_raw(index, name),
            Shared::Many(shards) => match shards.at(index)? {
                (Opened::Kept(reader), index) => reader.field_raw(index, name),
                (Opened::Lent(reader), index) => {
                    Ok(reader.field_raw(index, name)?.map(|raw| Cow::Owned(raw.into_owned())))
                }
            },
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
        match &*self.shared {
            Shared::One(One { files, .. }) => {
                files.checksums()?;
                let range = files.byte_range(index)?;
                let raw = files.data.read(range)?;
                files.compare(index, &raw)
            }
            Shared::Many(shards) => {
                let (reader, index) = shards.at(index)?;
                reader.check(index)
            }
        }
    }

    /// The key of a sample.
    pub fn key(&self, index: usize) -> Result<Cow<'_, str>> {
        match &*self.shared {
            Shared::One(one) => one.files.key(index),
            Shared::Many(shards) => shards.key(index),
        }
    }

    /// The keys of all samples, in order.
    pub fn keys(&self) -> Keys<'_> {
        match &*self.shared {
            Shared::One(one) => Keys::new(&one.files),
            Shared::Many(shards) => Keys::of_shards(shards),
        }
    }

    /// The index of the sample with this key, if there is one.
    ///
    /// The first look-ups search the mapped hashes, which takes no preparation; when they have
    /// cost about as much as a table does, one is built (see [`prepare_keys`](Self::prepare_keys))
    /// unless there is a `.lookup` file. A match is confirmed against the sample's own key.
    pub fn find(&self, key: &str) -> Result<Option<usize>> {
        match &*self.shared {
            Shared::One(one) => one.search.find(&one.files, key),
            Shared::Many(shards) => shards.find(key),
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
            Shared::One(one) => one.search.find_many(&one.files, keys),
            Shared::Many(shards) => {
                shards.find_many(&keys.iter().map(AsRef::as_ref).collect::<Vec<&str>>())
            }
        }
    }

    /// As [`find`](Self::find), for a sample that will be read next: of a remote dataset the whole sample
    /// is fetched in the round trip that compares its key, where [`find`](Self::find) fetches only what
    /// shows the key of a sample of more than 16 KiB.
    pub fn find_and_fetch(&self, key: &str) -> Result<Option<usize>> {
        match &*self.shared {
            Shared::One(one) => one.search.find_and_fetch(&one.files, key),
            Shared::Many(shards) => shards.find(key),
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
        match &*self.shared {
            Shared::One(one) => one.search.raw_by_key(&one.files, key),
            Shared::Many(shards) => shards.find(key)?.map(|index| self.get_raw(index)).transpose(),
        }
    }

    /// Whether there is a sample with this key.
    ///
    /// `.lookup` answers for most absent keys, or the Bloom filter without one. Either is trusted once it was
    /// compared with its digests, which happens when that has become cheap against the look-ups made (or in
    /// [`prepare_keys`](Self::prepare_keys)); until then, and where there is no digest, other files are asked
    /// as well.
    pub fn contains_key(&self, key: &str) -> Result<bool> {
        match &*self.shared {
            Shared::One(one) => one.search.contains(&one.files, key),
            Shared::Many(shards) => Ok(shards.find(key)?.is_some()),
        }
    }

    /// Makes look-ups by key as fast as they get, now rather than after some hundred of them:
    /// builds the table (seven bytes a key in memory, on all cores) or opens `.lookup`, and
    /// compares the filter and, unless it is at a URL, `.lookup` with their digests, for which they are read whole.
    pub fn prepare_keys(&self) -> Result<()> {
        match &*self.shared {
            Shared::One(one) => one.search.prepare(&one.files),
            Shared::Many(shards) => {
                (0..shards.count()).try_for_each(|at| shards.open(at)?.prepare_keys())
            }
        }
    }

    /// The packed bytes of the samples of a range, in order.
    ///
    /// # Panics
    ///
    /// If the range is not within the dataset, as slicing does.
    pub fn iter_raw(&self, range: impl RangeBounds<usize>) -> RawIter<'_> {
        match &*self.shared {
            Shared::One(one) => RawIter::new(&one.files, self.resolve(range)),
            Shared::Many(shards) => RawIter::of_shards(shards, self.resolve(range)),
        }
    }

    /// The samples of a range as dynamic values, in order. Panics as
    /// [`iter_raw`](Self::iter_raw).
    pub fn iter(&self, range: impl RangeBounds<usize>) -> Iter<'_> {
        match &*self.shared {
            Shared::One(one) => Iter::new(&one.files, self.resolve(range)),
            Shared::Many(shards) => Iter::of_shards(shards, self.resolve(range)),
        }
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
        match &*self.shared {
            Shared::One(_) => None,
            Shared::Many(shards) => Some(shards),
        }
    }

    /// How many data files it has: one, unless it was opened by a manifest or a pattern.
    pub fn shards(&self) -> usize {
        self.as_shards().map_or(1, Shards::count)
    }

    /// Its data files, in order.
    #[cfg(feature = "stat")]
    pub(crate) fn files(&self) -> Vec<&Path> {
        match self.as_shards() {
            Some(shards) => shards.entries().map(|(path, _)| path).collect(),
            None => vec![self.path()],
        }
    }

    /// How many of its data files are open.
    pub fn open_shards(&self) -> usize {
        self.as_shards().map_or(1, Shards::open_count)
    }

    /// Where its files are.
    #[cfg(feature = "stat")]
    pub(crate) fn storage(&self) -> &dyn Storage {
        match &*self.shared {
            Shared::One(one) => &*one.files.storage,
            Shared::Many(shards) => shards.storage(),
        }
    }

    /// The data file, if there is only one.
    pub(crate) fn data(&self) -> Option<&Source> {
        match &*self.shared {
            Shared::One(one) => Some(&one.files.data),
            Shared::Many(_) => None,
        }
    }

    /// Whether samples are borrowed from a map.
    fn is_mapped(&self) -> bool {
        self.data().is_some_and(|data| data.mapped().is_some())
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
        match &*self.shared {
            Shared::One(one) => one.search.has_lookup(&one.files),
            Shared::Many(_) => Ok(false),
        }
    }

    /// The hash of each key with this salt, in order of the samples; of a dataset of one file.
    fn each_hash(&self, salt: &Salt, mut with: impl FnMut(usize, u64)) -> Result<()> {
        if let Shared::One(One { files, search }) = &*self.shared {
            if search.each_hash(files, salt, &mut with)? {
                return Ok(());
            }
        }
        for (index, key) in self.keys().enumerate() {
            with(index, key_hashes::hash(salt, key?.as_bytes()));
        }
        Ok(())
    }

    /// Compares a sample that was read by way of [`data`](Self::data) with its checksum, if this
    /// reader does so.
    pub(crate) fn check_read(&self, index: usize, raw: &[u8]) -> Result<()> {
        match &*self.shared {
            Shared::One(one) => {
                if one.files.checks_samples() {
                    one.files.compare(index, raw)
                } else {
                    Ok(())
                }
            }
            Shared::Many(shards) => {
                let (reader, index) = shards.at(index)?;
                reader.check_read(index, raw)
            }
        }
    }

    /// What there is of a `.crc`.
    pub(crate) fn find_checksums(&self) -> Result<Found> {
        match &*self.shared {
            Shared::One(one) => one.files.find_checksums(),
            Shared::Many(shards) => {
                // Only a dataset of one file is appended to.
                shards.open(0)?.find_checksums()
            }
        }
    }

    /// An error if the dataset was replaced since it was opened.
    pub(crate) fn check_current(&self) -> Result<()> {
        match &*self.shared {
            Shared::One(one) => one.files.check_current(),
            Shared::Many(shards) => shards.check_current(),
        }
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

    fn field(&self, index: usize, name: &str) -> Result<Option<Value>> {
        DatasetReader::field(self, index, name)
    }

    fn labels(&self) -> Result<Option<Vec<String>>> {
        DatasetReader::labels(self)
    }

    fn identity(&self) -> Result<String> {
        DatasetReader::identity(self)
    }

    fn contains_key(&self, key: &str) -> Result<bool> {
        DatasetReader::contains_key(self, key)
    }

    fn locate(&self, index: usize) -> Location {
        if let Some(shards) = self.as_shards() {
            return match shards.at(index) {
                Ok((reader, index)) => Reader::locate(&*reader, index),
                Err(_) => Location { index: index as u64, ..Location::default() },
            };
        }
        let path = Some(self.path().to_path_buf());
        Location { path, index: index as u64, range: self.byte_range(index).ok() }
    }

    fn is_remote(&self) -> bool {
        match &*self.shared {
            Shared::One(one) => one.files.data.is_remote(),
            Shared::Many(shards) => shards.is_remote(),
        }
    }

    fn sample_bytes(&self) -> Option<u64> {
        self.data_len().checked_div(self.len() as u64)
    }

    /// Advises the kernel, where the data is mapped; neighbours in one call. Of a remote dataset all
    /// samples are fetched, in one round or two.
    fn prefetch(&self, indices: &[usize]) {
        let files = match &*self.shared {
            Shared::One(one) => &one.files,
            Shared::Many(shards) => return shards.prefetch(indices),
        };
        if files.data.is_remote() {
            // The files keep what failed, for the reads to come.
            let _ = files.fetch_in_order(indices);
            return;
        }
        if files.data.mapped().is_none() {
            return;
        }
        let mut ranges: Vec<Range<u64>> =
            indices.iter().filter_map(|&index| self.byte_range(index).ok()).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        let mut ranges = ranges.into_iter();
        let Some(mut run) = ranges.next() else { return };
        for range in ranges {
            if range.start <= run.end.saturating_add(NEIGHBOUR) {
                run.end = run.end.max(range.end);
            } else {
                files.data.will_need(std::mem::replace(&mut run, range));
            }
        }
        files.data.will_need(run);
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
