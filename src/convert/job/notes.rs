//! [`Notes`]: small files through which runs on several machines coordinate, on a disk or in an object store.
//!
//! A note that says how far a run is, is a fence: a run [takes](Notes::take) it by putting one with a number
//! of its own in its place, and from then on [replaces](Notes::replace) it only if it is still the one that it
//! put last. So the last run has it, and all earlier ones end with an error when they next note something.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, ErrorKind, Result};
use crate::storage::{self, Expected, FileId, LocalStorage, Source, Storage, in_parallel};

/// The most bytes of a note: a part of as many shards as a manifest may list has fewer.
const MAX_NOTE: u64 = 128 << 20;
/// How often a note is taken where others take it at the same time.
pub(in crate::convert) const TRIES: usize = 20;
/// Threads that ask a store at the same time.
const AT_ONCE: usize = 16;

/// The storage of notes, and those that this process has put.
#[derive(Debug)]
pub(in crate::convert) struct Notes {
    storage: Arc<dyn Storage>,
    /// The notes that this process has taken from earlier runs, and which files they are now.
    held: Mutex<BTreeMap<PathBuf, FileId>>,
}

/// The end of a run whose note another run has taken.
#[derive(Debug)]
pub(in crate::convert) struct Lost;

impl Notes {
    /// Next to an output, or what else has a name, and its name in that storage.
    pub(in crate::convert) fn of(output: &Path) -> Result<(Notes, PathBuf)> {
        let (storage, path) = storage::of(output)?;
        // A note that someone cuts while it is read is an error, and no signal.
        let storage = match storage.is_object_store() {
            true => storage,
            false => Arc::new(LocalStorage::positioned()),
        };
        Ok((Notes { storage, held: Mutex::default() }, path))
    }

    pub(in crate::convert) fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// Whether they are objects: nothing can be locked or listed.
    pub(in crate::convert) fn are_objects(&self) -> bool {
        self.storage.is_object_store()
    }

    pub(in crate::convert) fn read(&self, path: &Path) -> Result<Option<Vec<u8>>> {
        Ok(self.find(path)?.map(|(text, _)| text))
    }

    /// Also the open file: while it is open, its number is not given to another one.
    fn find(&self, path: &Path) -> Result<Option<(Vec<u8>, Source)>> {
        let Some(found) = self.storage.open_if_exists(path)? else { return Ok(None) };
        if found.len() > MAX_NOTE {
            let message = format!("expected at most {MAX_NOTE} bytes, found {}", found.len());
            return Err(Error::new(ErrorKind::Limit, message).at(path));
        }
        Ok(Some((found.read(0..found.len())?.into_owned(), found)))
    }

    /// Puts a note unless there is one already. Whether it did.
    pub(in crate::convert) fn create(&self, path: &Path, text: &str) -> Result<bool> {
        match self.storage.put_if(path, text.as_bytes(), Expected::Absent) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            put => put.map(|_| true),
        }
    }

    pub(in crate::convert) fn write(&self, path: &Path, text: &str) -> Result<()> {
        self.storage.put_if(path, text.as_bytes(), Expected::Anything).map(drop)
    }

    /// Puts what `text` makes of the note in its place, and keeps all who have put one before from
    /// doing so again.
    pub(in crate::convert) fn take(
        &self,
        path: &Path,
        text: impl Fn(Option<Vec<u8>>) -> Result<String>,
    ) -> Result<Result<(), Lost>> {
        for _ in 0..TRIES {
            let (before, found) = self.find(path)?.unzip();
            let expected = match &found {
                Some(found) => Expected::Version(found.id()),
                None => Expected::Absent,
            };
            if let Ok(id) = self.put(path, &text(before)?, expected)? {
                self.hold(path, id);
                return Ok(Ok(()));
            }
        }
        Ok(Err(Lost))
    }

    /// Puts the next note, if the one that is there is of this process.
    pub(in crate::convert) fn replace(&self, path: &Path, text: &str) -> Result<Result<(), Lost>> {
        let Some(version) = self.held(path) else { return Ok(Err(Lost)) };
        let put = self.put(path, text, Expected::Version(version))?;
        Ok(put.map(|id| self.hold(path, id)))
    }

    /// Whether the note that is there is of this process.
    pub(in crate::convert) fn holds(&self, path: &Path) -> Result<bool> {
        let held = self.held(path);
        Ok(held.is_some() && held == self.storage.stat(path)?.map(|stat| stat.id))
    }

    fn put(&self, path: &Path, text: &str, expected: Expected) -> Result<Result<FileId, Lost>> {
        match self.storage.put_if(path, text.as_bytes(), expected) {
            Ok(id) => Ok(Ok(id)),
            Err(error) => match error.kind() {
                ErrorKind::AlreadyExists | ErrorKind::Replaced | ErrorKind::NotFound => {
                    Ok(Err(Lost))
                }
                _ => Err(error),
            },
        }
    }

    fn held(&self, path: &Path) -> Option<FileId> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).get(path).copied()
    }

    fn hold(&self, path: &Path, id: FileId) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.insert(path.to_path_buf(), id);
    }

    /// Removes notes. One that is gone is no error.
    pub(in crate::convert) fn remove(&self, paths: &[PathBuf]) -> Result<()> {
        at_once(paths, |path| gone(self.storage.remove(path))).map(drop)
    }
}

/// The same, unless it was gone before.
pub(in crate::convert) fn gone(removed: Result<()>) -> Result<()> {
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Does this with each of them on several threads, where each waits for answers. The results are in their
/// order; of errors the first counts.
pub(in crate::convert) fn at_once<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    in_parallel(items, AT_ONCE, work).into_iter().collect()
}
