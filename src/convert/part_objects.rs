//! The notes of parts in an object store, where nothing can be locked or listed.
//!
//! They have the names that they have [on a disk](super::parts), behind that of the manifest. In place
//! of a lock there is a fence: a run of a part replaces its `.shards` object by one with a number of its
//! own, and from then on replaces that object only if it is still the one that it put last. So the last
//! run of a part has it, and all earlier ones end with an error when they next note something. What an
//! earlier run had finished stays noted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::part_notes::MAX_NOTE;
use crate::error::{Error, ErrorKind, Result};
use crate::storage::{self, Expected, FileId, Storage, in_parallel};

/// How often a part is taken where others take it at the same time.
pub(super) const TRIES: usize = 20;
/// Threads that ask a store at the same time.
const AT_ONCE: usize = 16;

/// Notes that are objects.
#[derive(Debug)]
pub(super) struct PartObjects {
    storage: Arc<dyn Storage>,
    /// The objects that this process has put in the place of those of earlier runs.
    held: Mutex<BTreeMap<PathBuf, FileId>>,
}

/// The end of a run whose part another run has taken.
#[derive(Debug)]
pub(super) struct Lost;

impl PartObjects {
    /// Of a dataset in an object store, and its name there; `None` if it is on a disk.
    pub(super) fn of(dataset: &Path) -> Result<Option<(PartObjects, PathBuf)>> {
        if !storage::is_url(dataset) {
            return Ok(None);
        }
        let (storage, path) = storage::of(dataset)?;
        Ok(Some((PartObjects { storage, held: Mutex::default() }, path)))
    }

    pub(super) fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    pub(super) fn read(&self, path: &Path) -> Result<Option<Vec<u8>>> {
        Ok(self.find(path)?.map(|(text, _)| text))
    }

    fn find(&self, path: &Path) -> Result<Option<(Vec<u8>, FileId)>> {
        let Some(found) = self.storage.open_if_exists(path)? else { return Ok(None) };
        if found.len() > MAX_NOTE {
            let message = format!("expected at most {MAX_NOTE} bytes, found {}", found.len());
            return Err(Error::new(ErrorKind::Limit, message).at(path));
        }
        Ok(Some((found.read(0..found.len())?.into_owned(), found.id())))
    }

    /// Whether there was none before.
    pub(super) fn create(&self, path: &Path, text: &[u8]) -> Result<bool> {
        match self.storage.put_if(path, text, Expected::Absent) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            put => put.map(|_| true),
        }
    }

    pub(super) fn write(&self, path: &Path, text: &[u8]) -> Result<()> {
        self.storage.put_if(path, text, Expected::Anything).map(drop)
    }

    /// Puts what `text` makes of the note in its place, and keeps all who have put one before from
    /// doing so again.
    pub(super) fn take(
        &self,
        path: &Path,
        text: impl Fn(Option<Vec<u8>>) -> Result<String>,
    ) -> Result<Result<(), Lost>> {
        for _ in 0..TRIES {
            let (before, expected) = match self.find(path)? {
                Some((before, id)) => (Some(before), Expected::Version(id)),
                None => (None, Expected::Absent),
            };
            if let Ok(id) = self.put(path, &text(before)?, expected)? {
                self.hold(path, id);
                return Ok(Ok(()));
            }
        }
        Ok(Err(Lost))
    }

    /// Puts the next note, if the one that is there is of this process.
    pub(super) fn replace(&self, path: &Path, text: &str) -> Result<Result<(), Lost>> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).get(path).copied();
        let Some(version) = held else { return Ok(Err(Lost)) };
        let put = self.put(path, text, Expected::Version(version))?;
        Ok(put.map(|id| self.hold(path, id)))
    }

    /// Whether the note that is there is of this process.
    pub(super) fn holds(&self, path: &Path) -> Result<bool> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).get(path).copied();
        let there = self.storage.stat(path)?.map(|stat| stat.id);
        Ok(held.is_some() && held == there)
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

    fn hold(&self, path: &Path, id: FileId) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.insert(path.to_path_buf(), id);
    }

    /// Removes notes; those that are not there are gone.
    pub(super) fn remove(&self, paths: &[PathBuf]) -> Result<()> {
        at_once(paths, |path| self.storage.remove(path)).map(drop)
    }
}

/// Does this with each of them on several threads, where each waits for answers. The results are in their
/// order; of errors the first counts.
pub(super) fn at_once<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    in_parallel(items, AT_ONCE, work).into_iter().collect()
}
