//! New arrays that appear as a whole.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use kiste::ErrorKind;
use kiste::storage::{LocalStorage, Storage};

use crate::exit::{Failure, Outcome};

/// A directory with a temporary name next to the final one. It is removed if it is not published.
pub(super) struct NewArray {
    path: PathBuf,
    to: PathBuf,
    published: bool,
}

impl NewArray {
    /// A directory that no other process has. Its name is random: process numbers are not unique
    /// across containers and machines.
    pub(super) fn create(to: &Path) -> Outcome<NewArray> {
        refuse_existing(to)?;
        let parent = parent_of(to);
        create_parents(parent).map_err(|error| Failure::io(parent, error))?;
        let random = RandomState::new().hash_one(std::process::id());
        let mut name = to.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{random:016x}.new"));
        let path = to.with_file_name(name);
        // An existing directory is an error, and is not removed.
        fs::create_dir(&path).map_err(|error| Failure::io(&path, error))?;
        Ok(NewArray { path, to: to.to_path_buf(), published: false })
    }

    /// Where it is now.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// An error in this directory, under the name that the user knows.
    pub(super) fn explain(&self, error: kiste::Error) -> Failure {
        let real = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        let is_inside = |path: &Path| path.starts_with(&self.path) || path.starts_with(&real);
        match error.path() {
            Some(path) if !is_inside(path) => Failure::from(error),
            _ if error.kind() == ErrorKind::Io => Failure::from(error),
            _ => Failure::trouble(format_args!("{}: {}", self.to.display(), error.message())),
        }
    }

    /// Renames it, durably. Its content has been synced.
    pub(super) fn publish(mut self) -> Outcome<()> {
        refuse_existing(&self.to)?;
        fs::rename(&self.path, &self.to).map_err(|error| Failure::io(&self.to, error))?;
        self.published = true;
        let parent = parent_of(&self.to);
        LocalStorage::mapped().sync_dir(parent).map_err(|error| Failure::io(parent, error))
    }
}

impl Drop for NewArray {
    fn drop(&mut self) {
        if !self.published {
            // This process made it. Links in it are removed, not followed; the error to report is
            // another one.
            let _ = fs::remove_dir_all(&self.path);
        }
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
    missing.iter().try_for_each(|dir| LocalStorage::mapped().sync_dir(parent_of(dir)))
}
