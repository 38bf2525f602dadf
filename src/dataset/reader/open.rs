//! The files of a dataset that is open, each opened on first need.

use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::format::FormatError;
use crate::format::dataset::{Digest, Digests, SideFile, crc, keys, legacy_index, offsets};
use crate::format::msgpack::sample::{KeySearch, KeyStep};
use crate::format::msgpack::{self, Value};
use crate::storage::{Announced, FileId, OpenFile, Source, Storage, prefetch};

use super::super::index::{Checksums, Found, open_checksums, recorded_md5};
use super::super::staging;
use super::super::walk::{NoMessage, messages};
use super::in_place::Records;
use super::once::get_or_open;
use super::one::Opening;

/// The files of one dataset, open.
pub(crate) struct OpenDataset {
    pub(crate) path: PathBuf,
    pub(super) storage: Arc<dyn Storage>,
    /// The data file, or the index of samples in place.
    pub(super) data: Source,
    /// Samples that are in other files.
    pub(super) records: Option<Records>,
    pub(super) data_len: u64,
    pub(super) len: usize,
    pub(super) offsets: Offsets,
    /// Whether the offsets come from a walk over the data.
    pub(super) is_walked: bool,
    keys: OnceLock<Option<Source>>,
    checksums: OnceLock<Checksums>,
    /// Whether samples are compared with them whenever they are read.
    check: bool,
    /// How many samples [`mapped_sample`](Self::mapped_sample) may answer for: all or none.
    mapped: usize,
    witness: Witness,
    /// Side files that were opened with the dataset, where that saves round trips.
    together: Vec<(SideFile, OpenFile)>,
    /// All of a remote `.offsets`, once enough of them were needed to make this cheaper.
    whole_offsets: OnceLock<WholeOffsets>,
    /// For the offsets of all shards.
    room: Room,
    fetching_offsets: AtomicBool,
    /// All of a remote `.keys`, once a key of it was needed.
    whole_keys: OnceLock<Vec<u8>>,
}

/// The side files that a look-up by index or key needs.
const TOGETHER: [SideFile; 4] =
    [SideFile::Offsets, SideFile::KeyHashes, SideFile::Lookup, SideFile::Filter];
/// The data file and these, some of which are read from their ends as well.
const ANNOUNCED: [Announced<'static>; 5] = [
    Announced { suffix: "", end: false },
    Announced { suffix: SideFile::Offsets.suffix(), end: true },
    Announced { suffix: SideFile::KeyHashes.suffix(), end: true },
    Announced { suffix: SideFile::Lookup.suffix(), end: false },
    Announced { suffix: SideFile::Filter.suffix(), end: false },
];
/// From how many samples fetched at once on a remote `.offsets` is fetched whole, and up to which size.
const MANY: usize = 16;
const WHOLE_OFFSETS: u64 = 64 << 20;
/// Bytes of the offsets of all shards of a dataset.
const ALL_OFFSETS: u64 = 512 << 20;
/// Up to which size a remote sample is fetched whole for its key, and how much of a larger one at a
/// time: the key is among the first fields of most.
const WHOLE_SAMPLE: u64 = 16 << 10;
const KEY_PART: u64 = 4 << 10;
/// From this size on the end of a sample is on another page than its beginning.
const LARGE: usize = 4 << 10;
/// After this many parts without a key a sample is fetched whole.
const KEY_PARTS: usize = 8;
/// Up to which size a remote `.keys` stays in memory. Keys of a larger one come from the samples.
const WHOLE_KEYS: u64 = 256 << 20;

/// All offsets of a remote dataset.
struct WholeOffsets {
    bytes: Vec<u8>,
    _room: Taken,
}

/// The memory that is left for the offsets of a dataset of many files.
#[derive(Debug, Clone)]
pub(super) struct Room(Arc<AtomicU64>);

impl Default for Room {
    fn default() -> Room {
        Room(Arc::new(AtomicU64::new(ALL_OFFSETS)))
    }
}

impl Room {
    /// This many bytes of it, until they are dropped.
    fn take(&self, bytes: u64) -> Option<Taken> {
        let take = |left: u64| left.checked_sub(bytes);
        self.0.fetch_update(Relaxed, Relaxed, take).ok()?;
        Some(Taken { bytes, of: self.clone() })
    }
}

struct Taken {
    bytes: u64,
    of: Room,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.of.0.fetch_add(self.bytes, Relaxed);
    }
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
/// was opened, every file opened meanwhile belongs to the same dataset. Where there are no
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

impl OpenDataset {
    /// With the others of this room, which share it.
    pub(super) fn open_in(
        how: &Opening,
        storage: Arc<dyn Storage>,
        path: &Path,
    ) -> Result<OpenDataset> {
        Ok(OpenDataset { room: how.room.clone(), ..OpenDataset::open(how, storage, path)? })
    }

    fn open(how: &Opening, storage: Arc<dyn Storage>, path: &Path) -> Result<OpenDataset> {
        match storage.open_together(path, &ANNOUNCED) {
            Ok(None) => {}
            Ok(Some(files)) => return OpenDataset::open_remote(how, storage, path, files),
            // Without leave to list, a store denies what is not there.
            Err(error) if error.is_absent_or_denied() => {
                return Err(unpublished(&*storage, path).unwrap_or(error));
            }
            Err(error) => return Err(error),
        }
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
        let records = Records::of(&storage, path, &data, how.confined)?;
        let data_len = data_len(&data, records.as_ref());
        let offsets = match (&records, offsets_file) {
            (Some(_), None) => Err(no_offsets(path)),
            (_, file) => open_offsets(&*storage, path, &data, data_len, file),
        };
        // Before what was found is believed, good or bad: are these the files of one dataset?
        witness.check(&*storage, path)?;
        let offsets = offsets?;
        let is_walked = matches!(offsets.0, Offsets::Derived(_))
            && storage.stat(&SideFile::Index.path(path))?.is_none();
        let opened = OpenDataset::of(path, storage, data, offsets, witness, Vec::new());
        OpenDataset { is_walked, ..opened }.with_records(records)
    }

    /// The dataset of these files, which were opened in one round: the data, and those of
    /// [`TOGETHER`].
    fn open_remote(
        how: &Opening,
        storage: Arc<dyn Storage>,
        path: &Path,
        files: Vec<OpenFile>,
    ) -> Result<OpenDataset> {
        let mut files = files.into_iter();
        let source = |file: OpenFile| file.map(|file| Source::Positioned(Box::new(file)));
        let data = files.next().and_then(source);
        let together: Vec<_> = TOGETHER.into_iter().zip(files).collect();
        let offsets = together.iter().find(|(file, _)| *file == SideFile::Offsets);
        let offsets = offsets.and_then(|(_, file)| source(file.clone()));
        let offsets_path = SideFile::Offsets.path(path);
        let (Some(data), Some(file)) = (data, offsets) else {
            if let Some(error) = unpublished(&*storage, path) {
                return Err(error);
            }
            // Nothing else says where samples begin but a pass over all of the data.
            let message = "expected this file next to a remote dataset, found none";
            return Err(Error::new(ErrorKind::NotFound, message)
                .at(offsets_path)
                .advise(
                    "make the files next to a dataset (index), and upload them with it; if its URL is signed, the \
                     signature has to be valid for them too",
                ));
        };
        let witness = Witness { path: offsets_path, id: file.id(), absent: None };
        check_one_write(&*storage, path, &data, &together)?;
        let hashes = together.iter().find(|(file, _)| *file == SideFile::KeyHashes);
        let hashes = hashes.and_then(|(_, file)| source(file.clone()));
        let records = Records::of(&storage, path, &data, how.confined)?;
        #[cfg(feature = "convert")]
        let records = match (records, hashes) {
            (Some(records), Some(hashes)) => Some(records.with_hashes(hashes)),
            (records, _) => records,
        };
        #[cfg(not(feature = "convert"))]
        drop(hashes);
        let data_len = data_len(&data, records.as_ref());
        let (len, data_len) = check_offsets(&*storage, path, &file, data_len)?;
        let offsets = (Offsets::File(file), len, data_len);
        OpenDataset::of(path, storage, data, offsets, witness, together).with_records(records)
    }

    /// The samples of these records in place of those in the data file.
    fn with_records(mut self, records: Option<Records>) -> Result<OpenDataset> {
        if let Some(records) = &records {
            self.mapped = 0;
            if records.samples() != self.len as u64 {
                let expected = format!("offsets of {} samples", records.samples());
                let error = FormatError::new(0, expected, self.len.to_string());
                return Err(Error::from(error).at(SideFile::Offsets.path(&self.path)));
            }
        }
        self.records = records;
        Ok(self)
    }

    /// Whether reading a sample may be a round trip over a network.
    pub(super) fn is_remote(&self) -> bool {
        self.data.is_remote() || self.records.as_ref().is_some_and(Records::is_remote)
    }

    /// Where these samples are in shards, as far as they exist.
    pub(super) fn in_shards(&self, indices: &[usize]) -> Result<Vec<(usize, Range<u64>)>> {
        let indices: Vec<usize> = indices.iter().copied().filter(|&i| i < self.len).collect();
        self.fetch_offsets(&indices)?;
        indices.iter().map(|&index| Ok((index, self.byte_range(index)?))).collect()
    }

    /// With nothing read yet of the files that are opened on first need. `together` are the side files
    /// that are open already.
    fn of(
        path: &Path,
        storage: Arc<dyn Storage>,
        data: Source,
        (offsets, len, data_len): (Offsets, usize, u64),
        witness: Witness,
        together: Vec<(SideFile, OpenFile)>,
    ) -> OpenDataset {
        // Data may go on behind the last sample, as while one is appended: then offsets are compared with where it ends.
        let all_mapped = matches!((&offsets, &data), (Offsets::File(Source::Mapped(_)), Source::Mapped(data))
            if data.bytes().len() as u64 == data_len);
        OpenDataset {
            path: path.to_path_buf(),
            storage,
            data,
            records: None,
            data_len,
            len,
            offsets,
            is_walked: false,
            keys: OnceLock::new(),
            checksums: OnceLock::new(),
            check: false,
            mapped: if all_mapped { len } else { 0 },
            witness,
            together,
            whole_offsets: OnceLock::new(),
            room: Room::default(),
            fetching_offsets: AtomicBool::new(false),
            whole_keys: OnceLock::new(),
        }
    }

    /// Fetches these samples, where they are remote: in two rounds, and if their offsets are known in
    /// one. Indices that do not exist are passed over.
    pub(super) fn fetch(&self, indices: &[usize]) -> Result<()> {
        if let Some(records) = &self.records {
            return records.fetch(&self.in_shards(indices)?, false);
        }
        self.data.fetch(&self.ranges(indices)?)
    }

    /// The same for a reader that goes through the samples in a known order.
    pub(super) fn fetch_in_order(&self, indices: &[usize]) -> Result<()> {
        if let Some(records) = &self.records {
            return records.fetch(&self.in_shards(indices)?, true);
        }
        self.data.fetch_in_order(&self.ranges(indices)?)
    }

    /// Where these samples are, as far as they exist; their offsets are fetched.
    pub(super) fn ranges(&self, indices: &[usize]) -> Result<Vec<Range<u64>>> {
        let indices: Vec<usize> = indices.iter().copied().filter(|&i| i < self.len).collect();
        self.fetch_offsets(&indices)?;
        indices.iter().map(|&index| self.byte_range(index)).collect()
    }

    /// The same, but of large samples only as much as shows the keys of most.
    pub(super) fn fetch_heads(&self, indices: &[usize]) -> Result<()> {
        if self.records.is_some() {
            return self.fetch(indices);
        }
        self.fetch_offsets(indices)?;
        // Offsets that make no sense are reported when the sample is read.
        let ranges = indices.iter().filter_map(|&index| self.head(index).ok());
        self.data.fetch(&ranges.collect::<Vec<_>>())
    }

    /// Fetches the offsets of these samples, or all.
    pub(super) fn fetch_offsets(&self, indices: &[usize]) -> Result<()> {
        let Offsets::File(file) = &self.offsets else { return Ok(()) };
        if self.whole_offsets.get().is_none() {
            let is_worth_it = indices.len() >= MANY && file.len() <= WHOLE_OFFSETS;
            if is_worth_it && !self.fetching_offsets.swap(true, Relaxed) {
                let fetched = self.fetch_whole_offsets(file);
                self.fetching_offsets.store(false, Relaxed);
                fetched?;
            }
            if self.whole_offsets.get().is_none() {
                let pair = |&index: &usize| {
                    let at = index as u64 * offsets::ENTRY;
                    at..at + 2 * offsets::ENTRY
                };
                file.fetch(&indices.iter().map(pair).collect::<Vec<_>>())?;
            }
        }
        Ok(())
    }

    /// Fetches all offsets, if there is room for them.
    fn fetch_whole_offsets(&self, file: &Source) -> Result<()> {
        let Some(room) = self.room.take(file.len()) else { return Ok(()) };
        // Fetched, then read: what fails is reported when one of them is read.
        let whole = 0..file.len();
        file.fetch(std::slice::from_ref(&whole))?;
        let bytes = file.read(whole)?.into_owned();
        self.whole_offsets.get_or_init(|| WholeOffsets { bytes, _room: room });
        Ok(())
    }

    /// An error if the dataset was replaced since it was opened.
    pub(super) fn check_current(&self) -> Result<()> {
        self.witness.check(&*self.storage, &self.path)
    }

    /// Opens a side file of this very dataset, `None` where it has none.
    pub(super) fn side_file(&self, file: SideFile) -> Result<Option<Source>> {
        if let Some((_, opened)) = self.together.iter().find(|(opened, _)| *opened == file) {
            return Ok(opened.clone().map(|file| Source::Positioned(Box::new(file))));
        }
        let source = self.storage.open_if_exists(&file.path(&self.path))?;
        if let (Some(found), Some(write)) = (&source, self.data.write_id()) {
            if found.write_id().is_some_and(|other| other != write) {
                return Err(of_two_writes(&self.path));
            }
        }
        self.check_current()?;
        Ok(source)
    }

    /// The digest of a file by `.md5`, if that has one.
    pub(super) fn recorded_digest(&self, file: SideFile) -> Result<Option<Digest>> {
        let Some(digests) = self.side_file(SideFile::Md5)? else { return Ok(None) };
        let text = digests.read(0..digests.len())?;
        let digests = Digests::parse(&text).map_err(|e| Error::from(e).at(digests.path()))?;
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        Ok(digests.get_of(&name, file.suffix()).copied())
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
            Offsets::File(_) if self.whole_offsets.get().is_some() => {
                let bytes = self.whole_offsets.get().map_or(&[][..], |whole| &whole.bytes);
                offsets::entry(bytes, index).zip(offsets::entry(bytes, index + 1))
            }
            Offsets::File(file) => {
                let at = index as u64 * offsets::ENTRY;
                let bytes = file.read(at..at + 2 * offsets::ENTRY)?;
                offsets::entry(&bytes, 0).zip(offsets::entry(&bytes, 1))
            }
            Offsets::Derived(ends) => ends.get(index).copied().zip(ends.get(index + 1).copied()),
        };
        match pair {
            Some((start, end)) if start <= end && end <= self.data_len => Ok(start..end),
            _ => Err(self.bad_offsets(index, pair)),
        }
    }

    /// Asks the processor for the offsets of a sample, where they are mapped. Any number will do.
    #[inline]
    pub(super) fn prefetch_offsets(&self, index: usize) {
        if let Offsets::File(Source::Mapped(map)) = &self.offsets {
            let at = index.checked_mul(offsets::ENTRY as usize);
            if let Some(entry) = at.and_then(|at| map.bytes().get(at..)) {
                prefetch(entry);
            }
        }
    }

    /// Asks the processor for the beginning of a sample, where it is mapped. Any number will do.
    #[inline]
    pub(super) fn prefetch_sample(&self, index: usize) {
        if let Some(sample) = self.mapped_sample(index) {
            prefetch(sample);
        }
    }

    /// The packed bytes of a sample.
    #[inline(always)]
    pub(super) fn raw(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        match self.mapped_sample(index) {
            Some(sample) => {
                // Of a large sample, while the headers of its fields are waited for: where the last field ends.
                if let Some(end) = sample.len().checked_sub(LARGE) {
                    prefetch(&sample[end + LARGE - 1..]);
                }
                Ok(Cow::Borrowed(sample))
            }
            None => self.read_sample(index),
        }
    }

    /// A sample that needs no call: offsets and data are mapped, they make sense, and nothing is to be compared.
    /// Few instructions, so that the processor waits for the memory of several samples at a time.
    #[inline(always)]
    fn mapped_sample(&self, index: usize) -> Option<&[u8]> {
        if index >= self.mapped {
            return None;
        }
        let (Offsets::File(Source::Mapped(ends)), Source::Mapped(data)) =
            (&self.offsets, &self.data)
        else {
            return None;
        };
        let pair = ends.bytes().get(index * offsets::ENTRY as usize..)?;
        let pair = pair.first_chunk::<{ 2 * offsets::ENTRY as usize }>()?;
        let (start, end) = (offsets::entry(pair, 0)?, offsets::entry(pair, 1)?);
        data.bytes().get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    }

    /// Compares samples with their checksums from now on, whenever they are read.
    pub(super) fn check_samples(&mut self) {
        (self.check, self.mapped) = (true, 0);
    }

    pub(super) fn checks_samples(&self) -> bool {
        self.check
    }

    #[inline(never)]
    pub(super) fn read_sample(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        let range = self.byte_range(index)?;
        if let Some(records) = &self.records {
            return records.sample(index, &range).map(Cow::Owned);
        }
        let raw = self.data.read(range)?;
        if self.check {
            self.compare(index, &raw)?;
        }
        Ok(raw)
    }

    /// A sample as a dynamic value.
    pub(super) fn value(&self, index: usize) -> Result<Value> {
        let raw = self.raw(index)?;
        msgpack::decode(&raw).map_err(|e| self.damaged_sample(index, e))
    }

    /// Compares a sample with its checksum.
    #[inline(never)]
    pub(super) fn compare(&self, index: usize, raw: &[u8]) -> Result<()> {
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

    pub(super) fn checksums(&self) -> Result<&Checksums> {
        get_or_open(&self.checksums, || {
            let found = self.find_checksums();
            self.check_current()?;
            found?.demand(&self.path)
        })
    }

    /// What there is of a `.crc`.
    pub(super) fn find_checksums(&self) -> Result<Found> {
        open_checksums(&*self.storage, &self.path, || {
            let offsets = self.checksum_of_all_offsets()?;
            let md5 = recorded_md5(&self.storage, &self.path)?;
            Ok(crc::Source { count: self.len as u64, data_len: self.data_len, md5, offsets })
        })
    }

    pub(super) fn key(&self, index: usize) -> Result<Cow<'_, str>> {
        if let Some(records) = &self.records {
            return records.key(index, &self.byte_range(index)?).map(Cow::Owned);
        }
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
        let file = get_or_open(&self.keys, || self.side_file(SideFile::Keys))?;
        let Some(file) = file else { return Ok(None) };
        if !file.is_remote() || file.len() > WHOLE_KEYS {
            return file.read(0..file.len()).map(Some);
        }
        let whole = || Ok(file.read(0..file.len())?.into_owned());
        Ok(Some(Cow::Borrowed(get_or_open(&self.whole_keys, whole)?)))
    }

    /// The keys of `.keys`, if their number is that of the samples.
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
    pub(super) fn has_key(&self, index: usize, key: &str) -> Result<bool> {
        if self.records.is_some() {
            return Ok(self.key(index)? == key);
        }
        if self.data.is_remote() && self.seems(index, |own| own == key)? {
            return Ok(true);
        }
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

    /// The sample of this index if it has this key, as far as few steps tell: `None` says nothing, and any number will do.
    #[inline(always)]
    pub(super) fn sample_of_plain_key(&self, index: usize, key: &str) -> Option<&[u8]> {
        let sample = self.mapped_sample(index)?;
        msgpack::sample::has_plain_key(sample, key).then_some(sample)
    }

    /// What is fetched first of a remote sample to see its key.
    pub(super) fn head(&self, index: usize) -> Result<Range<u64>> {
        let range = self.byte_range(index)?;
        // A checksum is of the whole sample.
        let is_small = self.check || range.end - range.start <= WHOLE_SAMPLE;
        Ok(if is_small { range } else { range.start..range.start + KEY_PART })
    }

    /// Whether the key of a remote sample meets a condition, by as few of its bytes as show a key. `false`
    /// if only the whole sample can tell.
    pub(super) fn seems(&self, index: usize, is_wanted: impl Fn(&str) -> bool) -> Result<bool> {
        let range = self.byte_range(index)?;
        // A checksum is of the whole sample.
        if self.check || range.end - range.start <= WHOLE_SAMPLE || self.records.is_some() {
            return Ok(false);
        }
        let mut search = KeySearch::default();
        for _ in 0..KEY_PARTS {
            let Some(at) = range.start.checked_add(search.position()) else { break };
            if at >= range.end {
                break;
            }
            let part = self.data.read(at..range.end.min(at.saturating_add(KEY_PART)))?;
            match search.step(&part) {
                KeyStep::Key(key) => return Ok(is_wanted(key)),
                KeyStep::Further => {}
                KeyStep::Unclear => break,
            }
        }
        Ok(false)
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
        return staging::unfinished_error(storage, path);
    }
    error
}

/// Why there is no dataset at a URL, if it is being written.
fn unpublished(storage: &dyn Storage, path: &Path) -> Option<Error> {
    if !storage.is_object_store() {
        return None;
    }
    // Without an answer the first error is the one to report.
    let mark = staging::dir_of(path);
    storage.stat(&mark).ok().flatten()?;
    let message = format!(
        "this dataset is being written, or its writer was killed: {} \
            exists",
        mark.display()
    );
    Some(Error::new(ErrorKind::Interrupted, message).at(path))
}

/// Fails if these files, which were opened together, were not written together: one dataset takes the
/// place of another one just now.
fn check_one_write(
    storage: &dyn Storage,
    path: &Path,
    data: &Source,
    together: &[(SideFile, OpenFile)],
) -> Result<()> {
    let write = data.write_id();
    let mut unknown = Vec::new();
    for (side, file) in together {
        let Some(file) = file else { continue };
        match (write, file.write_id()) {
            (one, other) if one == other => {}
            (Some(_), Some(_)) => return Err(of_two_writes(path)),
            // Some copies keep what belongs with an object, others do not: were they all there at once?
            _ => unknown.push((side.path(path), file.id())),
        }
    }
    if unknown.is_empty() {
        return Ok(());
    }
    unknown.push((path.to_path_buf(), data.id()));
    for (path, id) in unknown {
        if storage.stat(&path)?.is_none_or(|now| now.id != id) {
            return Err(of_two_writes(&path));
        }
    }
    Ok(())
}

fn of_two_writes(path: &Path) -> Error {
    let message = "the dataset was replaced while it was opened: open it again";
    Error::new(ErrorKind::Replaced, message).at(path)
}

fn refuse_half_published(storage: &dyn Storage, path: &Path) -> Result<()> {
    if staging::is_half_published(storage, path)? {
        let message = "a writer is publishing this dataset, or was killed while it did";
        return Err(Error::new(ErrorKind::Interrupted, message).at(path));
    }
    Ok(())
}

/// How far offsets go.
fn data_len(data: &Source, records: Option<&Records>) -> u64 {
    records.map_or(data.len(), Records::len)
}

#[cold]
fn no_offsets(path: &Path) -> Error {
    let message = "expected this file next to the index, found none";
    let error = Error::new(ErrorKind::NotFound, message).at(SideFile::Offsets.path(path));
    error.advise("index the files again")
}

/// The offsets, and the number of samples and bytes that they speak of.
fn open_offsets(
    storage: &dyn Storage,
    path: &Path,
    data: &Source,
    data_len: u64,
    file: Option<Source>,
) -> Result<(Offsets, usize, u64)> {
    if let Some(file) = file {
        let (len, data_len) = check_offsets(storage, path, &file, data_len)?;
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
    let count = offsets::count_within(file.len(), data_len).map_err(damaged)?;
    let (first, last) = (entry(0)?, entry(count)?);
    // More data than the offsets know is an append in progress, or one that died: then the
    // journal says so, and what the offsets know is the dataset.
    let known_len =
        if last < data_len && appended(storage, data_path, count, last)? { last } else { data_len };
    offsets::check_ends(count, first, last, known_len).map_err(|e| match first {
        // The data was cut, or something was put behind it.
        0 => damaged(e).with_remedy(Remedy::Salvage),
        _ => damaged(e),
    })?;
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
    for message in messages(&bytes) {
        let message = message.map_err(|NoMessage { start, error }| {
            let index = offsets.len() as u64 - 1;
            Error::from(error).at(path).with_index(index).with_range(start..data_len)
        })?;
        offsets.push(message.end);
    }
    Ok(offsets)
}
