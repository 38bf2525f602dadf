//! From "being written" to "published" without a moment in which a crash could leave a mixture.
//!
//! All of a dataset's new files gather in the directory `NAME.partial` next to the dataset `NAME`:
//!
//! | file | content |
//! | --- | --- |
//! | `lock` | held by the living writer; if it is free, the directory is a leftover |
//! | `journal` | JSON: what is being written, and which files made the dataset when that began |
//! | `complete` | JSON: all samples are in the data file; only side files and the rest are to do |
//! | `data` `offsets` `keys` … | the new files; an append has no `data` here, it writes behind the old end |
//! | `labels` | the names of the numeric labels, if these change with the dataset |
//! | `scratch-0` `scratch-1` … | needed only while writing, by a shuffle for example ([`Scratch`]) |
//! | `units`, `quarantine` | the log and the bad input of a conversion, which resumes by them |
//! | `commit` | JSON: everything above is complete and synced; what to publish, and in place of what |
//! | `old-offsets` `old-data` … | the old files, until readers can see the new ones |
//!
//! [`Staging::commit`] then does, in this order:
//!
//! 1. check that every name can be replaced, sync the directory, write `commit` as a new file,
//!    sync, rename, sync. **From here on a recovery goes forward.**
//! 2. move the old `.offsets` and `.index` to `old-…`, sync. Without them Python datadings refuses
//!    to open, and our reader looks for `commit`: nothing sees the mixture that now begins.
//! 3. move the other old files that are replaced or removed, sync; move the new ones to their
//!    names, sync; move the new `.offsets`, sync. From here on every reader sees the new dataset.
//! 4. remove `journal`, sync, then `commit`, then the rest, the old files among it.
//!
//! If a step before the end of 3 fails (a file that cannot be replaced: immutable, or mounted on
//! its own), the steps are taken back in reverse order, and the old dataset is what it was.
//!
//! A crash before 1 is undone by removing `NAME.partial` (and cutting the data file to its old
//! length, for an append); a crash after 1 is finished by doing 2 to 4 again: each step looks at
//! what is still there. [`unfinished`] tells which.
//!
//! # What a recovery touches
//!
//! Only what it can prove to be its own. The directory must be one, not a link to one, and belong
//! to the user at work or to the owner of the dataset; the files in it must be regular files of
//! the names above. `journal` and `commit` record size, digest, number and time of the dataset's
//! files ([`Stamp`]): where these are neither the recorded old ones nor the new ones, another
//! program has written the dataset since, and nothing of it is changed. An append is cut only if
//! what lies in front of the cut is what the append began with.
//!
//! The data file itself is locked too, so that two names of it (links, hard links) do not make two
//! writers.
//!
//! This cannot protect from file systems that lose synced data or reorder a rename before the
//! sync it follows (disks that lie about flushing, some network file systems), nor lock between
//! machines on file systems without locks.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::SideFile;
use crate::note;
use crate::storage::{self, Create, FileKind, Lock, Sink, Stamp, Storage, same_content};

use super::files::DatasetFile;

mod checksums;
mod journal;
mod lengths;
mod ownership;
mod publish;
mod recovery;
mod scratch;
mod spool;

pub(crate) use checksums::ChecksumSpool;
use journal::Complete;
pub(crate) use journal::{Journal, Labels};
pub(crate) use lengths::{LengthsSpool, LengthsWriter};
use ownership::{check_dir, check_names, is_ours};
use publish::Publication;
pub(crate) use recovery::{Unfinished, overtaken_message, unfinished};
pub(crate) use scratch::Scratch;
pub(crate) use spool::{KeySpool, OffsetSpool, Spool, check_count};

/// The files that say which dataset it is, by their suffixes, as they were found; the data is "".
pub(crate) type Observed = BTreeMap<String, Stamp>;

/// Where a dataset ended before an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Base {
    /// Samples of the old dataset.
    pub samples: u64,
    /// Bytes of its data file.
    pub bytes: u64,
}

/// A `NAME.partial` directory. This process holds its lock.
#[derive(Debug)]
pub(crate) struct Staging {
    storage: Arc<dyn Storage>,
    target: PathBuf,
    dir: PathBuf,
    durable: bool,
    /// Permission bits of the dataset that is there, for all files that are made.
    mode: Option<u32>,
    /// The lock of the data file, if it exists; released before the other.
    data_lock: Option<Lock>,
    _lock: Lock,
}

/// The staging directory of a dataset.
pub(crate) fn dir_of(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_os_string();
    name.push(".partial");
    PathBuf::from(name)
}

/// Whether a publication of this dataset was cut short, so that its files may be a mixture.
pub(crate) fn is_half_published(storage: &dyn Storage, target: &Path) -> Result<bool> {
    let commit = dir_of(&home(storage, target)?).join("commit");
    Ok(storage.stat(&commit)?.is_some())
}

/// The journal of the write in progress, or of the last writer if it was killed.
pub(crate) fn journal_of(storage: &dyn Storage, target: &Path) -> Result<Option<Journal>> {
    journal::read_journal(storage, &dir_of(&home(storage, target)?))
}

/// Whether nothing in this directory belongs to a write: its writer was killed before it had noted
/// its plan, or when it was done and about to remove the directory. Foreign files show in a repair.
pub(crate) fn is_spent(storage: &dyn Storage, dir: &Path) -> Result<bool> {
    if !storage.lstat(dir)?.is_some_and(|stat| stat.is_dir()) {
        return Ok(false);
    }
    let files = storage.list(dir)?;
    let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let is_of_a_write =
        |name: &str| ["journal", "commit", "data"].contains(&name) || !is_ours(name);
    Ok(!files.iter().filter_map(name).any(|name| is_of_a_write(&name)))
}

/// Whether a writer is alive that has this dataset locked.
pub(crate) fn is_being_written(storage: &dyn Storage, target: &Path) -> Result<bool> {
    let path = dir_of(&home(storage, target)?).join("lock");
    match storage.lstat(&path)? {
        // `lock` would need to write, and create the file again if it is gone by now.
        Some(stat) if stat.is_file() => Ok(storage.lock_file(&path)?.is_none()),
        _ => Ok(false),
    }
}

/// Why this dataset cannot be read as yet: it does not exist, only a write of it.
pub(crate) fn unfinished_error(storage: &dyn Storage, target: &Path) -> Error {
    let error = match is_being_written(storage, target) {
        Ok(true) => Error::new(ErrorKind::Locked, "this dataset is being written"),
        // `repair` explains a directory that cannot be locked.
        _ => Error::new(ErrorKind::Interrupted, "this dataset was never finished"),
    };
    error.at(target)
}

/// The data file of a write that was never finished, if there is one.
pub(crate) fn staged_data(storage: &dyn Storage, target: &Path) -> Result<Option<PathBuf>> {
    let dir = dir_of(target);
    let path = staged_path(&dir, DatasetFile::Data);
    for (path, kind) in [(&dir, FileKind::Dir), (&path, FileKind::File)] {
        let stat = storage.lstat(path)?;
        if stat.is_none_or(|stat| stat.kind != kind) {
            return Ok(None);
        }
    }
    Ok(Some(path))
}

/// The name next to which the staging directory of a dataset is: for a symbolic link without one,
/// the data file that it leads to, as an append through the link goes there.
pub(crate) fn home(storage: &dyn Storage, target: &Path) -> Result<PathBuf> {
    let is_link = storage.lstat(target)?.is_some_and(|s| s.kind == FileKind::Link);
    let dir = dir_of(target);
    if !is_link || storage.lstat(&dir)?.is_some() {
        return Ok(target.to_path_buf());
    }
    // A link to nowhere has no other name.
    Ok(storage.resolve(target).unwrap_or_else(|_| target.to_path_buf()))
}

fn parent_of(target: &Path) -> PathBuf {
    target.parent().map(Path::to_path_buf).unwrap_or_default()
}

/// The permission bit that a read-only dataset lacks.
const OWNER_WRITES: u32 = 0o200;

/// The prefix of the old files while they wait in the staging directory.
const OLD: &str = "old-";

fn foreign(path: &Path, message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Foreign, message).at(path)
}

impl Staging {
    /// Keeps other writers away: fails if there is one, or if a killed one left something.
    ///
    /// Only from here on does the dataset stay as it is: look at it again, and then note the plan
    /// in the [`journal`](Self::journal).
    pub(crate) fn begin(
        storage: Arc<dyn Storage>,
        target: &Path,
        durable: bool,
    ) -> Result<Staging> {
        let dir = dir_of(target);
        if storage.lstat(&dir)?.is_some() {
            return Err(Staging::take_over(storage, target)?.leftover());
        }
        // Side files next to a link must not be made of what is being appended behind it.
        let home = home(&*storage, target)?;
        let other = dir_of(&home);
        if home != target && storage.lstat(&other)?.is_some() {
            return Err(Staging::take_over(storage, &home)?.leftover());
        }
        check_names(&*storage, target)?;
        storage::create_dirs(&*storage, &parent_of(target), durable)?;
        match storage.create_dir(&dir) {
            // Another writer has created it since the look above.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                return Err(Staging::take_over(storage, target)?.leftover());
            }
            created => created?,
        }
        let mut staging = match Staging::lock(storage.clone(), target) {
            Ok(staging) => staging,
            Err(error) => {
                // Goes only if nothing is in it.
                let _ = storage.remove_dir(&dir);
                return Err(error);
            }
        };
        staging.durable = durable;
        match staging.hold_data() {
            Ok(()) => Ok(staging),
            Err(error) => {
                // The first error is the one to tell.
                let _ = staging.clear();
                Err(error)
            }
        }
    }

    /// The files that say which dataset is there now. Look at the dataset itself only after this:
    /// what another program changes in between shows when it is compared with the journal.
    pub(crate) fn observe(&self) -> Result<Observed> {
        let mut observed = Observed::new();
        for file in DatasetFile::DEFINING {
            if let Some(found) = Stamp::of(&*self.storage, &file.path(&self.target))? {
                observed.insert(file.suffix().to_owned(), found);
            }
        }
        Ok(observed)
    }

    /// Says what is being written, and to which dataset: before anything is.
    pub(crate) fn journal(&self, mut journal: Journal, observed: Observed) -> Result<Journal> {
        journal.old = observed;
        self.write_json("journal", &journal)?;
        // The name of the directory too: after a power failure a repair has to find the journal.
        self.sync_dir(&parent_of(&self.target))?;
        Ok(journal)
    }

    /// Takes the locks of a directory that exists, and checks that all in it is ours.
    fn take_over(storage: Arc<dyn Storage>, target: &Path) -> Result<Staging> {
        let mut staging = Staging::hold(storage, target)?;
        staging.check_entries()?;
        staging.hold_data()?;
        Ok(staging)
    }

    /// Takes the lock of a directory that exists, if it is ours to touch.
    fn hold(storage: Arc<dyn Storage>, target: &Path) -> Result<Staging> {
        check_dir(&*storage, target, &dir_of(target))?;
        Staging::lock(storage, target)
    }

    fn lock(storage: Arc<dyn Storage>, target: &Path) -> Result<Staging> {
        let dir = dir_of(target);
        let path = dir.join("lock");
        let stat = storage.stat(target)?;
        let mode = stat.filter(|stat| stat.is_file()).and_then(|stat| stat.mode);
        match storage.lock(&path)? {
            Some(lock) => {
                let (target, mode) = (target.to_path_buf(), mode.map(|mode| mode & 0o777));
                let (durable, data_lock, _lock) = (true, None, lock);
                Ok(Staging { storage, target, dir, durable, mode, data_lock, _lock })
            }
            None => Err(Error::new(ErrorKind::Locked, "another writer is working on this dataset")
                .at(target)),
        }
    }

    /// Takes the lock of the data file, where there is one: another name of it may have a staging
    /// directory of its own.
    fn hold_data(&mut self) -> Result<()> {
        let (storage, target) = (&self.storage, &self.target);
        if !storage.stat(target)?.is_some_and(|stat| stat.is_file()) {
            return Ok(());
        }
        match storage.lock_file(target) {
            Ok(Some(lock)) => self.data_lock = Some(lock),
            // It cannot be read, so it cannot be appended to by any name; only replaced.
            Err(e) if e.io_kind() == Some(io::ErrorKind::PermissionDenied) => {}
            Err(e) => return Err(e),
            Ok(None) => {
                let message = "another writer is working on this data file, under another of its \
                    names";
                return Err(Error::new(ErrorKind::Locked, message).at(target));
            }
        }
        Ok(())
    }

    fn leftover(&self) -> Error {
        let message = format!("an unfinished write is left in {}", self.dir.display());
        Error::new(ErrorKind::Interrupted, message).at(&self.target)
    }

    /// Why the dataset is not the one that this journal is about; `None` if it is.
    ///
    /// That is known before anything is cut or replaced: the program that wrote the dataset since
    /// need not know of staging directories.
    pub(crate) fn rewritten(&self, journal: &Journal) -> Result<Option<String>> {
        for file in DatasetFile::DEFINING {
            let path = file.path(&self.target);
            let old = journal.old.get(file.suffix());
            let len = match (file, journal.base) {
                (DatasetFile::Data, Some(base)) => base.bytes,
                _ => u64::MAX,
            };
            let now = Stamp::of_prefix(&*self.storage, &path, len)?;
            if !same_content(old, now.as_ref()) {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                return Ok(Some(match (old, now) {
                    (Some(_), None) => format!("{name} is gone"),
                    (None, _) => format!("{name} did not exist when the write began"),
                    _ => format!("{name} was another file when the write began"),
                }));
            }
        }
        Ok(None)
    }

    /// The path of a staged file.
    pub(crate) fn path(&self, file: impl Into<DatasetFile>) -> PathBuf {
        staged_path(&self.dir, file.into())
    }

    /// Creates a staged file.
    pub(crate) fn create(&self, file: impl Into<DatasetFile>) -> Result<Box<dyn Sink>> {
        let path = self.path(file);
        self.create_at(&path)
    }

    fn create_at(&self, path: &Path) -> Result<Box<dyn Sink>> {
        // Writable even for a read-only dataset, as the write may have to be resumed.
        let mode = self.mode.map(|mode| mode | OWNER_WRITES);
        self.storage.create_with(path, Create::new().mode(mode))
    }

    /// Removes a staged file, to write it again.
    pub(crate) fn discard(&self, file: impl Into<DatasetFile>) -> Result<()> {
        let path = self.path(file);
        self.storage.remove(&path)
    }

    /// Removes all staged side files, to make them again.
    pub(crate) fn discard_side_files(&self) -> Result<()> {
        SideFile::ALL.iter().try_for_each(|file| self.remove_if_there(&self.path(*file)))
    }

    /// Room for temporary files.
    pub(crate) fn scratch(&self) -> Scratch {
        Scratch::new(self.storage.clone(), self.dir.clone(), self.mode)
    }

    /// Stages the names of the labels: a text takes the place of those that are there, `None`
    /// removes them. The journal knows, so that another process that finishes this does so too.
    pub(crate) fn set_labels(&self, journal: &mut Journal, text: Option<&str>) -> Result<()> {
        match text {
            None => journal.labels = Labels::Go,
            Some(text) => {
                self.replace(staged_name(DatasetFile::Labels), text.as_bytes())?;
                journal.labels = Labels::Staged;
            }
        }
        self.write_json("journal", journal)
    }

    /// Publishes the staged files, which the caller has synced, and removes `remove` from the
    /// dataset.
    ///
    /// # Errors
    ///
    /// The old dataset is there as before, and the staged files stay for a recovery; unless taking
    /// back what was done failed as well, which the message then says.
    pub(crate) fn commit(
        self,
        journal: &Journal,
        publish: &[DatasetFile],
        remove: &[SideFile],
    ) -> Result<()> {
        let mut changes: Vec<(DatasetFile, Change)> =
            publish.iter().map(|file| (*file, Change::Publish)).collect();
        changes.extend(remove.iter().map(|file| (DatasetFile::Side(*file), Change::Remove)));
        match journal.labels {
            Labels::Stay => {}
            Labels::Staged => changes.push((DatasetFile::Labels, Change::Publish)),
            Labels::Go => changes.push((DatasetFile::Labels, Change::Remove)),
        }
        let prepared = || {
            // Again, as names may have been taken while the samples were written: past `commit` a
            // recovery goes forward, and must be able to.
            check_names(&*self.storage, &self.target)?;
            if let Some(mode) = self.mode.filter(|mode| mode & OWNER_WRITES == 0) {
                for (file, _) in changes.iter().filter(|(_, change)| *change == Change::Publish) {
                    self.storage.set_mode(&staged_path(&self.dir, *file), mode)?;
                }
            }
            // The names of the staged files, before `commit` says that they are there.
            self.sync_dir(&self.dir)?;
            let publication = Publication::new(&self, &changes)?;
            publication.record()?;
            // Only now: what is changed from here on is no longer what was recorded.
            match (journal.replace, self.rewritten(journal)?) {
                (false, Some(why)) => {
                    publication.forget()?;
                    let message = format!(
                        "another program has written this dataset meanwhile, so nothing was \
                         published: {why}"
                    );
                    Err(foreign(&self.target, message))
                }
                _ => Ok(publication),
            }
        };
        let committed = prepared().and_then(|publication| {
            publication.forward().map_err(|error| self.take_back(&publication, error))
        });
        match committed {
            Ok(()) => self.clear().map_err(|error| {
                error.note("the dataset is published, but not all that was staged is removed")
            }),
            Err(error) => {
                // Side files can be made again; the first error is the one to tell.
                if journal.side_files_only && !is_half_published(&*self.storage, &self.target)? {
                    let _ = self.clear();
                }
                Err(error)
            }
        }
    }

    /// After a step of the publication failed.
    fn take_back(&self, publication: &Publication<'_>, error: Error) -> Error {
        if publication.is_visible().unwrap_or(true) {
            return error.note("the dataset is published, but the staging directory is left");
        }
        match publication.back() {
            Ok(()) => error,
            Err(_) => error.note("the publication is not complete, a repair completes it"),
        }
    }

    /// Removes the directory. The journal goes first, while `commit` still says that everything is
    /// published: a journal without a `commit` would read as a write to be undone. The lock goes
    /// last, so that no other process takes the rest for a leftover.
    fn clear(&self) -> Result<()> {
        let old = self.dir.join(format!("{OLD}{}", staged_name(DatasetFile::Data)));
        // Never removed while there is no other: it would be the last copy of the data.
        if self.exists(&old)? && !self.exists(&self.target)? {
            let message = "is the old data file, and there is no other: it stays";
            return Err(foreign(&old, message));
        }
        for first in ["journal", "commit"] {
            // Synced one by one: a power failure may otherwise undo the first removal and keep the
            // second.
            self.remove_if_there(&self.dir.join(first))?;
            self.sync_dir(&self.dir)?;
        }
        let mut files = self.storage.list(&self.dir)?;
        // Files that others put there stay, and the directory with them.
        files.retain(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_ours));
        files.sort_by_key(|path| path.file_name().is_some_and(|name| name == "lock"));
        for file in files {
            self.remove_if_there(&file)?;
        }
        self.storage.remove_dir(&self.dir)?;
        self.sync_dir(&parent_of(&self.target))
    }

    /// Gives up: nothing is published, all that was staged is removed. The dataset is touched only
    /// to cut what an append wrote behind its end, and only if it is still that dataset.
    pub(crate) fn abort(self) -> Result<()> {
        if let Some(journal) = journal_of(&*self.storage, &self.target)? {
            if let Some(base) = journal.base {
                if self.rewritten(&journal)?.is_none() {
                    self.cut_data(base)?;
                }
            }
        }
        self.clear()
    }

    /// Cuts what an append wrote behind the old end.
    fn cut_data(&self, base: Base) -> Result<()> {
        let Some(stat) = self.storage.lstat(&self.target)? else { return Ok(()) };
        if stat.is_file() && stat.len > base.bytes {
            let mut data = self.storage.reopen(&self.target)?;
            // Before the journal goes: without it nothing would cut the rest after a power failure.
            data.set_len(base.bytes)?;
            data.sync()?;
        }
        Ok(())
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> Result<()> {
        self.replace(name, &self.rendered(name, value)?)
    }

    fn rendered(&self, name: &str, value: &impl Serialize) -> Result<Vec<u8>> {
        let text = serde_json::to_string(value);
        let text = text.map_err(|e| Error::io(self.dir.join(name), e.into()))?;
        Ok((note::sealed(&text) + "\n").into_bytes())
    }

    /// Takes room for the note that all samples are there, which is [given](Self::completed) its name
    /// when they are.
    pub(crate) fn will_complete(&self, samples: u64, bytes: u64) -> Result<()> {
        let text = self.rendered("complete", &Complete::new(samples, bytes))?;
        self.withdraw()?;
        let mut sink = self.create_at(&self.dir.join("complete.new"))?;
        sink.append(&text)
    }

    /// Notes that all samples are in the data file, and on the disk if that is waited for.
    pub(crate) fn completed(&self) -> Result<()> {
        self.storage.rename(&self.dir.join("complete.new"), &self.dir.join("complete"))
    }

    /// Forgets that all samples were there: more are written.
    pub(crate) fn withdraw(&self) -> Result<()> {
        for name in ["complete", "complete.new"] {
            self.remove_if_there(&self.dir.join(name))?;
        }
        Ok(())
    }

    /// How many samples there are, if the writer was killed only after it had written all of them.
    pub(crate) fn complete(&self, journal: &Journal) -> Result<Option<u64>> {
        let Some(complete) = journal::read_complete(&*self.storage, &self.dir)? else {
            return Ok(None);
        };
        let data = match journal.base {
            Some(_) => self.target.clone(),
            None => self.path(DatasetFile::Data),
        };
        let len = self.storage.stat(&data)?.map(|stat| stat.len);
        Ok((len == Some(complete.bytes)).then_some(complete.samples))
    }

    /// Writes a file of the directory as a whole, in place of one that may be there.
    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.dir.join(name);
        let new = self.dir.join(format!("{name}.new"));
        // A writer that was killed right here, before another resumed its work, left one.
        if self.exists(&new)? {
            self.storage.remove(&new)?;
            // Otherwise a power failure may keep the rename below, but of that old file.
            self.sync_dir(&self.dir)?;
        }
        let mut sink = self.create_at(&new)?;
        sink.append(bytes)?;
        // Before the rename: half a note must never have the name.
        if self.durable {
            sink.sync()?;
        }
        self.storage.rename(&new, &path)?;
        self.sync_dir(&self.dir)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        if self.durable {
            self.storage.sync_dir(dir)?;
        }
        Ok(())
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        Ok(self.storage.lstat(path)?.is_some())
    }

    fn remove_if_there(&self, path: &Path) -> Result<()> {
        if self.exists(path)? {
            self.storage.remove(path)?;
        }
        Ok(())
    }
}

/// The name of a file while it is staged.
fn staged_name(file: DatasetFile) -> &'static str {
    file.suffix().strip_prefix('.').unwrap_or("data")
}

fn staged_path(dir: &Path, file: DatasetFile) -> PathBuf {
    dir.join(staged_name(file))
}

/// The effect of a publication on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// The staged file takes its place.
    Publish,
    /// It is removed.
    Remove,
}
