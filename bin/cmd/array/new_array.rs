//! New arrays that appear as a whole.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use kiste::ErrorKind;
use kiste::storage::{LocalStorage, ReplaceDir, Storage};

use crate::exit::{Failure, Outcome};

/// A directory with a temporary name next to the final one. It is removed if it is not published.
pub(super) struct NewArray {
    dir: ReplaceDir<'static>,
    to: PathBuf,
}

impl NewArray {
    /// A directory that no other process has. Missing parents are created.
    pub(super) fn create(to: &Path) -> Outcome<NewArray> {
        refuse_existing(to)?;
        let parent = parent_of(to);
        create_parents(parent).map_err(|error| Failure::io(parent, error))?;
        Ok(NewArray { dir: ReplaceDir::create(to)?, to: to.to_path_buf() })
    }

    /// Where it is now.
    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// An error in this directory, under the name that the user knows.
    pub(super) fn explain(&self, error: kiste::Error) -> Failure {
        let real = self.path().canonicalize().unwrap_or_else(|_| self.path().to_path_buf());
        let is_inside = |path: &Path| path.starts_with(self.path()) || path.starts_with(&real);
        match error.path() {
            Some(path) if !is_inside(path) => Failure::from(error),
            _ if matches!(error.kind(), ErrorKind::Io | ErrorKind::Cancelled) => error.into(),
            _ => Failure::trouble(format_args!("{}: {}", self.to.display(), error.message())),
        }
    }

    /// Renames it, durably.
    pub(super) fn publish(self) -> Outcome<()> {
        refuse_existing(&self.to)?;
        Ok(self.dir.finish()?)
    }
}

fn refuse_existing(to: &Path) -> Outcome<()> {
    if to.symlink_metadata().is_err() {
        return Ok(());
    }
    let message = format!("{}: already exists", to.display());
    Err(Failure::trouble(message))
}

fn parent_of(to: &Path) -> &Path {
    to.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates a directory and missing ones above it, durably.
fn create_parents(dir: &Path) -> io::Result<()> {
    let missing = |dir: &&Path| !dir.as_os_str().is_empty() && !dir.exists();
    let missing: Vec<&Path> = dir.ancestors().take_while(missing).collect();
    fs::create_dir_all(dir)?;
    Ok(missing.iter().try_for_each(|dir| LocalStorage::mapped().sync_dir(parent_of(dir)))?)
}
