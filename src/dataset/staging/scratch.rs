//! Files that are needed only while a dataset is written: numbered, and gone with its writer.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Result;
use crate::storage::{Create, Sink, Source, Storage};

/// The prefix of their names.
pub(super) const PREFIX: &str = "scratch-";

/// Room for numbered files in the directory `NAME.partial`. They are never synced, and files of a
/// killed writer are never read.
///
/// Dropping it removes the files if possible: ending the writer, or cleaning up after it, removes
/// the rest with the directory.
#[derive(Debug)]
pub(crate) struct Scratch {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    mode: Option<u32>,
}

impl Scratch {
    pub(super) fn new(storage: Arc<dyn Storage>, dir: PathBuf, mode: Option<u32>) -> Scratch {
        Scratch { storage, dir, mode }
    }

    pub(crate) fn path(&self, number: usize) -> PathBuf {
        self.dir.join(format!("{PREFIX}{number}"))
    }

    pub(crate) fn create(&self, number: usize) -> Result<Box<dyn Sink>> {
        let path = self.path(number);
        self.storage.create_with(&path, Create::new().mode(self.mode))
    }

    pub(crate) fn open(&self, number: usize) -> Result<Source> {
        let path = self.path(number);
        self.storage.open(&path)
    }

    pub(crate) fn remove(&self, number: usize) -> Result<()> {
        let path = self.path(number);
        self.storage.remove(&path)
    }

    /// Removes all that there are.
    pub(crate) fn clear(&self) -> Result<()> {
        let files = self.storage.list(&self.dir)?;
        files.iter().filter(|path| is_scratch(path)).try_for_each(|path| self.storage.remove(path))
    }
}

fn is_scratch(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX))
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Files that cannot be removed now go with the directory.
        let _ = self.clear();
    }
}
