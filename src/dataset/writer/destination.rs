//! [`Destination`]: where a writer puts its files, and how they are published. Only this knows whether that is a disk
//! or an object store.

use std::path::Path;

use super::super::files::DatasetFile;
use super::super::staging::{Journal, Staging};
use super::upload::Upload;
use crate::error::{Error, ErrorKind, Result};
use crate::format::dataset::SideFile;
use crate::storage::Sink;
#[cfg(feature = "convert")]
use crate::storage::{Source, Storage};

/// The files of a dataset that is not published yet.
pub(super) struct Destination {
    staging: Staging,
    /// The object store, if it goes to one: then only side files are in the staging directory, which is elsewhere.
    upload: Option<Upload>,
}

impl Destination {
    /// In a directory next to its place, where a repair finds it.
    pub(super) fn disk(staging: Staging) -> Destination {
        Destination { staging, upload: None }
    }

    /// In an object store, where nothing exists before it is finished.
    pub(super) fn object_store(staging: Staging, upload: Upload) -> Destination {
        Destination { staging, upload: Some(upload) }
    }

    pub(super) fn staging(&self) -> &Staging {
        &self.staging
    }

    /// Whether its samples can be kept when the writer ends before them, and read while it writes.
    pub(super) fn keeps_samples(&self) -> bool {
        self.upload.is_none()
    }

    /// Fails unless it [keeps samples](Self::keeps_samples).
    pub(super) fn check_keeps_samples(&self, path: &Path) -> Result<()> {
        match self.keeps_samples() {
            true => Ok(()),
            false => {
                let message = "a dataset at a URL does not exist before it is finished";
                Err(Error::new(ErrorKind::Unsupported, message).at(path))
            }
        }
    }

    /// The data so far, where they can be read. An append writes to the file at `path` itself.
    #[cfg(feature = "convert")]
    pub(super) fn data(&self, storage: &dyn Storage, path: &Path) -> Result<Option<Source>> {
        if !self.keeps_samples() {
            return Ok(None);
        }
        match storage.open_if_exists(&self.staging.path(DatasetFile::Data))? {
            None => storage.open(path).map(Some),
            staged => Ok(staged),
        }
    }

    /// Publishes the data and the staged files.
    pub(super) fn publish(
        self,
        journal: &Journal,
        data: Box<dyn Sink>,
        publish: &[DatasetFile],
        remove: &[SideFile],
    ) -> Result<()> {
        match self.upload {
            Some(upload) => upload.publish(self.staging, journal, data, publish),
            None => self.staging.commit(journal, publish, remove),
        }
    }

    /// Removes what was written.
    pub(super) fn abort(self) -> Result<()> {
        match self.upload {
            // Dropped, it ends without an object, and its directory goes with it.
            Some(_) => Ok(()),
            None => self.staging.abort(),
        }
    }
}
