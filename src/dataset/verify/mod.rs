//! Is a dataset what it claims to be? All problems, not the first.
//!
//! Works on the files as they are, without [`DatasetReader`](crate::DatasetReader), which would
//! refuse to open the very datasets that need this most. The digest of the data is computed
//! alongside all other checks; it is what takes the time.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::{SideFile, crc};
use crate::storage::{self, Source, Storage};

use super::index;
use super::names::Named;
#[cfg(feature = "convert")]
use super::names::names_index;
use super::passes::{HearBytes, Passes};
use super::staging;

mod report;
mod state;
mod digests;
#[cfg(feature = "convert")]
mod in_place;
mod checksums;
mod positions;
mod keys;
mod labels;
mod lengths;
mod samples;
mod shards;

use checksums::Compared;
use digests::Digested;
pub use report::{Cure, VerifyProblem, VerifyReport};
use state::State;

/// Checks digests, checksums, offsets, keys, hashes, filter, lookup and lengths against each other, with the
/// default options. See [`Verify`].
///
/// # Errors
///
/// As for [`Verify::run`].
pub fn verify(path: impl AsRef<Path>) -> Result<VerifyReport> {
    Verify::of(path).run()
}

/// A dataset to verify.
///
/// Where there is a `.crc` of this dataset, each sample that does not match its checksum is a
/// problem of its own.
///
/// ```
/// use kiste::verify::Verify;
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("one.msgpack");
/// # let mut writer = kiste::Writer::create(&path)?;
/// # writer.write(&std::collections::BTreeMap::from([("key", "a")]))?;
/// # writer.finish()?;
/// assert!(Verify::of(&path).run()?.is_good());
///
/// std::fs::write(dir.path().join("one.msgpack.keys"), b"\x91\xa1b")?;
/// let report = Verify::of(&path).deep(true).run()?;
/// assert!(!report.is_good()); // the digest, the hash and the filter all object
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Verify {
    path: PathBuf,
    deep: bool,
    storage: Option<Arc<dyn Storage>>,
}

impl Verify {
    /// The dataset of this name, or at this URL. Of a manifest all shards are checked, then what the
    /// manifest says of them, and that no two samples have the same key.
    pub fn of(path: impl AsRef<Path>) -> Verify {
        Verify { path: path.as_ref().to_path_buf(), deep: false, storage: None }
    }

    /// Also decodes every sample with its arrays, plain and packed, and compares its key with the
    /// list. Default: no, unless there is nothing to compare the data with. Arrays are decoded with the
    /// feature `arrays`.
    pub fn deep(mut self, yes: bool) -> Verify {
        self.deep = yes;
        self
    }

    /// Where the files are. Default: where the name leads ([`storage::of`]).
    pub fn storage(mut self, storage: Arc<dyn Storage>) -> Verify {
        self.storage = Some(storage);
        self
    }

    /// Checks the dataset.
    ///
    /// # Errors
    ///
    /// Only if the data file does not exist or a file cannot be read: damage is a
    /// [`VerifyProblem`]. [`Replaced`](ErrorKind::Replaced) if the dataset changed during the
    /// check, as its files then belonged to different datasets.
    pub fn run(&self) -> Result<VerifyReport> {
        self.run_with(&|_, _| Ok(()))
    }

    /// As [`run`](Self::run). `hear` is called with the bytes of the data that have been read, and that will be
    /// read in all passes.
    ///
    /// # Errors
    ///
    /// The errors of [`run`](Self::run) and of `hear`.
    pub fn run_with(&self, hear: &HearBytes<'_>) -> Result<VerifyReport> {
        let (storage, path) = match &self.storage {
            Some(storage) => (storage.clone(), self.path.clone()),
            None => storage::of(&self.path)?,
        };
        match Named::find(&*storage, &path)? {
            Named::Manifest => return shards::of_manifest(&storage, &path, self.deep, hear),
            Named::Files(files) => return shards::of_files(&storage, &files, self.deep, hear),
            Named::Dataset => {}
        }
        let passes = Passes::new(0, hear);
        Files { storage, path, end: u64::MAX, passes }.verify(self.deep, hear)
    }
}

/// The files that a killed writer left.
enum Unfinished {
    Nothing,
    /// A directory that belongs to no write any more.
    Leftover(PathBuf),
    Write(VerifyProblem),
}

/// The files of a dataset, each on its own.
struct Files<'a> {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    /// Where the data of the dataset end: an append writes behind it.
    end: u64,
    passes: Passes<'a>,
}

impl<'a> Files<'a> {
    fn verify(mut self, deep: bool, hear: &'a HearBytes<'a>) -> Result<VerifyReport> {
        let before = State::of(&self)?;
        let data = self.storage.open(&self.path)?;
        self.end = before.base.map_or(u64::MAX, |base| base.bytes).min(data.len());
        #[cfg(feature = "convert")]
        let report = match names_index(&self.path) {
            true => self.report_in_place(&data),
            false => self.report(&data, deep, hear),
        };
        #[cfg(not(feature = "convert"))]
        let report = self.report(&data, deep, hear);
        if !before.is_same(&State::of(&self)?, self.end) {
            let message = "the dataset changed while it was verified: verify it again";
            return Err(Error::new(ErrorKind::Replaced, message).at(&self.path));
        }
        report
    }

    fn report(
        &mut self,
        data: &Source,
        deep: bool,
        hear: &'a HearBytes<'a>,
    ) -> Result<VerifyReport> {
        let missing = self.missing()?;
        // Data alone can be compared with nothing, so they are looked at themselves.
        let bare = [SideFile::Offsets, SideFile::Keys, SideFile::Index].map(|file| self.open(file));
        let bare = bare.into_iter().all(|file| matches!(file, Ok(None)));
        let deep = deep || bare;
        let has = |file| -> Result<u64> { Ok(u64::from(self.open(file)?.is_some())) };
        let passes = has(SideFile::Md5)? + has(SideFile::Crc)? + u64::from(deep);
        self.passes = Passes::new(self.end.saturating_mul(passes), hear);
        let this = &*self;
        let (digests, checks) = rayon::join(|| this.check_digests(data), || this.check(data, deep));
        let Digested { mut problems, remarks, files: digests } = digests?;
        let (samples, compared, found) = checks?;
        let mut checksums = 0;
        if let Some(compared) = compared {
            let samples = compared.samples;
            let intact = digests.contains(&self.path).then(|| {
                // So far only the digest check can have reported the data.
                !problems.iter().any(|problem| problem.file == self.path)
            });
            if self.judge(data, compared, intact, &mut problems)? {
                checksums = samples;
            }
        }
        problems.extend(found);
        let being_written = staging::is_being_written(&*self.storage, &self.path)?;
        let mut leftover = None;
        if !being_written {
            match self.check_unfinished()? {
                Unfinished::Nothing => {}
                Unfinished::Leftover(dir) => leftover = Some(dir),
                Unfinished::Write(problem) => problems.insert(0, problem),
            }
        }
        let bytes = self.end;
        Ok(VerifyReport {
            samples,
            bytes,
            problems,
            remarks,
            missing,
            digests,
            checksums,
            deep,
            being_written,
            leftover,
        })
    }

    /// Side files that are not there.
    fn missing(&self) -> Result<Vec<PathBuf>> {
        let paths = SideFile::WRITTEN.iter().map(|file| file.path(&self.path));
        let missing = |path: PathBuf| match self.storage.stat(&path) {
            Ok(Some(_)) => None,
            Ok(None) => Some(Ok(path)),
            Err(error) => Some(Err(error)),
        };
        paths.filter_map(missing).collect()
    }

    fn open(&self, file: SideFile) -> Result<Option<(PathBuf, Source)>> {
        let path = file.path(&self.path);
        Ok(self.storage.open_if_exists(&path)?.map(|source| (path, source)))
    }

    fn check_unfinished(&self) -> Result<Unfinished> {
        let dir = staging::dir_of(&self.path);
        if self.storage.lstat(&dir)?.is_none() {
            return Ok(Unfinished::Nothing);
        }
        if staging::is_spent(&*self.storage, &dir)? {
            return Ok(Unfinished::Leftover(dir));
        }
        let message = "an unfinished write of a killed writer";
        Ok(Unfinished::Write(VerifyProblem::new(&dir, message)))
    }

    /// Everything but the digests: the number of samples, and what came of their checksums.
    fn check(
        &self,
        data: &Source,
        deep: bool,
    ) -> Result<(u64, Option<Compared>, Vec<VerifyProblem>)> {
        let mut problems = Vec::new();
        let ends = self.check_offsets(self.end, &mut problems)?;
        let legacy = self.check_legacy(self.end, ends.as_deref(), &mut problems)?;
        let ends = ends.or(legacy);
        let samples = ends.as_ref().map(|ends| ends.len().saturating_sub(1));
        let keys_file = self.open(SideFile::Keys)?;
        let keys_bytes = match &keys_file {
            Some((path, file)) => Some((path, file.read(0..file.len())?)),
            None => None,
        };
        let listed = keys_bytes
            .as_ref()
            .map(|(path, bytes)| keys::check_keys(path, bytes, samples, &mut problems));
        if let Some(listed) = &listed {
            self.check_hashes(listed, &mut problems)?;
            self.check_filter(listed, &mut problems)?;
        }
        let compared = match &ends {
            Some(ends) => self.compare(data, ends, listed.as_deref(), &mut problems)?,
            None => None,
        };
        if let Some(ends) = &ends {
            let now = crc::Source {
                count: ends.len().saturating_sub(1) as u64,
                data_len: self.end,
                md5: index::recorded_md5(&self.storage, &self.path)?,
                offsets: index::checksum_of_offsets(ends),
            };
            self.check_lengths(&now, &mut problems)?;
        }
        if let Some(ends) = ends.as_ref().filter(|_| deep || !self.storage.is_object_store()) {
            self.check_labels(data, ends, &mut problems)?;
        }
        let decoded = match deep {
            true => {
                Some(self.check_samples(data, ends.as_deref(), listed.as_deref(), &mut problems)?)
            }
            false => None,
        };
        let listed_len = listed.as_ref().map(Vec::len);
        let samples = samples.or(listed_len).or(decoded).unwrap_or(0) as u64;
        Ok((samples, compared, problems))
    }
}
