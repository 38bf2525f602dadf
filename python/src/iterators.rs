//! [`Samples`] and [`Keys`]: a dataset one by one.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use kiste::DatasetReader;
use kiste::reader::Reader;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::dataset::{Opened, sample, waiting};
use crate::decode::Decoder;
use crate::errors::raise;
use crate::objects;

/// All samples in their order.
#[pyclass(module = "pykiste")]
pub(crate) struct Samples {
    opened: Opened,
    range: Range<usize>,
    /// Whether the memory of samples to come is asked for.
    ahead: bool,
    decoder: Decoder,
}

/// From this mean size of samples on, in bytes, the next ones are not in the processor's caches.
const FAR: u64 = 1024;

/// How many samples ahead their memory is asked for: decoding takes less time than one access.
const AHEAD: usize = 4;

impl Samples {
    pub(crate) fn new(opened: Opened) -> Samples {
        let range = 0..opened.reader().len();
        // Otherwise reading a sample is more than an address, and smaller samples the processor foresees.
        let ahead =
            opened.is_direct() && opened.reader().sample_bytes().is_some_and(|bytes| bytes >= FAR);
        Samples { opened, range, ahead, decoder: Decoder::new() }
    }
}

#[pymethods]
impl Samples {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(index) = self.range.next() else { return Ok(None) };
        if self.ahead && self.range.len() > AHEAD {
            match self.opened.reader().get_raw(self.range.start + AHEAD) {
                Ok(Cow::Borrowed(raw)) => objects::prefetch(raw),
                // It is made of others when it is read.
                _ => self.ahead = false,
            }
        }
        sample(py, &self.opened, index, &mut self.decoder).map(Some)
    }

    fn __length_hint__(&self) -> usize {
        self.range.len()
    }
}

/// All keys in the order of their samples.
#[pyclass(module = "pykiste")]
pub(crate) struct Keys {
    reader: Arc<dyn Reader>,
    range: Range<usize>,
    /// All keys of a remote dataset.
    listed: Option<Vec<String>>,
}

impl Keys {
    pub(crate) fn new(py: Python<'_>, reader: Arc<dyn Reader>) -> PyResult<Keys> {
        let range = 0..reader.len();
        // One by one they would be read from the samples.
        let listed = match reader.is_remote() {
            true => Some(waiting(py, &reader, |reader| match DatasetReader::of(reader) {
                Some(dataset) => dataset.keys().map(|key| key.map(Cow::into_owned)).collect(),
                None => (0..reader.len()).map(|at| reader.key(at).map(Cow::into_owned)).collect(),
            })?),
            false => None,
        };
        Ok(Keys { reader, range, listed })
    }
}

#[pymethods]
impl Keys {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyString>>> {
        let Some(index) = self.range.next() else { return Ok(None) };
        let listed = self.listed.as_ref().and_then(|keys| keys.get(index));
        let key: Cow<'_, str> = match listed {
            Some(key) => Cow::Borrowed(key),
            None => self.reader.key(index).map_err(raise)?,
        };
        Ok(Some(PyString::new(py, &key)))
    }

    fn __length_hint__(&self) -> usize {
        self.range.len()
    }
}
