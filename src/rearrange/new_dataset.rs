//! [`NewDataset`]: a dataset that is made of others.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;

use super::copy;
use crate::dataset::{Writer, WriterOptions, check_data_path, is_same, labels_path};
use crate::error::{Error, ErrorKind, Remedy, Result};
use crate::reader::Reader;
use crate::storage;

/// A dataset that is made of others: where it is written, and how. The name may be a URL: see
/// [`Writer`].
///
/// ```
/// use kiste::rearrange::NewDataset;
/// use kiste::{DatasetReader, Writer};
///
/// # let dir = tempfile::tempdir()?;
/// # let (all, first) = (dir.path().join("all.msgpack"), dir.path().join("first.msgpack"));
/// let mut writer = Writer::create(&all)?;
/// for key in ["a", "b", "c"] {
///     writer.write(&std::collections::BTreeMap::from([("key", key)]))?;
/// }
/// writer.finish()?;
///
/// let new = NewDataset::new(&first);
/// new.check(&[&all])?;
/// let made = new.copy(&DatasetReader::open(&all)?, [2, 0], |_| Ok(()))?;
/// assert_eq!(made.samples, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct NewDataset {
    path: PathBuf,
    overwrite: bool,
    writer: WriterOptions,
}

/// A dataset that was made.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MadeDataset {
    /// Its data file.
    #[serde(serialize_with = "crate::error::serialize_path")]
    pub file: PathBuf,
    /// Samples it has.
    pub samples: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// The file with the names of its labels, if it has any.
    #[serde(serialize_with = "crate::error::serialize_maybe")]
    pub labels: Option<PathBuf>,
    /// How long it took.
    pub seconds: f64,
}

impl NewDataset {
    /// A dataset with this data file.
    pub fn new(path: impl AsRef<Path>) -> NewDataset {
        let (path, writer) = (path.as_ref().to_path_buf(), WriterOptions::default());
        NewDataset { path, overwrite: false, writer }
    }

    /// How it is written. Default: with digests, and durable.
    pub fn writer(mut self, options: WriterOptions) -> NewDataset {
        self.writer = options;
        self
    }

    /// Whether it replaces a dataset that is there. Default: no, that is an error.
    pub fn overwrite(mut self, yes: bool) -> NewDataset {
        self.overwrite = yes;
        self
    }

    /// Fails if it cannot be made of these datasets, before anything is read.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if it is one of them or cannot be a data file, and
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) if it is there and is not to be replaced.
    pub fn check(&self, inputs: &[&Path]) -> Result<()> {
        check_data_path(&self.path)?;
        if let Some(input) = inputs.iter().find(|input| is_same(input, &self.path)) {
            let error = Error::new(ErrorKind::Invalid, "is both read and written").at(input);
            return Err(error.advise("write to another file, then rename it"));
        }
        check_free(&self.path, self.overwrite, "dataset")
    }

    /// Makes it of what `fill` writes. Its labels have these names. Nothing is left of it after an
    /// error, unless all samples are there and only the last steps failed, such as for want of room: then
    /// there is [`Remedy::Repair`].
    ///
    /// # Errors
    ///
    /// Those of `fill` and of the writer.
    pub fn make(
        &self,
        labels: Option<&[String]>,
        fill: impl FnOnce(&mut Writer) -> Result<()>,
    ) -> Result<MadeDataset> {
        let start = Instant::now();
        let mut writer = self.writer.clone().overwrite(self.overwrite).create(&self.path)?;
        // Without names, the names of a dataset that is replaced would stay.
        if let Err(error) = fill(&mut writer).and_then(|()| writer.set_labels(labels)) {
            // The first error is the one to report.
            let _ = writer.abort();
            return Err(error);
        }
        let stats = writer.finish_whole()?;
        Ok(MadeDataset {
            file: storage::shown(&self.path),
            samples: stats.samples,
            bytes: stats.bytes,
            labels: labels.map(|_| labels_path(&storage::shown(&self.path))),
            seconds: start.elapsed().as_secs_f64(),
        })
    }

    /// Makes it of these samples of another dataset, or of any reader, in this order, with the names of its labels.
    /// `progress` hears how many were written so far; an error of it ends the copy.
    ///
    /// # Errors
    ///
    /// The errors of [`copy`], and of the writer.
    pub fn copy(
        &self,
        reader: &dyn Reader,
        indices: impl IntoIterator<Item = usize>,
        progress: impl FnMut(u64) -> Result<()>,
    ) -> Result<MadeDataset> {
        let labels = reader.labels()?;
        self.make(labels.as_deref(), |writer| copy(reader, indices, writer, progress))
    }
}

/// Fails where a new dataset cannot be written, before any work is done: something is there and is not to
/// be replaced, or the name is a URL at which nothing can be written.
pub(crate) fn check_free(path: &Path, overwrite: bool, what: &str) -> Result<()> {
    let (storage, path) = storage::of(path)?;
    if storage.is_object_store() {
        // Begins nothing, and makes no request.
        drop(storage.create(&path)?);
    }
    if overwrite {
        return Ok(());
    }
    for (path, what) in [(&path, what), (&labels_path(&path), "file")] {
        if storage.lstat(path)?.is_some() {
            let message = format!("the {what} exists already");
            let error = Error::new(ErrorKind::AlreadyExists, message).at(path);
            return Err(error.with_remedy(Remedy::Overwrite));
        }
    }
    Ok(())
}
