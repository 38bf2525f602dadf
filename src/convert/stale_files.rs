//! Files that a run which died may have left behind, under names that the next run uses again.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use crate::regular;

/// A new file of this name, in place of one that an earlier run left. Nothing else is replaced, and
/// no link is followed: who puts one there would choose what is overwritten.
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

/// Fails if there is something other than a regular file here.
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
