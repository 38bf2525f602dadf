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

/// Options for opening a dataset.
#[derive(Clone, Copy, Default)]
pub(crate) struct Opening {
    /// Compare samples with their checksums.
    pub(crate) verify: bool,
    /// Read files by calls: another program may truncate them, which would kill a process that maps them.
    pub(crate) untrusted: bool,
    /// Read files that a manifest names also where they are links out of its folder.
    pub(crate) allow_outside: bool,
}

impl Opening {
    /// Opens a dataset, by its name or its URL.
    pub(crate) fn open(self, py: Python<'_>, path: &Path) -> PyResult<DatasetReader> {
        let path = path.to_owned();
        let open = move || {
            let (storage, place) = self.locate(&path)?;
            DatasetReader::options().checksums(self.verify).storage(storage).open(place)
        };
        pool::apart(py, open)?.map_err(raise)
    }

    /// Where the files of a dataset are, and its name there. Fails for a file that is none.
    pub(crate) fn locate(self, path: &Path) -> kiste::Result<(Arc<dyn Storage>, PathBuf)> {
        let (found, place) = storage::of(path)?;
        if storage::is_url(path) {
            return Ok((found, place));
        }
        // Each of many files is checked when it is opened.
        if !names_shards(&place) {
            check_is_dataset(&place)?;
        }
        let storage = match self.untrusted {
            true => LocalStorage::positioned(),
            false => LocalStorage::mapped(),
        };
        Ok((Arc::new(storage.allow_outside(self.allow_outside)), place))
    }
}
