//! New arrays that appear as a whole.

use std::path::{Path, PathBuf};

use crate::array::chunked::{ArrayOptions, VersionInfo};
use crate::error::{Error, ErrorKind, Result};
use crate::storage::{LocalStorage, ReplaceDir, Storage};
use crate::value::DType;

/// A directory with a temporary name next to the final one. It is removed if it is not published.
pub(crate) struct NewArray {
    dir: ReplaceDir<'static>,
    to: PathBuf,
}

impl NewArray {
    /// A directory that no other process has. Missing parents are created.
    pub(crate) fn create(to: &Path) -> Result<NewArray> {
        refuse_existing(to)?;
        create_parents(parent_of(to))?;
        Ok(NewArray { dir: ReplaceDir::create(to)?, to: to.to_path_buf() })
    }

    /// Where it is now.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// An error in this directory, under the name that the caller knows.
    pub(crate) fn shown(&self, error: Error) -> Error {
        let real = self.path().canonicalize().unwrap_or_else(|_| self.path().to_path_buf());
        let is_inside = |path: &Path| path.starts_with(self.path()) || path.starts_with(&real);
        match error.path() {
            Some(path) if !is_inside(path) => error,
            _ if matches!(error.kind(), ErrorKind::Io | ErrorKind::Cancelled) => error,
            _ => error.shown_at(&self.to),
        }
    }

    /// Renames it, durably.
    pub(crate) fn publish(self) -> Result<()> {
        refuse_existing(&self.to)?;
        self.dir.finish()
    }
}

impl ArrayOptions {
    /// As [`create`](Self::create), but the array appears in one step, under a name that nothing may
    /// have yet, and missing directories above it are created.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) if there is something of this name, and the errors
    /// of [`create`](Self::create).
    pub fn create_new(
        &self,
        path: impl AsRef<Path>,
        dtype: DType,
        shape: &[usize],
    ) -> Result<VersionInfo> {
        let new = NewArray::create(path.as_ref())?;
        let store = self.create(new.path(), dtype, shape).map_err(|error| new.shown(error))?;
        let version = store.array().version_info();
        drop(store);
        new.publish()?;
        Ok(version)
    }
}

fn refuse_existing(to: &Path) -> Result<()> {
    match to.symlink_metadata() {
        Ok(_) => Err(Error::new(ErrorKind::AlreadyExists, "already exists").at(to)),
        Err(_) => Ok(()),
    }
}

fn parent_of(to: &Path) -> &Path {
    to.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates a directory and missing ones above it, durably.
fn create_parents(dir: &Path) -> Result<()> {
    let missing = |dir: &&Path| !dir.as_os_str().is_empty() && !dir.exists();
    let missing: Vec<&Path> = dir.ancestors().take_while(missing).collect();
    std::fs::create_dir_all(dir).map_err(|error| Error::io(dir, error))?;
    missing.iter().try_for_each(|dir| LocalStorage::mapped().sync_dir(parent_of(dir)))
}
