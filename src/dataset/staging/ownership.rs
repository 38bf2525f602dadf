//! Recovery touches only files that are provably from a writer of this crate.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::storage::{FileKind, Storage};

use super::super::files::DatasetFile;
use super::{OLD, Staging, foreign, parent_of, scratch, staged_name};

/// Whether a file of this name in a staging directory is one of ours.
pub(super) fn is_ours(name: &str) -> bool {
    const OURS: [&str; 11] = [
        "lock",
        "journal",
        "journal.new",
        "complete",
        "complete.new",
        "commit",
        "commit.new",
        "labels.new",
        "units",
        "units.new",
        "quarantine",
    ];
    let is_numbered = |name: &str| {
        name.strip_prefix(scratch::PREFIX)
            .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let staged = name.strip_prefix(OLD).unwrap_or(name);
    OURS.contains(&name)
        || is_numbered(name)
        || DatasetFile::all().any(|file| staged_name(file) == staged)
}

/// Fails if what goes by the name of the directory is none, or not ours to touch.
pub(super) fn check_dir(storage: &dyn Storage, target: &Path, dir: &Path) -> Result<()> {
    let stat_of = |path: &Path| storage.lstat(path);
    let Some(stat) = stat_of(dir)? else {
        return Err(Error::io(dir, io::ErrorKind::NotFound.into()));
    };
    if !stat.is_dir() {
        let message = format!("expected the directory of an unfinished write, found {}", stat.kind);
        return Err(foreign(dir, message));
    }
    let (Some(owner), Some(user)) = (stat.owner, storage.user()) else { return Ok(()) };
    if owner == user {
        return Ok(());
    }
    // In a directory that many may write to, anyone can put something next to a dataset.
    let parent = parent_of(target);
    let parent = if parent.as_os_str().is_empty() { PathBuf::from(".") } else { parent };
    let of = match stat_of(target)? {
        Some(data) => Some(data),
        None => stat_of(&parent)?,
    };
    if of.and_then(|stat| stat.owner) == Some(owner) {
        return Ok(());
    }
    let message = format!(
        "belongs to user {owner}, who is neither you nor the owner of the dataset: nothing was \
         touched; they can finish or undo it, and if it is not needed, remove it"
    );
    Err(foreign(dir, message))
}

/// Fails if a file of this dataset could not be given its name, before any work is done: the name
/// is too long for the file system, or something else has it.
pub(super) fn check_names(storage: &dyn Storage, target: &Path) -> Result<()> {
    for path in DatasetFile::all().map(|file| file.path(target)) {
        let stat = storage.lstat(&path)?;
        let kind = stat.map(|stat| stat.kind);
        if let Some(kind) = kind.filter(|kind| !matches!(kind, FileKind::File | FileKind::Link)) {
            let message = format!("expected a file of the dataset or nothing, found {kind}");
            return Err(foreign(&path, message));
        }
    }
    Ok(())
}

impl Staging {
    /// Fails at anything in the directory that no writer of ours put there.
    pub(super) fn check_entries(&self) -> Result<()> {
        for path in self.storage.list(&self.dir)? {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            // Systems create these files in any directory.
            if name.starts_with(".nfs") || name == ".DS_Store" {
                continue;
            }
            if !is_ours(name) {
                let message = "is not a file of an unfinished write, so nothing was touched: move \
                               it away";
                return Err(foreign(&path, message));
            }
            let stat = self.storage.lstat(&path)?;
            if let Some(kind) = stat.map(|stat| stat.kind).filter(|kind| *kind != FileKind::File) {
                let message = format!("expected a regular file, found {kind}: nothing was touched");
                return Err(foreign(&path, message));
            }
        }
        Ok(())
    }
}
