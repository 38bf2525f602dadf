//! [`ExportDir`]: the directory `NAME.partial`, where an export is written before it is moved to its
//! place.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::regular;
use crate::storage::{self, LocalStorage, Lock, Storage};

/// The file that marks the directory as ours, and is locked while its process lives.
const LOCK: &str = ".kiste-lock";

/// The output that is replaced, until it is removed.
const OLD: &str = ".kiste-old";

/// A directory that belongs to this process alone. When dropped, it is removed with its contents.
pub(super) struct ExportDir {
    dir: PathBuf,
    lock: Option<Lock>,
}

impl ExportDir {
    /// Creates the directory next to the output. What an export left that was killed is removed, as
    /// its samples are written again; nothing else is, and no link is followed.
    pub(super) fn begin(path: &Path) -> Result<ExportDir> {
        let dir = dir_of(path);
        let at = |error| Error::io(&dir, error);
        match fs::create_dir(&dir) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                ExportDir::clear(path)?;
                fs::create_dir(&dir).map_err(at)?;
            }
            Err(error) => return Err(at(error)),
        }
        // Between the two calls another process may have taken the directory for a leftover.
        match lock(&dir) {
            Ok(Some(lock)) => Ok(ExportDir { dir, lock: Some(lock) }),
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Err(at_work(&dir)),
        }
    }

    /// Removes what an export left that was killed, if it left anything.
    pub(super) fn clear(path: &Path) -> Result<()> {
        let dir = dir_of(path);
        let at = |error| Error::io(&dir, error);
        let found = match dir.symlink_metadata() {
            Ok(found) => found.file_type(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(at(error)),
        };
        let foreign = |message: String| {
            Error::new(ErrorKind::Foreign, message).with_remedy(Remedy::RemoveDir(dir.clone()))
        };
        if !found.is_dir() {
            let found = regular::name_of(found);
            let message = format!("expected nothing or an unfinished export, found {found}");
            return Err(foreign(message).at(&dir));
        }
        storage::expect_owned(&dir).map_err(|error| match error.kind() {
            ErrorKind::Foreign => error.with_remedy(Remedy::RemoveDir(dir.clone())),
            _ => error,
        })?;
        // Killed between the first two steps.
        if fs::remove_dir(&dir).is_ok() {
            return Ok(());
        }
        if !dir.join(LOCK).symlink_metadata().is_ok_and(|found| found.is_file()) {
            return Err(foreign("exists already, and is no unfinished export".to_owned()).at(&dir));
        }
        let Some(_lock) = lock(&dir)? else { return Err(at_work(&dir)) };
        if let Some(other) = special_below(&dir).map_err(at)? {
            let message = "expected only files and folders of an export here";
            return Err(foreign(message.to_owned()).at(other));
        }
        put_back(&dir, path);
        remove_all(&dir)
    }

    /// The same where nothing is to be exported: what another export writes stays, and what is of others.
    pub(super) fn clear_dead(path: &Path) -> Result<()> {
        match ExportDir::clear(path) {
            Err(error) if matches!(error.kind(), ErrorKind::Locked | ErrorKind::Foreign) => Ok(()),
            cleared => cleared,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.dir
    }

    /// The names of the files and directories in it, sorted.
    pub(super) fn entries(&self) -> Result<Vec<PathBuf>> {
        entries(&self.dir)
    }

    /// Moves a directory in here, with which it is removed.
    pub(super) fn set_aside(&self, path: &Path) -> Result<()> {
        fs::rename(path, self.dir.join(OLD)).map_err(|error| Error::io(path, error))
    }

    /// Moves it back to its place, where nothing has come.
    pub(super) fn put_back(&self, path: &Path) {
        put_back(&self.dir, path);
    }

    /// Makes everything in it durable.
    pub(super) fn sync(&self) -> Result<()> {
        sync_below(&self.dir)
    }
}

impl Drop for ExportDir {
    fn drop(&mut self) {
        if let Some(_lock) = self.lock.take() {
            // If it cannot be removed, the next run reports it.
            let _ = remove_all(&self.dir);
        }
    }
}

/// Moves what was to be replaced back to its place, unless there is something by now.
fn put_back(dir: &Path, path: &Path) {
    if path.symlink_metadata().is_err() {
        // If it is not there, there is nothing to do.
        let _ = fs::rename(dir.join(OLD), path);
    }
}

/// Removes the directory and all that is in it. The lock goes last, also if power is lost: without it
/// nothing says that the rest is ours.
fn remove_all(dir: &Path) -> Result<()> {
    let mut rest = entries(dir)?;
    rest.extend(dir.join(OLD).symlink_metadata().is_ok().then(|| PathBuf::from(OLD)));
    for path in rest.iter().map(|name| dir.join(name)) {
        let removed = match path.is_dir() {
            true => fs::remove_dir_all(&path),
            false => fs::remove_file(&path),
        };
        removed.map_err(|error| Error::io(&path, error))?;
    }
    if !rest.is_empty() {
        LocalStorage::mapped().sync_dir(dir)?;
    }
    fs::remove_dir_all(dir).map_err(|error| Error::io(dir, error))
}

pub(super) fn dir_of(path: &Path) -> PathBuf {
    let mut partial = path.as_os_str().to_os_string();
    partial.push(".partial");
    PathBuf::from(partial)
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    let at = |error| Error::io(dir, error);
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(at)? {
        let name = entry.map_err(at)?.file_name();
        if name != LOCK && name != OLD {
            names.push(PathBuf::from(name));
        }
    }
    names.sort();
    Ok(names)
}

fn lock(dir: &Path) -> Result<Option<Lock>> {
    let path = dir.join(LOCK);
    LocalStorage::positioned().lock(&path)
}

fn at_work(dir: &Path) -> Error {
    Error::new(ErrorKind::Locked, "another conversion is writing it").at(dir)
}

/// The first thing in a folder, or below, that is neither a file nor a folder.
fn special_below(dir: &Path) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let found = entry.file_type()?;
        if found.is_dir() {
            if let Some(special) = special_below(&entry.path())? {
                return Ok(Some(special));
            }
        } else if !found.is_file() {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

/// Makes all files in a directory durable, and their names. Syncing is mostly waiting, so all cores
/// sync at the same time.
fn sync_below(dir: &Path) -> Result<()> {
    let at = |error| Error::io(dir, error);
    let entries: Vec<PathBuf> = fs::read_dir(dir)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .map_err(at)?;
    entries.par_iter().try_for_each(|path| match path.is_dir() {
        true => sync_below(path),
        false => {
            // Some systems sync only files that are open for writing.
            let file = fs::File::options().write(true).open(path);
            file.and_then(|file| file.sync_all()).map_err(|error| Error::io(path, error))
        }
    })?;
    LocalStorage::mapped().sync_dir(dir)
}
