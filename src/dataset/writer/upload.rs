//! A dataset that goes to an object store, where nothing can be renamed, appended to or locked.
//!
//! The data go up while they are written; side files are made in a directory for temporary files of
//! this machine, and go up at the end. No object is there before it is complete, so the order in
//! which they are completed is the order of a publication:
//!
//! 1. `NAME.partial`, a small object, is created, which fails if it exists: of all writers of a
//!    dataset one gets its place. It says that the dataset is being written, and stays if the writer
//!    is killed. Before the first part of an upload goes up, its id is noted there: so it can be
//!    aborted later.
//! 2. all bytes go up, and no object is there yet.
//! 3. the writer looks whether `NAME.partial` is still its own. If it replaces a dataset, it removes
//!    the old one, `.offsets` first. From here on there is no dataset.
//! 4. the data, then the side files are created, which fails if one exists; `.offsets` last: now
//!    there is a dataset.
//! 5. `NAME.partial` is removed, if it is still its own. A write that others may continue first notes there that all
//!    files are there: from then on they leave it.
//!
//! A process that wants the place of a writer replaces `NAME.partial` first, and by that takes its right to
//! publish away: a repair does, and so does a writer that knows the number of the write which it
//! [continues](WriterOptions::write_number).
//!
//! All files have the number of the write with them, so a reader that opens some of the old files and
//! some of the new ones, as all of them are asked for at once, sees it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::super::files::DatasetFile;
use super::super::staging::{self, Journal, Labels, Staging};
use super::options::{WriteNumber, WriterOptions};
use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::SideFile;
use crate::note;
use crate::storage::{self, Create, Expected, FileId, LocalStorage, ScratchDir, Sink, Storage};

/// Bytes that are read of a side file at a time.
const STEP: u64 = 1 << 20;
/// The most bytes of `NAME.partial` that are read.
const MAX_CLAIM: u64 = 1 << 20;

/// The files without which there is no dataset.
const GATES: [DatasetFile; 2] =
    [DatasetFile::Side(SideFile::Offsets), DatasetFile::Side(SideFile::Index)];

/// The content of `NAME.partial`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    /// The number of the write.
    write: String,
    /// Uploads in parts that were begun, including the uploads of earlier writers of the place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    uploads: Vec<BegunUpload>,
    /// Whether all files are there, and only the claim is left to remove. A process that takes the place before
    /// this is noted removes them; after that, one that continues the write knows that there is nothing to do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    done: bool,
}

/// An upload in parts.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BegunUpload {
    /// The suffix of the file.
    file: String,
    id: String,
}

impl Claim {
    /// The claim, and the object that makes it. One that cannot be understood claims the place as
    /// well.
    fn read(storage: &dyn Storage, dataset: &Path) -> Result<Option<(Claim, FileId)>> {
        let Some(source) = storage.open_if_exists(&staging::dir_of(dataset))? else {
            return Ok(None);
        };
        let text = source.read(0..source.len().min(MAX_CLAIM))?;
        Ok(Some((note::parsed(&text).unwrap_or_default(), source.id())))
    }

    fn put(&self, storage: &dyn Storage, dataset: &Path, expected: Expected) -> Result<FileId> {
        let path = staging::dir_of(dataset);
        let text = serde_json::to_string(self).map_err(|e| Error::io(&path, e.into()))?;
        storage.put_if(&path, note::sealed(&text).as_bytes(), expected)
    }

    fn is_of(&self, write: u64) -> bool {
        self.write == rendered(write)
    }

    /// Discards the parts of uploads that were not completed.
    fn abort_uploads(&self, storage: &dyn Storage, dataset: &Path) -> Result<()> {
        self.uploads.iter().try_for_each(|upload| match DatasetFile::of_suffix(&upload.file) {
            Some(file) => storage.abort_upload(&file.path(dataset), &upload.id),
            None => Ok(()),
        })
    }
}

fn rendered(write: u64) -> String {
    format!("{write:016x}")
}

/// A claim of this writer.
#[derive(Debug)]
struct Held {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    write: u64,
    claim: Claim,
    /// Whether it may still be ours.
    is_held: bool,
}

/// The place of a writer, taken by a process that adds a file to a dataset.
pub(crate) struct Place(Held);

impl Place {
    /// Takes it.
    ///
    /// # Errors
    ///
    /// [`Interrupted`](ErrorKind::Interrupted) if it is taken.
    pub(crate) fn take(storage: &Arc<dyn Storage>, path: &Path) -> Result<Place> {
        let write = storage::random();
        let (claim, _) = claim(&**storage, path, write, &[])?;
        Ok(Place(Held::new(storage.clone(), path.to_path_buf(), write, claim)))
    }

    /// Gives it back, unless another process has taken it.
    pub(crate) fn give_back(mut self) -> Result<()> {
        self.0.release()
    }
}

impl Held {
    fn new(storage: Arc<dyn Storage>, path: PathBuf, write: u64, claim: Claim) -> Held {
        Held { storage, path, write, claim, is_held: true }
    }

    /// Which object it is; `None` if it is no longer ours.
    fn find(&mut self) -> Result<Option<FileId>> {
        if self.is_held {
            if let Some((claim, id)) = Claim::read(&*self.storage, &self.path)? {
                if claim.is_of(self.write) {
                    return Ok(Some(id));
                }
            }
        }
        self.is_held = false;
        Ok(None)
    }

    /// Fails if the place was taken away, such as by a repair.
    fn check(&mut self) -> Result<FileId> {
        self.find()?.ok_or_else(|| lost(&self.path))
    }

    /// Notes an upload before its first part, so that it can be aborted if this process is killed.
    fn note(&mut self, file: DatasetFile, id: &str) -> Result<()> {
        let version = self.check()?;
        self.claim.uploads.push(BegunUpload { file: file.suffix().into(), id: id.to_owned() });
        // Only over our own claim: a repair may have taken the place since the look.
        let put = self.claim.put(&*self.storage, &self.path, Expected::Version(version));
        put.map(drop).map_err(|error| match error.kind() {
            ErrorKind::Replaced => lost(&self.path),
            _ => error,
        })
    }

    /// Notes that everything is there. `false` if the place was taken away before.
    fn complete(&mut self) -> Result<bool> {
        let Some(version) = self.find()? else { return Ok(false) };
        self.claim = Claim { uploads: Vec::new(), done: true, ..self.claim.clone() };
        match self.claim.put(&*self.storage, &self.path, Expected::Version(version)) {
            Err(error) if error.kind() == ErrorKind::Replaced => {
                self.is_held = false;
                Ok(false)
            }
            put => put.map(|_| true),
        }
    }

    fn release(&mut self) -> Result<()> {
        match self.find()? {
            Some(_) => {
                self.is_held = false;
                self.storage.remove(&staging::dir_of(&self.path))
            }
            None => Ok(()),
        }
    }
}

fn lost(path: &Path) -> Error {
    let message = "another process has repaired this dataset or begun to write it meanwhile, so \
                   nothing was published";
    Error::new(ErrorKind::Foreign, message).at(path)
}

/// The place of a dataset that is being uploaded, which no other writer gets. Dropped before the end,
/// it is given back.
#[derive(Debug)]
pub(super) struct Upload {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    write: u64,
    /// Writes whose place it takes, and whose files it removes.
    supersedes: Vec<u64>,
    /// Whether a complete dataset of theirs stays, and one of this write is marked for those that continue it.
    keeps_complete: bool,
    overwrite: bool,
    held: Arc<Mutex<Held>>,
    /// Where the side files are made.
    _scratch: ScratchDir,
    process: u32,
}

impl Upload {
    /// Takes the place of a dataset. `scratch` is where its side files are made.
    pub(super) fn begin(
        options: &WriterOptions,
        path: &Path,
        scratch: ScratchDir,
    ) -> Result<Upload> {
        let storage = options.storage.clone();
        let WriteNumber { number: write, continues: supersedes, keeps_complete } =
            options.write.clone().unwrap_or_else(|| WriteNumber::new(storage::random()));
        // Before the place is claimed, too: a dataset that exists is then an error without a trace.
        refuse_existing(&*storage, path, options.overwrite, &supersedes)?;
        let (claim, is_taken) = claim(&*storage, path, write, &supersedes)?;
        let (path, overwrite) = (path.to_path_buf(), options.overwrite);
        let held = Held::new(storage.clone(), path.clone(), write, claim);
        let held = Arc::new(Mutex::new(held));
        let (process, _scratch) = (std::process::id(), scratch);
        let upload = Upload {
            storage,
            path,
            write,
            supersedes,
            keeps_complete,
            overwrite,
            held,
            _scratch,
            process,
        };
        let Upload { storage, path, supersedes, .. } = &upload;
        // From a write that had the place until now nothing can be complete: it finds that out at its end.
        if keeps_complete && !is_taken && is_complete(&**storage, path, supersedes)? {
            let message = "an earlier run of this write has published the dataset";
            return Err(Error::new(ErrorKind::AlreadyExists, message).at(path));
        }
        remove_of_writes(&**storage, path, supersedes)?;
        // Another writer may have finished before this one had the place. What one of those writes puts there even
        // now is removed at the end.
        refuse_existing(&**storage, path, overwrite, supersedes)?;
        Ok(upload)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file of this write, whose upload is noted in the claim.
    pub(super) fn how(&self, file: DatasetFile) -> Create {
        let held = self.held.clone();
        let note =
            move |id: &str| held.lock().unwrap_or_else(PoisonError::into_inner).note(file, id);
        Create::new().write(self.write).note(Arc::new(note))
    }

    /// Publishes what was written: the data that have gone up, and the staged files.
    pub(super) fn publish(
        self,
        staging: Staging,
        journal: &Journal,
        mut data: Box<dyn Sink>,
        publish: &[DatasetFile],
    ) -> Result<()> {
        let labels = Some(DatasetFile::Labels).filter(|_| journal.labels == Labels::Staged);
        let files = publish.iter().copied().chain(labels).filter(|file| *file != DatasetFile::Data);
        // All bytes go up first, so that the dataset is incomplete for as few requests as possible.
        data.sync()?;
        let mut sinks = vec![(DatasetFile::Data, data)];
        for file in files {
            sinks.push((file, self.send(&staging, file)?));
        }
        // Stable: the data come first, and what nothing is read without last.
        sinks.sort_by_key(|(file, _)| GATES.contains(file));
        // A repair, or a writer that continues this write, may have taken the place since.
        self.held().check()?;
        // One that is alive after all may have published since.
        remove_of_writes(&*self.storage, &self.path, &self.supersedes)?;
        if self.overwrite {
            if let Err(error) = remove_files(&*self.storage, &self.path) {
                // The mark stays: by it a repair finds what is left.
                self.held().is_held = false;
                return Err(error.note(
                    "part of the old dataset may be removed already: a repair removes the rest",
                ));
            }
        }
        let published: Vec<DatasetFile> = sinks.iter().map(|(file, _)| *file).collect();
        for (_, sink) in sinks {
            if let Err(error) = sink.finish() {
                return Err(self.taken_back(error));
            }
        }
        self.end(&published)?;
        // Temporary files: their directory goes anyway.
        let _ = staging.abort();
        Ok(())
    }

    /// Removes what this write has published, as the rest cannot be: otherwise the error would be about
    /// a dataset that is half there.
    fn taken_back(&self, error: Error) -> Error {
        match remove_of_writes(&*self.storage, &self.path, &[self.write]) {
            Ok(()) if self.overwrite => error.note("the old dataset was removed before"),
            Ok(()) => error,
            Err(_) => {
                self.held().is_held = false;
                error.note("part of the dataset was published; a repair removes it")
            }
        }
    }

    /// Gives the place back, now that everything is there.
    fn end(&self, published: &[DatasetFile]) -> Result<()> {
        let mut held = self.held();
        let is_complete = match self.keeps_complete {
            true => held.complete(),
            false => held.find().map(|found| found.is_some()),
        };
        if matches!(is_complete, Ok(false)) {
            // The process that took the place meanwhile has left all of it, or removes it. As long as there is a
            // claim, it may still do so.
            let is_free = Claim::read(&*self.storage, &self.path)?.is_none();
            let missing = |file: &DatasetFile| {
                let found = self.storage.open_if_exists(&file.path(&self.path))?;
                Ok(found.and_then(|found| found.write_id()) != Some(self.write))
            };
            let missing = published.iter().map(missing).collect::<Result<Vec<bool>>>()?;
            if is_free && !missing.contains(&true) {
                return Ok(());
            }
            drop(held);
            return Err(self.taken_back(lost(&self.path)));
        }
        is_complete.and_then(|_| held.release()).map_err(|error| {
            error.note("the dataset is published, but the mark of its writer is not removed")
        })
    }

    /// Uploads a staged file, which is not there before it is finished.
    fn send(&self, staging: &Staging, file: DatasetFile) -> Result<Box<dyn Sink>> {
        let source = LocalStorage::mapped().open(&staging.path(file))?;
        let path = file.path(&self.path);
        let mut sink = self.storage.create_with(&path, self.how(file))?;
        let mut at = 0;
        while at < source.len() {
            let end = source.len().min(at + STEP);
            sink.append(&source.read(at..end)?)?;
            at = end;
        }
        sink.sync()?;
        Ok(sink)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        // In a forked child it is the claim of its parent.
        if self.process == std::process::id() {
            // If the claim cannot be removed now, a repair removes it.
            let _ = self.held().release();
        }
    }
}

/// Claims the place of a dataset, also from one of these writes. Says whether one had it that was not at its end.
fn claim(
    storage: &dyn Storage,
    path: &Path,
    write: u64,
    supersedes: &[u64],
) -> Result<(Claim, bool)> {
    let mut claim = Claim { write: rendered(write), ..Claim::default() };
    loop {
        match claim.put(storage, path, Expected::Absent) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            put => return put.map(|_| (claim, false)),
        }
        // The place was given back just now: try again.
        let Some((found, version)) = Claim::read(storage, path)? else { continue };
        if !supersedes.iter().any(|write| found.is_of(*write)) {
            return Err(claimed(&staging::dir_of(path)).at(path));
        }
        // Kept until this write is over: this process may be killed before all of them are aborted.
        claim.uploads = found.uploads;
        match claim.put(storage, path, Expected::Version(version)) {
            // It was given back, or has noted another upload.
            Err(error) if error.kind() == ErrorKind::Replaced => claim.uploads.clear(),
            put => {
                put?;
                claim.abort_uploads(storage, path)?;
                return Ok((claim, !found.done));
            }
        }
    }
}

/// Whether there is a complete dataset of one of these writes.
fn is_complete(storage: &dyn Storage, path: &Path, writes: &[u64]) -> Result<bool> {
    let write = |file: &DatasetFile| -> Result<Option<u64>> {
        let found = storage.open_if_exists(&file.path(path))?;
        Ok(found.and_then(|found| found.write_id()).filter(|write| writes.contains(write)))
    };
    // The gate is published last.
    let gate = write(&GATES[0])?;
    Ok(gate.is_some() && write(&DatasetFile::Data)? == gate)
}

/// Fails if there is a dataset, other than of these writes.
fn refuse_existing(storage: &dyn Storage, path: &Path, overwrite: bool, but: &[u64]) -> Result<()> {
    if overwrite {
        return Ok(());
    }
    for file in [DatasetFile::Data, GATES[0]] {
        let Some(found) = storage.open_if_exists(&file.path(path))? else { continue };
        if !found.write_id().is_some_and(|write| but.contains(&write)) {
            let message = "the dataset exists already and overwriting it was not asked for";
            return Err(Error::new(ErrorKind::AlreadyExists, message).at(path));
        }
    }
    Ok(())
}

fn claimed(claim: &Path) -> Error {
    let message =
        format!("a writer is working on this dataset, or was killed: {} exists", claim.display());
    Error::new(ErrorKind::Interrupted, message)
}

/// Removes all files of a dataset, starting with the ones without which it cannot be opened.
fn remove_files(storage: &dyn Storage, path: &Path) -> Result<()> {
    let others = DatasetFile::all().filter(|file| !GATES.contains(file));
    GATES.into_iter().chain(others).try_for_each(|file| storage.remove(&file.path(path)))
}

/// The same of those that these writes made.
fn remove_of_writes(storage: &dyn Storage, path: &Path, writes: &[u64]) -> Result<()> {
    if writes.is_empty() {
        return Ok(());
    }
    let others = DatasetFile::all().filter(|file| !GATES.contains(file));
    for file in GATES.into_iter().chain(others) {
        let path = file.path(path);
        // A store has no owners and no inode numbers: the number of the write says whose an object
        // is.
        let write = storage.open_if_exists(&path)?.and_then(|found| found.write_id());
        if write.is_some_and(|write| writes.contains(&write)) {
            storage.remove(&path)?;
        }
    }
    Ok(())
}

/// Removes what these writes have left of a dataset, and from those that are alive the right to publish
/// it. Files of other writes stay.
#[cfg(feature = "convert")]
pub(crate) fn remove_writes(storage: &dyn Storage, path: &Path, writes: &[u64]) -> Result<()> {
    let is_theirs = |claim: &Claim| writes.iter().any(|write| claim.is_of(*write));
    if let Some(taken) = take(storage, path, is_theirs)? {
        remove_of_writes(storage, path, writes)?;
        return taken.give_back(storage, path);
    }
    remove_of_writes(storage, path, writes)
}

/// The same, unless the dataset is complete.
#[cfg(feature = "convert")]
pub(crate) fn remove_unfinished_writes(
    storage: &dyn Storage,
    path: &Path,
    writes: &[u64],
) -> Result<()> {
    let is_theirs = |claim: &Claim| !claim.done && writes.iter().any(|write| claim.is_of(*write));
    if let Some(taken) = take(storage, path, is_theirs)? {
        remove_of_writes(storage, path, writes)?;
        return taken.give_back(storage, path);
    }
    match is_complete(storage, path, writes)? {
        true => Ok(()),
        false => remove_of_writes(storage, path, writes),
    }
}

/// Which writes made the files of a dataset in an object store.
#[cfg(feature = "convert")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WrittenBy {
    /// There are none.
    Nothing,
    /// All are of this write.
    One(u64),
    /// They are of several, or of a program that does not say.
    Others,
}

/// Which writes made the files of a dataset in an object store.
#[cfg(feature = "convert")]
pub(crate) fn write_of(storage: &dyn Storage, path: &Path) -> Result<WrittenBy> {
    let mut by = WrittenBy::Nothing;
    for file in DatasetFile::all() {
        let Some(found) = storage.open_if_exists(&file.path(path))? else { continue };
        by = match (found.write_id(), by) {
            (Some(write), WrittenBy::Nothing) => WrittenBy::One(write),
            (Some(write), WrittenBy::One(first)) if write == first => by,
            _ => return Ok(WrittenBy::Others),
        };
    }
    Ok(by)
}

/// Whether the dataset here, finished or not, comes from one of these writes.
#[cfg(feature = "convert")]
pub(crate) fn is_of_writes(storage: &dyn Storage, path: &Path, writes: &[u64]) -> Result<bool> {
    if let Some((claim, _)) = Claim::read(storage, path)? {
        return Ok(writes.iter().any(|write| claim.is_of(*write)));
    }
    match write_of(storage, path)? {
        WrittenBy::One(write) => Ok(writes.contains(&write)),
        WrittenBy::Nothing | WrittenBy::Others => Ok(false),
    }
}

/// The remains of a writer that is at work, or was killed, in an object store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// All of a dataset, and the mark that it was being written.
    Complete,
    /// No dataset, perhaps files of one.
    Files,
}

/// The remains of a write to an object store; `None` without any.
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
pub(crate) fn remove_left(storage: &dyn Storage, path: &Path) -> Result<()> {
    let Some(taken) = take(storage, path, |_| true)? else { return Ok(()) };
    // Only now: before, the writer may have come to its end.
    if storage.stat(&GATES[0].path(path))?.is_none() {
        remove_files(storage, path)?;
    }
    taken.give_back(storage, path)
}

/// A claim that was taken away from its writer.
struct Taken(Claim);

/// Takes a claim away from its writer, if there is one that is to be taken.
fn take(
    storage: &dyn Storage,
    path: &Path,
    is_wanted: impl Fn(&Claim) -> bool,
) -> Result<Option<Taken>> {
    loop {
        let Some((found, version)) = Claim::read(storage, path)?.filter(|(c, _)| is_wanted(c))
        else {
            return Ok(None);
        };
        let (write, uploads) = (rendered(storage::random()), found.uploads);
        let claim = Claim { write, uploads, done: false };
        match claim.put(storage, path, Expected::Version(version)) {
            Err(error) if error.kind() == ErrorKind::Replaced => {}
            put => return put.map(|_| Some(Taken(claim))),
        }
    }
}

impl Taken {
    /// Discards what was being uploaded, and gives the place back.
    fn give_back(self, storage: &dyn Storage, path: &Path) -> Result<()> {
        self.0.abort_uploads(storage, path)?;
        storage.remove(&staging::dir_of(path))
    }
}

/// The error of what cannot be done with a dataset that is there.
pub(super) fn no_append(path: &Path) -> Error {
    let message = "objects cannot be appended to, so neither can a dataset at a URL";
    Error::new(ErrorKind::Unsupported, message)
        .at(path)
        .advise("write the samples to a new dataset")
}
