//! A file that gets its name when it is whole.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::regular;
use crate::storage::{LocalStorage, Storage};

/// A file that is written beside its place, and moved there at the end. Given up otherwise.
pub(super) struct ShardFile {
    path: PathBuf,
    partial: PathBuf,
    /// `None` once it is finished.
    file: Option<BufWriter<File>>,
}

impl ShardFile {
    /// Begins a file that must not exist yet.
    pub(super) fn create(path: impl Into<PathBuf>) -> Result<ShardFile> {
        let path = path.into();
        if path.try_exists().map_err(|error| Error::io(&path, error))? {
            let message = "the file exists already";
            return Err(Error::new(ErrorKind::AlreadyExists, message).at(path));
        }
        let mut partial = path.clone().into_os_string();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file = create_anew(&partial).map_err(|error| Error::io(&partial, error))?;
        Ok(ShardFile { path, partial, file: Some(BufWriter::with_capacity(1 << 17, file)) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.file {
            Some(file) => file.write_all(bytes).map_err(|error| Error::io(&self.path, error)),
            None => Ok(()),
        }
    }

    /// Makes the file durable and visible.
    pub(super) fn finish(mut self) -> Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let synced = file.into_inner().map_err(std::io::IntoInnerError::into_error);
        let synced = synced.and_then(|file| file.sync_all());
        let moved = synced.and_then(|()| publish(&self.partial, &self.path));
        moved.map_err(|error| Error::io(&self.path, error)).inspect_err(|_| {
            // The first error is the one to tell.
            let _ = fs::remove_file(&self.partial);
        })
    }
}

/// Gives a file, which is on the disk, its name, so that this lasts.
pub(super) fn publish(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    Ok(LocalStorage::positioned().sync_dir(to.parent().unwrap_or(Path::new("")))?)
}

/// A new file of this name, in place of one that was left by a run that died. Nothing else is
/// replaced, and no link is followed: who put one there would choose what is overwritten.
pub(super) fn create_anew(path: &Path) -> io::Result<File> {
    match File::create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            check_leftover(path)?;
            fs::remove_file(path)?;
            File::create_new(path)
        }
        created => created,
    }
}

/// Fails if what an earlier run left here, if anything, is none of ours: not a file itself.
pub(super) fn check_leftover(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => {
            let found = regular::name_of(found.file_type());
            Err(io::Error::other(format!("expected a file or nothing, found {found}")))
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl Drop for ShardFile {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            let _ = fs::remove_file(&self.partial);
        }
    }
}
