//! Writing: samples in, a published dataset out.
//!
//! A [`Writer`] packs samples, refuses what the format cannot hold, and streams them to a directory
//! next to the dataset; [`Writer::finish`] makes the side files and publishes all of them. Until
//! then, and after a crash at any point, the dataset that was there before is still there. The
//! steps of the publication, and what it cannot promise, are in `staging/mod.rs`.
//!
//! The files are the same, byte for byte, as Python datadings writes for the same samples; only
//! [`WriterOptions::arrays`] stores arrays as it does not.
//!
//! # Costs
//!
//! About twelve bytes of memory a sample while writing, to refuse duplicates (5 MB from 100,000 samples on and 15 MB from
//! 400,000 on, where that is more), and 32 more for each of the first two million; some 24 a sample while finishing; and
//! some megabytes of buffers. Keys and offsets are on disk. MD5 runs
//! alongside packing and writing, on a thread of its own. It is the limit for large samples: see
//! [`WriterOptions::digests`].

use crate::error::Shown;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

#[cfg(feature = "arrays")]
use crate::array::{ArrayPolicy, ArrayTally};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::format::FormatError;
use crate::format::dataset::{SideFile, crc};
use crate::format::md5::Md5;
use crate::format::msgpack::{self, Value};
use crate::reader::Reader;
use crate::storage::Sink;

use super::index::{Ahead, Measure};
use super::reader::DatasetReader;
use super::staging::{
    self, ChecksumSpool, Journal, KeySpool, LengthsSpool, OffsetSpool, Scratch, Spool, Unfinished,
};
use super::{index, labels};

#[cfg(feature = "convert")]
mod concat;
#[cfg(feature = "convert")]
mod in_place;
mod destination;
mod options;
mod start;
mod key_set;
mod pipeline;
mod publication;
mod upload;

use destination::Destination;
use key_set::{KeyHash, KeySet};
pub use options::WriterOptions;
use pipeline::Pipeline;
use publication::Publication;
pub(crate) use upload::{Left, Place, left, remove_left};
#[cfg(feature = "convert")]
pub(crate) use upload::{
    WrittenBy, is_of_writes, remove_unfinished_writes, remove_writes, write_of,
};

/// The dataset that [`Writer::finish`] published.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Samples in the dataset, those from before an append included.
    pub samples: u64,
    /// Bytes of the data file.
    pub bytes: u64,
    /// The MD5 of the data file, if digests were asked for.
    pub md5: Option<[u8; 16]>,
}

/// Streams samples to a dataset.
///
/// ```
/// use serde::Serialize;
///
/// #[derive(Serialize)]
/// struct Digit<'a> {
///     key: &'a str,
///     #[serde(with = "serde_bytes")]
///     image: &'a [u8],
///     label: u8,
/// }
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("digits.msgpack");
/// let mut writer = kiste::Writer::create(&path)?;
/// writer.write(&Digit { key: "3/0001.png", image: b"\x89PNG", label: 3 })?;
///
/// // A sample that the format cannot hold is refused, and the writer can continue.
/// let again = writer.write(&Digit { key: "3/0001.png", image: b"", label: 4 });
/// assert_eq!(again.unwrap_err().kind(), kiste::ErrorKind::DuplicateKey);
///
/// let stats = writer.finish()?;
/// assert_eq!(stats.samples, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A writer that is dropped without [`finish`](Writer::finish) publishes nothing. If it had
/// written samples, they stay in `NAME.partial` as if the process had been killed, to be
/// [repaired](crate::repair); [`abort`](Writer::abort) removes them.
///
/// # To an object store
///
/// The name may be a URL (feature `remote`): `s3://bucket/train.msgpack`. The samples go up while they
/// are written; keys and offsets are in the directory for temporary files until then, some tens of
/// bytes for each sample. All files become visible at the end, within a moment and with `.offsets`
/// last, so a reader finds the whole dataset or none. Nothing is kept of a write that fails or of a
/// process that is killed: it cannot be resumed, and a dataset cannot be appended to.
#[must_use = "without `finish` nothing is published"]
pub struct Writer {
    options: WriterOptions,
    path: PathBuf,
    /// Samples of the dataset that is appended to.
    samples_before: u64,
    samples: u64,
    bytes: u64,
    /// A sample with its arrays packed differently.
    #[cfg(feature = "arrays")]
    packed: Vec<u8>,
    #[cfg(feature = "arrays")]
    tally: ArrayTally,
    key_set: KeySet,
    /// The lengths of a sample.
    row: Vec<u32>,
    broken: bool,
    /// Whether there are samples from before that stay even if this writer fails.
    keep: bool,
    /// Taken when the writing ends.
    open: Option<Open>,
}

/// How a writer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    New,
    /// Behind the bytes that are there.
    Appended(u64),
    /// The same, with samples that stay even if this one fails.
    Resumed(u64),
}

impl Start {
    /// Bytes of the data file that are there already.
    fn at(self) -> u64 {
        match self {
            Start::New => 0,
            Start::Appended(at) | Start::Resumed(at) => at,
        }
    }

    fn is_resumed(self) -> bool {
        matches!(self, Start::Resumed(_))
    }
}

/// The files of a writer that is not finished.
struct Open {
    /// A process that is forked from this one leaves them alone.
    process: u32,
    destination: Destination,
    journal: Journal,
    data: Pipeline,
    spools: Spools,
}

/// Collected while writing, for the side files.
struct Spools {
    offsets: OffsetSpool,
    keys: KeySpool,
    ahead: Ahead,
    checksums: Option<ChecksumSpool>,
    lengths: Option<LengthsSpool>,
}

impl Spools {
    /// Adds a sample that ends here in the data.
    #[inline]
    fn note(&mut self, key: &str, end: u64, checksum: u32, lengths: &[u32]) -> Result<()> {
        self.note_key(key, end)?;
        self.note_numbers(checksum, lengths, end)
    }

    /// The same, without its checksum and lengths.
    #[inline]
    fn note_key(&mut self, key: &str, end: u64) -> Result<()> {
        self.offsets.push(end)?;
        self.keys.push(key)?;
        self.ahead.push(key);
        Ok(())
    }

    #[inline]
    fn note_numbers(&mut self, checksum: u32, lengths: &[u32], end: u64) -> Result<()> {
        if let Some(checksums) = &mut self.checksums {
            checksums.push(checksum, end)?;
        }
        match &mut self.lengths {
            Some(spool) => spool.push(lengths),
            None => Ok(()),
        }
    }

    /// Adds the key of a sample that ends here in the data, with this index, unless the key exists.
    /// An inner error leaves all as it was; after an outer one the files may have any part of it.
    ///
    /// Known keys are in memory that is seldom in a cache. So the caller [prefetches
    /// it](KeySet::prepare) as soon as there may be a key, and the key is noted before the answer
    /// arrives: nearly every key is new.
    #[inline]
    fn note_new(
        &mut self,
        key_set: &KeySet,
        hash: KeyHash,
        (key, end): (&str, u64),
        index: u64,
    ) -> Result<Result<()>> {
        if let Err(full) = check_limits(key, index) {
            return Ok(Err(full));
        }
        self.note_key(key, end)?;
        if key_set.may_have(hash) {
            if let Some(index) = self.find_noted(key_set, hash, (key, end))? {
                return Ok(Err(duplicate(key, index)));
            }
        }
        Ok(Ok(()))
    }

    /// The index under which the key that was noted last is there already. It is taken back then.
    #[cold]
    #[inline(never)]
    fn find_noted(
        &mut self,
        key_set: &KeySet,
        hash: KeyHash,
        (key, end): (&str, u64),
    ) -> Result<Option<u32>> {
        self.offsets.take_back();
        self.keys.take_back();
        self.ahead.take_back();
        // To read a key back those before it are written, maybe in part.
        let found = key_set.find(hash, |index| self.keys.is(index, key))?;
        if found.is_none() {
            self.note_key(key, end)?;
        }
        Ok(found)
    }
}

impl Writer {
    /// Starts a new dataset with the default options. See [`WriterOptions::create`].
    pub fn create(path: impl AsRef<Path>) -> Result<Writer> {
        Writer::options().create(path)
    }

    /// Continues a finished dataset. See [`WriterOptions::append`].
    pub fn append(path: impl AsRef<Path>) -> Result<Writer> {
        Writer::options().append(path)
    }

    /// The options, to be changed before [`create`](WriterOptions::create) or
    /// [`append`](WriterOptions::append).
    pub fn options() -> WriterOptions {
        WriterOptions::default()
    }

    fn start(
        options: WriterOptions,
        path: &Path,
        destination: Destination,
        journal: Journal,
        data: Box<dyn Sink>,
        start: Start,
    ) -> Result<Writer> {
        let staging = destination.staging();
        let spool =
            |file| -> Result<Spool> { Ok(Spool::new(staging.path(file), staging.create(file)?)) };
        let spools = || {
            let offsets = OffsetSpool::new(spool(SideFile::Offsets)?)?;
            let keys = KeySpool::new(options.storage.clone(), spool(SideFile::Keys)?)?;
            let checksums = match options.checksums {
                true => Some(ChecksumSpool::new(spool(SideFile::Crc)?)?),
                false => None,
            };
            let names = options.names_of_lengths();
            let lengths = match names.is_empty() {
                true => None,
                false => Some(LengthsSpool::new(spool(SideFile::Lengths)?, names)),
            };
            // Where there is data already, all of it is hashed in one go at the end.
            let digest = options.digests && start == Start::New;
            let data = Pipeline::start(data, start.at(), digest).map_err(|e| e.shown_at(path))?;
            let ahead = Ahead::new(options.hash_many);
            Ok((Spools { offsets, keys, ahead, checksums, lengths }, data))
        };
        let (spools, data) = match spools() {
            Ok(files) => files,
            Err(error) if start.is_resumed() => return Err(error),
            Err(error) => return Err(gave_up(destination, error)),
        };
        Ok(Writer {
            options,
            path: path.to_path_buf(),
            samples_before: journal.base.map_or(0, |base| base.samples),
            samples: 0,
            bytes: 0,
            #[cfg(feature = "arrays")]
            packed: Vec::new(),
            #[cfg(feature = "arrays")]
            tally: ArrayTally::default(),
            key_set: KeySet::new(),
            row: Vec::new(),
            broken: false,
            keep: start.is_resumed(),
            open: Some(Open { process: std::process::id(), destination, journal, data, spools }),
        })
    }

    /// Writes a sample: anything that serialises to a map with a string `key`.
    ///
    /// Structs become maps, in the order of their fields. `Vec<u8>` is a list of integers to
    /// serde: use `serde_bytes` for bytes.
    ///
    /// # Errors
    ///
    /// [`DuplicateKey`](ErrorKind::DuplicateKey) and [`Invalid`](ErrorKind::Invalid) (no map, no
    /// `key`, or one that is no string) leave the writer as it was, and so does a sample without
    /// [lengths](WriterOptions::lengths) that are asked for, with the error of its [`Measure`].
    pub fn write<T: Serialize + ?Sized>(&mut self, sample: &T) -> Result<()> {
        self.pack(|packed| msgpack::pack_into(sample, packed))
    }

    /// Writes a sample that is a dynamic value: a map with a string `key`.
    ///
    /// # Errors
    ///
    /// As for [`write`](Self::write).
    pub fn write_value(&mut self, sample: &Value) -> Result<()> {
        self.pack(|packed| {
            msgpack::encode(sample, packed)
                .map_err(|e| Error::new(ErrorKind::Invalid, e.to_string()))
        })
    }

    /// Writes a sample that is packed already, after checking that it is exactly one well-formed
    /// msgpack map whose `key` is this one.
    ///
    /// # Errors
    ///
    /// As for [`write`](Self::write).
    #[inline]
    pub fn write_raw(&mut self, key: &str, packed: &[u8]) -> Result<()> {
        let found = msgpack::sample::check_new(packed).map_err(|e| invalid(e).with_key(key))?;
        if found != key {
            let message = format!("expected a sample with this key, found one with {found:?}");
            return Err(Error::new(ErrorKind::Invalid, message).with_key(key));
        }
        self.put(key, packed)
    }

    /// Writes a sample that is packed already, by the key it has.
    ///
    /// # Errors
    ///
    /// As for [`write`](Self::write).
    #[inline]
    pub fn write_packed(&mut self, packed: &[u8]) -> Result<()> {
        let key = msgpack::sample::check_new(packed).map_err(invalid)?;
        self.put(key, packed)
    }

    /// Writes bytes as a sample without looking at them, as Python's `RawWriter` does. Bytes that
    /// are not a msgpack map with this key can be read back as bytes only, and `verify` will
    /// object.
    ///
    /// # Errors
    ///
    /// [`DuplicateKey`](ErrorKind::DuplicateKey).
    #[inline]
    pub fn write_raw_unchecked(&mut self, key: &str, packed: &[u8]) -> Result<()> {
        self.put(key, packed)
    }

    /// Writes what this packs, right where it goes.
    fn pack(&mut self, encode: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
        #[cfg(feature = "arrays")]
        if let Some(policy) = self.options.arrays.clone() {
            return self.pack_recoded(encode, &policy);
        }
        let Open { data, spools, .. } = open(&mut self.open, self.broken, &self.path)?;
        encode(data.begin())?;
        let packed = data.begun();
        // Before it is certain that this is the key, and the only one.
        let likely = msgpack::sample::likely_key(packed);
        let prepared = self.key_set.prepare(likely);
        let key = key_of_encoded(packed).map_err(invalid)?;
        let is_it = std::ptr::eq(likely, key.as_bytes());
        let hash = if is_it { prepared } else { self.key_set.prepare(key.as_bytes()) };
        let sum = if self.options.checksums { crc::checksum(packed) } else { 0 };
        measure(&self.options.lengths, &mut self.row, key, packed)?;
        let end = self.bytes + packed.len() as u64;
        let noted = spools.note_new(&self.key_set, hash, (key, end), self.samples);
        self.broken = noted.is_err();
        noted??;
        let noted = spools.note_numbers(sum, &self.row, end);
        let noted = noted.and_then(|()| data.keep().map_err(|e| e.shown_at(&self.path)));
        self.count(hash, end, noted)
    }

    #[cfg(feature = "arrays")]
    fn pack_recoded(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<()>,
        policy: &ArrayPolicy,
    ) -> Result<()> {
        let mut packed = std::mem::take(&mut self.packed);
        packed.clear();
        let result = encode(&mut packed).and_then(|()| {
            let key = key_of_encoded(&packed).map_err(invalid)?;
            let mut tally = ArrayTally::default();
            let recoded =
                policy.recode(&packed, &mut tally).map_err(|error| error.with_key(key))?;
            self.put(key, &recoded)?;
            self.tally += tally;
            Ok(())
        });
        self.packed = packed;
        result
    }

    #[inline]
    fn put(&mut self, key: &str, packed: &[u8]) -> Result<()> {
        let hash = self.key_set.prepare(key.as_bytes());
        let sum = self.checksum(packed);
        measure(&self.options.lengths, &mut self.row, key, packed)?;
        let end = self.bytes + packed.len() as u64;
        let Open { data, spools, .. } = open(&mut self.open, self.broken, &self.path)?;
        let noted = spools.note_new(&self.key_set, hash, (key, end), self.samples);
        self.broken = noted.is_err();
        noted??;
        let queued = data.append(packed).map_err(|e| e.shown_at(&self.path));
        let noted = queued.and_then(|()| spools.note_numbers(sum, &self.row, end));
        self.count(hash, end, noted)
    }

    /// Counts a sample that is on its way, unless that failed.
    #[inline]
    fn count(&mut self, hash: KeyHash, end: u64, noted: Result<()>) -> Result<()> {
        self.broken = noted.is_err();
        noted?;
        // Fits: `check_limits` checks, and a reader has no more.
        self.key_set.insert(hash, self.samples as u32);
        self.samples += 1;
        self.bytes = end;
        Ok(())
    }

    /// The checksum of a sample, if there are to be any.
    #[inline]
    fn checksum(&self, packed: &[u8]) -> u32 {
        if self.options.checksums { crc::checksum(packed) } else { 0 }
    }

    /// Adds a sample whose bytes are there to the side files, with the lengths that were just measured.
    fn note(&mut self, key: &str, end: u64, checksum: u32) -> Result<()> {
        let hash = self.key_set.hash(key.as_bytes());
        let spools = &mut open(&mut self.open, self.broken, &self.path)?.spools;
        let noted = spools.note(key, end, checksum, &self.row);
        self.count(hash, end, noted)
    }

    /// Adds all samples of the dataset that is being appended to.
    fn note_all(&mut self, old: &DatasetReader) -> Result<()> {
        let known = match self.options.checksums {
            true => old.find_checksums()?.current(),
            false => None,
        };
        if self.options.checksums && known.is_none() && !self.options.digests {
            // Otherwise the end of the writing compares them.
            self.compare_digest(old)?;
        }
        for (index, key) in old.keys().enumerate() {
            let sum = match &known {
                Some(known) => known.get(index)?,
                None if self.options.checksums => crc::checksum(&old.get_raw(index)?),
                None => 0,
            };
            let key = key?;
            if !self.options.lengths.is_empty() {
                let sample = old.get_raw(index)?;
                let measured = measure(&self.options.lengths, &mut self.row, &key, &sample);
                measured.map_err(|error| old.locate(index).describe(error))?;
            }
            self.note(&key, old.byte_range(index)?.end, sum)?;
        }
        Ok(())
    }

    /// Refuses data that does not match its MD5, if there is one.
    fn compare_digest(&self, old: &DatasetReader) -> Result<()> {
        let recorded = index::recorded_md5(&self.options.storage, &self.path)?;
        let Some(recorded) = recorded else { return Ok(()) };
        let mut md5 = Md5::new();
        let range = 0..old.data_len();
        if let Some(data) = old.data() {
            index::digest_into(&mut md5, data, range.clone())?;
        }
        if md5.finish() != recorded {
            let message =
                "the data before the append does not match its MD5: nothing was published";
            return Err(Error::new(ErrorKind::Damaged, message).at(&self.path).with_range(range));
        }
        Ok(())
    }

    #[inline]
    fn find(&mut self, key: &str, hash: KeyHash) -> Result<Option<u32>> {
        let spools = &mut open(&mut self.open, self.broken, &self.path)?.spools;
        let found = self.key_set.find(hash, |index| spools.keys.is(index, key));
        // To read a key back those before it are written, maybe in part.
        self.broken = found.is_err();
        found
    }

    /// The data file of the dataset.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Samples so far, those from before an append included.
    pub fn len(&self) -> u64 {
        self.samples
    }

    /// Whether there are no samples yet.
    pub fn is_empty(&self) -> bool {
        self.samples == 0
    }

    /// Bytes of data so far, those from before an append included.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How arrays were stored, if [`WriterOptions::arrays`] applies to them.
    #[cfg(feature = "arrays")]
    pub fn arrays(&self) -> &ArrayTally {
        &self.tally
    }

    /// Whether a sample with this key was written.
    pub fn contains_key(&mut self, key: &str) -> Result<bool> {
        Ok(self.find(key, self.key_set.hash(key.as_bytes()))?.is_some())
    }

    /// The index of the sample that has this key, and its bytes, unless they were sent to an object store.
    #[cfg(feature = "convert")]
    pub(crate) fn earlier(&mut self, key: &str) -> Result<Option<(u64, Option<Vec<u8>>)>> {
        let Some(index) = self.find(key, self.key_set.hash(key.as_bytes()))?.map(u64::from) else {
            return Ok(None);
        };
        let storage = self.options.storage.clone();
        let files = open(&mut self.open, self.broken, &self.path)?;
        if !files.destination.keeps_samples() {
            return Ok(Some((index, None)));
        }
        files.data.flush(false).map_err(|e| e.shown_at(&self.path))?;
        let range = files.spools.offsets.range(&*storage, index)?;
        let data = files.destination.data(&*storage, &self.path)?;
        let bytes = data.map(|data| data.read(range).map(|bytes| bytes.to_vec())).transpose()?;
        Ok(Some((index, bytes)))
    }

    /// The names of the numeric labels, in the order of their numbers, from 0: `NAME.labels` is published with the
    /// dataset, in one step, with one name a line. `None` means that there is to be no such file.
    /// Without a call, an append keeps the file, and a dataset that replaces another has none.
    ///
    /// A write that was cut short has these names when a repair finishes it.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a name with a line end.
    pub fn set_labels<S: AsRef<str>>(&mut self, names: Option<&[S]>) -> Result<()> {
        let text = names.map(labels::render).transpose()?;
        let files = open(&mut self.open, self.broken, &self.path)?;
        files.destination.staging().set_labels(&mut files.journal, text.as_deref())
    }

    /// Whether what is [flushed](Self::flush) can be kept when the writer ends before its end.
    #[cfg(feature = "convert")]
    pub(crate) fn keeps_samples(&self) -> bool {
        self.open.as_ref().is_some_and(|files| files.destination.keeps_samples())
    }

    /// Waits until all samples so far are in the file: if the process dies, a repair finds
    /// them.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](ErrorKind::Unsupported) where it goes to an object store, in which nothing is
    /// there before it is finished.
    pub fn flush(&mut self) -> Result<()> {
        let data = &mut kept_files(&mut self.open, self.broken, &self.path)?.data;
        data.flush(false).map_err(|e| e.shown_at(&self.path))
    }

    /// Waits until all samples so far are on disk: a repair finds them after a power failure
    /// too.
    ///
    /// # Errors
    ///
    /// As for [`flush`](Self::flush).
    pub fn sync(&mut self) -> Result<()> {
        let data = &mut kept_files(&mut self.open, self.broken, &self.path)?.data;
        data.flush(true).map_err(|e| e.shown_at(&self.path))
    }

    /// Room for temporary files of this write. They are next to the dataset, so a repair after a
    /// killed writer removes them too.
    pub(crate) fn scratch(&mut self) -> Result<Scratch> {
        Ok(open(&mut self.open, self.broken, &self.path)?.destination.staging().scratch())
    }

    /// Makes the side files and publishes the dataset.
    ///
    /// # Errors
    ///
    /// Nothing was published if this fails, and the samples stay to be [repaired](crate::repair);
    /// unless the message says that the dataset is published and only tidying up failed, or that
    /// taking the publication back failed as well: a repair completes both. Where all samples are in
    /// the file and the rest failed, such as for want of room, there is [`Remedy::Repair`].
    pub fn finish(self) -> Result<Stats> {
        self.end(true)
    }

    /// As [`finish`](Self::finish), for samples that can be made again: after an error nothing is left of
    /// them, unless they are complete.
    pub(crate) fn finish_whole(self) -> Result<Stats> {
        self.end(false)
    }

    fn end(mut self, keeps_part: bool) -> Result<Stats> {
        let files = open(&mut self.open, self.broken, &self.path)?;
        if files.process != std::process::id() {
            let message = "a forked process cannot finish what its parent writes";
            return Err(Error::new(ErrorKind::Unsupported, message).at(&self.path));
        }
        // No longer needed, and the next step wants the memory.
        self.key_set = KeySet::new();
        let Some(files) = self.open.take() else { return Err(over(&self.path)) };
        let publication = Publication { path: &self.path, options: &self.options };
        let md5 = publication
            .run(files, self.samples, self.bytes)
            .map_err(|e| self.left(e.at(&self.path), keeps_part))?;
        Ok(Stats { samples: self.samples, bytes: self.bytes, md5 })
    }

    /// Says what is left after an error at the end. Output that may lack samples is removed, unless it has to
    /// be kept.
    fn left(&self, error: Error, keeps_part: bool) -> Error {
        let left = staging::unfinished(&self.options.storage, &self.path);
        let Ok(Some((staging, Unfinished::Uncommitted(journal)))) = left else { return error };
        let dir = staging::dir_of(&self.path);
        let nothing = "nothing was published";
        if matches!(staging.complete(&journal), Ok(Some(_))) {
            let note = format_args!("{nothing}, and the samples stay in {}", Shown::of(&dir));
            return error.note(note).with_remedy(Remedy::Repair(self.path.clone()));
        }
        if !keeps_part && !self.keep && staging.abort().is_ok() {
            return error.note(nothing);
        }
        error.note(format_args!(
            "{nothing}, and those samples that reached the file stay in {}",
            Shown::of(&dir)
        ))
    }

    /// Removes everything this writer wrote.
    pub fn abort(mut self) -> Result<()> {
        self.open.take().map_or(Ok(()), |files| files.stop().abort())
    }
}

impl Open {
    /// Ends the threads, after they have written what they have.
    fn stop(self) -> Destination {
        // Failures cannot be reported from here; a repair finds them.
        let _ = self.data.finish();
        self.destination
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let nothing_new = self.samples == self.samples_before;
        if let Some(files) = self.open.take() {
            if files.process != std::process::id() {
                // The files, the threads and the upload belong to the parent.
                return std::mem::forget(files);
            }
            let destination = files.stop();
            if nothing_new && !self.keep {
                // Failing leaves a directory that says what it is.
                let _ = destination.abort();
            }
        }
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Writer({}, {} samples)", Shown::of(&self.path), self.samples)
    }
}

/// Tidies up after an error before any sample was written; the first error is the one to tell.
fn gave_up(destination: Destination, error: Error) -> Error {
    let _ = destination.abort();
    error
}

/// The files of a writer that can still write.
#[inline]
fn open<'a>(files: &'a mut Option<Open>, broken: bool, path: &Path) -> Result<&'a mut Open> {
    files.as_mut().filter(|_| !broken).ok_or_else(|| over(path))
}

/// The same where what is written so far can be kept.
fn kept_files<'a>(files: &'a mut Option<Open>, broken: bool, path: &Path) -> Result<&'a mut Open> {
    let files = open(files, broken, path)?;
    files.destination.check_keeps_samples(path)?;
    Ok(files)
}

#[cold]
fn over(path: &Path) -> Error {
    let message = "an earlier write failed: the written samples stay until it is repaired";
    Error::new(ErrorKind::Io, message).at(path)
}

/// Measures a sample, which is refused if it has no such number.
#[inline]
fn measure(
    columns: &[Arc<dyn Measure>],
    row: &mut Vec<u32>,
    key: &str,
    packed: &[u8],
) -> Result<()> {
    row.clear();
    for column in columns {
        row.push(column.of(packed).map_err(|error| error.with_key(key))?);
    }
    Ok(())
}

/// Refuses one sample too many, and a key that is too long.
#[inline]
fn check_limits(key: &str, samples: u64) -> Result<()> {
    staging::check_count(samples)?;
    if u32::try_from(key.len()).is_err() {
        let message = "a key is at most 4,294,967,295 bytes long";
        return Err(Error::new(ErrorKind::Limit, message));
    }
    Ok(())
}

#[cold]
fn duplicate(key: &str, index: u32) -> Error {
    let message = format!("sample {index} has the same key; nothing was written");
    Error::new(ErrorKind::DuplicateKey, message).with_key(key)
}

/// The key of what an encoder made, which is well-formed: only what it may not know is checked,
/// that it is a map with a key and not nested deeper than a reader can follow. The latter takes a
/// byte a level. Not inlined: it would take the registers of the caller's loop.
#[inline(never)]
fn key_of_encoded(packed: &[u8]) -> Result<&str, FormatError> {
    if packed.len() > msgpack::MAX_DEPTH {
        msgpack::Cursor::new(packed).skip()?;
    }
    let missing = || FormatError::new(0, "a map with the key \"key\"", "one without");
    msgpack::sample::new_key(packed)?.ok_or_else(missing)
}

fn invalid(error: FormatError) -> Error {
    Error::new(ErrorKind::Invalid, format!("not a sample: {error}"))
}

#[cfg(test)]
mod tests;
