//! From "being written" to "published" without a moment in which a crash could leave a mixture.
//!
//! All of a dataset's new files gather in the directory `NAME.partial` beside the dataset `NAME`:
//!
//! | file | content |
//! | --- | --- |
//! | `lock` | held by the living writer, so a leftover is told from work in progress |
//! | `journal` | JSON: what is being written; for an append, where the old dataset ends |
//! | `data` `offsets` `keys` … | the new files; an append has no `data` here, it writes behind the old end |
//! | `labels` | the names of the numeric labels, if these are to change with the dataset |
//! | `scratch-0` `scratch-1` … | what is needed only meanwhile, of a shuffle for example ([`Scratch`]) |
//! | `commit` | JSON: everything above is complete and synced; what to publish and what to remove |
//!
//! [`Staging::commit`] then does, in this order:
//!
//! 1. sync every staged file and the directory, write `commit` beside, sync, rename, sync. **From
//!    here on the new dataset wins**; before, the old one does.
//! 2. remove the old `.offsets` and `.index`, sync. Without them Python datadings refuses to open,
//!    and our reader looks for `commit`: nobody sees the mixture that now begins.
//! 3. remove side files that the new dataset does not have, rename the others over the old ones,
//!    sync; rename the offsets, sync. From here on everybody sees the new dataset.
//! 4. remove `journal`, sync, then `commit`, then the rest.
//!
//! A crash before 1 is undone by removing `NAME.partial` (and cutting the data file to its old
//! length, for an append); a crash after 1 is finished by doing 2 to 4 again: each step looks at
//! what is still there. [`unfinished`] tells which.
//!
//! What this cannot promise: file systems that lose synced data or reorder a rename before the
//! sync it follows (disks that lie about flushing, some network file systems), and locks between
//! machines on file systems without them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::SideFile;
use crate::storage::{Lock, Sink, Storage};

mod scratch;
mod spool;

pub(crate) use scratch::Scratch;
pub(crate) use spool::{KeySpool, OffsetSpool, Spool, check_count};

/// What is appended to the name of a dataset for the file of the names of its labels. It is no side
/// file, as Python datadings knows nothing of it, but is published with them.
pub(crate) const LABELS: &str = ".labels";

/// The version of `journal` and `commit`.
const VERSION: u32 = 1;

/// Where a dataset ended before an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// Samples of the old dataset.
    pub samples: u64,
    /// Bytes of its data file.
    pub bytes: u64,
}

/// What is being written.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Journal {
    version: u32,
    /// Present for an append.
    pub(crate) base: Option<Base>,
    /// Whether this only replaces side files: the data file is not touched.
    #[serde(default)]
    pub(crate) side_files_only: bool,
    /// Whether the dataset is to have digests, for whoever finishes it.
    #[serde(default = "yes")]
    pub(crate) digests: bool,
    /// Whether it is to have the accelerator.
    #[serde(default)]
    pub(crate) lookup: bool,
}

fn yes() -> bool {
    true
}

impl Journal {
    /// Samples are written, or appended.
    pub(crate) fn samples(base: Option<Base>, digests: bool, lookup: bool) -> Journal {
        Journal { version: VERSION, base, side_files_only: false, digests, lookup }
    }

    /// Only side files are made.
    pub(crate) fn side_files() -> Journal {
        Journal {
            version: VERSION,
            base: None,
            side_files_only: true,
            digests: true,
            lookup: false,
        }
    }
}

/// What becomes of the names of labels when a dataset is published.
#[derive(Debug, Clone, Default)]
pub(crate) enum LabelNames {
    /// Those that are there are right.
    #[default]
    Stay,
    /// This text takes their place.
    Become(String),
    /// There are none for this dataset.
    Go,
}

/// What [`Staging::commit`] was about to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Commit {
    version: u32,
    /// Suffixes of the files to publish, in order; the data file is "".
    publish: Vec<String>,
    /// Suffixes of the files that the new dataset does not have.
    remove: Vec<String>,
}

/// A `NAME.partial` directory of which this process holds the lock.
#[derive(Debug)]
pub(crate) struct Staging {
    storage: Arc<dyn Storage>,
    target: PathBuf,
    dir: PathBuf,
    durable: bool,
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
    let commit = dir_of(target).join("commit");
    Ok(storage.stat(&commit).map_err(|e| Error::io(&commit, e))?.is_some())
}

/// What is being written to this dataset, or was when the writer died.
pub(crate) fn journal_of(storage: &dyn Storage, target: &Path) -> Result<Option<Journal>> {
    let path = dir_of(target).join("journal");
    match storage.stat(&path).map_err(|e| Error::io(&path, e))? {
        Some(_) => Ok(Some(read_json(storage, &path)?)),
        None => Ok(None),
    }
}

/// The file of a dataset that goes by this suffix; the data file is "".
pub(crate) fn file_of(target: &Path, suffix: &str) -> PathBuf {
    let mut name = target.as_os_str().to_os_string();
    name.push(suffix);
    PathBuf::from(name)
}

fn parent_of(target: &Path) -> PathBuf {
    target.parent().map(Path::to_path_buf).unwrap_or_default()
}

impl Staging {
    /// Keeps other writers away: fails if there is one, or something left by one that died.
    ///
    /// Only from here on does the dataset stay what it is: look at it again, and then say in the
    /// [`journal`](Self::journal) what will be done to it.
    pub(crate) fn begin(
        storage: Arc<dyn Storage>,
        target: &Path,
        durable: bool,
    ) -> Result<Staging> {
        let dir = dir_of(target);
        let exists = storage.stat(&dir).map_err(|e| Error::io(&dir, e))?.is_some();
        if exists {
            let staging = Staging::take_over(storage, target)?;
            return Err(staging.leftover());
        }
        create_parents(&*storage, target, durable).map_err(|e| Error::io(target, e))?;
        storage.create_dir(&dir).map_err(|e| Error::io(&dir, e))?;
        let mut staging = Staging::take_over(storage, target)?;
        staging.durable = durable;
        Ok(staging)
    }

    /// Says what is being written: before anything is.
    pub(crate) fn journal(&self, journal: &Journal) -> Result<()> {
        self.write_json("journal", journal)?;
        self.sync_dir(&parent_of(&self.target))
    }

    /// Takes the lock of a directory that exists.
    fn take_over(storage: Arc<dyn Storage>, target: &Path) -> Result<Staging> {
        let dir = dir_of(target);
        let path = dir.join("lock");
        match storage.lock(&path).map_err(|e| Error::io(&path, e))? {
            Some(lock) => {
                let target = target.to_path_buf();
                Ok(Staging { storage, target, dir, durable: true, _lock: lock })
            }
            None => Err(Error::new(ErrorKind::Locked, "another writer is at work on this dataset")
                .at(target)),
        }
    }

    fn leftover(&self) -> Error {
        let message = format!(
            "an unfinished write is left in {}: \"kiste repair\" finishes or undoes it",
            self.dir.display()
        );
        Error::new(ErrorKind::Interrupted, message).at(&self.target)
    }

    /// The path of a staged file.
    pub(crate) fn path(&self, file: Option<SideFile>) -> PathBuf {
        staged_path(&self.dir, file.map_or("", SideFile::suffix))
    }

    /// Creates a staged file: a side file, or with `None` the data file.
    pub(crate) fn create(&self, file: Option<SideFile>) -> Result<Box<dyn Sink>> {
        let path = self.path(file);
        self.storage.create(&path).map_err(|e| Error::io(path, e))
    }

    /// Removes a staged file, to write it anew.
    pub(crate) fn discard(&self, file: Option<SideFile>) -> Result<()> {
        let path = self.path(file);
        self.storage.remove(&path).map_err(|e| Error::io(path, e))
    }

    /// Removes all staged side files, to make them anew.
    pub(crate) fn discard_side_files(&self) -> Result<()> {
        SideFile::ALL.iter().try_for_each(|file| self.remove_if_there(&self.path(Some(*file))))
    }

    /// Room for files that are needed only meanwhile.
    pub(crate) fn scratch(&self) -> Scratch {
        Scratch::new(self.storage.clone(), self.dir.clone())
    }

    /// Publishes the staged files, which the caller has synced, and removes `remove` from the
    /// dataset.
    pub(crate) fn commit(self, publish: &[Option<SideFile>], remove: &[SideFile]) -> Result<()> {
        self.commit_with(publish, remove, &LabelNames::Stay)
    }

    /// The same, and what becomes of the names of labels.
    pub(crate) fn commit_with(
        self,
        publish: &[Option<SideFile>],
        remove: &[SideFile],
        labels: &LabelNames,
    ) -> Result<()> {
        let suffix = |file: &Option<SideFile>| file.map_or("", SideFile::suffix).to_string();
        let mut commit = Commit {
            version: VERSION,
            publish: publish.iter().map(suffix).collect(),
            remove: remove.iter().map(|f| f.suffix().to_string()).collect(),
        };
        match labels {
            LabelNames::Stay => {}
            LabelNames::Become(text) => {
                self.stage_labels(text)?;
                commit.publish.push(LABELS.to_owned());
            }
            LabelNames::Go => commit.remove.push(LABELS.to_owned()),
        }
        self.sync_dir(&self.dir)?;
        self.write_json("commit", &commit)?;
        self.roll_forward(&commit)
    }

    fn stage_labels(&self, text: &str) -> Result<()> {
        let path = staged_path(&self.dir, LABELS);
        // A writer that died before its commit has left one.
        self.remove_if_there(&path)?;
        let at = |e| Error::io(&path, e);
        let mut file = self.storage.create(&path).map_err(at)?;
        file.append(text.as_bytes()).map_err(at)?;
        if self.durable { file.sync().map_err(at) } else { Ok(()) }
    }

    /// Steps 2 to 4 of the publication; each looks at what is still to do.
    fn roll_forward(&self, commit: &Commit) -> Result<()> {
        let parent = parent_of(&self.target);
        let gates = [SideFile::Offsets, SideFile::Index].map(SideFile::suffix);
        for gate in gates {
            let staged = self.exists(&staged_path(&self.dir, gate))?;
            let removed = commit.remove.iter().any(|suffix| suffix == gate);
            if staged || removed {
                self.remove_if_there(&file_of(&self.target, gate))?;
            }
        }
        // A power failure may otherwise keep a later change of a name and lose an earlier one.
        self.sync_dir(&parent)?;
        let (last, first): (Vec<&String>, Vec<&String>) =
            commit.publish.iter().partition(|suffix| *suffix == SideFile::Offsets.suffix());
        first.into_iter().try_for_each(|suffix| self.publish(suffix))?;
        for suffix in &commit.remove {
            self.remove_if_there(&file_of(&self.target, suffix))?;
        }
        self.sync_dir(&parent)?;
        if !last.is_empty() {
            last.into_iter().try_for_each(|suffix| self.publish(suffix))?;
            self.sync_dir(&parent)?;
        }
        self.clear()
    }

    /// Renames a staged file over the old one, if that was not done already.
    fn publish(&self, suffix: &str) -> Result<()> {
        let from = staged_path(&self.dir, suffix);
        if self.exists(&from)? {
            let to = file_of(&self.target, suffix);
            self.storage.rename(&from, &to).map_err(|e| Error::io(to, e))?;
        }
        Ok(())
    }

    /// Removes the directory. The journal goes first, while `commit` still says that all is
    /// published: a journal without a `commit` would read as a write to be undone. The lock goes
    /// last, so that nobody takes the rest for a leftover meanwhile.
    fn clear(&self) -> Result<()> {
        for first in ["journal", "commit"] {
            self.remove_if_there(&self.dir.join(first))?;
            self.sync_dir(&self.dir)?;
        }
        let mut files = self.storage.list(&self.dir).map_err(|e| Error::io(&self.dir, e))?;
        files.sort_by_key(|path| path.file_name().is_some_and(|name| name == "lock"));
        for file in files {
            self.remove_if_there(&file)?;
        }
        self.storage.remove_dir(&self.dir).map_err(|e| Error::io(&self.dir, e))?;
        self.sync_dir(&parent_of(&self.target))
    }

    /// Gives up: nothing is published, all that was staged is removed.
    pub(crate) fn abort(self) -> Result<()> {
        if let Some(Journal { base: Some(base), .. }) = journal_of(&*self.storage, &self.target)? {
            self.cut_data(base)?;
        }
        self.clear()
    }

    /// Cuts what an append wrote behind the old end.
    fn cut_data(&self, base: Base) -> Result<()> {
        let at = |e| Error::io(&self.target, e);
        let Some(stat) = self.storage.stat(&self.target).map_err(at)? else { return Ok(()) };
        if stat.len > base.bytes {
            let mut data = self.storage.reopen(&self.target).map_err(at)?;
            data.set_len(base.bytes).map_err(at)?;
            data.sync().map_err(at)?;
        }
        Ok(())
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> Result<()> {
        let path = self.dir.join(name);
        let beside = self.dir.join(format!("{name}.new"));
        let mut text = serde_json::to_vec(value).map_err(|e| Error::io(&path, e.into()))?;
        text.push(b'\n');
        let at = |e| Error::io(&path, e);
        // A writer that died at this very place, before someone resumed its work, left one.
        self.remove_if_there(&beside)?;
        let mut sink = self.storage.create(&beside).map_err(at)?;
        sink.append(&text).map_err(at)?;
        if self.durable {
            sink.sync().map_err(at)?;
        }
        self.storage.rename(&beside, &path).map_err(at)?;
        self.sync_dir(&self.dir)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        if self.durable {
            self.storage.sync_dir(dir).map_err(|e| Error::io(dir, e))?;
        }
        Ok(())
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        Ok(self.storage.stat(path).map_err(|e| Error::io(path, e))?.is_some())
    }

    fn remove_if_there(&self, path: &Path) -> Result<()> {
        if self.exists(path)? {
            self.storage.remove(path).map_err(|e| Error::io(path, e))?;
        }
        Ok(())
    }
}

/// Creates the directories that a dataset is to be in, so that they last.
fn create_parents(storage: &dyn Storage, target: &Path, durable: bool) -> io::Result<()> {
    let parent = parent_of(target);
    let mut missing = Vec::new();
    for dir in parent.ancestors().filter(|dir| !dir.as_os_str().is_empty()) {
        if storage.stat(dir)?.is_some() {
            break;
        }
        missing.push(dir);
    }
    storage.create_dir_all(&parent)?;
    if durable {
        missing.into_iter().try_for_each(|dir| storage.sync_dir(&parent_of(dir)))?;
    }
    Ok(())
}

fn staged_path(dir: &Path, suffix: &str) -> PathBuf {
    dir.join(suffix.strip_prefix('.').unwrap_or("data"))
}

fn read_json<T: for<'a> Deserialize<'a>>(storage: &dyn Storage, path: &Path) -> Result<T> {
    let source = storage.open(path).map_err(|e| Error::io(path, e))?;
    // Written by us in a few hundred bytes; anything longer is not ours.
    let bytes = source.read(0..source.len().min(1 << 16)).map_err(|e| Error::io(path, e))?;
    serde_json::from_slice(&bytes).map_err(|e| {
        Error::new(ErrorKind::Damaged, format!("not a journal of kiste: {e}")).at(path)
    })
}

/// An unfinished write, as found beside a dataset.
#[derive(Debug)]
pub(crate) enum Unfinished {
    /// Everything was written; publishing it was cut short.
    Committed,
    /// The writer died before it was done.
    Uncommitted(Journal),
    /// The writer died before it wrote anything.
    Nothing,
}

/// What was left by a writer that died, with its lock taken; `None` where nothing was.
pub(crate) fn unfinished(
    storage: &Arc<dyn Storage>,
    target: &Path,
) -> Result<Option<(Staging, Unfinished)>> {
    let dir = dir_of(target);
    if storage.stat(&dir).map_err(|e| Error::io(&dir, e))?.is_none() {
        return Ok(None);
    }
    let staging = Staging::take_over(storage.clone(), target)?;
    let state = if is_half_published(&**storage, target)? {
        Unfinished::Committed
    } else {
        match journal_of(&**storage, target)? {
            Some(journal) => Unfinished::Uncommitted(journal),
            None => Unfinished::Nothing,
        }
    };
    Ok(Some((staging, state)))
}

impl Staging {
    /// Finishes a publication that was cut short.
    pub(crate) fn finish(self) -> Result<()> {
        let path = self.dir.join("commit");
        let commit: Commit = read_json(&*self.storage, &path)?;
        // A suffix becomes part of a path: only ours will do.
        let is_side = |s: &String| SideFile::ALL.iter().any(|f| f.suffix() == s);
        let known = |s: &String| s.is_empty() || s == LABELS || is_side(s);
        match commit.publish.iter().chain(&commit.remove).find(|s| !known(s)) {
            None => self.roll_forward(&commit),
            Some(suffix) => {
                let message = format!("expected suffixes of side files, found {suffix:?}");
                Err(Error::new(ErrorKind::Damaged, message).at(path))
            }
        }
    }
}
