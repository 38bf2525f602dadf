//! After a crash: finishing or undoing an unfinished write, and saving what is whole.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::{SideFile, offsets};
use crate::format::msgpack::{self, Cursor};
use crate::staging::{self, Journal, Staging, Unfinished};
use crate::storage::{LocalStorage, Source, Storage};
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
        inspect_in(&self.storage, path.as_ref())
    }

    /// Finishes an unfinished write. See [`finish`].
    pub fn finish(&self, path: impl AsRef<Path>) -> Result<Option<Stats>> {
        finish_in(&self.writer, &self.storage, path.as_ref())
    }

    /// How many samples [`finish`](Self::finish) would publish. See [`whole_samples`].
    pub fn whole_samples(&self, path: impl AsRef<Path>) -> Result<u64> {
        whole_samples_in(&self.storage, path.as_ref())
    }

    /// Undoes an unfinished write. See [`undo`].
    pub fn undo(&self, path: impl AsRef<Path>) -> Result<()> {
        undo_in(&self.storage, path.as_ref())
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
    let at = |e| Error::io(path, e);
    let Some((staging, state)) = staging::unfinished(storage, path)? else { return Ok(None) };
    let foreign = match &state {
        Unfinished::Committed => staging.overtaken()?,
        Unfinished::Uncommitted(journal) => staging.rewritten(journal)?,
        Unfinished::Nothing => None,
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
            let len = storage.stat(&data).map_err(at)?.map_or(0, |stat| stat.len);
            let bytes = len.saturating_sub(journal.base.map_or(0, |base| base.bytes));
            let earlier = storage.stat(path).map_err(at)?.is_some();
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
    let at = |e| Error::io(&data, e);
    if storage.stat(&data).map_err(at)?.is_none() {
        return Ok(0);
    }
    let source = storage.open(&data).map_err(at)?;
    let bytes = source.read(start.min(source.len())..source.len()).map_err(at)?;
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
}

/// A part of a data file that holds no whole sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// Where.
    pub bytes: Range<u64>,
    /// Why.
    pub reason: String,
}

/// Copies every whole sample of a damaged or half-written dataset to a new one.
///
/// Where the offsets can be believed they say where each sample begins; where not, the data is
/// walked from sample to sample, and after damage searched for the next map with a `key`. Side
/// files are made anew. If the dataset was never finished, what had been written is taken.
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
    let at = |e| Error::io(&source, e);
    let data = storage.open(&source).map_err(at)?;
    let bytes = data.read(0..data.len()).map_err(at)?;
    let hints = if half_written { Vec::new() } else { believable_offsets(&**storage, path, &data) };
    let mut writer = options.create(output)?;
    let mut report = Salvage { source: source.clone(), ..Salvage::default() };
    // Where one hinted sample is not whole, either its bytes or an offset is wrong: such a stretch
    // is walked.
    let mut walked_to = 0;
    for pair in hints.windows(2) {
        let range = pair[0] as usize..pair[1] as usize;
        if msgpack::check_sample(&bytes[range.clone()]).is_ok() {
            report.walk(&mut writer, &bytes, walked_to..range.start)?;
            walked_to = range.end;
            report.save(&mut writer, &bytes, range)?;
        }
    }
    report.walk(&mut writer, &bytes, walked_to..bytes.len())?;
    let stats = writer.finish()?;
    report.samples = stats.samples;
    report.bytes = stats.bytes;
    Ok(report)
}

impl Salvage {
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
        self.lost.push(Loss { bytes: range.start as u64..range.end as u64, reason });
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
