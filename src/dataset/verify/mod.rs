//! Is a dataset what it claims to be? All problems, not the first.
//!
//! Works on the files as they are, without [`DatasetReader`](crate::DatasetReader), which would
//! refuse to open the very datasets that need this most. The digest of the data is computed beside
//! all other checks; it is what takes the time.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use md5::{Digest as _, Md5};
use rayon::prelude::*;
use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::key_hashes::{self, Salt};
use crate::format::dataset::{Digests, SideFile, crc, filter, keys, legacy_index, offsets};
use crate::format::msgpack::{self, numpy};
use crate::format::{FormatError, hex};
use crate::storage::{LocalStorage, Source, Stat, Storage};

use super::index::{self, Found};
use super::staging;
use super::walk::{NoMessage, messages};

/// What to check.
#[derive(Debug, Clone)]
pub struct VerifyOptions {
    deep: bool,
    storage: Arc<dyn Storage>,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        VerifyOptions { deep: false, storage: Arc::new(LocalStorage::mapped()) }
    }
}

impl VerifyOptions {
    /// Also decodes every sample with its arrays, plain and packed, and compares its key with the
    /// list. Default: no, but where there is nothing to compare the data with.
    pub fn deep(mut self, yes: bool) -> Self {
        self.deep = yes;
        self
    }

    /// Where the files are. Default: the local file system, mapped.
    pub fn storage(mut self, storage: Arc<dyn Storage>) -> Self {
        self.storage = storage;
        self
    }

    /// Checks a dataset. See [`verify`].
    pub fn verify(self, path: impl AsRef<Path>) -> Result<Report> {
        let path = path.as_ref().to_path_buf();
        Files { storage: self.storage, path, end: u64::MAX }.verify(self.deep)
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// The sample, where one is concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
    /// Its key, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The bytes of the file, where they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Range<u64>>,
    /// What was expected and what was found.
    pub message: String,
}

impl Problem {
    fn new(file: &Path, message: impl Into<String>) -> Problem {
        let (file, message) = (file.to_path_buf(), message.into());
        Problem { file, index: None, key: None, bytes: None, message }
    }

    fn at_format(file: &Path, error: FormatError) -> Problem {
        Problem::new(file, error.to_string())
    }

    fn index(mut self, index: usize) -> Problem {
        self.index = Some(index as u64);
        self
    }

    fn key(mut self, key: &[u8]) -> Problem {
        self.key = Some(String::from_utf8_lossy(key).into_owned());
        self
    }

    fn bytes(mut self, bytes: Range<u64>) -> Problem {
        self.bytes = Some(bytes);
        self
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: ", self.file.display())?;
        if let Some(index) = self.index {
            write!(f, "sample {index}: ")?;
        }
        if let Some(key) = &self.key {
            write!(f, "key {key:?}: ")?;
        }
        if let Some(bytes) = &self.bytes {
            write!(f, "bytes {}..{}: ", bytes.start, bytes.end)?;
        }
        f.write_str(&self.message)
    }
}

/// What [`verify`] found.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Samples, by the offsets or else by the list of keys.
    pub samples: u64,
    /// Bytes of the data file.
    pub bytes: u64,
    /// Everything that is wrong. Empty means that the dataset is good as far as it was checked.
    pub problems: Vec<Problem>,
    /// Side files that are not there, and so were not checked. No problem as such: the reader
    /// does without, and `kiste index` makes them.
    pub missing: Vec<PathBuf>,
    /// Files whose MD5 was compared.
    pub digests: Vec<PathBuf>,
    /// Samples that were compared with their checksum in `.crc`. Zero where there is no such file,
    /// or one that is not to be believed, which is a problem.
    pub checksums: u64,
    /// Whether every sample was decoded.
    pub deep: bool,
    /// Whether a writer was at work on the dataset meanwhile. What was checked is the dataset
    /// that readers see until it is done.
    pub being_written: bool,
}

/// Checks digests, checksums, offsets, keys, hashes, filter and accelerator against each other.
///
/// Where there is a `.crc` of this dataset, each sample that does not match its checksum is a
/// problem of its own.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("one.msgpack");
/// # let mut writer = kiste::Writer::create(&path)?;
/// # writer.write(&std::collections::BTreeMap::from([("key", "a")]))?;
/// # writer.finish()?;
/// let report = kiste::verify::verify(&path)?;
/// assert!(report.problems.is_empty());
///
/// std::fs::write(dir.path().join("one.msgpack.keys"), b"\x91\xa1b")?;
/// let report = kiste::verify::verify(&path)?;
/// assert!(!report.problems.is_empty()); // the digest, the hash and the filter all object
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Only if the data file is not there or a file cannot be read: what is damaged is a [`Problem`].
/// [`Replaced`](ErrorKind::Replaced) if the dataset changed meanwhile, as its files were then not
/// of one dataset.
pub fn verify(path: impl AsRef<Path>) -> Result<Report> {
    VerifyOptions::default().verify(path)
}

/// What came of comparing samples with their checksums.
struct Compared {
    /// The `.crc`.
    path: PathBuf,
    samples: u64,
    /// The MD5 that the data had when the checksums were made, if it was known.
    md5: Option<[u8; 16]>,
    /// A problem for each sample that differs.
    wrong: Vec<Problem>,
}

/// The files of a dataset, each on its own.
struct Files {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    /// Where the data of the dataset end: an append writes behind it.
    end: u64,
}

/// What tells whether the files are still those that they were.
#[derive(PartialEq)]
struct State {
    base: Option<staging::Base>,
    half_published: bool,
    files: Vec<Option<Stat>>,
}

impl State {
    fn of(files: &Files) -> Result<State> {
        let sides = SideFile::ALL.iter().map(|side| side.path(&files.path));
        let paths: Vec<PathBuf> = std::iter::once(files.path.clone()).chain(sides).collect();
        let stat = |path: &PathBuf| files.storage.stat(path);
        let half_published = staging::is_half_published(&*files.storage, &files.path)?;
        let offsets = stat(&SideFile::Offsets.path(&files.path))?;
        // One that cannot be read is told of as an unfinished write.
        let journal = staging::journal_of(&*files.storage, &files.path).unwrap_or(None);
        // Once the new offsets are there, what was appended belongs to the dataset.
        let base = journal.and_then(|journal| journal.base).filter(|base| {
            let old = base.samples.saturating_add(1).saturating_mul(offsets::ENTRY);
            !half_published || offsets.is_none_or(|offsets| offsets.len == old)
        });
        Ok(State { base, half_published, files: paths.iter().map(stat).collect::<Result<_>>()? })
    }

    /// Whether the dataset, which ends at this byte, stayed the same until this later state.
    fn is_same(&self, later: &State, end: u64) -> bool {
        let is_append = |state: &State| state.base.is_some_and(|base| base.bytes == end);
        let data = |state: &State| state.files.first().copied().flatten().map(|stat| stat.id);
        let sides_are_same = self.files[1..] == later.files[1..];
        match is_append(self) || is_append(later) {
            // The data file grows.
            true => data(self) == data(later) && sides_are_same,
            false => self == later,
        }
    }
}

impl Files {
    fn verify(mut self, deep: bool) -> Result<Report> {
        let before = State::of(&self)?;
        let data = self.storage.open(&self.path)?;
        self.end = before.base.map_or(u64::MAX, |base| base.bytes).min(data.len());
        let report = self.report(&data, deep);
        if !before.is_same(&State::of(&self)?, self.end) {
            let message = "the dataset changed while it was verified: verify it again";
            return Err(Error::new(ErrorKind::Replaced, message).at(&self.path));
        }
        report
    }

    fn report(&self, data: &Source, deep: bool) -> Result<Report> {
        let missing: Vec<PathBuf> = SideFile::WRITTEN
            .iter()
            .map(|file| file.path(&self.path))
            .filter_map(|path| match self.storage.stat(&path) {
                Ok(Some(_)) => None,
                Ok(None) => Some(Ok(path)),
                Err(e) => Some(Err(e)),
            })
            .collect::<Result<_>>()?;
        // Data alone can be compared with nothing, so they are looked at themselves.
        let bare = [SideFile::Offsets, SideFile::Keys, SideFile::Index].map(|file| self.open(file));
        let bare = bare.into_iter().all(|file| matches!(file, Ok(None)));
        let deep = deep || bare;
        let (digests, checks) = rayon::join(|| self.check_digests(data), || self.check(data, deep));
        let (mut problems, digests) = digests?;
        let (samples, compared, found) = checks?;
        let mut checksums = 0;
        if let Some(compared) = compared {
            let samples = compared.samples;
            let intact = digests.contains(&self.path).then(|| {
                // Of all that was found so far, only a digest is about the data.
                !problems.iter().any(|problem| problem.file == self.path)
            });
            if self.judge(data, compared, intact, &mut problems)? {
                checksums = samples;
            }
        }
        problems.extend(found);
        let being_written = staging::is_being_written(&*self.storage, &self.path)?;
        if let (false, Some(problem)) = (being_written, self.check_unfinished()?) {
            problems.insert(0, problem);
        }
        let bytes = self.end;
        Ok(Report { samples, bytes, problems, missing, digests, checksums, deep, being_written })
    }

    fn open(&self, file: SideFile) -> Result<Option<(PathBuf, Source)>> {
        let path = file.path(&self.path);
        Ok(self.storage.open_if_exists(&path)?.map(|source| (path, source)))
    }

    fn check_unfinished(&self) -> Result<Option<Problem>> {
        let dir = staging::dir_of(&self.path);
        let there = self.storage.lstat(&dir)?.is_some();
        let message = "an unfinished write, whose writer died";
        Ok(there.then(|| Problem::new(&dir, message)))
    }

    /// Compares every file that has a digest with it.
    fn check_digests(&self, data: &Source) -> Result<(Vec<Problem>, Vec<PathBuf>)> {
        let Some((path, source)) = self.open(SideFile::Md5)? else { return Ok(Default::default()) };
        let text = source.read(0..source.len())?;
        let digests = match Digests::parse(&text) {
            Ok(digests) => digests,
            Err(e) => return Ok((vec![Problem::at_format(&path, e)], Vec::new())),
        };
        let mut problems = Vec::new();
        let data_name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let mut listed = vec![data_name.to_string()];
        for file in SideFile::WRITTEN.into_iter().filter(|file| *file != SideFile::Md5) {
            if self.open(file)?.is_some() {
                listed.push(format!("{data_name}{}", file.suffix()));
            }
        }
        for name in listed.iter().filter(|name| digests.get(name).is_none()) {
            problems.push(Problem::new(&path, format!("expected a digest of {name}, found none")));
        }
        // Names come from a file: only those that are files of this dataset are opened.
        let ours = |name: &str| {
            let suffix = name.strip_prefix(&*data_name)?;
            let known = suffix.is_empty() || SideFile::ALL.iter().any(|f| f.suffix() == suffix);
            known.then(|| self.path.with_file_name(name))
        };
        let compared: Vec<Result<(PathBuf, Option<Problem>)>> = digests
            .iter()
            .map(|(name, digest)| (name, *digest))
            .collect::<Vec<_>>()
            .into_par_iter()
            .with_max_len(1)
            .map(|(name, expected)| {
                let Some(file) = ours(name) else {
                    let message = format!("expected names of this dataset, found {name:?}");
                    return Ok((path.clone(), Some(Problem::new(&path, message))));
                };
                let digest = match file == self.path {
                    true => self.digest_data(data),
                    false => index::digest(&self.storage, &file),
                };
                let problem = match digest {
                    Ok(found) if found == expected => None,
                    Ok(found) => {
                        let message =
                            format!("expected the MD5 {}, found {}", hex(&expected), hex(&found));
                        Some(Problem::new(&file, message))
                    }
                    Err(e) if e.kind() == ErrorKind::NotFound => {
                        Some(Problem::new(&file, "has a digest but is not there"))
                    }
                    Err(e) => return Err(e),
                };
                Ok((file, problem))
            })
            .collect();
        let mut files = Vec::new();
        for result in compared {
            let (file, problem) = result?;
            problems.extend(problem);
            if file != path {
                files.push(file);
            }
        }
        Ok((problems, files))
    }

    fn digest_data(&self, data: &Source) -> Result<[u8; 16]> {
        let mut md5 = Md5::new();
        index::digest_into(&mut md5, data, 0..self.end)?;
        Ok(md5.finalize().into())
    }

    /// Everything but the digests: the number of samples, and what came of their checksums.
    fn check(&self, data: &Source, deep: bool) -> Result<(u64, Option<Compared>, Vec<Problem>)> {
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
            .map(|(path, bytes)| check_keys(path, bytes, samples, &mut problems));
        if let Some(listed) = &listed {
            self.check_hashes(listed, &mut problems)?;
            self.check_filter(listed, &mut problems)?;
        }
        let compared = match &ends {
            Some(ends) => self.compare(data, ends, listed.as_deref(), &mut problems)?,
            None => None,
        };
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

    /// Compares every sample with its checksum, if there is a `.crc` of these offsets.
    fn compare(
        &self,
        data: &Source,
        ends: &[u64],
        listed: Option<&[&[u8]]>,
        problems: &mut Vec<Problem>,
    ) -> Result<Option<Compared>> {
        let path = SideFile::Crc.path(&self.path);
        let found = index::open_checksums(&*self.storage, &self.path, || {
            Ok(crc::Source {
                count: ends.len().saturating_sub(1) as u64,
                data_len: self.end,
                // Which MD5 the data has is not known yet.
                md5: None,
                offsets: index::checksum_of_offsets(ends),
            })
        })?;
        let checksums = match found {
            Found::Current(checksums) => checksums,
            Found::Missing => return Ok(None),
            Found::Stale(e) => {
                problems.push(Problem::new(&path, index::stale(&e)));
                return Ok(None);
            }
            Found::Damaged(e) => {
                problems.push(Problem::new(&path, index::damaged(&e)));
                return Ok(None);
            }
        };
        let check = |(index, pair): (usize, &[u64])| -> Result<Option<Problem>> {
            let range = pair[0]..pair[1];
            if range.start > range.end || range.end > self.end {
                return Ok(None); // told already
            }
            let raw = data.read(range.clone())?;
            let Some(mismatch) = checksums.compare(index, &raw)? else { return Ok(None) };
            let problem = Problem::new(&self.path, mismatch.to_string()).index(index).bytes(range);
            let key = listed.and_then(|listed| listed.get(index));
            Ok(Some(key.map_or(problem.clone(), |key| problem.key(key))))
        };
        let pairs = ends.par_windows(2).with_min_len(16).enumerate();
        let wrong = pairs.filter_map(|pair| check(pair).transpose()).collect::<Result<_>>()?;
        let samples = ends.len().saturating_sub(1) as u64;
        Ok(Some(Compared { path, samples, md5: checksums.of().md5, wrong }))
    }

    /// What to conclude from checksums and digests: which of them is wrong, or the data. Whether the
    /// checksums can be believed.
    ///
    /// `intact`: whether the data has the MD5 that `.md5` says, if it says any.
    fn judge(
        &self,
        data: &Source,
        compared: Compared,
        intact: Option<bool>,
        problems: &mut Vec<Problem>,
    ) -> Result<bool> {
        let Compared { path, samples, md5: then, wrong } = compared;
        let recorded = index::recorded_md5(&self.storage, &self.path)?;
        if let (Some(then), Some(recorded)) = (then, recorded) {
            if then != recorded {
                let (expected, found) = (hex(&recorded), hex(&then));
                if intact == Some(false) && self.digest_data(data)? == then {
                    let md5 = SideFile::Md5.path(&self.path);
                    let message = format!(
                        "the line of the data is wrong, not the data: .crc is of data with the \
                         MD5 {found}, and so is this"
                    );
                    problems.push(Problem::new(&md5, message));
                    return Ok(true);
                }
                let message =
                    format!("of data with another MD5, expected {expected}, found {found}");
                problems.push(Problem::new(&path, message));
                return Ok(false);
            }
        }
        let count = wrong.len() as u64;
        if count == 0 {
            return Ok(true);
        }
        let mut believed = false;
        if intact == Some(true) {
            let message =
                format!("{count} of {samples} checksums are wrong, as the data has its MD5");
            problems.push(Problem::new(&path, message));
        } else if count == samples && samples > 1 && then.is_none() {
            let message = "no sample has the checksum it is to have: these are of another version \
                           of the dataset, which is for you to remove, or all of the data is wrong";
            problems.push(Problem::new(&path, message));
        } else {
            problems.extend(wrong);
            believed = true;
        }
        Ok(believed)
    }

    /// The offsets, as far as they can be used: `None` where there are none or their size is wrong.
    fn check_offsets(
        &self,
        data_len: u64,
        problems: &mut Vec<Problem>,
    ) -> Result<Option<Vec<u64>>> {
        let Some((path, file)) = self.open(SideFile::Offsets)? else { return Ok(None) };
        let count = match offsets::count(file.len()) {
            Ok(count) => count,
            Err(e) => {
                problems.push(Problem::at_format(&path, e));
                return Ok(None);
            }
        };
        let bytes = file.read(0..file.len())?;
        let ends: Vec<u64> =
            (0..=count as usize).filter_map(|i| offsets::entry(&bytes, i)).collect();
        let (first, last) = (ends[0], ends[count as usize]);
        if let Err(e) = offsets::check_ends(count, first, last, data_len) {
            problems.push(Problem::at_format(&path, e));
        }
        for (index, pair) in ends.windows(2).enumerate() {
            if pair[0] > pair[1] || pair[1] > data_len {
                let message = format!(
                    "expected ascending offsets of at most {data_len}, found {} and {}",
                    pair[0], pair[1]
                );
                let at = index as u64 * offsets::ENTRY;
                let bytes = at..at + 2 * offsets::ENTRY;
                problems.push(Problem::new(&path, message).index(index).bytes(bytes));
            }
        }
        Ok(Some(ends))
    }

    /// The offsets by the legacy index, compared with the others.
    fn check_legacy(
        &self,
        data_len: u64,
        ends: Option<&[u64]>,
        problems: &mut Vec<Problem>,
    ) -> Result<Option<Vec<u64>>> {
        let Some((path, file)) = self.open(SideFile::Index)? else { return Ok(None) };
        let bytes = file.read(0..file.len())?;
        let entries = legacy_index::Entries::parse(&bytes);
        let parsed = entries.and_then(|entries| entries.map(|e| e.map(|e| e.1)).collect());
        let mut legacy: Vec<u64> = match parsed {
            Ok(starts) => starts,
            Err(e) => {
                problems.push(Problem::at_format(&path, e));
                return Ok(None);
            }
        };
        if let Some(start) = legacy.last().filter(|start| **start > data_len) {
            let message = format!("expected offsets of at most {data_len}, found {start}");
            problems.push(Problem::new(&path, message));
        }
        legacy.push(data_len);
        if ends.is_some_and(|ends| ends != legacy) {
            problems.push(Problem::new(&path, "does not agree with .offsets"));
        }
        Ok(Some(legacy))
    }

    fn check_hashes(&self, listed: &[&[u8]], problems: &mut Vec<Problem>) -> Result<()> {
        let Some((path, file)) = self.open(SideFile::KeyHashes)? else { return Ok(()) };
        match key_hashes::count(file.len()) {
            Ok(count) if count == listed.len() as u64 => {}
            Ok(count) => {
                let message = format!("expected {} hashes, found {count}", listed.len());
                problems.push(Problem::new(&path, message));
                return Ok(());
            }
            Err(e) => {
                problems.push(Problem::at_format(&path, e));
                return Ok(());
            }
        }
        let bytes = file.read(0..file.len())?;
        let (salt, stored) = bytes.split_at(8);
        let salt = Salt(<[u8; 8]>::try_from(salt).unwrap_or_default());
        let mut hashes = vec![0; listed.len()];
        let tasks = listed.par_chunks(1024).zip(hashes.par_chunks_mut(1024));
        tasks.for_each(|(keys, out)| key_hashes::hash_many(&salt, keys, out));
        for (index, (stored, hash)) in stored.chunks_exact(8).zip(&hashes).enumerate() {
            if stored != hash.to_be_bytes() {
                let message = format!("expected the hash {hash:016x}, found {}", hex(stored));
                let at = 8 + 8 * index as u64;
                let problem = Problem::new(&path, message).index(index).key(listed[index]);
                problems.push(problem.bytes(at..at + 8));
            }
        }
        self.check_lookup(&salt, &hashes, problems)?;
        find_duplicates(&SideFile::Keys.path(&self.path), listed, &hashes, problems);
        Ok(())
    }

    fn check_lookup(&self, salt: &Salt, hashes: &[u64], problems: &mut Vec<Problem>) -> Result<()> {
        let Some((path, file)) = self.open(SideFile::Lookup)? else { return Ok(()) };
        let bytes = file.read(0..file.len())?;
        let expected = index::lookup_file(*salt, hashes)?;
        if *bytes != expected[..] {
            let at = bytes.iter().zip(&expected).take_while(|(a, b)| a == b).count() as u64;
            let message = "differs from what the hashes give";
            problems.push(Problem::new(&path, message).bytes(at..bytes.len() as u64));
        }
        Ok(())
    }

    fn check_filter(&self, listed: &[&[u8]], problems: &mut Vec<Problem>) -> Result<()> {
        let Some((path, file)) = self.open(SideFile::Filter)? else { return Ok(()) };
        let bytes = file.read(0..file.len())?;
        let header = &bytes[..bytes.len().min(filter::HEADER)];
        let params = match filter::Params::parse(header, file.len()) {
            Ok(params) => params,
            Err(e) => {
                problems.push(Problem::at_format(&path, e));
                return Ok(());
            }
        };
        let expected = filter::Params::for_len(listed.len() as u64);
        if params != expected {
            let (expected, found) = (expected.elements(), params.elements());
            let message = format!("expected a filter for {expected} keys, found one for {found}");
            problems.push(Problem::new(&path, message));
            return Ok(());
        }
        let stored = &bytes[filter::HEADER..];
        let mut pairs = vec![(0, 0); listed.len()];
        let tasks = listed.par_chunks(1024).zip(pairs.par_chunks_mut(1024));
        tasks.for_each(|(keys, out)| filter::pair_many(keys, out));
        let mut bits = vec![0; stored.len()];
        for (index, pair) in pairs.iter().enumerate() {
            params.insert(&mut bits, *pair);
            if !params.contains(stored, *pair) {
                let message = "expected all bits of this key, found some missing";
                problems.push(Problem::new(&path, message).index(index).key(listed[index]));
            }
        }
        for (at, (stored, expected)) in stored.iter().zip(&bits).enumerate() {
            if stored & !expected != 0 {
                let message = format!("expected the bits {expected:08b}, found {stored:08b}");
                let at = (filter::HEADER + at) as u64;
                problems.push(Problem::new(&path, message).bytes(at..at + 1));
            }
        }
        Ok(())
    }

    /// Decodes every sample, and compares its key.
    fn check_samples(
        &self,
        data: &Source,
        ends: Option<&[u64]>,
        listed: Option<&[&[u8]]>,
        problems: &mut Vec<Problem>,
    ) -> Result<usize> {
        let walked;
        let ends = match ends {
            Some(ends) => ends,
            None => {
                walked = self.walk(data, problems)?;
                &walked
            }
        };
        let check = |(index, pair): (usize, &[u64])| -> Result<Vec<Problem>> {
            let range = pair[0]..pair[1];
            if range.start > range.end || range.end > self.end {
                return Ok(Vec::new()); // told already
            }
            let raw = data.read(range.clone())?;
            let listed = listed.and_then(|listed| listed.get(index));
            let problem = match msgpack::check_sample(&raw) {
                Ok(key) if listed.is_none_or(|listed| *listed == key.as_bytes()) => {
                    return Ok(self.check_arrays(&raw, index, key, range.start));
                }
                Ok(key) => {
                    let listed = String::from_utf8_lossy(listed.unwrap_or(&&[][..]));
                    Problem::new(&self.path, format!("expected the key {listed:?}, found {key:?}"))
                }
                Err(e) => {
                    let problem = Problem::at_format(&self.path, e);
                    listed.map_or(problem.clone(), |key| problem.key(key))
                }
            };
            Ok(vec![problem.index(index).bytes(range)])
        };
        let windows: Vec<(usize, &[u64])> = ends.windows(2).enumerate().collect();
        let found: Vec<Vec<Problem>> =
            windows.into_par_iter().with_min_len(16).map(check).collect::<Result<_>>()?;
        problems.extend(found.into_iter().flatten());
        Ok(ends.len().saturating_sub(1))
    }

    /// Decodes every array of a sample that is well-formed and begins at this byte of the file.
    fn check_arrays(&self, raw: &[u8], index: usize, key: &str, start: u64) -> Vec<Problem> {
        let Ok(arrays) = numpy::arrays_in(raw) else { return Vec::new() };
        let flawed = arrays.filter_map(|stored| {
            let stored = stored.ok()?;
            let flaw = stored.check().err()?;
            let message = format!("field {:?}: {flaw}", stored.field_name());
            let bytes = start + stored.range.start as u64..start + stored.range.end as u64;
            let problem = Problem::new(&self.path, message).index(index);
            Some(problem.key(key.as_bytes()).bytes(bytes))
        });
        flawed.collect()
    }

    /// Where the samples are, without offsets: one after another until something is wrong.
    fn walk(&self, data: &Source, problems: &mut Vec<Problem>) -> Result<Vec<u64>> {
        let bytes = data.read(0..self.end)?;
        let mut ends = vec![0];
        for message in messages(&bytes) {
            match message {
                Ok(message) => ends.push(message.end),
                Err(NoMessage { start, error }) => {
                    let problem = Problem::at_format(&self.path, error).index(ends.len() - 1);
                    problems.push(problem.bytes(start..self.end));
                }
            }
        }
        Ok(ends)
    }
}

/// The keys that can be read, and what is wrong with the rest.
fn check_keys<'a>(
    path: &Path,
    bytes: &'a [u8],
    samples: Option<usize>,
    problems: &mut Vec<Problem>,
) -> Vec<&'a [u8]> {
    let mut listed = Vec::new();
    match keys::parse_header(bytes) {
        Ok((count, _)) if samples.is_some_and(|samples| samples as u64 != count) => {
            let samples = samples.unwrap_or_default();
            problems.push(Problem::new(path, format!("expected {samples} keys, found {count}")));
        }
        Ok(_) => {}
        Err(e) => {
            problems.push(Problem::at_format(path, e));
            return listed;
        }
    }
    match keys::Keys::parse(bytes) {
        Ok(keys) => {
            for key in keys {
                match key {
                    Ok(key) => listed.push(key.as_bytes()),
                    Err(e) => {
                        problems.push(Problem::at_format(path, e).index(listed.len()));
                        break;
                    }
                }
            }
        }
        Err(e) => problems.push(Problem::at_format(path, e)),
    }
    listed
}

/// Keys that are there twice, found by their hashes.
fn find_duplicates(path: &Path, listed: &[&[u8]], hashes: &[u64], problems: &mut Vec<Problem>) {
    let mut sorted: Vec<(u64, u32)> = (0u32..).zip(hashes).map(|(i, hash)| (*hash, i)).collect();
    sorted.par_sort_unstable();
    for pair in sorted.windows(2) {
        let (first, second) = (pair[0].1 as usize, pair[1].1 as usize);
        if pair[0].0 == pair[1].0 {
            let same = listed[first] == listed[second];
            let what = if same { "the same key" } else { "another key with the same hash" };
            let message = format!("sample {first} has {what}");
            problems.push(Problem::new(path, message).index(second).key(listed[second]));
        }
    }
}
