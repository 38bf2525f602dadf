//! How datasets are opened: by all that takes the name of one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiste::DatasetReader;
use kiste::convert::check_is_dataset;
use kiste::dataset::names_shards;
use kiste::storage::{self, LocalStorage, Storage};
use pyo3::prelude::*;

use crate::errors::raise;
use crate::pool;

/// What is asked of a dataset when it is opened.
#[derive(Clone, Copy, Default)]
pub(crate) struct Opening {
    /// Compare samples with their checksums.
    pub(crate) verify: bool,
    /// Read files by calls: another program may truncate them, which would kill a process that maps them.
    pub(crate) untrusted: bool,
}

impl Opening {
    /// Opens a dataset, by its name or its URL.
    pub(crate) fn open(self, py: Python<'_>, path: &Path) -> PyResult<DatasetReader> {
        let path = path.to_owned();
        let open = move || {
            let (storage, place) = locate(&path, self.untrusted)?;
            DatasetReader::options().checksums(self.verify).storage(storage).open(place)
        };
        pool::apart(py, open)?.map_err(raise)
    }
}

/// Where the files of a dataset are, and its name there. Fails for a file that is none.
pub(crate) fn locate(path: &Path, untrusted: bool) -> kiste::Result<(Arc<dyn Storage>, PathBuf)> {
    let (found, place) = storage::of(path)?;
    if storage::is_url(path) {
        return Ok((found, place));
    }
    // Each of many files is checked when it is opened.
    if !names_shards(&place) {
        check_is_dataset(&place)?;
    }
    let storage = if untrusted { LocalStorage::positioned() } else { LocalStorage::mapped() };
    Ok((Arc::new(storage), place))
}
