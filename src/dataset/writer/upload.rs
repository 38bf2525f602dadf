//! A dataset that goes to an object store, where nothing can be renamed, appended to or locked.
//!
//! The data go up while they are written; side files are made in a directory for temporary files of
//! this machine, and go up at the end. No object is there before it is complete, so the order in which
//! they are completed is that of a publication:
//!
//! 1. `NAME.partial`, a small object, is put where there must be none: of all writers of a dataset one
//!    gets its place. It says that the dataset is being written, and stays if the writer dies.
//! 2. all bytes go up, and no object is there yet.
//! 3. the writer looks whether `NAME.partial` is still its own. If it replaces a dataset, it removes
//!    the old one, `.offsets` first. From here on there is no dataset.
//! 4. the data, then the side files, each of which must not be there; `.offsets` last: now there is one.
//! 5. `NAME.partial` is removed.
//!
//! All files have the number of the write with them, so a reader that opens some of the old files and
//! some of the new ones, as all of them are asked for at once, sees it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::super::files::DatasetFile;
use super::super::staging::{self, Journal, Labels, Staging};
use super::options::WriterOptions;
use super::start::check_name;
use super::{Start, Writer};
use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::SideFile;
use crate::storage::{self, Expected, FileId, LocalStorage, ScratchDir, Sink, Storage};

/// Bytes that are read of a side file at a time.
const STEP: u64 = 1 << 20;

/// The files without which there is no dataset.
const GATES: [DatasetFile; 2] =
    [DatasetFile::Side(SideFile::Offsets), DatasetFile::Side(SideFile::Index)];

/// What `NAME.partial` says.
#[derive(Debug, Serialize, Deserialize)]
struct Claim {
    /// The number of the write.
    write: String,
}

/// The place of a dataset that is being uploaded, which no other writer gets. Dropped before the end,
/// it is given back.
#[derive(Debug)]
pub(super) struct Upload {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    write: u64,
    overwrite: bool,
    /// Of `NAME.partial`; `None` once that is no longer ours.
    claim: Option<FileId>,
    /// Where the side files are made.
    _scratch: Option<ScratchDir>,
    process: u32,
}

/// Starts a dataset in an object store.
pub(super) fn create(mut options: WriterOptions, path: &Path) -> Result<Writer> {
    check_name(path)?;
    let storage = options.storage.clone();
    let mut upload = Upload::begin(storage.clone(), path, options.overwrite)?;
    let scratch = ScratchDir::create()?;
    let local = Arc::new(LocalStorage::mapped());
    let name = path.file_name().unwrap_or_default();
    let staging = Staging::begin(local.clone(), &scratch.path().join(name), false)?;
    upload._scratch = Some(scratch);
    let journal = Journal::samples(None, options.digests, options.lookup);
    let journal = staging.journal(journal.checksums(options.checksums), staging.observe()?)?;
    let data = storage.create_of_write(path, upload.write)?;
    (options.storage, options.durable) = (local, false);
    let mut writer = Writer::start(options, path, staging, journal, data, Start::New)?;
    if let Some(open) = &mut writer.open {
        open.upload = Some(upload);
    }
    Ok(writer)
}

impl Upload {
    fn begin(storage: Arc<dyn Storage>, path: &Path, overwrite: bool) -> Result<Upload> {
        refuse_existing(&*storage, path, overwrite)?;
        let write = storage::random();
        let text = serde_json::to_vec(&Claim { write: format!("{write:016x}") });
        let claim_path = staging::dir_of(path);
        let text = text.map_err(|e| Error::io(&claim_path, e.into()))?;
        let claim = match storage.put_if(&claim_path, &text, Expected::Absent) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return Err(claimed(&claim_path).at(path));
            }
            claim => Some(claim?),
        };
        let path = path.to_path_buf();
        let process = std::process::id();
        let upload = Upload { storage, path, write, overwrite, claim, _scratch: None, process };
        // Another writer may have finished before this one had the place.
        refuse_existing(&*upload.storage, &upload.path, overwrite)?;
        Ok(upload)
    }

    /// Publishes what was written: the data that have gone up, and the staged files.
    pub(super) fn publish(
        mut self,
        staging: Staging,
        journal: &Journal,
        mut data: Box<dyn Sink>,
        publish: &[DatasetFile],
    ) -> Result<()> {
        let labels = Some(DatasetFile::Labels).filter(|_| journal.labels == Labels::Staged);
        let files = publish.iter().copied().chain(labels).filter(|file| *file != DatasetFile::Data);
        data.sync()?;
        let mut sinks = vec![(DatasetFile::Data, data)];
        for file in files {
            sinks.push((file, self.send(&staging, file)?));
        }
        // Stable: the data come first, and what nothing is read without last.
        sinks.sort_by_key(|(file, _)| GATES.contains(file));
        self.check_claim()?;
        if self.overwrite {
            if let Err(error) = remove_files(&*self.storage, &self.path) {
                // The mark stays: by it a repair finds what is left.
                self.claim = None;
                return Err(error.note(
                    "part of the old dataset may be removed already: a repair removes the rest",
                ));
            }
        }
        for (_, sink) in sinks {
            if let Err(error) = sink.finish() {
                // Without this the error would be about a dataset that is half there.
                return Err(match remove_of_write(&*self.storage, &self.path, self.write) {
                    Ok(()) if self.overwrite => error.note("the old dataset was removed before"),
                    Ok(()) => error,
                    Err(_) => {
                        self.claim = None;
                        error.note("part of the dataset is there, a repair removes it")
                    }
                });
            }
        }
        self.release().map_err(|error| {
            error.note("the dataset is published, but the mark of its writer is not removed")
        })?;
        // Temporary files: their directory goes anyway.
        let _ = staging.abort();
        Ok(())
    }

    /// Uploads a staged file, which is not there before it is finished.
    fn send(&self, staging: &Staging, file: DatasetFile) -> Result<Box<dyn Sink>> {
        let source = LocalStorage::mapped().open(&staging.path(file))?;
        let mut sink = self.storage.create_of_write(&file.path(&self.path), self.write)?;
        let mut at = 0;
        while at < source.len() {
            let end = source.len().min(at + STEP);
            sink.append(&source.read(at..end)?)?;
            at = end;
        }
        sink.sync()?;
        Ok(sink)
    }

    /// Fails if the place was taken away, such as by a repair.
    fn check_claim(&mut self) -> Result<()> {
        let path = staging::dir_of(&self.path);
        let found = self.storage.stat(&path)?.map(|stat| stat.id);
        if found.is_some() && found == self.claim {
            return Ok(());
        }
        self.claim = None;
        let message = "another process has repaired this dataset or begun to write it meanwhile, so \
                       nothing was published";
        Err(Error::new(ErrorKind::Foreign, message).at(&self.path))
    }

    fn release(&mut self) -> Result<()> {
        match self.claim.take() {
            Some(_) => self.storage.remove(&staging::dir_of(&self.path)),
            None => Ok(()),
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        // In a forked child it is the claim of its parent.
        let is_ours = self.process == std::process::id();
        if is_ours && self.claim.is_some() && self.check_claim().is_ok() {
            // What cannot be removed now, a repair removes.
            let _ = self.release();
        }
    }
}

fn refuse_existing(storage: &dyn Storage, path: &Path, overwrite: bool) -> Result<()> {
    if overwrite {
        return Ok(());
    }
    for file in [DatasetFile::Data, GATES[0]] {
        if storage.stat(&file.path(path))?.is_some() {
            let message = "the dataset exists already and overwriting it was not asked for";
            return Err(Error::new(ErrorKind::AlreadyExists, message).at(path));
        }
    }
    Ok(())
}

fn claimed(claim: &Path) -> Error {
    let message = format!(
        "a writer is at work on this dataset, or died while it was: {} is there",
        claim.display()
    );
    Error::new(ErrorKind::Interrupted, message)
}

/// Removes all files of a dataset, first those without which there is none.
fn remove_files(storage: &dyn Storage, path: &Path) -> Result<()> {
    let others = DatasetFile::all().filter(|file| !GATES.contains(file));
    GATES.into_iter().chain(others).try_for_each(|file| storage.remove(&file.path(path)))
}

/// The same of those that this write made.
fn remove_of_write(storage: &dyn Storage, path: &Path, write: u64) -> Result<()> {
    let others = DatasetFile::all().filter(|file| !GATES.contains(file));
    for file in GATES.into_iter().chain(others) {
        let path = file.path(path);
        if storage.open_if_exists(&path)?.is_some_and(|found| found.write_id() == Some(write)) {
            storage.remove(&path)?;
        }
    }
    Ok(())
}

/// What a writer that is at work, or died, left in an object store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// All of a dataset, and the mark that it was being written.
    Complete,
    /// No dataset, perhaps files of one.
    Files,
}

/// What is left of a write to an object store; `None` if nothing is.
pub(crate) fn left(storage: &dyn Storage, path: &Path) -> Result<Option<Left>> {
    if storage.stat(&staging::dir_of(path))?.is_none() {
        return Ok(None);
    }
    match storage.stat(&GATES[0].path(path))? {
        Some(_) => Ok(Some(Left::Complete)),
        None => Ok(Some(Left::Files)),
    }
}

/// Removes what is left, and from a writer that is alive the right to publish. A dataset that is
/// complete stays.
pub(crate) fn remove_left(storage: &dyn Storage, path: &Path, left: Left) -> Result<()> {
    if left == Left::Files {
        remove_files(storage, path)?;
    }
    storage.remove(&staging::dir_of(path))
}

/// The error of what cannot be done with a dataset that is there.
pub(super) fn no_append(path: &Path) -> Error {
    let message = "objects cannot be appended to, so neither can a dataset at a URL";
    Error::new(ErrorKind::Unsupported, message)
        .at(path)
        .advise("write the samples to a new dataset")
}
