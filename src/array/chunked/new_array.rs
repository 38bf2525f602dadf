//! New arrays that appear as a whole.

use std::path::{Path, PathBuf};

use crate::array::chunked::{ArrayOptions, VersionInfo};
use crate::error::{Error, ErrorKind, Result};
use crate::storage::{ReplaceDir, ReplaceOptions, Storage};
use crate::value::DType;

/// A directory with a temporary name next to the final one. It is removed if it is not published.
pub(crate) struct NewArray<'a> {
    storage: &'a dyn Storage,
    dir: ReplaceDir<'a>,
    to: PathBuf,
}

impl<'a> NewArray<'a> {
    /// A directory that no other process has. Missing parents are created.
    pub(crate) fn create(options: &'a ArrayOptions, to: &Path) -> Result<NewArray<'a>> {
        options.expect_place(to)?;
        let storage = &*options.storage;
        refuse_existing(storage, to)?;
        create_parents(storage, to)?;
        let dir = ReplaceDir::create_in(storage, to, &ReplaceOptions::default())?;
        Ok(NewArray { storage, dir, to: to.to_path_buf() })
    }

    /// Where it is now.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// An error in this directory, under the name that the caller knows.
    pub(crate) fn shown(&self, error: Error) -> Error {
        let real = self.storage.resolve(self.path()).unwrap_or_else(|_| self.path().to_path_buf());
        let is_inside = |path: &Path| path.starts_with(self.path()) || path.starts_with(&real);
        match error.path() {
            Some(path) if !is_inside(path) => error,
            _ if matches!(error.kind(), ErrorKind::Io | ErrorKind::Cancelled) => error,
            _ => error.shown_at(&self.to),
        }
    }

    /// Renames it, durably.
    pub(crate) fn publish(self) -> Result<()> {
        refuse_existing(self.storage, &self.to)?;
        self.dir.finish()
    }
}

impl ArrayOptions {
    /// As [`create_new`](Self::create_new); or as [`create`](Self::create), if the directory is there,
    /// which may then be empty or hold a creation that was cut short.
    ///
    /// # Errors
    ///
    /// The errors of the same.
    pub fn create_in(
        &self,
        path: impl AsRef<Path>,
        dtype: DType,
        shape: &[usize],
    ) -> Result<VersionInfo> {
        let path = path.as_ref();
        self.expect_place(path)?;
        match self.storage.lstat(path)? {
            Some(_) => Ok(self.create(path, dtype, shape)?.array().version_info()),
            None => self.create_new(path, dtype, shape),
        }
    }

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
        let new = NewArray::create(self, path.as_ref())?;
        let store = self.create(new.path(), dtype, shape).map_err(|error| new.shown(error))?;
        let version = store.array().version_info();
        drop(store);
        new.publish()?;
        Ok(version)
    }
}

fn refuse_existing(storage: &dyn Storage, to: &Path) -> Result<()> {
    match storage.lstat(to)? {
        Some(_) => Err(Error::new(ErrorKind::AlreadyExists, "already exists").at(to)),
        None => Ok(()),
    }
}

/// Creates missing directories above this one, durably.
fn create_parents(storage: &dyn Storage, to: &Path) -> Result<()> {
    let mut missing = Vec::new();
    for dir in to.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty()) {
        if storage.stat(dir)?.is_some() {
            break;
        }
        missing.push(dir);
    }
    let Some(dir) = missing.first() else { return Ok(()) };
    storage.create_dir_all(dir)?;
    // Above a plain name is a directory without one.
    missing.iter().try_for_each(|dir| storage.sync_dir(dir.parent().unwrap_or(Path::new(""))))
}
