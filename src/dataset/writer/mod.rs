//! Writing: samples in, a published dataset out.
//!
//! A [`Writer`] packs samples, refuses what the format cannot hold, and streams them to a
//! directory beside the dataset; [`Writer::finish`] makes the side files and publishes all of them.
//! Until then, and after a crash at any point, the dataset that was there before is still there.
//! The steps of the publication, and what it cannot promise, are in `staging/mod.rs`.
//!
//! The files are the same, byte for byte, as Python datadings writes for the same samples; only
//! [`WriterOptions::arrays`] stores arrays as it does not.
//!
//! # Costs
//!
//! About ten bytes of memory a sample while writing (to refuse duplicates), sixteen while
//! finishing, and some megabytes of buffers; keys and offsets are on disk. MD5 runs
//! beside packing and writing, on a thread of its own. It is the limit for large samples: see
//! [`WriterOptions::digests`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use md5::{Digest as _, Md5};
use serde::Serialize;

use super::index::{self, HashMany};
use super::reader::DatasetReader;
use super::staging::{
    self, Base, ChecksumSpool, Journal, KeySpool, Labels, OffsetSpool, Scratch, Spool, Staging,
    Unfinished,
};
use crate::array::{ArrayPolicy, ArrayTally};
use crate::error::{Error, ErrorKind, Result};
use crate::format::FormatError;
use crate::format::dataset::{SideFile, crc};
use crate::format::msgpack::{self, Value};
use crate::storage::{FileKind, LocalStorage, Storage};

use super::files::DatasetFile;
use super::walk::whole_samples;

mod key_set;
mod pipeline;
mod publication;

use key_set::KeySet;
use pipeline::Pipeline;
use publication::Publication;

/// How to write: what to make, and whether an existing dataset may be replaced.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("train.msgpack");
/// let mut writer = kiste::Writer::options().overwrite(true).digests(false).create(&path)?;
/// writer.write_raw("a", b"\x81\xa3key\xa1a")?;
/// assert_eq!(writer.finish()?.samples, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct WriterOptions {
    overwrite: bool,
    digests: bool,
    lookup: bool,
    checksums: bool,
    durable: bool,
    arrays: Option<Arc<ArrayPolicy>>,
    storage: Arc<dyn Storage>,
    hash_many: HashMany,
}

impl Default for WriterOptions {
    fn default() -> Self {
        WriterOptions {
            overwrite: false,
            digests: true,
            lookup: false,
            checksums: false,
            durable: true,
            arrays: None,
            storage: Arc::new(LocalStorage::mapped()),
            hash_many: index::hash_keys,
        }
    }
}

impl WriterOptions {
    /// Replaces an existing dataset when the new one is finished, and discards what a writer that
    /// died left behind. Default: no, both are errors.
    pub fn overwrite(mut self, yes: bool) -> Self {
        self.overwrite = yes;
        self
    }

    /// Writes `.md5`. One MD5 stream makes some 600 MB/s, which bounds the writing of large
    /// samples; without it the digests can be added later (`kiste index`). Default: yes.
    pub fn digests(mut self, yes: bool) -> Self {
        self.digests = yes;
        self
    }

    /// Writes the accelerator `.lookup`, which spares readers of very many keys the table they
    /// otherwise build in memory. Default: no.
    pub fn lookup(mut self, yes: bool) -> Self {
        self.lookup = yes;
        self
    }

    /// Writes `.crc`, a checksum of each sample: where `.md5` says that some byte is wrong, it says
    /// in which samples, and proves the others whole ([`verify`](crate::verify::verify),
    /// [`salvage`](crate::repair::salvage), [`ReaderOptions::checksums`]). It takes four bytes a
    /// sample, and next to no time. Default: no.
    ///
    /// [`ReaderOptions::checksums`]: crate::dataset::ReaderOptions::checksums
    pub fn checksums(mut self, yes: bool) -> Self {
        self.checksums = yes;
        self
    }

    /// Syncs files and directories, so that a finished dataset survives a power failure, not only
    /// the death of the process. Default: yes.
    pub fn durable(mut self, yes: bool) -> Self {
        self.durable = yes;
        self
    }

    /// How arrays are stored that are written by value, with [`write`](Writer::write) or
    /// [`write_value`](Writer::write_value). What is packed already is passed through: that is for
    /// [`ArrayPolicy::recode`]. Default: as they serialise, which is plain for all but a
    /// [`PackedArray`](crate::array::PackedArray).
    pub fn arrays(mut self, policy: ArrayPolicy) -> Self {
        self.arrays = Some(Arc::new(policy));
        self
    }

    /// Where these options write.
    pub(super) fn storage_of(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// Where to write. Default: the local file system.
    pub fn storage(mut self, storage: Arc<dyn Storage>) -> Self {
        self.storage = storage;
        self
    }

    /// Whether it may replace what is there.
    pub(crate) fn overwrites(&self) -> bool {
        self.overwrite
    }

    /// Where it is written.
    pub(crate) fn shared_storage(&self) -> Arc<dyn Storage> {
        self.storage.clone()
    }

    #[cfg(test)]
    pub(crate) fn hash_many(mut self, hash_many: HashMany) -> Self {
        self.hash_many = hash_many;
        self
    }

    /// Starts a new dataset. Missing parent directories are created.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) without [`overwrite`](Self::overwrite);
    /// [`Interrupted`](ErrorKind::Interrupted) if a writer died here before;
    /// [`Locked`](ErrorKind::Locked) if one is at work;
    /// [`Invalid`](ErrorKind::Invalid) for a name that ends like a side file.
    pub fn create(self, path: impl AsRef<Path>) -> Result<Writer> {
        let path = path.as_ref();
        check_name(path)?;
        let old = self.storage.stat(path)?;
        if old.is_some_and(|old| old.is_dir()) {
            let message = "there is a directory of this name";
            return Err(Error::new(ErrorKind::AlreadyExists, message).at(path));
        }
        if self.overwrite {
            discard_unfinished(&self.storage, path)?;
        } else {
            self.refuse_existing(path)?;
        }
        let staging = Staging::begin(self.storage.clone(), path, self.durable)?;
        // Another writer may have finished before this one had the lock.
        if let (false, Err(error)) = (self.overwrite, self.refuse_existing(path)) {
            staging.abort()?;
            return Err(error);
        }
        let mut journal =
            Journal::samples(None, self.digests, self.lookup).replacing(self.overwrite);
        journal.checksums = self.checksums;
        // The names of the labels belong to the dataset that is replaced.
        if old.is_some() {
            journal.labels = Labels::Go;
        }
        let begun = || {
            let journal = staging.journal(journal, staging.observe()?)?;
            Ok((journal, staging.create(DatasetFile::Data)?))
        };
        match begun() {
            Ok((journal, data)) => Writer::start(self, path, staging, journal, data, Start::New),
            Err(error) => Err(gave_up(staging, error)),
        }
    }

    fn refuse_existing(&self, path: &Path) -> Result<()> {
        if self.storage.stat(path)?.is_some() {
            let message = "the dataset exists already and overwriting it was not asked for";
            return Err(Error::new(ErrorKind::AlreadyExists, message).at(path));
        }
        Ok(())
    }

    /// Continues a write that was cut short: all whole samples that had reached the file are kept,
    /// and more can be written. Digests, accelerator and checksums are made as that write had been asked to.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) if nothing was left here, [`Locked`](ErrorKind::Locked)
    /// if its writer is alive, [`Invalid`](ErrorKind::Invalid) if all that is missing is to publish
    /// it ([`repair::finish`](crate::repair::finish)).
    pub fn resume(self, path: impl AsRef<Path>) -> Result<Writer> {
        self.resume_until(path.as_ref(), |new| new.len() as u64)
    }

    /// As [`resume`](Self::resume), but of the data that had reached the file only as many bytes
    /// as `until` says of them, which must be the end of a sample.
    pub(crate) fn resume_until(
        mut self,
        path: &Path,
        until: impl FnOnce(&[u8]) -> u64,
    ) -> Result<Writer> {
        let (staging, journal) = match staging::unfinished(&self.storage, path)? {
            Some((staging, Unfinished::Uncommitted(journal))) if !journal.side_files_only => {
                (staging, journal)
            }
            // Its writer died before it had written anything: nothing is lost by tidying up.
            Some((staging, Unfinished::Nothing)) => {
                staging.abort()?;
                return Err(nothing_unfinished(path));
            }
            Some(_) => {
                let message = "there are no samples to continue with";
                return Err(Error::new(ErrorKind::Invalid, message).at(path));
            }
            None => return Err(nothing_unfinished(path)),
        };
        if let Some(why) = staging.rewritten(&journal)? {
            let message = staging::overtaken_message(&why);
            return Err(Error::new(ErrorKind::Foreign, message).at(path));
        }
        self.digests &= journal.digests;
        self.lookup |= journal.lookup;
        self.checksums |= journal.checksums;
        staging.discard_side_files()?;
        staging.scratch().clear()?;
        let data_path = match journal.base {
            Some(_) => path.to_path_buf(),
            None => staging.path(DatasetFile::Data),
        };
        // The writer may have died before it created the file.
        if self.storage.stat(&data_path)?.is_none() {
            staging.create(DatasetFile::Data)?;
        }
        let storage = self.storage.clone();
        let old = match journal.base {
            Some(_) => Some(DatasetReader::options().storage(storage.clone()).open(path)?),
            None => None,
        };
        let start = journal.base.map_or(0, |base| base.bytes);
        let data = storage.open(&data_path)?;
        let bytes = data.read(start..data.len().max(start))?;
        let until = usize::try_from(until(&bytes)).unwrap_or(usize::MAX).min(bytes.len());
        let whole = whole_samples(&bytes[..until]).last().map_or(0, |(_, range)| range.end);
        let end = start + whole;
        // No byte beyond is looked at again, as in a moment it is no longer in the file.
        let bytes = &bytes[..whole as usize];
        // Cut first: what is appended goes to where the file ended when it was opened.
        let mut sink = storage.reopen(&data_path)?;
        sink.set_len(end)?;
        let mut writer = Writer::start(self, path, staging, journal, sink, Start::Resumed)?;
        if let Some(old) = &old {
            writer.note_all(old)?;
        }
        for (key, range) in whole_samples(bytes) {
            let sum = writer.checksum(&bytes[range.start as usize..range.end as usize]);
            writer.note(key, start + range.end, sum)?;
        }
        Ok(writer)
    }

    /// Continues a finished dataset: the result is the same as if it had been written in one go.
    ///
    /// An accelerator `.lookup` that is there is made again. New samples go behind the data that is
    /// there, so nothing large is copied; but the digest of the data needs all of it to be read
    /// again when [`digests`](Self::digests) is on. That pass also compares the old data with its
    /// digest, and refuses to bless damage.
    ///
    /// A `.crc` that is there gets the new samples and keeps the checksums of the old ones, which
    /// need not be read. Where it is damaged or of another version of the dataset, and where
    /// [`checksums`](Self::checksums) asks for one that is not there, the old samples are read.
    ///
    /// A symbolic link is followed: the dataset that it leads to is appended to, under its own
    /// name.
    ///
    /// # Errors
    ///
    /// Those of [`DatasetReader::open`] and [`create`](Self::create);
    /// [`Invalid`](ErrorKind::Invalid) if the data file has more than one name (hard links), as a
    /// copy made by `cp -l` has: what is appended to one is appended to all, whose side files know
    /// nothing of it.
    pub fn append(mut self, path: impl AsRef<Path>) -> Result<Writer> {
        let path = &*self.follow(path.as_ref())?;
        check_name(path)?;
        let lookup = SideFile::Lookup.path(path);
        self.lookup |= self.storage.stat(&lookup)?.is_some();
        let crc = SideFile::Crc.path(path);
        self.checksums |= self.storage.stat(&crc)?.is_some();
        let open = || DatasetReader::options().storage(self.storage.clone()).open(path);
        // What cannot be appended to is told before anything is made.
        let before = open()?;
        let staging = Staging::begin(self.storage.clone(), path, self.durable)?;
        let begun = || {
            // Another writer may have finished before this one had the lock.
            before.check_current()?;
            self.refuse_hard_links(path)?;
            let observed = staging.observe()?;
            let old = open()?;
            let base = Base { samples: old.len() as u64, bytes: old.data_len() };
            let journal = Journal::samples(Some(base), self.digests, self.lookup);
            let journal = staging.journal(journal.checksums(self.checksums), observed)?;
            let data = self.storage.reopen(path)?;
            // What is written goes to the file that was opened just now.
            match staging.rewritten(&journal)? {
                None => Ok((old, journal, data)),
                Some(why) => {
                    let message = format!("another program is writing this dataset: {why}");
                    Err(Error::new(ErrorKind::Foreign, message).at(path))
                }
            }
        };
        let (old, journal, data) = match begun() {
            Ok(begun) => begun,
            Err(error) => return Err(gave_up(staging, error)),
        };
        let mut writer = Writer::start(self, path, staging, journal, data, Start::Appended)?;
        match writer.note_all(&old) {
            Ok(()) => Ok(writer),
            Err(error) => {
                // The first error is the one to tell.
                let _ = writer.abort();
                Err(error)
            }
        }
    }
}

impl WriterOptions {
    /// The dataset that a symbolic link leads to; any other path stays as it is.
    fn follow(&self, path: &Path) -> Result<PathBuf> {
        if !self.storage.lstat(path)?.is_some_and(|stat| stat.kind == FileKind::Link) {
            return Ok(path.to_path_buf());
        }
        let real = self.storage.resolve(path)?;
        for file in SideFile::ALL {
            let (link, of_real) = (file.path(path), file.path(&real));
            let stat = |path: &Path| self.storage.stat(path);
            let Some(found) = stat(&link)? else { continue };
            if stat(&of_real)?.map(|stat| stat.id) != Some(found.id) {
                let message = format!(
                    "is next to a link to {}, whose own side files are next to it: append to that \
                     file",
                    real.display()
                );
                return Err(Error::new(ErrorKind::Invalid, message).at(link));
            }
        }
        Ok(real)
    }

    fn refuse_hard_links(&self, path: &Path) -> Result<()> {
        let stat = self.storage.stat(path)?;
        match stat.map_or(1, |stat| stat.links) {
            0 | 1 => Ok(()),
            links => {
                let message = format!(
                    "the data file has {links} names (hard links), and what is appended to one is \
                     appended to all: copy it, and append to the copy"
                );
                Err(Error::new(ErrorKind::Invalid, message).at(path))
            }
        }
    }
}

/// Tidies up after an error before any sample was written; the first error is the one to tell.
fn gave_up(staging: Staging, error: Error) -> Error {
    let _ = staging.abort();
    error
}

fn nothing_unfinished(path: &Path) -> Error {
    Error::new(ErrorKind::NotFound, "there is no unfinished write").at(path)
}

fn check_name(path: &Path) -> Result<()> {
    let named_like_ours = path.extension().is_some_and(|e| e == "partial");
    if SideFile::of(path).is_some() || named_like_ours || path.file_name().is_none() {
        let message = "a data file cannot be named like one of its side files";
        return Err(Error::new(ErrorKind::Invalid, message).at(path));
    }
    Ok(())
}

fn discard_unfinished(storage: &Arc<dyn Storage>, path: &Path) -> Result<()> {
    match staging::unfinished(storage, path)? {
        None => Ok(()),
        // It may hold the only whole dataset by now: complete it, then replace it. One that
        // another program has overtaken is about nothing that is still there.
        Some((staging, Unfinished::Committed)) => match staging.overtaken()? {
            None => staging.finish(),
            Some(_) => staging.undo(),
        },
        Some((staging, _)) => staging.abort(),
    }
}

/// What [`Writer::finish`] published.
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
/// // What the format cannot hold is refused, and the writer goes on.
/// let again = writer.write(&Digit { key: "3/0001.png", image: b"", label: 4 });
/// assert_eq!(again.unwrap_err().kind(), kiste::ErrorKind::DuplicateKey);
///
/// let stats = writer.finish()?;
/// assert_eq!(stats.samples, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A writer that is dropped without [`finish`](Writer::finish) publishes nothing. If it had
/// written samples, they stay in `NAME.partial` as if the process had been killed, for
/// `kiste repair`; [`abort`](Writer::abort) removes them.
pub struct Writer {
    options: WriterOptions,
    path: PathBuf,
    /// Samples of the dataset that is appended to.
    samples_before: u64,
    samples: u64,
    bytes: u64,
    packed: Vec<u8>,
    tally: ArrayTally,
    key_set: KeySet,
    broken: bool,
    /// Whether there are samples from before that stay whatever becomes of this writer.
    keep: bool,
    /// Taken by whatever ends the writing.
    open: Option<Open>,
}

/// How a writer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    New,
    Appended,
    /// With samples that stay even if this one fails.
    Resumed,
}

/// The files of a writer that is not finished.
struct Open {
    staging: Staging,
    journal: Journal,
    data: Pipeline,
    offsets: OffsetSpool,
    keys: KeySpool,
    checksums: Option<ChecksumSpool>,
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
        staging: Staging,
        journal: Journal,
        data: Box<dyn crate::storage::Sink>,
        start: Start,
    ) -> Result<Writer> {
        let spool =
            |file| -> Result<Spool> { Ok(Spool::new(staging.path(file), staging.create(file)?)) };
        let spools = || {
            let offsets = OffsetSpool::new(spool(SideFile::Offsets)?)?;
            let keys = KeySpool::new(options.storage.clone(), spool(SideFile::Keys)?)?;
            let checksums = match options.checksums {
                true => Some(ChecksumSpool::new(spool(SideFile::Crc)?)?),
                false => None,
            };
            // Where there is data already, all of it is hashed in one go at the end.
            let digest = options.digests && start == Start::New;
            let data = Pipeline::start(data, digest).map_err(|e| e.shown_at(path))?;
            Ok((offsets, keys, checksums, data))
        };
        let (offsets, keys, checksums, data) = match spools() {
            Ok(files) => files,
            Err(error) if start == Start::Resumed => return Err(error),
            Err(error) => return Err(gave_up(staging, error)),
        };
        Ok(Writer {
            options,
            path: path.to_path_buf(),
            samples_before: journal.base.map_or(0, |base| base.samples),
            samples: 0,
            bytes: 0,
            packed: Vec::new(),
            tally: ArrayTally::default(),
            key_set: KeySet::new(),
            broken: false,
            keep: start == Start::Resumed,
            open: Some(Open { staging, journal, data, offsets, keys, checksums }),
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
    /// `key`, or one that is no string) leave the writer as it was.
    pub fn write<T: Serialize + ?Sized>(&mut self, sample: &T) -> Result<()> {
        self.pack(|packed| {
            let mut serializer = rmp_serde::Serializer::new(packed).with_struct_map();
            sample
                .serialize(&mut serializer)
                .map_err(|e| Error::new(ErrorKind::Invalid, e.to_string()))
        })
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
        let found = msgpack::check_sample(packed).map_err(|e| invalid(e).with_key(key))?;
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
        let key = msgpack::check_sample(packed).map_err(invalid)?;
        self.put(key, packed)
    }

    /// Writes bytes as a sample without looking at them, as Python's `RawWriter` does. What is no
    /// msgpack map with this key can be read back as bytes only, and `verify` will object.
    ///
    /// # Errors
    ///
    /// [`DuplicateKey`](ErrorKind::DuplicateKey).
    #[inline]
    pub fn write_raw_unchecked(&mut self, key: &str, packed: &[u8]) -> Result<()> {
        self.put(key, packed)
    }

    fn pack(&mut self, encode: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
        let mut packed = std::mem::take(&mut self.packed);
        packed.clear();
        let result = encode(&mut packed).and_then(|()| {
            let key = key_of_encoded(&packed).map_err(invalid)?;
            match self.options.arrays.clone() {
                None => self.put(key, &packed),
                Some(policy) => self.put_recoded(key, &packed, &policy),
            }
        });
        self.packed = packed;
        result
    }

    fn put_recoded(&mut self, key: &str, packed: &[u8], policy: &ArrayPolicy) -> Result<()> {
        let mut tally = ArrayTally::default();
        let recoded = policy.recode(packed, &mut tally).map_err(|error| error.with_key(key))?;
        self.put(key, &recoded)?;
        self.tally += tally;
        Ok(())
    }

    #[inline]
    fn put(&mut self, key: &str, packed: &[u8]) -> Result<()> {
        if let Some(index) = self.find(key)? {
            let message = format!("sample {index} has the same key; nothing was written");
            return Err(Error::new(ErrorKind::DuplicateKey, message).with_key(key));
        }
        staging::check_count(self.samples)?;
        if u32::try_from(key.len()).is_err() {
            let message = "a key is at most 4,294,967,295 bytes long";
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let sum = self.checksum(packed);
        let path = &self.path;
        let queued = open(&mut self.open, self.broken, path)?.data.append(packed);
        let end = self.bytes + packed.len() as u64;
        let noted = queued.map_err(|e| e.shown_at(path)).and_then(|()| self.note(key, end, sum));
        self.broken = noted.is_err();
        noted
    }

    /// The checksum of a sample, if there are to be any.
    #[inline]
    fn checksum(&self, packed: &[u8]) -> u32 {
        if self.options.checksums { crc::checksum(packed) } else { 0 }
    }

    /// Adds a sample whose bytes are on their way to the side files.
    #[inline]
    fn note(&mut self, key: &str, end: u64, checksum: u32) -> Result<()> {
        let files = open(&mut self.open, self.broken, &self.path)?;
        files.offsets.push(end)?;
        files.keys.push(key)?;
        if let Some(checksums) = &mut files.checksums {
            checksums.push(checksum, end)?;
        }
        // Fits: `put` checks, and a reader has no more.
        self.key_set.insert(self.key_set.hash(key), self.samples as u32);
        self.samples += 1;
        self.bytes = end;
        Ok(())
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
            self.note(&key?, old.byte_range(index)?.end, sum)?;
        }
        Ok(())
    }

    /// Refuses data that does not match its MD5, if there is one.
    fn compare_digest(&self, old: &DatasetReader) -> Result<()> {
        let recorded = index::recorded_md5(&self.options.storage, &self.path)?;
        let Some(recorded) = recorded else { return Ok(()) };
        let mut md5 = Md5::new();
        let range = 0..old.data_len();
        index::digest_into(&mut md5, old.data(), range.clone())?;
        if <[u8; 16]>::from(md5.finalize()) != recorded {
            let message =
                "the data before the append does not match its MD5: nothing was published";
            return Err(Error::new(ErrorKind::Damaged, message).at(&self.path).with_range(range));
        }
        Ok(())
    }

    #[inline]
    fn find(&mut self, key: &str) -> Result<Option<u32>> {
        let keys = &mut open(&mut self.open, self.broken, &self.path)?.keys;
        let found = self.key_set.find(self.key_set.hash(key), |index| keys.is(index, key));
        // To read a key back those before it are written, maybe in part.
        self.broken = found.is_err();
        found
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

    /// What became of the arrays that [`WriterOptions::arrays`] was for.
    pub fn arrays(&self) -> &ArrayTally {
        &self.tally
    }

    /// Whether a sample with this key was written.
    pub fn contains_key(&mut self, key: &str) -> Result<bool> {
        Ok(self.find(key)?.is_some())
    }

    /// The names of the numeric labels, that of 0 first: `NAME.labels` is published with the
    /// dataset, in one step, with one name a line. `None` means that there is to be no such file.
    /// Without a call, an append keeps the file, and a dataset that replaces another has none.
    ///
    /// A write that was cut short has these names when `kiste repair` finishes it.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a name with a line end.
    pub fn set_labels<S: AsRef<str>>(&mut self, names: Option<&[S]>) -> Result<()> {
        let text = match names {
            None => None,
            Some(names) => {
                let mut text = String::new();
                for name in names.iter().map(AsRef::as_ref) {
                    if name.contains(['\n', '\r']) {
                        let message = format!("expected labels of one line each, found {name:?}");
                        return Err(Error::new(ErrorKind::Invalid, message));
                    }
                    text.push_str(name);
                    text.push('\n');
                }
                Some(text)
            }
        };
        let files = open(&mut self.open, self.broken, &self.path)?;
        files.staging.set_labels(&mut files.journal, text.as_deref())
    }

    /// Waits until all samples so far are in the file: if the process dies, `kiste repair` finds
    /// them.
    pub fn flush(&mut self) -> Result<()> {
        let data = &mut open(&mut self.open, self.broken, &self.path)?.data;
        data.flush(false).map_err(|e| e.shown_at(&self.path))
    }

    /// Waits until all samples so far are on disk: `kiste repair` finds them after a power failure
    /// too.
    pub fn sync(&mut self) -> Result<()> {
        let data = &mut open(&mut self.open, self.broken, &self.path)?.data;
        data.flush(true).map_err(|e| e.shown_at(&self.path))
    }

    /// Room for files that are needed only while this dataset is written. They are where it is
    /// written, so whoever cleans up after a dead writer removes them too.
    pub(crate) fn scratch(&mut self) -> Result<Scratch> {
        Ok(open(&mut self.open, self.broken, &self.path)?.staging.scratch())
    }

    /// Makes the side files and publishes the dataset.
    ///
    /// # Errors
    ///
    /// Nothing was published if this fails, and the samples stay for `kiste repair`; unless the
    /// message says that the dataset is published and only tidying up failed, or that taking the
    /// publication back failed as well: both are for `kiste repair` to complete.
    pub fn finish(mut self) -> Result<Stats> {
        open(&mut self.open, self.broken, &self.path)?;
        // No longer needed, and the next step wants the memory.
        self.key_set = KeySet::new();
        let Some(files) = self.open.take() else { return Err(over(&self.path)) };
        let publication = Publication { path: &self.path, options: &self.options };
        let md5 = publication.run(files, self.bytes).map_err(|e| self.kept(e.at(&self.path)))?;
        Ok(Stats { samples: self.samples, bytes: self.bytes, md5 })
    }

    /// Says where the samples are after an error at the end: whoever made them need not do so again.
    fn kept(&self, error: Error) -> Error {
        let (storage, path) = (&*self.options.storage, &self.path);
        let journal = staging::journal_of(storage, path);
        match (journal, staging::is_half_published(storage, path)) {
            (Ok(Some(_)), Ok(false)) => error.note(format_args!(
                "nothing was published, and the samples stay in {}",
                staging::dir_of(path).display()
            )),
            _ => error,
        }
    }

    /// Removes everything this writer wrote.
    pub fn abort(mut self) -> Result<()> {
        match self.open.take() {
            Some(files) => files.stop().abort(),
            None => Ok(()),
        }
    }
}

impl Open {
    /// Ends the threads, after they have written what they have.
    fn stop(self) -> Staging {
        // What failed cannot be told from here, and is found by `repair`.
        let _ = self.data.finish();
        self.staging
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let nothing_new = self.samples == self.samples_before;
        if let Some(files) = self.open.take() {
            let staging = files.stop();
            if nothing_new && !self.keep {
                // Failing leaves a directory that says what it is.
                let _ = staging.abort();
            }
        }
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Writer({}, {} samples)", self.path.display(), self.samples)
    }
}

/// The files of a writer that can still write.
#[inline]
fn open<'a>(files: &'a mut Option<Open>, broken: bool, path: &Path) -> Result<&'a mut Open> {
    files.as_mut().filter(|_| !broken).ok_or_else(|| over(path))
}

#[cold]
fn over(path: &Path) -> Error {
    let message = "an earlier write failed: what was written stays until it is repaired";
    Error::new(ErrorKind::Io, message).at(path)
}

/// The key of what an encoder made, which is well-formed: only what it may not know is checked,
/// that it is a map with a key and not nested deeper than a reader can follow. The latter takes a
/// byte a level.
#[inline]
fn key_of_encoded(packed: &[u8]) -> Result<&str, FormatError> {
    if packed.len() > msgpack::MAX_DEPTH {
        msgpack::Cursor::new(packed).skip()?;
    }
    let missing = || FormatError::new(0, "a map with the key \"key\"", "one without");
    msgpack::key(packed)?.ok_or_else(missing)
}

fn invalid(error: FormatError) -> Error {
    Error::new(ErrorKind::Invalid, format!("not a sample: {error}"))
}

#[cfg(test)]
mod tests;
