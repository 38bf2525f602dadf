//! Checks of the place of a dataset, before any work is done.

use std::path::Path;

use super::staging;
use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::SideFile;
use crate::regular::open_regular;
use crate::storage::LocalStorage;

/// Fails if this cannot be the data file of a dataset: a directory, a device or a side file.
pub fn check_data_path(path: &Path) -> Result<()> {
    let invalid = |message: String| Error::new(ErrorKind::Invalid, message).at(path);
    // For most programs this stands for a pipe, but a dataset is several files.
    if path == Path::new("-") {
        let message = "expected the name of a data file, found -, which stands for a pipe";
        return Err(invalid(message.to_owned()));
    }
    if path.is_dir() {
        return Err(invalid("expected a data file, found a directory".to_owned()));
    }
    // Opening a pipe would wait for its other end.
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        open_regular(path).map_err(|error| Error::io(path, error))?;
    }
    let data = path.with_extension("");
    if SideFile::of(path).is_some() && data.is_file() {
        let message = format!("expected a data file, found a side file of {}", data.display());
        return Err(invalid(message));
    }
    Ok(())
}

/// The same for a dataset that is read: fails if it was never finished.
pub fn check_finished(path: &Path) -> Result<()> {
    check_data_path(path)?;
    if !path.exists() && staging::dir_of(path).is_dir() {
        return Err(staging::unfinished_error(&LocalStorage::positioned(), path));
    }
    Ok(())
}

/// Whether this is meant for a dataset, by its name or the files next to it.
pub fn is_dataset(data: &Path) -> bool {
    let has_side_file = || SideFile::ALL.iter().any(|file| file.path(data).exists());
    data.extension().is_some_and(|ending| ending == "msgpack") || has_side_file()
}

/// Whether two paths are one file.
pub fn is_same(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}
