//! [`DatasetReader`]: lazy, each side file opened on first need.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Range, RangeBounds};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde::Deserialize;

use super::iter::{Iter, Keys, RawIter};
use super::search::Search;
use super::{Location, Reader};
use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;
use crate::format::dataset::{SideFile, crc, keys, legacy_index, offsets};
use crate::format::msgpack::{self, Cursor, Value};
use crate::index::{self, Checksums, Found};
use crate::staging;
use crate::storage::{FileId, LocalStorage, Source, Storage};

/// Samples at most this many bytes apart are fetched as one: they share pages, or nearly.
const NEIGHBOUR: u64 = 4096;

/// How to open a dataset.
#[derive(Debug, Clone)]
pub struct ReaderOptions {
    storage: Arc<dyn Storage>,
    checksums: bool,
}

impl Default for ReaderOptions {
    fn default() -> Self {
        ReaderOptions { storage: Arc::new(LocalStorage::mapped()), checksums: false }
    }
}

impl ReaderOptions {
    /// Where the files are. Default: the local file system, mapped;
    /// [`LocalStorage::positioned`] reads without a map.
    pub fn storage(mut self, storage: Arc<dyn Storage>) -> Self {
        self.storage = storage;
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
    /// With [`checksums`](Self::checksums) also [`NotFound`](ErrorKind::NotFound) if there is no
    /// `.crc`, and [`Damaged`](ErrorKind::Damaged) if it is damaged or of another version of the
    /// dataset: `kiste index --crc` makes it.
    pub fn open(self, path: impl AsRef<Path>) -> Result<DatasetReader> {
        let mut inner = Inner::open(self.storage, path.as_ref())?;
        if self.checksums {
            inner.checksums()?;
            inner.check = true;
        }
        Ok(DatasetReader { inner: Arc::new(inner) })
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
    pub(super) inner: Arc<Inner>,
}

/// What the clones share.
pub(super) struct Inner {
    pub(super) path: PathBuf,
    pub(super) storage: Arc<dyn Storage>,
    pub(super) data: Source,
    pub(super) data_len: u64,
    pub(super) len: usize,
    pub(super) offsets: Offsets,
    search: Search,
    keys: OnceLock<Option<Source>>,
    checksums: OnceLock<Checksums>,
    /// Whether samples are compared with them whenever they are read.
    pub(super) check: bool,
    witness: Witness,
}

pub(super) enum Offsets {
    File(Source),
    /// From the legacy index or from the data, where there is no `.offsets`.
    Derived(Vec<u64>),
}

/// The file whose name tells whether the dataset is still the one that was opened.
///
/// A publication removes the offsets before it touches anything else, and puts the new ones in
/// their place when everything else is done: as long as the name `.offsets` means the file that
/// was opened, whatever was opened meanwhile belongs to the same dataset. Where there are no
/// offsets, the data file has to serve, and that there are still none.
struct Witness {
    path: PathBuf,
    id: FileId,
    absent: Option<PathBuf>,
}

impl Witness {
    fn check(&self, storage: &dyn Storage, dataset: &Path) -> Result<()> {
        let stat = |path: &Path| storage.stat(path);
        let appeared = self.absent.as_deref().map(stat).transpose()?.flatten().is_some();
        match stat(&self.path)? {
            Some(now) if now.id == self.id && !appeared => Ok(()),
            _ => {
                let message = "the dataset was replaced while it was open: open it again";
                Err(Error::new(ErrorKind::Replaced, message).at(dataset))
            }
        }
    }
}

impl DatasetReader {
    /// Opens a dataset by the name of its data file.
    ///
    /// Touches a few pages, however many samples there are. Without `.offsets` they are taken from
    /// the legacy `.index`, and without that from the data, which takes a pass over it
    /// (`kiste index` makes the files for good).
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound); [`Damaged`](ErrorKind::Damaged) if offsets and data do
    /// not belong together; [`Interrupted`](ErrorKind::Interrupted) if a writer died while it
    /// published this dataset, or before it finished it for the first time.
    pub fn open(path: impl AsRef<Path>) -> Result<DatasetReader> {
        DatasetReader::options().open(path)
    }

    /// The options, to be changed before [`open`](ReaderOptions::open).
    pub fn options() -> ReaderOptions {
        ReaderOptions::default()
    }

    /// The path of the data file.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Samples.
    pub fn len(&self) -> usize {
        self.inner.len
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.inner.len == 0
    }

    /// Bytes of all samples.
    pub fn data_len(&self) -> u64 {
        self.inner.data_len
    }

    /// Where a sample lies in the data file.
    #[inline]
    pub fn byte_range(&self, index: usize) -> Result<Range<u64>> {
        self.inner.byte_range(index)
    }

    /// The packed bytes of a sample, borrowed from the map where there is one.
    ///
    /// They are what the offsets say and are not looked at, unless with
    /// [`ReaderOptions::checksums`]: decoding checks them, and [`verify`](crate::verify::verify)
    /// checks all.
    #[inline]
    pub fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        self.inner.raw(index)
    }

    /// A sample as a dynamic value. Arrays, complex numbers and NumPy scalars are the maps that
    /// msgpack-numpy makes of them.
    pub fn get(&self, index: usize) -> Result<Value> {
        let raw = self.get_raw(index)?;
        msgpack::decode(&raw).map_err(|e| self.inner.damaged_sample(index, e))
    }

    /// A sample as a type of yours, which may borrow `&str` and `&[u8]` (with `serde_bytes`) from
    /// the map. Fields that it does not have are skipped.
    ///
    /// Without a map ([`LocalStorage::positioned`]) there is nothing to borrow from: such types
    /// are an error then, owned ones work.
    pub fn get_as<'a, T: Deserialize<'a>>(&'a self, index: usize) -> Result<T> {
        super::unpack(self.get_raw(index)?, || Reader::locate(self, index))
    }

    /// One field of a sample, the rest of which is not decoded.
    pub fn field(&self, index: usize, name: &str) -> Result<Option<Value>> {
        let packed = self.field_raw(index, name)?;
        let decoded = packed.map(|packed| msgpack::decode(&packed)).transpose();
        decoded.map_err(|e| self.inner.damaged_sample(index, e))
    }

    /// The packed bytes of one field.
    pub fn field_raw(&self, index: usize, name: &str) -> Result<Option<Cow<'_, [u8]>>> {
        let damaged = |e| self.inner.damaged_sample(index, e);
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
    /// [`Damaged`](ErrorKind::Damaged), naming the sample, its key and its bytes, if it differs;
    /// those of [`ReaderOptions::open`] if there is nothing to compare with.
    pub fn check(&self, index: usize) -> Result<()> {
        self.inner.checksums()?;
        let range = self.inner.byte_range(index)?;
        let raw = self.inner.data.read(range)?;
        self.inner.compare(index, &raw)
    }

    /// The key of a sample.
    pub fn key(&self, index: usize) -> Result<Cow<'_, str>> {
        self.inner.key(index)
    }

    /// The keys of all samples, in order.
    pub fn keys(&self) -> Keys<'_> {
        Keys::new(self)
    }

    /// The index of the sample with this key, if there is one.
    ///
    /// The first look-ups search the mapped hashes, which takes no preparation; when they have
    /// cost about as much as a table does, one is built (see [`prepare_keys`](Self::prepare_keys))
    /// unless there is a `.lookup` file. A match is confirmed against the sample's own key.
    pub fn find(&self, key: &str) -> Result<Option<usize>> {
        self.inner.search.find(&self.inner, key)
    }

    /// The sample with this key, if there is one.
    pub fn get_by_key(&self, key: &str) -> Result<Option<Value>> {
        self.find(key)?.map(|index| self.get(index)).transpose()
    }

    /// Whether there is a sample with this key.
    ///
    /// The Bloom filter answers for most keys that are absent. It is believed once it was compared
    /// with its digest, which happens when that has become cheap against the look-ups made (or in
    /// [`prepare_keys`](Self::prepare_keys)); until then, and where there is no digest, the hashes
    /// are asked as well.
    pub fn contains_key(&self, key: &str) -> Result<bool> {
        self.inner.search.contains(&self.inner, key)
    }

    /// Makes look-ups by key as fast as they get, now rather than after some hundred of them:
    /// builds the table (seven bytes a key in memory, on all cores) or opens `.lookup`, and
    /// compares the filter with its digest.
    pub fn prepare_keys(&self) -> Result<()> {
        self.inner.search.prepare(&self.inner)
    }

    /// The packed bytes of the samples of a range, in order.
    ///
    /// # Panics
    ///
    /// If the range is not within the dataset, as slicing does.
    pub fn iter_raw(&self, range: impl RangeBounds<usize>) -> RawIter<'_> {
        RawIter::new(&self.inner, self.resolve(range))
    }

    /// The samples of a range as dynamic values, in order. Panics as
    /// [`iter_raw`](Self::iter_raw).
    pub fn iter(&self, range: impl RangeBounds<usize>) -> Iter<'_> {
        Iter::new(self, self.resolve(range))
    }

    /// The samples of a range as a type of yours, in order. Panics as
    /// [`iter_raw`](Self::iter_raw).
    pub fn iter_as<'a, T: Deserialize<'a>>(
        &'a self,
        range: impl RangeBounds<usize>,
    ) -> impl ExactSizeIterator<Item = Result<T>> {
        self.resolve(range).map(move |index| self.get_as(index))
    }

    /// The data file.
    pub(crate) fn data(&self) -> &Source {
        &self.inner.data
    }

    /// Compares a sample that was read by way of [`data`](Self::data) with its checksum, if this
    /// reader does so.
    pub(crate) fn check_read(&self, index: usize, raw: &[u8]) -> Result<()> {
        if self.inner.check { self.inner.compare(index, raw) } else { Ok(()) }
    }

    /// What there is of a `.crc`.
    pub(crate) fn find_checksums(&self) -> Result<Found> {
        self.inner.find_checksums()
    }

    /// An error if the dataset was replaced since it was opened.
    pub(crate) fn check_current(&self) -> Result<()> {
        self.inner.check_current()
    }

    fn resolve(&self, range: impl RangeBounds<usize>) -> Range<usize> {
        super::resolve(range, self.len())
    }
}

impl Reader for DatasetReader {
    fn len(&self) -> usize {
        self.inner.len
    }

    fn key(&self, index: usize) -> Result<Cow<'_, str>> {
        self.inner.key(index)
    }

    fn find(&self, key: &str) -> Result<Option<usize>> {
        self.inner.search.find(&self.inner, key)
    }

    fn get_raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        self.inner.raw(index)
    }

    fn contains_key(&self, key: &str) -> Result<bool> {
        self.inner.search.contains(&self.inner, key)
    }

    fn locate(&self, index: usize) -> Location {
        let path = Some(self.path().to_path_buf());
        Location { path, index: index as u64, range: self.byte_range(index).ok() }
    }

    /// Tells the kernel, where the data is mapped; neighbours are told as one.
    fn prefetch(&self, indices: &[usize]) {
        if self.inner.data.mapped().is_none() {
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
                self.inner.data.will_need(std::mem::replace(&mut run, range));
            }
        }
        self.inner.data.will_need(run);
    }
}

impl fmt::Debug for DatasetReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatasetReader({}, {} samples)", self.path().display(), self.len())
    }
}

impl Inner {
    fn open(storage: Arc<dyn Storage>, path: &Path) -> Result<Inner> {
        let offsets_path = SideFile::Offsets.path(path);
        let offsets_file = storage.open_if_exists(&offsets_path)?;
        if offsets_file.is_none() {
            refuse_half_published(&*storage, path)?;
        }
        let data = storage.open(path).map_err(|e| missing(&*storage, path, e))?;
        let witness = match &offsets_file {
            Some(file) => Witness { path: offsets_path, id: file.id(), absent: None },
            None => {
                let absent = Some(offsets_path);
                Witness { path: path.to_path_buf(), id: data.id(), absent }
            }
        };
        let offsets = open_offsets(&*storage, path, &data, offsets_file);
        // Before what was found is believed, good or bad: are these the files of one dataset?
        witness.check(&*storage, path)?;
        let (offsets, len, data_len) = offsets?;
        Ok(Inner {
            path: path.to_path_buf(),
            storage,
            data,
            data_len,
            len,
            offsets,
            search: Search::default(),
            keys: OnceLock::new(),
            checksums: OnceLock::new(),
            check: false,
            witness,
        })
    }

    /// An error if the dataset was replaced since it was opened.
    pub(super) fn check_current(&self) -> Result<()> {
        self.witness.check(&*self.storage, &self.path)
    }

    /// Opens a side file of this very dataset, `None` where it has none.
    pub(super) fn side_file(&self, file: SideFile) -> Result<Option<Source>> {
        let source = self.storage.open_if_exists(&file.path(&self.path))?;
        self.check_current()?;
        Ok(source)
    }

    #[inline]
    pub(super) fn byte_range(&self, index: usize) -> Result<Range<u64>> {
        if index >= self.len {
            return Err(self.out_of_range(index));
        }
        let pair = match &self.offsets {
            Offsets::File(Source::Mapped(map)) => {
                let bytes = map.bytes();
                offsets::entry(bytes, index).zip(offsets::entry(bytes, index + 1))
            }
            Offsets::File(file) => {
                let at = index as u64 * offsets::ENTRY;
                let bytes = file.read(at..at + 2 * offsets::ENTRY);
                let bytes = bytes?;
                offsets::entry(&bytes, 0).zip(offsets::entry(&bytes, 1))
            }
            Offsets::Derived(ends) => ends.get(index).copied().zip(ends.get(index + 1).copied()),
        };
        match pair {
            Some((start, end)) if start <= end && end <= self.data_len => Ok(start..end),
            _ => Err(self.bad_offsets(index, pair)),
        }
    }

    #[inline]
    pub(super) fn raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        let range = self.byte_range(index)?;
        let raw = self.data.read(range)?;
        if self.check {
            self.compare(index, &raw)?;
        }
        Ok(raw)
    }

    /// Compares a sample with its checksum.
    #[inline(never)]
    fn compare(&self, index: usize, raw: &[u8]) -> Result<()> {
        let Some(mismatch) = self.checksums()?.compare(index, raw)? else { return Ok(()) };
        let error = Error::new(ErrorKind::Damaged, mismatch.to_string());
        let error =
            error.at(&self.path).with_index(index as u64).with_range(self.byte_range(index)?);
        // Its own key may be what is damaged.
        match self.listed_key(index) {
            Ok(Some(key)) => Err(error.with_key(key)),
            _ => Err(error),
        }
    }

    fn checksums(&self) -> Result<&Checksums> {
        match self.checksums.get() {
            Some(checksums) => Ok(checksums),
            None => {
                let checksums = self.open_checksums()?;
                Ok(self.checksums.get_or_init(|| checksums))
            }
        }
    }

    fn open_checksums(&self) -> Result<Checksums> {
        let found = self.find_checksums();
        self.check_current()?;
        found?.demand(&self.path)
    }

    /// What there is of a `.crc`.
    fn find_checksums(&self) -> Result<Found> {
        index::open_checksums(&*self.storage, &self.path, || {
            let offsets = match &self.offsets {
                Offsets::File(file) => index::checksum_of(file, 0)?,
                Offsets::Derived(ends) => index::checksum_of_offsets(ends),
            };
            let md5 = index::recorded_md5(&self.storage, &self.path)?;
            Ok(crc::Source { count: self.len as u64, data_len: self.data_len, md5, offsets })
        })
    }

    pub(super) fn key(&self, index: usize) -> Result<Cow<'_, str>> {
        let damaged = |e| self.damaged_sample(index, e);
        let raw = match self.raw(index) {
            // A sample that does not match its checksum: as for one that cannot be decoded, below.
            Err(error) if self.check => {
                return match self.listed_key(index) {
                    Ok(Some(key)) => Ok(key),
                    _ => Err(error),
                };
            }
            raw => raw?,
        };
        let own = match raw {
            Cow::Borrowed(raw) => msgpack::key(raw).map(|key| key.map(Cow::Borrowed)),
            Cow::Owned(raw) => {
                msgpack::key(&raw).map(|key| key.map(|key| Cow::Owned(key.to_string())))
            }
        };
        match own.map_err(damaged) {
            Ok(Some(key)) => Ok(key),
            // Written without a check: only `.keys` knows.
            Ok(None) => self.listed_key(index)?.ok_or_else(|| {
                damaged(FormatError::new(0, "a sample with a \"key\"", "one without"))
            }),
            Err(error) => match self.listed_key(index) {
                Ok(Some(key)) => Ok(key),
                _ => Err(error),
            },
        }
    }

    /// The key of a sample by `.keys`, if there is such a file: a walk over it.
    fn listed_key(&self, index: usize) -> Result<Option<Cow<'_, str>>> {
        let Some(bytes) = self.key_list()? else { return Ok(None) };
        match self.listed_keys(&bytes)?.nth(index) {
            Some(key) => {
                let key = key.map_err(|e| self.damaged_keys(e))?;
                Ok(Some(Cow::Owned(key.to_string())))
            }
            None => Ok(None),
        }
    }

    /// The bytes of `.keys`, if there is such a file.
    pub(super) fn key_list(&self) -> Result<Option<Cow<'_, [u8]>>> {
        let file = match self.keys.get() {
            Some(file) => file,
            None => {
                let file = self.side_file(SideFile::Keys)?;
                // Another thread may have been faster: its file is as good.
                self.keys.get_or_init(|| file)
            }
        };
        file.as_ref().map(|file| file.read(0..file.len())).transpose()
    }

    /// The keys of `.keys`, once it promises as many as there are samples.
    pub(super) fn listed_keys<'b>(&self, bytes: &'b [u8]) -> Result<keys::Keys<'b>> {
        let (count, _) = keys::parse_header(bytes).map_err(|e| self.damaged_keys(e))?;
        if count != self.len as u64 {
            let e = FormatError::new(0, format!("a list of {} keys", self.len), count.to_string());
            return Err(self.damaged_keys(e));
        }
        keys::Keys::parse(bytes).map_err(|e| self.damaged_keys(e))
    }

    #[cold]
    pub(super) fn damaged_keys(&self, error: FormatError) -> Error {
        Error::from(error).at(SideFile::Keys.path(&self.path))
    }

    /// Whether the sample of this index has this key: its own if it has one, else that of `.keys`.
    #[inline]
    pub(super) fn has_key(&self, index: usize, key: &str) -> Result<bool> {
        match self.raw(index) {
            Err(_) if self.check => return Ok(self.key(index)? == key),
            raw => {
                if let Ok(Some(own)) = msgpack::key(&raw?) {
                    return Ok(own == key);
                }
            }
        }
        Ok(self.key(index)? == key)
    }

    #[cold]
    fn out_of_range(&self, index: usize) -> Error {
        let message = format!("there is no sample {index}: the dataset has {}", self.len);
        Error::new(ErrorKind::Invalid, message).at(&self.path)
    }

    #[cold]
    fn bad_offsets(&self, index: usize, pair: Option<(u64, u64)>) -> Error {
        let found = match pair {
            Some((start, end)) => format!("{start} and {end}"),
            None => "the end of the file".to_string(),
        };
        let at = index as u64 * offsets::ENTRY;
        let message =
            format!("expected ascending offsets of at most {} bytes, found {found}", self.data_len);
        Error::new(ErrorKind::Damaged, message)
            .at(SideFile::Offsets.path(&self.path))
            .with_index(index as u64)
            .with_range(at..at + 2 * offsets::ENTRY)
    }

    #[cold]
    pub(super) fn damaged_sample(&self, index: usize, error: FormatError) -> Error {
        let error = Error::from(error).at(&self.path).with_index(index as u64);
        match self.byte_range(index) {
            Ok(range) => error.with_range(range),
            Err(_) => error,
        }
    }
}

fn missing(storage: &dyn Storage, path: &Path, error: Error) -> Error {
    let unfinished = error.kind() == ErrorKind::NotFound
        && matches!(storage.lstat(&staging::dir_of(path)), Ok(Some(stat)) if stat.is_dir());
    if unfinished {
        // Between the old data file and the new one there is none for a moment.
        if let Err(error) = refuse_half_published(storage, path) {
            return error;
        }
        let message = "this dataset was never finished";
        return Error::new(ErrorKind::Interrupted, message).at(path);
    }
    error
}

fn refuse_half_published(storage: &dyn Storage, path: &Path) -> Result<()> {
    if staging::is_half_published(storage, path)? {
        let message = "a writer is publishing this dataset, or died while it did";
        return Err(Error::new(ErrorKind::Interrupted, message).at(path));
    }
    Ok(())
}

/// The offsets, and the number of samples and bytes that they speak of.
fn open_offsets(
    storage: &dyn Storage,
    path: &Path,
    data: &Source,
    file: Option<Source>,
) -> Result<(Offsets, usize, u64)> {
    if let Some(file) = file {
        let (len, data_len) = check_offsets(storage, path, &file, data.len())?;
        return Ok((Offsets::File(file), len, data_len));
    }
    let data_len = match staging::journal_of(storage, path)?.and_then(|journal| journal.base) {
        Some(base) => base.bytes.min(data.len()),
        None => data.len(),
    };
    let ends = derive_offsets(storage, path, data, data_len)?;
    let len = ends.len().saturating_sub(1);
    Ok((Offsets::Derived(ends), len, data_len))
}

/// The number of samples and bytes that `.offsets` speaks of, if it fits the data.
fn check_offsets(
    storage: &dyn Storage,
    data_path: &Path,
    file: &Source,
    data_len: u64,
) -> Result<(usize, u64)> {
    let path = SideFile::Offsets.path(data_path);
    let entry = |i: u64| -> Result<u64> {
        let at = i * offsets::ENTRY;
        let bytes = file.read(at..at + offsets::ENTRY)?;
        Ok(offsets::entry(&bytes, 0).unwrap_or_default())
    };
    let damaged = |e: FormatError| Error::from(e).at(&path);
    let count = offsets::count(file.len()).map_err(damaged)?;
    let (first, last) = (entry(0)?, entry(count)?);
    // More data than the offsets know is an append in progress, or one that died: then the
    // journal says so, and what the offsets know is the dataset.
    let known_len =
        if last < data_len && appended(storage, data_path, count, last)? { last } else { data_len };
    offsets::check_ends(count, first, last, known_len).map_err(damaged)?;
    let len = usize::try_from(count).map_err(|_| {
        Error::new(ErrorKind::Limit, "more samples than this machine can address").at(&path)
    })?;
    Ok((len, known_len))
}

fn appended(storage: &dyn Storage, path: &Path, samples: u64, bytes: u64) -> Result<bool> {
    let journal = staging::journal_of(storage, path)?;
    Ok(journal.and_then(|j| j.base) == Some(staging::Base { samples, bytes }))
}

/// The offsets by the legacy index, or else by walking the data, the first `data_len` bytes of
/// which belong to the dataset: more is an append in progress, or one that died.
fn derive_offsets(
    storage: &dyn Storage,
    path: &Path,
    data: &Source,
    data_len: u64,
) -> Result<Vec<u64>> {
    let index_path = SideFile::Index.path(path);
    let damaged = |e: FormatError| Error::from(e).at(&index_path);
    match storage.open_if_exists(&index_path)? {
        Some(file) => {
            let bytes = file.read(0..file.len())?;
            let mut offsets = Vec::new();
            for entry in legacy_index::Entries::parse(&bytes).map_err(damaged)? {
                offsets.push(entry.map_err(damaged)?.1);
            }
            offsets.push(data_len);
            Ok(offsets)
        }
        None => walk(path, data, data_len),
    }
}

/// Where the messages of a data file begin, and its end.
fn walk(path: &Path, data: &Source, data_len: u64) -> Result<Vec<u64>> {
    let bytes = data.read(0..data_len)?;
    let mut offsets = vec![0];
    let mut cursor = Cursor::new(&bytes);
    while !cursor.is_at_end() {
        let start = cursor.position() as u64;
        cursor.skip().map_err(|e| {
            Error::from(e).at(path).with_index(offsets.len() as u64 - 1).with_range(start..data_len)
        })?;
        offsets.push(cursor.position() as u64);
    }
    Ok(offsets)
}
