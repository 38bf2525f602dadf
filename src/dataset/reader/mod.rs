//! [`DatasetReader`]: lazy, each side file opened on first need.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Range, RangeBounds};
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use crate::error::Result;
use crate::format::msgpack::{self, Value};
use crate::reader::{self, Location, Reader};
use crate::storage::{self, Source, Storage};

use super::index::Found;
use super::labels::read_labels_from;

mod open;
mod iter;
mod many;
mod hashes;
mod table;
mod accelerators;
mod search;

pub use iter::{Iter, Keys, RawIter};
use open::OpenDataset;
use search::Search;

/// Samples at most this many bytes apart are fetched as one: they share pages, or nearly.
const NEIGHBOUR: u64 = 4096;

/// How to open a dataset.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct ReaderOptions {
    storage: Option<Arc<dyn Storage>>,
    checksums: bool,
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
        let mut files = OpenDataset::open(storage, &path)?;
        if self.checksums {
            files.checksums()?;
            files.check = true;
        }
        Ok(DatasetReader { shared: Arc::new(Shared { files, search: Search::default() }) })
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
struct Shared {
    files: OpenDataset,
    search: Search,
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

    /// The path of the data file.
    pub fn path(&self) -> &Path {
        &self.files().path
    }

    /// The names of the numeric labels, if their file is there.
    ///
    /// # Errors
    ///
    /// [`Damaged`](crate::ErrorKind::Damaged) if they are not UTF-8.
    pub fn labels(&self) -> Result<Option<Vec<String>>> {
        read_labels_from(&*self.files().storage, self.path())
    }

    /// Samples.
    pub fn len(&self) -> usize {
        self.files().len
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.files().len == 0
    }

    /// Bytes of all samples.
    pub fn data_len(&self) -> u64 {
        self.files().data_len
    }

    /// The whole data file, if it is mapped: [`get_raw`](Self::get_raw) borrows from it.
    #[inline]
    pub fn mapped(&self) -> Option<&[u8]> {
        self.files().data.mapped()
    }

    /// Where a sample lies in the data file.
    #[inline]
    pub fn byte_range(&self, index: usize) -> Result<Range<u64>> {
        self.files().byte_range(index)
    }

    /// The packed bytes of a sample, borrowed from the map where there is one.
    ///
    /// They are what the offsets say and are not looked at, unless with
    /// [`ReaderOptions::checksums`]: decoding checks them, and [`verify`](crate::verify::verify)
    /// checks all.
    #[inline]
    pub fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        self.files().raw(index)
    }

    /// A sample as a dynamic value. Arrays, complex numbers and NumPy scalars are the maps that
    /// msgpack-numpy makes of them.
    pub fn get(&self, index: usize) -> Result<Value> {
        self.files().value(index)
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

    /// One field of a sample, the rest of which is not decoded.
    pub fn field(&self, index: usize, name: &str) -> Result<Option<Value>> {
        let packed = self.field_raw(index, name)?;
        let decoded = packed.map(|packed| msgpack::decode(&packed)).transpose();
        decoded.map_err(|e| self.files().damaged_sample(index, e))
    }

    /// The packed bytes of one field.
    pub fn field_raw(&self, index: usize, name: &str) -> Result<Option<Cow<'_, [u8]>>> {
        let damaged = |e| self.files().damaged_sample(index, e);
        match self.get_raw(index)? {
            Cow::Borrowed(raw) => {
                Ok(msgpack::field(raw, name).map_err(damaged)?.map(Cow::Borrowed))
            }
            Cow::Owned(raw) => {
                let field = msgpack::field(&raw, name).map_err(damaged)?;
                Ok(field.map(|field| Cow::Owned(field.to_vec())))
            }
        }
    }

    /// Compares a sample with its checksum in `.crc`, without decoding it. The first call reads all
    /// of `.crc` and `.offsets`.
    ///
    /// # Errors
    ///
    /// [`Damaged`](crate::ErrorKind::Damaged), naming the sample, its key and its bytes, if it
    /// differs; those of [`ReaderOptions::open`] if there is nothing to compare with.
    pub fn check(&self, index: usize) -> Result<()> {
        self.files().checksums()?;
        let range = self.files().byte_range(index)?;
        let raw = self.files().data.read(range)?;
        self.files().compare(index, &raw)
    }

    /// The key of a sample.
    pub fn key(&self, index: usize) -> Result<Cow<'_, str>> {
        self.files().key(index)
    }

    /// The keys of all samples, in order.
    pub fn keys(&self) -> Keys<'_> {
        Keys::new(self.files())
    }

    /// The index of the sample with this key, if there is one.
    ///
    /// The first look-ups search the mapped hashes, which takes no preparation; when they have
    /// cost about as much as a table does, one is built (see [`prepare_keys`](Self::prepare_keys))
    /// unless there is a `.lookup` file. A match is confirmed against the sample's own key.
    pub fn find(&self, key: &str) -> Result<Option<usize>> {
        self.shared.search.find(self.files(), key)
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
        self.shared.search.find_many(self.files(), keys)
    }

    /// As [`find`](Self::find), for a sample that will be read next: of a remote dataset the whole sample
    /// is fetched in the round trip that compares its key, where [`find`](Self::find) fetches only what
    /// shows the key of a sample of more than 16 KiB.
    pub fn find_and_fetch(&self, key: &str) -> Result<Option<usize>> {
        self.shared.search.find_and_fetch(self.files(), key)
    }

    /// The sample with this key, if there is one.
    pub fn get_by_key(&self, key: &str) -> Result<Option<Value>> {
        self.find_and_fetch(key)?.map(|index| self.get(index)).transpose()
    }

    /// Whether there is a sample with this key.
    ///
    /// The Bloom filter answers for most keys that are absent. It is believed once it was compared
    /// with its digest, which happens when that has become cheap against the look-ups made (or in
    /// [`prepare_keys`](Self::prepare_keys)); until then, and where there is no digest, the hashes
    /// are asked as well.
    pub fn contains_key(&self, key: &str) -> Result<bool> {
        self.shared.search.contains(self.files(), key)
    }

    /// Makes look-ups by key as fast as they get, now rather than after some hundred of them:
    /// builds the table (seven bytes a key in memory, on all cores) or opens `.lookup`, and
    /// compares the filter with its digest.
    pub fn prepare_keys(&self) -> Result<()> {
        self.shared.search.prepare(self.files())
    }

    /// The packed bytes of the samples of a range, in order.
    ///
    /// # Panics
    ///
    /// If the range is not within the dataset, as slicing does.
    pub fn iter_raw(&self, range: impl RangeBounds<usize>) -> RawIter<'_> {
        RawIter::new(self.files(), self.resolve(range))
    }

    /// The samples of a range as dynamic values, in order. Panics as
    /// [`iter_raw`](Self::iter_raw).
    pub fn iter(&self, range: impl RangeBounds<usize>) -> Iter<'_> {
        Iter::new(self.files(), self.resolve(range))
    }

    /// The samples of a range as a type of yours, in order. Panics as
    /// [`iter_raw`](Self::iter_raw).
    pub fn iter_as<'a, T: Deserialize<'a>>(
        &'a self,
        range: impl RangeBounds<usize>,
    ) -> impl ExactSizeIterator<Item = Result<T>> {
        self.resolve(range).map(move |index| self.get_as(index))
    }

    #[inline]
    fn files(&self) -> &OpenDataset {
        &self.shared.files
    }

    /// Where its files are.
    #[cfg(feature = "stat")]
    pub(crate) fn storage(&self) -> &dyn Storage {
        &*self.files().storage
    }

    /// The data file.
    pub(crate) fn data(&self) -> &Source {
        &self.files().data
    }

    /// Compares a sample that was read by way of [`data`](Self::data) with its checksum, if this
    /// reader does so.
    pub(crate) fn check_read(&self, index: usize, raw: &[u8]) -> Result<()> {
        if self.files().check { self.files().compare(index, raw) } else { Ok(()) }
    }

    /// What there is of a `.crc`.
    pub(crate) fn find_checksums(&self) -> Result<Found> {
        self.files().find_checksums()
    }

    /// An error if the dataset was replaced since it was opened.
    pub(crate) fn check_current(&self) -> Result<()> {
        self.files().check_current()
    }

    fn resolve(&self, range: impl RangeBounds<usize>) -> Range<usize> {
        reader::resolve(range, self.len())
    }
}

impl Reader for DatasetReader {
    fn len(&self) -> usize {
        self.files().len
    }

    fn key(&self, index: usize) -> Result<Cow<'_, str>> {
        self.files().key(index)
    }

    fn find(&self, key: &str) -> Result<Option<usize>> {
        self.shared.search.find(self.files(), key)
    }

    fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        self.files().raw(index)
    }

    fn find_many(&self, keys: &[&str]) -> Result<Vec<Option<usize>>> {
        DatasetReader::find_many(self, keys)
    }

    fn contains_key(&self, key: &str) -> Result<bool> {
        self.shared.search.contains(self.files(), key)
    }

    fn locate(&self, index: usize) -> Location {
        let path = Some(self.path().to_path_buf());
        Location { path, index: index as u64, range: self.byte_range(index).ok() }
    }

    fn is_remote(&self) -> bool {
        self.files().data.is_remote()
    }

    /// Advises the kernel, where the data is mapped; neighbours in one call. Of a remote dataset all
    /// samples are fetched, in one round or two.
    fn prefetch(&self, indices: &[usize]) {
        if self.is_remote() {
            // The files keep what failed, for the reads to come.
            let _ = self.files().fetch_in_order(indices);
            return;
        }
        if self.files().data.mapped().is_none() {
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
                self.files().data.will_need(std::mem::replace(&mut run, range));
            }
        }
        self.files().data.will_need(run);
    }
}

impl fmt::Debug for DatasetReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatasetReader({}, {} samples)", self.path().display(), self.len())
    }
}
