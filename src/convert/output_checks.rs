//! Checks the places of outputs and inputs before any work is done.

use std::path::{Path, PathBuf};

use crate::dataset::labels_path;
pub use crate::dataset::{check_data_path, check_finished, is_same};
use crate::error::{Error, ErrorKind, Result};
use crate::regular::open_regular;
use crate::storage;

/// Fails if a source is neither a file nor a directory. What has a name may be read more than once,
/// and in parts; a pipe can be read once from its start, and opening one waits for its other end.
pub(super) fn check_sources(paths: &[PathBuf]) -> Result<()> {
    let special =
        |path: &&PathBuf| path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir());
    match paths.iter().find(special) {
        Some(path) => match open_regular(path) {
            Ok(_) => Ok(()),
            Err(error) => Err(Error::io(path, error)
                .advise("- reads JSON lines, CSV, TSV and tar from standard input")),
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

/// Fails if a dataset is there that must stay.
pub(super) fn check_dataset(path: &Path, overwrite: bool) -> Result<()> {
    let (storage, path) = storage::of(path)?;
    match !overwrite && storage.lstat(&path)?.is_some() {
        true => Err(Error::new(ErrorKind::AlreadyExists, "the dataset exists already").at(path)),
        false => Ok(()),
    }
}

/// The file of the labels of a dataset, if it is there.
pub(super) fn present_labels(dataset: &Path) -> Option<PathBuf> {
    Some(labels_path(dataset)).filter(|path| path.exists())
}
