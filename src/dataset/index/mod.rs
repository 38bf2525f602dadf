//! Making side files: those that are missing, or all of them.
//!
//! The data alone is enough. A legacy `.index` is used if it exists, which saves the pass
//! over the data. The files are the same, byte for byte, as a writer's.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::{Digest, Digests, SideFile, crc, keys, legacy_index, offsets};
use crate::format::md5::Md5;
use crate::format::msgpack;
use crate::storage::{self, LocalStorage, Sink, Source, Storage};

use super::files::DatasetFile;
use super::names::names_index;
use super::passes::{HearBytes, Passes};
use super::staging::{ChecksumSpool, Journal, KeySpool, OffsetSpool, Spool, Staging};
use super::walk::messages;

mod hash_ahead;
mod by_hash;
mod build;
mod checksums;
mod collision;
mod digests;
mod evidence;
mod lengths;
mod lookup;
mod remote;

pub(crate) use build::{Build, Built, HashMany, Wanted, build, hash_keys, lookup_file};
pub(crate) use by_hash::by_hash;
use checksums::Samples;
pub(crate) use checksums::{
    Checksums, Found, checksum_of, checksum_of_offsets, damaged, open_checksums, recorded_md5,
    stale,
};
pub(crate) use digests::{digest, digest_into, read_digests};
pub(crate) use hash_ahead::{Ahead, Hashed};
pub(crate) use lengths::{FoundLengths, LengthsFile, check_names, stale_lengths, with_known};
pub use lengths::{KnownMeasure, Measure};
pub(crate) use lookup::wants_lookup;

/// Which side files to make.
#[derive(Debug, Clone)]
#[must_use]
pub struct IndexOptions {
    force: bool,
    trust_data: bool,
    lookup: Option<bool>,
    checksums: bool,
    lengths: Vec<Arc<dyn Measure>>,
    known_lengths: Option<KnownMeasure>,
    digests: bool,
    durable: bool,
    storage: Arc<dyn Storage>,
}

impl Default for IndexOptions {
    fn default() -> Self {
        let storage = Arc::new(LocalStorage::mapped());
        IndexOptions {
            force: false,
            trust_data: false,
            lookup: None,
            checksums: false,
            lengths: Vec::new(),
            known_lengths: None,
            digests: true,
            durable: true,
            storage,
        }
    }
}

/// The result of [`IndexOptions::build`].
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Indexed {
    /// Samples in the dataset.
    pub samples: u64,
    /// The files that were made.
    #[serde(serialize_with = "crate::error::serialize_paths")]
    pub made: Vec<PathBuf>,
    /// Columns that an outdated `.lengths` had, and the new one has not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped_lengths: Vec<String>,
}

impl IndexOptions {
    /// Rebuilds all files from the data. Default: only missing ones.
    ///
    /// Digests, checksums, offsets and keys that contradict the data are the only evidence of what is
    /// damaged or lost, so then nothing is rebuilt, unless [`trust_data`](Self::trust_data) says so.
    pub fn force(mut self, yes: bool) -> Self {
        self.force = yes;
        self
    }

    /// With [`force`](Self::force): takes the data as it is, and replaces what proves that it was
    /// another. Default: no.
    pub fn trust_data(mut self, yes: bool) -> Self {
        self.trust_data = yes;
        self
    }

    /// Makes the accelerator `.lookup` ([`WriterOptions::lookup`](crate::WriterOptions::lookup)): `true`
    /// always, also in place of one that is there, `false` never. `None` leaves it to the dataset, which is the
    /// default: a missing one is made from 1,024 samples on, and an existing one is rebuilt if it does not
    /// belong to these key hashes. At a URL `None` makes none.
    ///
    /// Where the key hashes are rebuilt, so is a `.lookup` that is there; with `false` it is removed.
    pub fn lookup(mut self, yes: impl Into<Option<bool>>) -> Self {
        self.lookup = yes.into();
        self
    }

    /// Also makes `.crc`, a checksum of each sample, unless there is one that is whole and of this
    /// data. With [`force`](Self::force) one that is there is always rebuilt. Default: no.
    ///
    /// Checksums say that the data is good, so it must be: it is compared with `.md5`, where that
    /// has a line for it, or else with the checksums that there are.
    pub fn checksums(mut self, yes: bool) -> Self {
        self.checksums = yes;
        self
    }

    /// Also makes `.lengths`, with these columns: numbers of each sample, by which batches are planned. Columns that
    /// are there stay, if the file is of this data. Of another version they are made again if they are
    /// [known](Self::known_lengths), and [go](Indexed::dropped_lengths) if not. With
    /// [`force`](Self::force) the columns that are asked for are always made again. Default: none.
    ///
    /// They are made last, once everything else is published. Of a manifest or a pattern each data file gets its own,
    /// and what else it lacks; of samples in place their index gets one.
    ///
    /// ```
    /// # #[cfg(feature = "arrays")] {
    /// use kiste::index::IndexOptions;
    /// use kiste::rearrange::LengthOf;
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("one.msgpack");
    /// # let mut writer = kiste::Writer::create(&path)?;
    /// # writer.write(&std::collections::BTreeMap::from([("key", "a"), ("text", "long")]))?;
    /// # writer.finish()?;
    /// let columns = ["len(text)", "bytes"].map(LengthOf::parse);
    /// let columns = columns.into_iter().collect::<Result<Vec<_>, _>>()?;
    /// let made = IndexOptions::default().lengths(columns).build(&path)?.made;
    /// assert!(made[0].ends_with("one.msgpack.lengths"));
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lengths<M: Measure + 'static>(mut self, columns: impl IntoIterator<Item = M>) -> Self {
        let columns = columns.into_iter().map(|column| Arc::new(column) as Arc<dyn Measure>);
        self.lengths.extend(columns);
        self
    }

    /// How columns of `.lengths` are made again that are known by their names, such as
    /// [`LengthOf::measure`](crate::rearrange::LengthOf::measure). Default: none is known.
    pub fn known_lengths(mut self, known: KnownMeasure) -> Self {
        self.known_lengths = Some(known);
        self
    }

    /// Also makes `.md5`. Default: yes.
    pub fn digests(mut self, yes: bool) -> Self {
        self.digests = yes;
        self
    }

    /// As [`WriterOptions::durable`](crate::WriterOptions::durable).
    pub fn durable(mut self, yes: bool) -> Self {
        self.durable = yes;
        self
    }

    /// Where the files are. Default: the local file system.
    pub fn storage(mut self, storage: Arc<dyn Storage>) -> Self {
        self.storage = storage;
        self
    }

    /// Makes the side files of a dataset, and publishes all of them or none. Of a dataset at a URL only a
    /// missing `.lookup` is made, if [it is asked for](Self::lookup), and everything else must be there.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("one.msgpack");
    /// std::fs::write(&path, b"\x81\xa3key\xa1a")?; // data alone is enough
    /// let made = kiste::index::IndexOptions::default().build(&path)?;
    /// assert_eq!((made.samples, made.made.len()), (1, 5));
    /// assert_eq!(kiste::DatasetReader::open(&path)?.find("a")?, Some(0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Damaged`](ErrorKind::Damaged) if the data is not samples from end to end, the legacy
    /// index does not fit it, or digests, checksums, offsets or keys contradict it;
    /// [`DuplicateKey`](ErrorKind::DuplicateKey);
    /// [`Interrupted`](ErrorKind::Interrupted) and [`Locked`](ErrorKind::Locked) as for a writer.
    pub fn build(self, path: impl AsRef<Path>) -> Result<Indexed> {
        self.build_with(path, &|_, _| Ok(()))
    }

    /// As [`build`](Self::build). `hear` is called with the bytes of the data that have been read, and that
    /// will be read in all passes. If it fails, nothing is published.
    ///
    /// # Errors
    ///
    /// The errors of [`build`](Self::build) and of `hear`.
    pub fn build_with(self, path: impl AsRef<Path>, hear: &HearBytes<'_>) -> Result<Indexed> {
        let path = path.as_ref();
        match self.lengths.is_empty() {
            true => self.build_others(path, hear),
            false => lengths::build(&self, path, hear),
        }
    }

    /// Makes all but lengths.
    fn build_others(&self, path: &Path, hear: &HearBytes<'_>) -> Result<Indexed> {
        if names_index(path) {
            let message = "the side files of samples in place are made together with their index";
            let error = Error::new(ErrorKind::Unsupported, message).at(path);
            return Err(error.advise("index the files again: kiste index --refresh"));
        }
        if storage::is_url(path) {
            return remote::build(self, path);
        }
        let planned = Rebuild::plan(self, path)?;
        if planned.make.is_empty() {
            let samples = samples(&*self.storage, path)?;
            return Ok(Indexed { samples, made: Vec::new(), dropped_lengths: Vec::new() });
        }
        let staging = Staging::begin(self.storage.clone(), path, self.durable);
        let staging = staging.map_err(|error| planned.cannot_begin(error))?;
        // The plan counts from here on: another writer may have finished before this.
        let stage = || -> Result<(Rebuild<'_>, Journal)> {
            let journal = staging.journal(Journal::side_files(), staging.observe()?)?;
            let mut rebuild = Rebuild::plan(self, path)?;
            rebuild.stage(&staging, hear)?;
            Ok((rebuild, journal))
        };
        match stage() {
            Ok((rebuild, journal)) => rebuild.publish(staging, &journal),
            Err(error) => {
                // The first error is the one to tell.
                let _ = staging.abort();
                Err(error.at(path))
            }
        }
    }
}

/// The number of samples by `.offsets`.
fn samples(storage: &dyn Storage, path: &Path) -> Result<u64> {
    let path = SideFile::Offsets.path(path);
    let stat = storage.stat(&path)?;
    Ok(stat.map_or(0, |stat| (stat.len / 8).saturating_sub(1)))
}

/// Whether there is a `.crc` that is whole, of this data, and knows its MD5 if that is known.
fn has_checksums(storage: &Arc<dyn Storage>, path: &Path, data_len: u64) -> Result<bool> {
    let md5 = recorded_md5(storage, path)?;
    let found = open_checksums(&**storage, path, || {
        let offsets_path = SideFile::Offsets.path(path);
        let file = storage.open(&offsets_path)?;
        let sum = checksum_of(&file, 0)?;
        Ok(of_data(&file, data_len, md5, sum))
    })?;
    Ok(found.current().is_some_and(|found| md5.is_none() || found.of().md5.is_some()))
}

/// Describes the data, as checksums of it do.
fn of_data(offsets: &Source, data_len: u64, md5: Option<[u8; 16]>, sum: u32) -> crc::Source {
    // A size that makes no sense fits no checksums.
    let count = offsets::count(offsets.len()).unwrap_or(u64::MAX);
    crc::Source { count, data_len, md5, offsets: sum }
}

/// Which files will be made, and from which data.
struct Rebuild<'a> {
    options: &'a IndexOptions,
    path: &'a Path,
    data: Source,
    make: Vec<SideFile>,
    legacy: bool,
}

impl<'a> Rebuild<'a> {
    fn plan(options: &'a IndexOptions, path: &'a Path) -> Result<Rebuild<'a>> {
        let storage = &options.storage;
        let exists = |file: SideFile| -> Result<bool> {
            let path = file.path(path);
            Ok(storage.stat(&path)?.is_some())
        };
        let data = storage.open(path)?;
        // Offsets and keys come from one pass, so one missing means both.
        let positions = options.force || !exists(SideFile::Offsets)? || !exists(SideFile::Keys)?;
        let mut make = Vec::new();
        for file in [SideFile::Offsets, SideFile::Keys] {
            if positions {
                make.push(file);
            }
        }
        for file in [SideFile::KeyHashes, SideFile::Filter] {
            if positions || !exists(file)? {
                make.push(file);
            }
        }
        let anew = make.contains(&SideFile::KeyHashes);
        let lookup = match options.lookup {
            Some(asked) => asked,
            // Nothing is uploaded unasked.
            None if storage.is_object_store() => false,
            None if exists(SideFile::Lookup)? => anew || !lookup::is_current(storage, path)?,
            // How many samples there are is known after the pass over the data.
            None if positions => false,
            None => wants_lookup(None, samples(&**storage, path)?),
        };
        if lookup {
            make.push(SideFile::Lookup);
        }
        let checksums = match (options.force, options.checksums) {
            (true, asked) => asked || exists(SideFile::Crc)?,
            (false, true) => positions || !has_checksums(storage, path, data.len())?,
            (false, false) => false,
        };
        if checksums {
            make.push(SideFile::Crc);
        }
        let sides = make.iter().any(|file| SideFile::WRITTEN.contains(file));
        if options.digests && (sides || !exists(SideFile::Md5)?) {
            make.push(SideFile::Md5);
        }
        let legacy = exists(SideFile::Index)? && !exists(SideFile::Offsets)?;
        let rebuild = Rebuild { options, path, data, make, legacy };
        if !options.force {
            rebuild.check_size()?;
        }
        Ok(rebuild)
    }

    fn makes(&self, file: SideFile) -> bool {
        self.make.contains(&file)
    }

    /// Adds a note if only an optional file was to be made.
    fn cannot_begin(&self, error: Error) -> Error {
        match (self.options.lookup, &*self.make) {
            (None, [SideFile::Lookup]) => {
                error.note("only .lookup was to be made, which is optional")
            }
            _ => error,
        }
    }

    fn publish(self, staging: Staging, journal: &Journal) -> Result<Indexed> {
        let publish: Vec<_> = self.make.iter().copied().map(DatasetFile::Side).collect();
        let mut remove = Vec::new();
        // A file that is rebuilt invalidates its old digest, and other hashes what was made from them.
        let sides = self.make.iter().any(|file| SideFile::WRITTEN.contains(file));
        let other_data = self.options.force && self.options.trust_data;
        for (outdated, file) in [
            (sides, SideFile::Md5),
            (self.makes(SideFile::KeyHashes), SideFile::Lookup),
            (other_data, SideFile::Lengths),
        ] {
            if outdated && !self.makes(file) {
                remove.push(file);
            }
        }
        staging.commit(journal, &publish, &remove)?;
        let samples = samples(&*self.options.storage, self.path)?;
        let made = self.make.iter().map(|file| file.path(self.path)).collect();
        Ok(Indexed { samples, made, dropped_lengths: Vec::new() })
    }

    fn stage(&mut self, staging: &Staging, hear: &HearBytes<'_>) -> Result<()> {
        let storage = &self.options.storage;
        let passes = [self.walks(), self.makes(SideFile::Crc), self.digests_data()?];
        let passes = passes.into_iter().filter(|needed| *needed).count() as u64;
        let passes = &Passes::new(self.data.len().saturating_mul(passes), hear);
        if self.makes(SideFile::Keys) {
            let samples = self.stage_positions(staging, passes)?;
            let unasked = self.options.lookup.is_none() && storage.is_object_store();
            let wants = wants_lookup(self.options.lookup, samples) && !unasked;
            if wants && !self.makes(SideFile::Lookup) {
                let filter = self.make.iter().position(|file| *file == SideFile::Filter);
                self.make.insert(filter.map_or(0, |at| at + 1), SideFile::Lookup);
            }
        }
        let wanted = Wanted {
            key_hashes: self.makes(SideFile::KeyHashes),
            filter: self.makes(SideFile::Filter),
            lookup: self.makes(SideFile::Lookup) && self.makes(SideFile::KeyHashes),
        };
        if wanted.key_hashes || wanted.filter || wanted.lookup {
            let keys_path = self.current(staging, SideFile::Keys);
            let keys = storage.open(&keys_path)?;
            if !self.makes(SideFile::Keys) {
                self.check_count(&keys_path, &keys)?;
            }
            let sync = self.options.durable;
            // Digests are made of all files, also of those that were there.
            let task = Build { staging, wanted, sync, hash_many: hash_keys, digests: None };
            build(task, &keys_path, &keys, Hashed::default())?;
        }
        if self.makes(SideFile::Lookup) && !wanted.lookup {
            self.stage_lookup(staging)?;
        }
        let (md5, old) = match (self.makes(SideFile::Crc), self.digests_data()?) {
            (true, _) => self.stage_checksums(staging, passes)?,
            (false, true) => (Some(self.digest_data(passes)?), None),
            (false, false) => (None, None),
        };
        if self.walks() {
            self.refuse_contradiction(staging, md5, old)?;
        }
        if self.makes(SideFile::Md5) {
            self.stage_digests(staging, md5, passes)?;
        }
        Ok(())
    }

    /// `.lookup` for the hashes that there are: their salt may be another one than a writer would take.
    fn stage_lookup(&self, staging: &Staging) -> Result<()> {
        let storage = &self.options.storage;
        let samples = samples(&**storage, self.path)?;
        let (belongs, places) = lookup::read(storage, self.path, samples)?;
        build::write_slots(staging, &places)?.finish(&belongs, self.options.durable)
    }

    /// `.crc`, and the MD5 of the data if it is of use: from one pass over the data. Also the MD5 of the
    /// data that the `.crc` is of that is there.
    fn stage_checksums(
        &self,
        staging: &Staging,
        passes: &Passes<'_>,
    ) -> Result<(Option<Digest>, Option<Digest>)> {
        let storage = &self.options.storage;
        let path = self.current(staging, SideFile::Offsets);
        let file = storage.open(&path)?;
        let offsets = file.read(0..file.len())?;
        let recorded = recorded_md5(storage, self.path)?;
        let old = open_checksums(&**storage, self.path, || {
            let sum = checksum_of(&file, 0)?;
            Ok(of_data(&file, self.data.len(), None, sum))
        })?;
        let old = old.current();
        let spool = staging.create(SideFile::Crc)?;
        let spool = Spool::new(staging.path(SideFile::Crc), spool);
        let mut spool = ChecksumSpool::new(spool)?;
        let samples = Samples { path: self.path, data: &self.data, offsets: &offsets };
        let wanted = recorded.is_some() || self.makes(SideFile::Md5);
        let mut differs = None;
        let md5 = samples.checksums(wanted, |index, sum| {
            if let (Some(old), None) = (&old, differs) {
                differs = (old.get(index)? != sum).then_some(index as u64);
            }
            let end = offsets::entry(&offsets, index + 1).unwrap_or_default();
            let start = offsets::entry(&offsets, index).unwrap_or_default();
            passes.add(end.saturating_sub(start))?;
            spool.push(sum, end)
        })?;
        let old_md5 = old.and_then(|old| old.of().md5);
        self.refuse_damage(recorded, md5, old_md5, differs)?;
        spool.finish(md5, self.options.durable)?;
        Ok((md5, old_md5))
    }

    /// Existing keys are believed only if their number agrees with the offsets.
    fn check_count(&self, keys_path: &Path, keys: &Source) -> Result<()> {
        let path = SideFile::Offsets.path(self.path);
        let stat = self.options.storage.stat(&path)?;
        let samples = offsets::count(stat.map_or(0, |stat| stat.len));
        let samples = samples.map_err(|e| Error::from(e).at(&path))?;
        let head = keys.read(0..keys.len().min(keys::MAX_HEADER as u64));
        let head = head?;
        let (count, _) = keys::parse_header(&head).map_err(|e| Error::from(e).at(keys_path))?;
        if count != samples {
            let message = format!("expected {samples} keys, found {count}");
            return Err(Error::new(ErrorKind::Damaged, message).at(keys_path));
        }
        Ok(())
    }

    /// Where a side file is that this publication leaves or makes.
    fn current(&self, staging: &Staging, file: SideFile) -> PathBuf {
        if self.makes(file) { staging.path(file) } else { file.path(self.path) }
    }

    /// Offsets and keys, by the legacy index or by a walk over the data. Returns the number of samples.
    fn stage_positions(&self, staging: &Staging, passes: &Passes<'_>) -> Result<u64> {
        let spool =
            |file| -> Result<Spool> { Ok(Spool::new(staging.path(file), staging.create(file)?)) };
        let mut offsets = OffsetSpool::new(spool(SideFile::Offsets)?)?;
        let mut keys = KeySpool::new(self.options.storage.clone(), spool(SideFile::Keys)?)?;
        let mut samples = 0;
        let mut push = |key: &str, end: u64| -> Result<()> {
            samples += 1;
            offsets.push(end)?;
            keys.push(key)
        };
        if self.legacy && !self.options.force {
            self.by_legacy_index(&mut push)?;
        } else {
            self.by_data(&mut push, passes)?;
        }
        let sync = self.options.durable;
        offsets.finish(sync)?;
        keys.finish(sync, || -> Result<Box<dyn Sink>> {
            staging.discard(SideFile::Keys)?;
            staging.create(SideFile::Keys)
        })?;
        Ok(samples)
    }

    fn by_data(
        &self,
        push: &mut impl FnMut(&str, u64) -> Result<()>,
        passes: &Passes<'_>,
    ) -> Result<()> {
        let bytes = self.data.read(0..self.data.len())?;
        for (index, message) in (0..).zip(messages(&bytes)) {
            let damaged = |start, error| {
                let range = start..self.data.len();
                Error::from(error).at(self.path).with_index(index).with_range(range)
            };
            let message = message.map_err(|none| damaged(none.start, none.error))?;
            passes.add(message.end - message.start)?;
            push(message.key().map_err(|error| damaged(message.start, error))?, message.end)?;
        }
        Ok(())
    }

    fn by_legacy_index(&self, push: &mut impl FnMut(&str, u64) -> Result<()>) -> Result<()> {
        let path = SideFile::Index.path(self.path);
        let damaged = |e| Error::from(e).at(&path);
        let file = self.options.storage.open(&path)?;
        let bytes = file.read(0..file.len())?;
        let entries = legacy_index::Entries::parse(&bytes).map_err(damaged)?;
        let mut entries = entries.peekable();
        let mut index = 0;
        while let Some(entry) = entries.next() {
            let (key, start) = entry.map_err(damaged)?;
            let end = match entries.peek() {
                Some(Ok((_, next))) => *next,
                // Reported when it is its turn.
                Some(Err(_)) => start,
                None => self.data.len(),
            };
            self.check_legacy(key, start..end).map_err(|e| e.at(&path).with_index(index))?;
            push(key, end)?;
            index += 1;
        }
        Ok(())
    }

    /// The sample that the legacy index speaks of has that key, if it has one at all.
    fn check_legacy(&self, key: &str, range: std::ops::Range<u64>) -> Result<()> {
        let Ok(raw) = self.data.read(range.clone()) else {
            let message = format!("expected {} bytes of data at most", self.data.len());
            return Err(Error::new(ErrorKind::Damaged, message).with_range(range));
        };
        match msgpack::key(&raw) {
            Ok(Some(own)) if own != key => {
                let message = format!("expected a sample with this key, found {own:?}");
                Err(Error::new(ErrorKind::Damaged, message).with_key(key).with_range(range))
            }
            _ => Ok(()),
        }
    }

    /// Whether the samples are found by a pass over the data.
    fn walks(&self) -> bool {
        self.makes(SideFile::Keys) && (self.options.force || !self.legacy)
    }

    /// Whether the MD5 of the data is computed by a pass of its own: for its line, or to compare it.
    fn digests_data(&self) -> Result<bool> {
        if self.makes(SideFile::Crc) {
            return Ok(false);
        }
        let recorded = recorded_md5(&self.options.storage, self.path)?;
        let is_compared = self.walks() && !self.options.trust_data && recorded.is_some();
        let has_line = recorded.is_some() && !self.options.force;
        Ok(is_compared || self.makes(SideFile::Md5) && !has_line)
    }

    fn digest_data(&self, passes: &Passes<'_>) -> Result<[u8; 16]> {
        let mut md5 = Md5::new();
        for piece in passes.pieces(0..self.data.len()) {
            digest_into(&mut md5, &self.data, piece?)?;
        }
        Ok(md5.finish())
    }

    /// `.md5`: lines that are right already stay, in their places.
    ///
    /// A converted legacy dataset gets its new lines in the order in which Python's converter
    /// appends them.
    ///
    /// `md5`: the MD5 of the data, if it was computed already.
    fn stage_digests(
        &self,
        staging: &Staging,
        md5: Option<[u8; 16]>,
        passes: &Passes<'_>,
    ) -> Result<()> {
        let storage = &self.options.storage;
        let path = SideFile::Md5.path(self.path);
        let old = match storage.stat(&path)? {
            Some(_) if !self.options.force => read_digests(storage, &path)?,
            _ => Digests::default(),
        };
        let name = |path: &Path| {
            path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
        };
        // Digests of the data under its old name are as valid.
        let old = old.renamed(&name(self.path));
        let mut new = old.clone();
        if old.get(&name(self.path)).is_none() {
            let md5 = md5.map_or_else(|| self.digest_data(passes), Ok)?;
            new.set(&name(self.path), md5)?;
        }
        let order = match self.legacy && !self.options.force {
            true => [SideFile::Keys, SideFile::KeyHashes, SideFile::Filter, SideFile::Offsets],
            false => [SideFile::Offsets, SideFile::Keys, SideFile::KeyHashes, SideFile::Filter],
        };
        for file in order {
            let file_name = name(&file.path(self.path));
            if self.makes(file) || old.get(&file_name).is_none() {
                new.set(&file_name, digest(storage, &self.current(staging, file))?)?;
            }
        }
        let mut sink = staging.create(SideFile::Md5)?;
        sink.append(new.render().as_bytes())?;
        if self.options.durable {
            sink.sync()?;
        }
        Ok(())
    }
}
