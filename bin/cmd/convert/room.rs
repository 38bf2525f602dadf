//! Where an export is made: the folder `NAME.partial`, until what is in it is moved to its place.

use std::fs::{self, FileType};
use std::io;
use std::path::{Path, PathBuf};

use kiste::storage::{LocalStorage, Lock, Storage};
use rayon::prelude::*;

use crate::exit::{Failure, Outcome, quoted};

/// The file that says whose the folder is, and is locked while its process lives.
const LOCK: &str = ".kiste-lock";

/// A folder that is this process's alone. Dropped, it is removed with all that is in it.
pub(super) struct Room {
    dir: PathBuf,
    lock: Option<Lock>,
}

impl Room {
    /// Makes the folder next to what it is for. What an export left that died is removed, as none
    /// can be resumed; nothing else is, and no link is followed.
    pub(super) fn begin(path: &Path) -> Outcome<Room> {
        let dir = dir_of(path);
        let at = |error| Failure::io(&dir, error);
        match fs::create_dir(&dir) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Room::clear(path)?;
                fs::create_dir(&dir).map_err(at)?;
            }
            Err(error) => return Err(at(error)),
        }
        match lock(&dir)? {
            Some(lock) => Ok(Room { dir, lock: Some(lock) }),
            None => Err(at_work(&dir)),
        }
    }

    /// Removes what an export left that died, if there is something.
    pub(super) fn clear(path: &Path) -> Outcome<()> {
        let dir = dir_of(path);
        let at = |error| Failure::io(&dir, error);
        let found = match dir.symlink_metadata() {
            Ok(found) => found.file_type(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(at(error)),
        };
        let name = dir.display();
        let remove = format!("remove or rename it if it is not needed: rm -r {}", quoted(&dir));
        if !found.is_dir() {
            let found = name_of(found);
            let message =
                format!("{name}: expected nothing or an unfinished export, found {found}");
            return Err(Failure::trouble(message).hint(remove));
        }
        // Killed between the first two steps.
        if fs::remove_dir(&dir).is_ok() {
            return Ok(());
        }
        if !dir.join(LOCK).symlink_metadata().is_ok_and(|found| found.is_file()) {
            let message = format!("{name}: exists already, and is no unfinished export");
            return Err(Failure::trouble(message).hint(remove));
        }
        let Some(_lock) = lock(&dir)? else { return Err(at_work(&dir)) };
        if let Some(other) = special_below(&dir).map_err(at)? {
            let other = other.display();
            let message = format!("{other}: expected files and folders of an export here alone");
            return Err(Failure::trouble(message).hint(remove));
        }
        fs::remove_dir_all(&dir).map_err(at)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The names of what was made, sorted.
    pub(super) fn made(&self) -> Outcome<Vec<PathBuf>> {
        made(&self.dir)
    }

    /// Makes all that was made last, and its names.
    pub(super) fn sync(&self) -> Outcome<()> {
        sync_below(&self.dir)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(_lock) = self.lock.take() {
            // What cannot be removed is told of by the next run.
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

fn dir_of(path: &Path) -> PathBuf {
    let mut partial = path.as_os_str().to_os_string();
    partial.push(".partial");
    PathBuf::from(partial)
}

fn made(dir: &Path) -> Outcome<Vec<PathBuf>> {
    let at = |error| Failure::io(dir, error);
    let mut made = Vec::new();
    for entry in fs::read_dir(dir).map_err(at)? {
        let name = entry.map_err(at)?.file_name();
        if name != LOCK {
            made.push(PathBuf::from(name));
        }
    }
    made.sort();
    Ok(made)
}

fn lock(dir: &Path) -> Outcome<Option<Lock>> {
    let path = dir.join(LOCK);
    Ok(LocalStorage::positioned().lock(&path)?)
}

fn at_work(dir: &Path) -> Failure {
    let message = format!("{}: another conversion is at work on it", dir.display());
    Failure::trouble(message).hint("wait until the other program is done")
}

fn name_of(found: FileType) -> &'static str {
    match () {
        () if found.is_symlink() => "a symbolic link",
        () if found.is_file() => "a file",
        () => "something else",
    }
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

/// Makes all files in a folder last, and their names. To sync one file after the other is mostly
/// waiting, so it is done on all cores.
fn sync_below(dir: &Path) -> Outcome<()> {
    let at = |error| Failure::io(dir, error);
    let entries: Vec<PathBuf> = fs::read_dir(dir)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .map_err(at)?;
    entries.par_iter().try_for_each(|path| match path.is_dir() {
        true => sync_below(path),
        false => {
            // Some systems sync only what may be written.
            let file = fs::File::options().write(true).open(path);
            file.and_then(|file| file.sync_all()).map_err(|error| Failure::io(path, error))
        }
    })?;
    Ok(LocalStorage::mapped().sync_dir(dir)?)
}
