//! Reads samples from a dataset.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use crate::convert::file_names::KeyNames;
use crate::convert::input::{Emit, Input};
use crate::dataset::DatasetReader;
use crate::error::{Error, Result};
use crate::reader::Reader;

/// Samples in a unit.
const SAMPLES: usize = 1024;
/// Samples that the kernel is asked to read ahead.
const AHEAD: usize = 64;

/// Reads the packed samples of a dataset, and the names of its labels if it has any. Units are runs
/// of samples.
///
/// Alone it makes a copy of the dataset; with [`Recode`](crate::convert::Recode) the arrays become
/// packed or plain.
#[doc(alias = "DatasetSource")]
#[must_use]
pub struct DatasetInput {
    reader: DatasetReader,
    names: KeyNames,
    labels: Option<Vec<String>>,
}

impl DatasetInput {
    /// Opens a dataset.
    ///
    /// # Errors
    ///
    /// Those of [`DatasetReader::open`] and [`DatasetReader::labels`].
    pub fn open(path: impl AsRef<Path>) -> Result<DatasetInput> {
        DatasetInput::new(DatasetReader::open(path)?)
    }

    /// Reads a dataset that is open already, for example one that is
    /// [not mapped](DatasetReader::options).
    ///
    /// # Errors
    ///
    /// Those of [`DatasetReader::labels`].
    pub fn new(reader: DatasetReader) -> Result<DatasetInput> {
        let labels = reader.labels()?;
        let names = KeyNames::of(&[reader.path()]);
        Ok(DatasetInput { reader, names, labels })
    }

    /// The name of the file in keys, if it is one of several.
    pub(in crate::convert) fn called(mut self, names: KeyNames) -> DatasetInput {
        self.names = names;
        self
    }

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

impl Input for DatasetInput {
    fn units(&self) -> usize {
        self.reader.len().div_ceil(SAMPLES)
    }

    fn read(&self, unit: usize, emit: &mut Emit<'_>) -> Result<()> {
        let run = self.run(unit);
        let mut sent = 0;
        for index in run {
            // About as much as a batch holds.
            if index >= sent {
                sent = index + AHEAD;
                self.reader.prefetch(&(index..sent.min(self.reader.len())).collect::<Vec<_>>());
            }
            let sample = self.reader.get_raw(index).map(Cow::into_owned);
            emit(sample.map_err(|error| self.located(index, error)))?;
        }
        Ok(())
    }

    fn path(&self, unit: usize) -> Option<&Path> {
        Some(self.reader.file_of(self.run(unit).start))
    }

    fn shard(&self, _unit: usize) -> Option<&str> {
        self.names.get(0)
    }

    fn bytes(&self, unit: usize) -> Option<u64> {
        self.reader.bytes_of(self.run(unit))
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
