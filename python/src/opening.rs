//! How datasets are opened: by all that takes the name of one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiste::compose::{View, ViewOptions, is_recipe};
use kiste::convert::check_is_dataset;
use kiste::dataset::names_shards;
use kiste::storage::{self, LocalStorage, Storage};
use pyo3::prelude::*;

use crate::errors::raise;
use crate::interrupt::watched;
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
    /// Opens a dataset or a recipe, by its name or its URL. The callback hears how far the conditions of a recipe are.
    pub(crate) fn open(
        self,
        py: Python<'_>,
        path: &Path,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<View> {
        let path = path.to_owned();
        if is_recipe(&path) {
            return watched(py, progress, move |messenger| {
                self.options().open(path, &mut |doing| messenger.doing(doing))
            });
        }
        let open = move || {
            // Says which other format it is.
            check(&path)?;
            self.options().open(path, &mut |_| Ok(()))
        };
        pool::apart(py, open)?.map_err(raise)
    }

    fn options(self) -> ViewOptions {
        let options = ViewOptions::default().checksums(self.verify);
        options.untrusted(self.untrusted).allow_outside(self.allow_outside)
    }

    /// What holds for all of several.
    pub(crate) fn and(self, other: Opening) -> Opening {
        Opening {
            verify: self.verify && other.verify,
            untrusted: self.untrusted && other.untrusted,
            allow_outside: self.allow_outside && other.allow_outside,
        }
    }

    /// Where the files of a dataset are, and its name there. Fails for a file that is none.
    pub(crate) fn locate(self, path: &Path) -> kiste::Result<(Arc<dyn Storage>, PathBuf)> {
        let (found, place) = storage::of(path)?;
        if storage::is_url(path) {
            return Ok((found, place));
        }
        check(&place)?;
        let storage = match self.untrusted {
            true => LocalStorage::positioned(),
            false => LocalStorage::mapped(),
        };
        Ok((Arc::new(storage.allow_outside(self.allow_outside)), place))
    }
}

/// Fails for a local file that is no dataset.
fn check(path: &Path) -> kiste::Result<()> {
    // Each of many files is checked when it is opened.
    if storage::is_url(path) || names_shards(path) { Ok(()) } else { check_is_dataset(path) }
}
