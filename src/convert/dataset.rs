//! A dataset as the source of another one.

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use super::{Source, labels_path};
use crate::error::{Error, ErrorKind, Result};
use crate::reader::{DatasetReader, Reader};

/// Samples that are read at a time, at most.
const SAMPLES: usize = 1024;
/// Bytes of samples that are read at a time, if they are more than one.
const BYTES: usize = 4 << 20;

/// Reads the samples of a dataset as the bytes they are, and its labels, if it has any.
///
/// By itself it makes a copy; with [`Recode`](super::Recode) the arrays become packed or plain.
pub struct DatasetSource {
    reader: DatasetReader,
    labels: Option<Vec<String>>,
    /// The first sample of the last batch, and of the next one.
    first: usize,
    next: usize,
}

impl DatasetSource {
    /// Opens the dataset.
    ///
    /// # Errors
    ///
    /// Those of [`DatasetReader::open`]; [`Damaged`](ErrorKind::Damaged) for labels that are no
    /// text.
    pub fn open(path: impl AsRef<Path>) -> Result<DatasetSource> {
        let path = path.as_ref();
        let reader = DatasetReader::open(path)?;
        let labels = read_labels(&labels_path(path))?;
        Ok(DatasetSource { reader, labels, first: 0, next: 0 })
    }
}

fn read_labels(path: &Path) -> Result<Option<Vec<String>>> {
    match fs::read(path) {
        Ok(text) => match String::from_utf8(text) {
            Ok(text) => Ok(Some(text.lines().map(str::to_string).collect())),
            Err(_) => {
                let message = "expected one label a line in UTF-8, found other bytes";
                Err(Error::new(ErrorKind::Damaged, message).at(path))
            }
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(path, error)),
    }
}

impl Source for DatasetSource {
    fn next_batch(&mut self) -> Result<Vec<Result<Vec<u8>>>> {
        self.first = self.next;
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while self.next < self.reader.len() && batch.len() < SAMPLES && bytes < BYTES {
            let sample = self.reader.get_raw(self.next).map(Cow::into_owned);
            bytes += sample.as_ref().map_or(0, Vec::len);
            batch.push(sample);
            self.next += 1;
        }
        Ok(batch)
    }

    fn locate(&self, item: usize, error: Error) -> Error {
        let index = self.first + item;
        let error = match (error.key(), self.reader.key(index)) {
            (None, Ok(key)) => error.with_key(key),
            _ => error,
        };
        Reader::locate(&self.reader, index).describe(error)
    }

    fn len_hint(&self) -> Option<u64> {
        Some(self.reader.len() as u64)
    }

    fn label_names(&self) -> Option<&[String]> {
        self.labels.as_deref()
    }
}
