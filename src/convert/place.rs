//! What is in the place of an output, or of an input, before any work is done.

use std::path::{Path, PathBuf};

use crate::dataset::labels_path;
use crate::dataset::staging;
use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::SideFile;
use crate::regular::open_regular;
use crate::storage::LocalStorage;

/// Fails if this cannot be the data file of a dataset: a directory, a device or a side file.
pub fn check_data_path(path: &Path) -> Result<()> {
    let invalid = |message: String| Error::new(ErrorKind::Invalid, message).at(path);
    if path.is_dir() {
        return Err(invalid("expected a data file, found a directory".to_owned()));
    }
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

/// Fails if a source is neither a file nor a directory. What has a name may be read more than once,
/// and in parts; a pipe can be read once from its start, and opening one waits for its other end.
pub(super) fn check_sources(paths: &[PathBuf]) -> Result<()> {
    let special =
        |path: &&PathBuf| path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir());
    match paths.iter().find(special) {
        Some(path) => match open_regular(path) {
            Ok(_) => Ok(()),
            Err(error) => {
                Err(Error::io(path, error).advise("- reads JSON lines from standard input"))
            }
        },
        None => Ok(()),
    }
}

/// Fails if the output is one of the sources.
pub(super) fn check_is_other(sources: &[PathBuf], output: &Path) -> Result<()> {
    match sources.iter().find(|source| is_same(source, output)) {
        Some(source) => Err(Error::new(ErrorKind::Invalid, "is both read and written")
            .at(source)
            .advise("write to another file, then rename it")),
        None => Ok(()),
    }
}

/// Whether two paths are one file.
pub fn is_same(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

/// Fails if a dataset is there that must stay.
pub(super) fn check_dataset(path: &Path, overwrite: bool) -> Result<()> {
    match !overwrite && path.symlink_metadata().is_ok() {
        true => Err(Error::new(ErrorKind::AlreadyExists, "the dataset exists already").at(path)),
        false => Ok(()),
    }
}

/// The file of the labels of a dataset, if it is there.
pub(super) fn present_labels(dataset: &Path) -> Option<PathBuf> {
    Some(labels_path(dataset)).filter(|path| path.exists())
}
