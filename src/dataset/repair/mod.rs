//! After a crash: finishing or undoing an unfinished write, and saving what is whole.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::storage::Storage;

use super::files::DatasetFile;
use super::staging::{self, Base, Journal, Staging, Unfinished};
use super::walk::whole_samples;
use super::writer::{self, Left, Stats, WriterOptions};

mod plan;
mod salvage;

pub use plan::{Ending, RepairAction, RepairPlan, Repaired, Settled, WriteState};
pub use salvage::{Loss, Proof, Salvage, report_path};

/// The files that a killed writer left next to a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leftover {
    /// All was written and synced; only the publication was cut short. [`Repair::finish`]
    /// completes it.
    Committed,
    /// Samples were being written, or appended to the dataset that ended at `base`. The dataset
    /// that was there before, if any, is whole. [`Repair::finish`] publishes the whole samples;
    /// [`Repair::undo`] removes them.
    Samples {
        /// Where the old dataset ends, for an append.
        base: Option<Base>,
        /// Bytes that were written.
        bytes: u64,
        /// Whether there is an earlier dataset, which is what is left after [`Repair::undo`].
        earlier: bool,
        /// Whether the writer had noted that these are all of them. If not, the write was cut short, and
        /// the rest is missing.
        complete: bool,
        /// The columns that `.lengths` was to have: [`Repair::finish`] makes those that the [writer](Repair::writer)
        /// is asked for or [knows](WriterOptions::known_lengths).
        lengths: Vec<String>,
    },
    /// Something of a dataset that another program has written since. [`Repair::finish`] refuses,
    /// as that would mix the two; [`Repair::undo`] removes what was left, and the dataset stays as
    /// it is now.
    Foreign {
        /// The file that shows it.
        reason: String,
    },
    /// Nothing of worth: side files that were being made again, or less. [`Repair::undo`] removes
    /// it.
    Nothing,
}

/// A dataset to repair.
///
/// In an object store a writer leaves nothing that could be finished: there is a dataset or none.
/// Whether the writer is alive cannot be known there. One that is publishes nothing after a repair.
///
/// ```
/// use kiste::repair::{Leftover, Repair};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("cut-short.msgpack");
/// let mut writer = kiste::Writer::create(&path)?;
/// writer.write_raw("a", b"\x81\xa3key\xa1a")?;
/// drop(writer); // as if the process had been killed
///
/// let repair = Repair::of(&path);
/// assert!(matches!(repair.leftover()?, Some(Leftover::Samples { bytes: 7, .. })));
/// assert_eq!(repair.finish()?.map(|stats| stats.samples), Some(1));
/// assert_eq!(repair.leftover()?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Repair {
    path: PathBuf,
    storage: Option<Arc<dyn Storage>>,
    writer: WriterOptions,
}

impl Repair {
    /// The dataset of this name.
    pub fn of(path: impl AsRef<Path>) -> Repair {
        let (path, writer) = (path.as_ref().to_path_buf(), WriterOptions::default());
        Repair { path, storage: None, writer }
    }

    /// Where the files are. Default: where the [`writer`](Self::writer) options write, which is the
    /// local file system by default.
    pub fn storage(mut self, storage: Arc<dyn Storage>) -> Repair {
        self.storage = Some(storage);
        self
    }

    /// How [`finish`](Self::finish) and [`salvage`](Self::salvage) write: which side files, and
    /// whether over an existing output.
    pub fn writer(mut self, options: WriterOptions) -> Repair {
        self.writer = options;
        self
    }

    /// The files that a killed writer left, `None` if there are none.
    ///
    /// # Errors
    ///
    /// [`Locked`](ErrorKind::Locked) if the writer is alive.
    pub fn leftover(&self) -> Result<Option<Leftover>> {
        if let Some((storage, path)) = self.objects()? {
            return Ok(writer::left(&*storage, &path)?.map(|left| match left {
                Left::Complete => Leftover::Committed,
                Left::Files => Leftover::Nothing,
            }));
        }
        let (storage, home) = (self.files(), self.home()?);
        let Some((staging, state)) = staging::unfinished(storage, &home)? else { return Ok(None) };
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
                    Some(_) => home.clone(),
                    None => staging.path(DatasetFile::Data),
                };
                let len = storage.stat(&data)?.map_or(0, |stat| stat.len);
                let bytes = len.saturating_sub(journal.base.map_or(0, |base| base.bytes));
                let earlier = storage.stat(&home)?.is_some();
                let complete = staging.complete(&journal)?.is_some();
                let (base, lengths) = (journal.base, journal.lengths);
                Leftover::Samples { base, bytes, earlier, complete, lengths }
            }
            _ => Leftover::Nothing,
        }))
    }

    /// How many samples [`finish`](Self::finish) would publish or add: those that reached the file
    /// whole. Zero where nothing is unfinished, or nothing but the publication.
    ///
    /// # Errors
    ///
    /// As for [`leftover`](Self::leftover).
    pub fn whole_samples(&self) -> Result<u64> {
        Ok(self.found()?.0)
    }

    /// The same, and whether these are all that the write was to have.
    fn found(&self) -> Result<(u64, bool)> {
        if self.objects()?.is_some() {
            return Ok((0, false));
        }
        let (storage, home) = (self.files(), self.home()?);
        match staging::unfinished(storage, &home)? {
            Some((staging, Unfinished::Uncommitted(journal))) if !journal.side_files_only => {
                count_whole(&**storage, &home, &staging, &journal).map_err(|e| e.at(&home))
            }
            _ => Ok((0, false)),
        }
    }

    /// Finishes an unfinished write: completes its publication, or publishes the whole samples
    /// that had reached the file. Gives what the dataset is now; `None` if its publication was
    /// completed, or if no sample had reached the file: then the write is undone.
    ///
    /// If the write was cut short, its beginning is published: [`Leftover::Samples`] says whether
    /// it was.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) if nothing is unfinished, [`Locked`](ErrorKind::Locked)
    /// if the writer is alive, [`Foreign`](ErrorKind::Foreign) if another program has written the
    /// dataset since, or something is there that no writer of this crate made.
    pub fn finish(&self) -> Result<Option<Stats>> {
        if let Some((storage, path)) = self.objects()? {
            return remove_left(&*storage, &path).map(|()| None);
        }
        let (storage, home) = (self.files(), self.home()?);
        match staging::unfinished(storage, &home)? {
            None => Err(nothing_unfinished(&home)),
            Some((staging, Unfinished::Committed)) => staging.finish().map(|()| None),
            Some((staging, Unfinished::Nothing)) => staging.abort().map(|()| None),
            Some((staging, Unfinished::Uncommitted(journal))) if journal.side_files_only => {
                staging.abort().map(|()| None)
            }
            Some((staging, Unfinished::Uncommitted(journal))) => {
                if let Some(why) = staging.rewritten(&journal)? {
                    let message = staging::overtaken_message(&why);
                    return Err(Error::new(ErrorKind::Foreign, message).at(&home));
                }
                // An empty dataset is no replacement for one that has samples.
                let (found, complete) = count_whole(&**storage, &home, &staging, &journal)?;
                if found == 0 {
                    return staging.abort().map(|()| None);
                }
                drop(staging);
                self.writer_options().finishing(complete).resume(&home)?.finish().map(Some)
            }
        }
    }

    /// Undoes an unfinished write: what was there before is left, nothing else. A publication that
    /// was cut short is taken back, unless readers may have seen the new dataset: then it is
    /// completed. Where another program has written the dataset since, that stays as it is.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) if nothing is unfinished, [`Locked`](ErrorKind::Locked)
    /// if the writer is alive, [`Foreign`](ErrorKind::Foreign) if something is there that no
    /// writer of this crate made.
    pub fn undo(&self) -> Result<()> {
        if let Some((storage, path)) = self.objects()? {
            return remove_left(&*storage, &path);
        }
        let home = self.home()?;
        match staging::unfinished(self.files(), &home)? {
            None => Err(nothing_unfinished(&home)),
            Some((staging, Unfinished::Committed)) => staging.undo(),
            Some((staging, _)) => staging.abort(),
        }
    }

    /// Copies every whole sample of a damaged or half-written dataset to a new one.
    ///
    /// Where the offsets can be believed they say where each sample begins; where not, the data is
    /// walked from sample to sample, and after damage searched for the next map with a `key`. Side
    /// files are rebuilt. If the dataset was never finished, what had been written is taken.
    ///
    /// Where there is a `.crc` of this dataset, samples that do not match their checksums are left
    /// out and the others are proven whole; the output has a `.crc` too. Where there is a digest it
    /// is compared, and [`Salvage::proof`] says what is known of the samples. If anything was lost
    /// or the data does not match its MD5, a report is written next to the output
    /// ([`report_path`]): it keeps the old digests, as the output gets new ones.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) for the output, or any other of
    /// [`WriterOptions::create`].
    pub fn salvage(&self, output: impl AsRef<Path>) -> Result<Salvage> {
        salvage::run(&self.path, output.as_ref(), self.writer_options())
    }

    /// The object store that the name leads to, and the name in it.
    fn objects(&self) -> Result<Option<(Arc<dyn Storage>, PathBuf)>> {
        let found = match &self.storage {
            Some(storage) => (storage.clone(), self.path.clone()),
            None => {
                let (options, path) = self.writer.clone().resolved(&self.path)?;
                (options.storage_of().clone(), path)
            }
        };
        Ok(Some(found).filter(|(storage, _)| storage.is_object_store()))
    }

    fn files(&self) -> &Arc<dyn Storage> {
        self.storage.as_ref().unwrap_or(self.writer.storage_of())
    }

    fn writer_options(&self) -> WriterOptions {
        self.writer.clone().storage(self.files().clone())
    }

    /// Where the leftover is: an append through a symbolic link is next to what it leads to.
    fn home(&self) -> Result<PathBuf> {
        staging::home(&**self.files(), &self.path)
    }
}

/// How many samples of an unfinished write or append reached the file whole, and whether these are all.
fn count_whole(
    storage: &dyn Storage,
    path: &Path,
    staging: &Staging,
    journal: &Journal,
) -> Result<(u64, bool)> {
    let (data, start) = match journal.base {
        Some(base) => (path.to_path_buf(), base.bytes),
        None => (staging.path(DatasetFile::Data), 0),
    };
    if storage.stat(&data)?.is_none() {
        return Ok((0, false));
    }
    let source = storage.open(&data)?;
    let bytes = source.read(start.min(source.len())..source.len())?;
    let found = whole_samples(&bytes).count() as u64;
    let all = journal.base.map_or(0, |base| base.samples).saturating_add(found);
    Ok((found, staging.complete(journal)? == Some(all)))
}

/// Removes what a writer left in an object store; a dataset that is complete stays.
fn remove_left(storage: &dyn Storage, path: &Path) -> Result<()> {
    match writer::left(storage, path)? {
        Some(_) => writer::remove_left(storage, path),
        None => Err(nothing_unfinished(path)),
    }
}

fn nothing_unfinished(path: &Path) -> Error {
    Error::new(ErrorKind::NotFound, "no unfinished write was left here").at(path)
}
