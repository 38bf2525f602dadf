//! After a crash: finishing or undoing an unfinished write, and saving what is whole.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use md5::{Digest as _, Md5};
use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::{SideFile, crc, keys, offsets};
use crate::format::hex;
use crate::format::msgpack::{self, Cursor};
use crate::index::{self, Checksums};
use crate::staging::{self, Journal, Staging, Unfinished};
use crate::storage::{LocalStorage, ReplaceFile, ReplaceOptions, Source, Storage};
use crate::writer::{Base, Stats, Writer, WriterOptions};

/// What a writer that died left beside a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leftover {
    /// All was written and synced; only the publication was cut short. [`finish`] completes it.
    Committed,
    /// Samples were being written, or appended to the dataset that ended at `base`. The dataset
    /// that was there before, if any, is whole. [`finish`] publishes the whole samples; [`undo`]
    /// removes them.
    Samples {
        /// Where the old dataset ends, for an append.
        base: Option<Base>,
        /// Bytes that were written.
        bytes: u64,
        /// Whether there is an earlier dataset, which is what is left after [`undo`].
        earlier: bool,
    },
    /// Something of a dataset that another program has written since. [`finish`] refuses, as that
    /// would mix the two; [`undo`] removes what was left, and the dataset stays as it is now.
    Foreign {
        /// By which file this shows.
        reason: String,
    },
    /// Nothing of worth: side files that were being made again, or less. [`undo`] removes it.
    Nothing,
}

/// Where to repair, and how to write what is saved.
///
/// The functions of this module are shortcuts to its methods with the defaults.
///
/// ```
/// use kiste::repair::{Leftover, RepairOptions};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("cut-short.msgpack");
/// let mut writer = kiste::Writer::create(&path)?;
/// writer.write_raw("a", b"\x81\xa3key\xa1a")?;
/// drop(writer); // as if the process had died
///
/// let repair = RepairOptions::default().writer(kiste::Writer::options().digests(false));
/// assert!(matches!(repair.inspect(&path)?, Some(Leftover::Samples { bytes: 7, .. })));
/// assert_eq!(repair.finish(&path)?.map(|stats| stats.samples), Some(1));
/// assert_eq!(repair.inspect(&path)?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct RepairOptions {
    storage: Arc<dyn Storage>,
    writer: WriterOptions,
}

impl Default for RepairOptions {
    fn default() -> Self {
        let storage = Arc::new(LocalStorage::mapped());
        RepairOptions { storage, writer: WriterOptions::default() }
    }
}

impl RepairOptions {
    /// Where the files are. Default: the local file system.
    pub fn storage(mut self, storage: Arc<dyn Storage>) -> Self {
        self.storage = storage;
        self
    }

    /// How [`finish`](Self::finish) and [`salvage`](Self::salvage) write: which side files,
    /// whether over an existing output. The storage of these options does not count, that of
    /// [`storage`](Self::storage) does.
    pub fn writer(mut self, options: WriterOptions) -> Self {
        self.writer = options;
        self
    }

    /// What a writer that died left. See [`inspect`].
    pub fn inspect(&self, path: impl AsRef<Path>) -> Result<Option<Leftover>> {
        inspect_in(&self.storage, &self.home(path.as_ref())?)
    }

    /// Finishes an unfinished write. See [`finish`].
    pub fn finish(&self, path: impl AsRef<Path>) -> Result<Option<Stats>> {
        finish_in(&self.writer, &self.storage, &self.home(path.as_ref())?)
    }

    /// How many samples [`finish`](Self::finish) would publish. See [`whole_samples`].
    pub fn whole_samples(&self, path: impl AsRef<Path>) -> Result<u64> {
        whole_samples_in(&self.storage, &self.home(path.as_ref())?)
    }

    /// Undoes an unfinished write. See [`undo`].
    pub fn undo(&self, path: impl AsRef<Path>) -> Result<()> {
        undo_in(&self.storage, &self.home(path.as_ref())?)
    }

    /// Where the leftover is: an append through a symbolic link is next to what it leads to.
    fn home(&self, path: &Path) -> Result<PathBuf> {
        staging::home(&*self.storage, path)
    }

    /// Copies every whole sample to a new dataset. See [`salvage`].
    pub fn salvage(&self, path: impl AsRef<Path>, output: impl AsRef<Path>) -> Result<Salvage> {
        let options = self.writer.clone().storage(self.storage.clone());
        salvage_in(&self.storage, path.as_ref(), output.as_ref(), options)
    }
}

/// What was left by a writer that died, `None` if nothing was.
///
/// # Errors
///
/// [`Locked`](ErrorKind::Locked) if the writer is alive.
pub fn inspect(path: impl AsRef<Path>) -> Result<Option<Leftover>> {
    RepairOptions::default().inspect(path)
}

fn inspect_in(storage: &Arc<dyn Storage>, path: &Path) -> Result<Option<Leftover>> {
    let Some((staging, state)) = staging::unfinished(storage, path)? else { return Ok(None) };
    let foreign = match &state {
        Unfinished::Committed => staging.overtaken()?,
        // Side files that were being made are of no worth either way.
        Unfinished::Uncommitted(journal) if !journal.side_files_only => {
            staging.rewritten(journal)?
        }
        _ => None,
    };
    if let Some(reason) = foreign {
        return Ok(Some(Leftover::Foreign { reason }));
    }
    Ok(Some(match state {
        Unfinished::Committed => Leftover::Committed,
        Unfinished::Uncommitted(journal) if !journal.side_files_only => {
            let data = match journal.base {
                Some(_) => path.to_path_buf(),
                None => staging.path(None),
            };
            let len = storage.stat(&data)?.map_or(0, |stat| stat.len);
            let bytes = len.saturating_sub(journal.base.map_or(0, |base| base.bytes));
            let earlier = storage.stat(path)?.is_some();
            Leftover::Samples { base: journal.base, bytes, earlier }
        }
        _ => Leftover::Nothing,
    }))
}

/// How many samples [`finish`] would publish or add: those that reached the file whole. Zero
/// where nothing is unfinished, or nothing but the publication.
///
/// # Errors
///
/// As for [`inspect`].
pub fn whole_samples(path: impl AsRef<Path>) -> Result<u64> {
    RepairOptions::default().whole_samples(path)
}

fn whole_samples_in(storage: &Arc<dyn Storage>, path: &Path) -> Result<u64> {
    match staging::unfinished(storage, path)? {
        Some((staging, Unfinished::Uncommitted(journal))) if !journal.side_files_only => {
            count_whole(&**storage, path, &staging, &journal).map_err(|e| e.at(path))
        }
        _ => Ok(0),
    }
}

/// How many samples of an unfinished write or append reached the file whole.
fn count_whole(
    storage: &dyn Storage,
    path: &Path,
    staging: &Staging,
    journal: &Journal,
) -> Result<u64> {
    let (data, start) = match journal.base {
        Some(base) => (path.to_path_buf(), base.bytes),
        None => (staging.path(None), 0),
    };
    if storage.stat(&data)?.is_none() {
        return Ok(0);
    }
    let source = storage.open(&data)?;
    let bytes = source.read(start.min(source.len())..source.len())?;
    let mut cursor = Cursor::new(&bytes);
    let mut samples = 0;
    while !cursor.is_at_end() {
        let Ok(raw) = cursor.skip_raw() else { break };
        if msgpack::check_sample(raw).is_err() {
            break;
        }
        samples += 1;
    }
    Ok(samples)
}

/// Finishes an unfinished write: completes its publication, or publishes the whole samples that
/// had reached the file. What the dataset is now; `None` if its publication was completed, or if no
/// sample had reached the file: then the write is undone.
///
/// # Errors
///
/// [`NotFound`](ErrorKind::NotFound) if nothing is unfinished, [`Locked`](ErrorKind::Locked) if
/// the writer is alive, [`Foreign`](ErrorKind::Foreign) if another program has written the dataset
/// since, or something lies there that no writer of ours made.
pub fn finish(path: impl AsRef<Path>) -> Result<Option<Stats>> {
    RepairOptions::default().finish(path)
}

fn finish_in(
    options: &WriterOptions,
    storage: &Arc<dyn Storage>,
    path: &Path,
) -> Result<Option<Stats>> {
    match staging::unfinished(storage, path)? {
        None => Err(nothing_unfinished(path)),
        Some((staging, Unfinished::Committed)) => staging.finish().map(|()| None),
        Some((staging, Unfinished::Nothing)) => staging.abort().map(|()| None),
        Some((staging, Unfinished::Uncommitted(journal))) if journal.side_files_only => {
            staging.abort().map(|()| None)
        }
        Some((staging, Unfinished::Uncommitted(journal))) => {
            if let Some(why) = staging.rewritten(&journal)? {
                let message = staging::overtaken_message(&why);
                return Err(Error::new(ErrorKind::Foreign, message).at(path));
            }
            // An empty dataset is no replacement for one that has samples.
            if count_whole(&**storage, path, &staging, &journal)? == 0 {
                return staging.abort().map(|()| None);
            }
            drop(staging);
            let writer = options.clone().storage(storage.clone()).resume(path)?;
            writer.finish().map(Some)
        }
    }
}

/// Undoes an unfinished write: what was there before is left, nothing else. A publication that was
/// cut short is taken back, unless readers may have seen the new dataset: then it is completed.
/// Where another program has written the dataset since, that stays as it is.
///
/// # Errors
///
/// [`NotFound`](ErrorKind::NotFound) if nothing is unfinished, [`Locked`](ErrorKind::Locked) if
/// the writer is alive, [`Foreign`](ErrorKind::Foreign) if something lies there that no writer of
/// ours made.
pub fn undo(path: impl AsRef<Path>) -> Result<()> {
    RepairOptions::default().undo(path)
}

fn undo_in(storage: &Arc<dyn Storage>, path: &Path) -> Result<()> {
    match staging::unfinished(storage, path)? {
        None => Err(nothing_unfinished(path)),
        Some((staging, Unfinished::Committed)) => staging.undo(),
        Some((staging, _)) => staging.abort(),
    }
}

fn nothing_unfinished(path: &Path) -> Error {
    Error::new(ErrorKind::NotFound, "no unfinished write was left here").at(path)
}

/// What [`salvage`] saved and what it could not.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct Salvage {
    /// The file that was read: the data file, or that of an unfinished write.
    pub source: PathBuf,
    /// Samples saved.
    pub samples: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// What could not be saved.
    pub lost: Vec<Loss>,
    /// What says that the samples saved are those that were written.
    pub proof: Proof,
    /// Whether the data matches the MD5 that was recorded of it; `None` if none was.
    pub matches_md5: Option<bool>,
    /// The digests that were recorded of the dataset that was read, by the names of its files.
    pub old_digests: BTreeMap<String, String>,
    /// The MD5 of the new data file, if it was computed. Not in the report, which is written before
    /// the new dataset can be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub md5: Option<String>,
    /// The file with all of this, if anything was lost or the data does not match its MD5: the new
    /// dataset, whose digests are right, has other samples than the old digests are of.
    pub report: Option<PathBuf>,
}

/// What says that samples are those that were written. What an append had added that was cut short
/// has no digest and no checksums.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Proof {
    /// Nothing: there is neither a digest nor a checksum. Each of them is well-formed, no more.
    #[default]
    None,
    /// Each matches its checksum in `.crc`.
    Checksums,
    /// The data matches its MD5.
    Digest,
    /// Nothing, and some byte is wrong: the data does not match its MD5, and there are no checksums
    /// to say where. It may be in what was lost, or in a sample that was saved.
    Doubtful,
}

/// A part of a data file that was not saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Loss {
    /// The sample, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
    /// Its key, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Where.
    pub bytes: Range<u64>,
    /// Why.
    pub reason: String,
}

/// What is appended to the name of a dataset for the report on how it was saved.
const REPORT: &str = ".repair.json";

/// Where [`salvage`] leaves its report, if there is anything to tell.
pub fn report_path(output: impl AsRef<Path>) -> PathBuf {
    let mut name = output.as_ref().as_os_str().to_os_string();
    name.push(REPORT);
    PathBuf::from(name)
}

/// Copies every whole sample of a damaged or half-written dataset to a new one.
///
/// Where the offsets can be believed they say where each sample begins; where not, the data is
/// walked from sample to sample, and after damage searched for the next map with a `key`. Side
/// files are made anew. If the dataset was never finished, what had been written is taken.
///
/// Where there is a `.crc` of this dataset, samples that do not match their checksums are left out
/// and the others are proven whole; the output has a `.crc` too. Where there is a digest it is
/// compared, and [`Salvage::proof`] says what is known of the samples. If anything was lost or the
/// data does not match its MD5, a report is written next to the output ([`report_path`]): it keeps
/// the old digests, as the output gets new ones.
///
/// # Errors
///
/// [`AlreadyExists`](ErrorKind::AlreadyExists) for the output, or any other of
/// [`WriterOptions::create`].
pub fn salvage(
    path: impl AsRef<Path>,
    output: impl AsRef<Path>,
    options: WriterOptions,
) -> Result<Salvage> {
    RepairOptions::default().writer(options).salvage(path, output)
}

fn salvage_in(
    storage: &Arc<dyn Storage>,
    path: &Path,
    output: &Path,
    options: WriterOptions,
) -> Result<Salvage> {
    let partial = staging::staged_data(&**storage, path)?;
    let half_written = partial.is_some();
    let source = partial.unwrap_or_else(|| path.to_path_buf());
    let data = storage.open(&source)?;
    let bytes = data.read(0..data.len())?;
    let hints = if half_written { Vec::new() } else { believable_offsets(&**storage, path, &data) };
    let known = match half_written {
        true => None,
        false => Known::open(storage, path)?,
    };
    let (recorded, old_digests) = match half_written {
        true => Default::default(),
        false => (index::recorded_md5(storage, path)?, old_digests(storage, path)?),
    };
    // An append that was cut short has written behind what the digest is of.
    let journal = staging::journal_of(&**storage, path).unwrap_or(None);
    let base = journal.and_then(|journal| journal.base);
    let signed = base.map_or(data.len(), |base| base.bytes.min(data.len()));
    let options = if known.is_some() { options.checksums(true) } else { options };
    let report_path = report_path(output);
    let is_there = |path: &Path| storage.lstat(path);
    // One without an output is of a run that was cut short.
    let is_taken = is_there(&report_path)?.is_some() && is_there(output)?.is_some();
    if !options.overwrites() && is_taken {
        let message = "the file exists already and overwriting it was not asked for";
        return Err(Error::new(ErrorKind::AlreadyExists, message).at(report_path));
    }
    let writer = options.create(output)?;
    let mut report = Salvage { source: source.clone(), old_digests, ..Salvage::default() };
    let (md5, saved) = rayon::join(
        || match recorded {
            Some(_) => md5_of(&data, signed).map(Some),
            None => Ok(None),
        },
        || report.save_all(writer, &bytes, &hints, known.as_ref()),
    );
    let writer = saved?;
    let md5 = md5?;
    report.matches_md5 = recorded.map(|recorded| md5 == Some(recorded));
    report.proof = match (report.matches_md5, known) {
        (Some(true), _) => Proof::Digest,
        (_, Some(_)) => Proof::Checksums,
        (Some(false), None) => Proof::Doubtful,
        (None, None) => Proof::None,
    };
    // Before the output can be seen: its digests do not tell.
    if is_there(&report_path)?.is_some() {
        storage.remove(&report_path)?;
    }
    (report.samples, report.bytes) = (writer.len(), writer.bytes());
    if !report.lost.is_empty() || report.matches_md5 == Some(false) {
        report.report = Some(report_path.clone());
        report.write(&**storage, &report_path)?;
    }
    let stats = writer.finish()?;
    report.md5 = stats.md5.map(|md5| hex(&md5));
    Ok(report)
}

fn md5_of(data: &Source, len: u64) -> Result<[u8; 16]> {
    let mut md5 = Md5::new();
    index::digest_into(&mut md5, data, 0..len)?;
    Ok(md5.finalize().into())
}

/// The lines of the `.md5` of a dataset, if it has one that can be read.
fn old_digests(storage: &Arc<dyn Storage>, path: &Path) -> Result<BTreeMap<String, String>> {
    let path = SideFile::Md5.path(path);
    match index::read_digests(storage, &path) {
        Ok(lines) => Ok(lines.iter().map(|(name, md5)| (name.to_owned(), hex(md5))).collect()),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Damaged) => {
            Ok(BTreeMap::new())
        }
        Err(e) => Err(e),
    }
}

/// What `.crc` says of the samples of a dataset, and the offsets that it is of.
struct Known {
    checksums: Checksums,
    ends: Vec<u64>,
    keys: Vec<String>,
}

impl Known {
    /// `None` unless there are checksums that can be believed.
    ///
    /// The data may be shorter or longer than the offsets say, as that is what damage may be: then
    /// the checksums of the samples that are there still hold.
    fn open(storage: &Arc<dyn Storage>, path: &Path) -> Result<Option<Known>> {
        let Ok(file) = storage.open(&SideFile::Offsets.path(path)) else { return Ok(None) };
        let Ok(bytes) = file.read(0..file.len()) else { return Ok(None) };
        let Ok(count) = offsets::count(file.len()) else { return Ok(None) };
        let ends: Vec<u64> =
            (0..=count as usize).filter_map(|i| offsets::entry(&bytes, i)).collect();
        if ends[0] != 0 || !ends.is_sorted() {
            return Ok(None);
        }
        let found = index::open_checksums(&**storage, path, || {
            Ok(crc::Source {
                count,
                data_len: ends[count as usize],
                md5: index::recorded_md5(storage, path)?,
                offsets: crc::checksum(&bytes),
            })
        })?;
        let Some(checksums) = found.current() else { return Ok(None) };
        // Only for messages.
        let keys = storage.open(&SideFile::Keys.path(path)).ok().and_then(|file| {
            let bytes = file.read(0..file.len()).ok()?;
            let keys: Result<Vec<_>, _> =
                keys::Keys::parse(&bytes).ok()?.map(|key| key.map(str::to_owned)).collect();
            keys.ok().filter(|keys| keys.len() as u64 == count)
        });
        Ok(Some(Known { checksums, ends, keys: keys.unwrap_or_default() }))
    }
}

impl Salvage {
    /// Whether every sample was saved and is known, as far as there is anything to know it by, to
    /// be as it was written.
    pub fn is_complete(&self) -> bool {
        self.lost.is_empty() && self.matches_md5 != Some(false)
    }

    fn save_all(
        &mut self,
        mut writer: Writer,
        bytes: &[u8],
        hints: &[u64],
        known: Option<&Known>,
    ) -> Result<Writer> {
        let walked_to = match known {
            Some(known) => self.save_known(&mut writer, bytes, known)?,
            None => self.save_hinted(&mut writer, bytes, hints)?,
        };
        self.walk(&mut writer, bytes, walked_to..bytes.len())?;
        Ok(writer)
    }

    /// Saves what is whole by the offsets. Where one sample is not, either its bytes or an offset is
    /// wrong: such a stretch is walked. From where on that is still to be done.
    fn save_hinted(&mut self, writer: &mut Writer, bytes: &[u8], hints: &[u64]) -> Result<usize> {
        let mut walked_to = 0;
        for pair in hints.windows(2) {
            let range = pair[0] as usize..pair[1] as usize;
            if msgpack::check_sample(&bytes[range.clone()]).is_ok() {
                self.walk(writer, bytes, walked_to..range.start)?;
                walked_to = range.end;
                self.save(writer, bytes, range)?;
            }
        }
        Ok(walked_to)
    }

    /// Saves what matches its checksum: the offsets are right, so nothing else is a sample. Where
    /// that ends: behind it is what an append had written that was cut short.
    fn save_known(&mut self, writer: &mut Writer, bytes: &[u8], known: &Known) -> Result<usize> {
        for (index, pair) in known.ends.windows(2).enumerate() {
            let sample = |start, end| {
                let range = usize::try_from(start).ok()?..usize::try_from(end).ok()?;
                Some((bytes.get(range.clone())?, range))
            };
            let Some((sample, range)) = sample(pair[0], pair[1]) else {
                let (len, last) = (bytes.len(), known.ends.len() - 2);
                let end = known.ends.last().copied().unwrap_or_default();
                let reason =
                    format!("the data ends at byte {len}: samples {index} to {last} are not there");
                self.lost.push(Loss { index: None, key: None, bytes: pair[0]..end, reason });
                return Ok(len);
            };
            let wrong = match known.checksums.compare(index, sample)? {
                Some(mismatch) => Some(mismatch.to_string()),
                None => msgpack::check_sample(sample).err().map(|e| e.to_string()),
            };
            match wrong {
                None => self.save(writer, bytes, range)?,
                Some(reason) => {
                    self.lose(range, reason);
                    if let Some(loss) = self.lost.last_mut() {
                        loss.index = Some(index as u64);
                        loss.key = known.keys.get(index).cloned();
                    }
                }
            }
        }
        Ok(known.ends.last().map_or(0, |end| *end as usize))
    }

    /// Saves what can be found in these bytes.
    fn walk(&mut self, writer: &mut Writer, bytes: &[u8], range: Range<usize>) -> Result<()> {
        let bytes = &bytes[..range.end];
        let mut at = range.start;
        while at < range.end {
            match sample_at(bytes, at) {
                Ok(end) => {
                    self.save(writer, bytes, at..end)?;
                    at = end;
                }
                Err(reason) => {
                    let next = (at + 1..range.end).find(|next| sample_at(bytes, *next).is_ok());
                    let next = next.unwrap_or(range.end);
                    self.lose(at..next, reason);
                    at = next;
                }
            }
        }
        Ok(())
    }

    fn save(&mut self, writer: &mut Writer, bytes: &[u8], range: Range<usize>) -> Result<()> {
        match writer.write_packed(&bytes[range.clone()]) {
            Err(e) if e.kind() == ErrorKind::DuplicateKey => {
                self.lose(range, e.to_string());
                Ok(())
            }
            result => result,
        }
    }

    fn lose(&mut self, range: Range<usize>, reason: String) {
        let bytes = range.start as u64..range.end as u64;
        self.lost.push(Loss { index: None, key: None, bytes, reason });
    }

    /// Leaves the report next to the output, in place of an older one.
    fn write(&self, storage: &dyn Storage, path: &Path) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(self).map_err(|e| Error::io(path, e.into()))?;
        text.push(b'\n');
        let mut file = ReplaceFile::create_in(storage, path, &ReplaceOptions::default())?;
        file.append(&text)?;
        file.finish()
    }
}

/// Where the sample that begins here ends.
fn sample_at(bytes: &[u8], at: usize) -> Result<usize, String> {
    let rest = &bytes[at..];
    // Cheap for what is clearly none: a search asks at every byte.
    if !matches!(rest.first(), Some(0x81..=0x8f | 0xde | 0xdf)) {
        return Err("expected a map, found something else".to_string());
    }
    let mut cursor = Cursor::new(rest);
    let raw = cursor.skip_raw().map_err(|e| e.to_string())?;
    msgpack::check_sample(raw).map_err(|e| e.to_string())?;
    Ok(at + cursor.position())
}

/// The offsets that make sense: from 0, ascending, within the data. Empty if the first does not.
fn believable_offsets(storage: &dyn Storage, path: &Path, data: &Source) -> Vec<u64> {
    let Ok(file) = storage.open(&SideFile::Offsets.path(path)) else { return Vec::new() };
    let Ok(bytes) = file.read(0..file.len()) else { return Vec::new() };
    let entries = (0..bytes.len() / 8).map_while(|i| offsets::entry(&bytes, i));
    let mut believed: Vec<u64> = Vec::new();
    for entry in entries {
        let sensible = match believed.last() {
            None => entry == 0,
            Some(last) => entry > *last && entry <= data.len(),
        };
        if !sensible {
            break;
        }
        believed.push(entry);
    }
    believed
}
