//! Reads samples from idx files.

use std::path::{Path, PathBuf};

use crate::convert::file_names::KeyNames;
use crate::convert::formats::rows;
use crate::convert::input::{Emit, Input};
use crate::error::{Error, ErrorKind, Result};
use crate::format::idx;
use crate::format::sample_fields::pack;
use crate::value::NdArray;

/// Default for the bytes of a file.
const MAX_BYTES: u64 = 4 << 30;

/// Reads MNIST and similar data sets: an idx file of images, or of other arrays, and often one of
/// labels.
///
/// Samples are `{"key": "STEM/000000", "image": array, "label": number}`; the key is the name of
/// the first file without its ending, and the number of the sample. Files may be compressed by
/// gzip or Zstandard. They are read into memory, which is 47 MB for MNIST. Units are runs of
/// samples.
///
/// ```no_run
/// use kiste::convert::{InOrder, MnistReader};
///
/// let options = MnistReader::options().labels("t10k-labels-idx1-ubyte.gz");
/// let source = InOrder::new(options.open("t10k-images-idx3-ubyte.gz")?);
/// # Ok::<(), kiste::Error>(())
/// ```
#[doc(alias = "Idx")]
#[must_use]
#[derive(Debug, Clone)]
pub struct MnistReader {
    path: PathBuf,
    names: KeyNames,
    /// The name of each field, and its array in C order.
    columns: Vec<(&'static str, NdArray<'static>)>,
    len: usize,
}

impl MnistReader {
    /// Reads a file of images without labels.
    ///
    /// # Errors
    ///
    /// Those of [`MnistOptions::open`].
    pub fn open(images: impl AsRef<Path>) -> Result<MnistReader> {
        MnistReader::options().open(images)
    }

    /// The options, to be changed before the files are read.
    pub fn options() -> MnistOptions {
        MnistOptions { labels: None, max_bytes: MAX_BYTES }
    }
}

/// The files that a [`MnistReader`] reads.
#[derive(Debug, Clone)]
#[must_use]
pub struct MnistOptions {
    labels: Option<PathBuf>,
    max_bytes: u64,
}

impl MnistOptions {
    /// The file of the labels. Default: none.
    pub fn labels(mut self, path: impl AsRef<Path>) -> MnistOptions {
        self.labels = Some(path.as_ref().to_path_buf());
        self
    }

    /// Refuses files with more bytes than this once they are decompressed. Default: 4 GiB.
    pub fn max_bytes(mut self, max_bytes: u64) -> MnistOptions {
        self.max_bytes = max_bytes;
        self
    }

    /// Reads the images, and the labels if there are any.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if there are not as many labels as images,
    /// [`Damaged`](ErrorKind::Damaged) for what is not an idx file, and
    /// [`Limit`](ErrorKind::Limit) for a file of more than [`max_bytes`](Self::max_bytes).
    pub fn open(&self, images: impl AsRef<Path>) -> Result<MnistReader> {
        let path = images.as_ref().to_path_buf();
        let names = KeyNames::of(&[&path]);
        names.name(0, &path)?;
        let images = read(&path, self.max_bytes)?;
        let len = images.shape()[0];
        let mut columns = vec![("image", images)];
        if let Some(labels) = &self.labels {
            let found = read(labels, self.max_bytes)?;
            if found.shape()[0] != len {
                let message = format!("expected {len} labels, found {}", found.shape()[0]);
                return Err(Error::new(ErrorKind::Invalid, message).at(labels));
            }
            columns.push(("label", found));
        }
        Ok(MnistReader { path, names, columns, len })
    }
}

fn read(path: &Path, max_bytes: u64) -> Result<NdArray<'static>> {
    let bytes = rows::read_file(path, max_bytes)?;
    let array = idx::decode(&bytes).map_err(|error| Error::from(error).at(path))?.into_owned();
    rows::check_rows(&array).map_err(|error| error.at(path))?;
    match array.shape() {
        [] => Err(Error::new(ErrorKind::Damaged, "expected samples, found one number").at(path)),
        _ => Ok(array),
    }
}

impl Input for MnistReader {
    fn units(&self) -> usize {
        rows::units(self.len)
    }

    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
        let stem = self.names.name(0, &self.path)?;
        for index in rows::run(unit, self.len) {
            let mut fields = Vec::with_capacity(self.columns.len());
            for (name, array) in &self.columns {
                fields.push(((*name).into(), rows::row(array, index)?));
            }
            emit(pack(&format!("{stem}/{index:06}"), &fields))?;
        }
        Ok(())
    }

    fn path(&self, _unit: usize) -> Option<&Path> {
        Some(&self.path)
    }

    fn shard(&self, _unit: usize) -> Option<&str> {
        self.names.get(0)
    }

    fn len_hint(&self) -> Option<u64> {
        Some(self.len as u64)
    }
}
