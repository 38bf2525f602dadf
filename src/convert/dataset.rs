//! A dataset as the source of another one.

use std::borrow::Cow;
use std::fs;
use std::ops::Range;
use std::path::Path;

use super::input::{Emit, Input};
use super::{Source, labels_path};
use crate::error::{Error, ErrorKind, Result};
use crate::reader::{DatasetReader, Reader};

/// Samples that are read at a time, at most, and those of a unit.
const SAMPLES: usize = 1024;
/// Samples that the kernel is told of in advance.
const AHEAD: usize = 64;
/// Bytes of samples that are read at a time, if they are more than one.
const BYTES: usize = 4 << 20;

/// Reads the samples of a dataset as the bytes they are, and its labels, if it has any. It is an
/// [`Input`] too, whose units are runs of samples.
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

impl DatasetSource {
    fn located(&self, index: usize, error: Error) -> Error {
        let error = match (error.key(), self.reader.key(index)) {
            (None, Ok(key)) => error.with_key(key),
            _ => error,
        };
        Reader::locate(&self.reader, index).describe(error)
    }

    /// The samples of a unit.
    fn run(&self, unit: usize) -> Range<usize> {
        let start = unit.saturating_mul(SAMPLES).min(self.reader.len());
        start..start.saturating_add(SAMPLES).min(self.reader.len())
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
        self.located(index, error)
    }

    fn len_hint(&self) -> Option<u64> {
        Some(self.reader.len() as u64)
    }

    fn label_names(&self) -> Option<&[String]> {
        self.labels.as_deref()
    }
}

impl Input for DatasetSource {
    fn units(&self) -> usize {
        self.reader.len().div_ceil(SAMPLES)
    }

    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
        let run = self.run(unit);
        let mut sent = 0;
        for index in run {
            // What is read ahead is about what a batch holds.
            if index >= sent {
                sent = index + AHEAD;
                self.reader.prefetch(&(index..sent.min(self.reader.len())).collect::<Vec<_>>());
            }
            let sample = self.reader.get_raw(index).map(Cow::into_owned);
            emit(sample.map_err(|error| self.located(index, error)))?;
        }
        Ok(())
    }

    fn path(&self, _unit: usize) -> Option<&Path> {
        Some(self.reader.path())
    }

    fn bytes(&self, unit: usize) -> Option<u64> {
        let run = self.run(unit);
        let end = self.reader.byte_range(run.end.checked_sub(1)?).ok()?.end;
        Some(end.saturating_sub(self.reader.byte_range(run.start).ok()?.start))
    }

    fn locate(&self, unit: usize, item: u64, error: Error) -> Error {
        self.located(self.run(unit).start.saturating_add(item as usize), error)
    }

    fn len_hint(&self) -> Option<u64> {
        Some(self.reader.len() as u64)
    }

    fn label_names(&self) -> Option<&[String]> {
        self.labels.as_deref()
    }
}
