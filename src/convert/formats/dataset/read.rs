//! Reads samples from a dataset.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::convert::file_names::KeyNames;
use crate::convert::input::{Emit, Input};
use crate::dataset::DatasetReader;
use crate::error::{Error, Result};
use crate::reader::{Reader, name_of};

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
    reader: Arc<dyn Reader>,
    /// The same, if it is a dataset.
    dataset: Option<DatasetReader>,
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
        DatasetInput::of_reader(Arc::new(reader))
    }

    /// Reads the samples of any reader, such as a view of datasets.
    ///
    /// # Errors
    ///
    /// Those of [`Reader::labels`].
    pub fn of_reader(reader: Arc<dyn Reader>) -> Result<DatasetInput> {
        let labels = reader.labels()?;
        let name = name_of(&reader).unwrap_or_default();
        let names = KeyNames::of(&[&name]);
        let dataset = DatasetReader::of(&reader).cloned();
        Ok(DatasetInput { reader, dataset, names, labels })
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
        self.reader.locate(index).describe(error)
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
        match &self.dataset {
            Some(dataset) => Some(dataset.file_of(self.run(unit).start)),
            None => self.reader.name(),
        }
    }

    fn shard(&self, _unit: usize) -> Option<&str> {
        self.names.get(0)
    }

    fn bytes(&self, unit: usize) -> Option<u64> {
        let run = self.run(unit);
        match &self.dataset {
            Some(dataset) => dataset.bytes_of(run),
            None => self.reader.sample_bytes()?.checked_mul(run.len() as u64),
        }
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
