//! [`Writer`]: datasets sample by sample.

use std::path::PathBuf;
use std::sync::Mutex;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::encode;
use crate::errors::{bug, raise};
use crate::pool;

/// Writes a dataset sample by sample.
///
/// Nothing is visible under the name of the dataset until `close`, or the end of a `with` block. An
/// exception in the block discards what was written.
#[pyclass(frozen, module = "pykiste")]
pub(crate) struct Writer {
    /// `None` once it is finished.
    open: Mutex<Option<kiste::Writer>>,
}

impl Writer {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut kiste::Writer) -> kiste::Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| {
            let mut open = self.open.lock().map_err(|_| bug("a writer panicked"))?;
            match open.as_mut() {
                Some(writer) => work(writer).map_err(raise),
                None => Err(closed()),
            }
        })
    }

    fn take(&self) -> PyResult<Option<kiste::Writer>> {
        Ok(self.open.lock().map_err(|_| bug("a writer panicked"))?.take())
    }
}

fn closed() -> PyErr {
    PyValueError::new_err("the writer is closed")
}

#[pymethods]
impl Writer {
    /// Begins a dataset: a new one, or more samples for one that exists.
    #[new]
    #[pyo3(signature = (path, *, append=false, overwrite=false, digests=true, checksums=false, lookup=None, durable=true))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        append: bool,
        overwrite: bool,
        digests: bool,
        checksums: bool,
        lookup: Option<bool>,
        durable: bool,
    ) -> PyResult<Writer> {
        let options = kiste::Writer::options()
            .overwrite(overwrite)
            .digests(digests)
            .checksums(checksums)
            .lookup(lookup)
            .durable(durable);
        let writer = py.detach(|| match append {
            true => options.append(path),
            false => options.create(path),
        });
        Ok(Writer { open: Mutex::new(Some(writer.map_err(raise)?)) })
    }

    /// Writes one sample: a dict with a `"key"` that no other sample has.
    fn write(&self, sample: &Bound<'_, PyDict>) -> PyResult<()> {
        let mut packed = Vec::new();
        encode::append(sample, &mut packed)?;
        self.with(sample.py(), |writer| writer.write_packed(&packed))
    }

    /// Writes a sample that is packed already, under its own key.
    fn write_packed(&self, py: Python<'_>, packed: &[u8]) -> PyResult<()> {
        self.with(py, |writer| writer.write_packed(packed))
    }

    /// Writes bytes as they are, under this key. They need not be a sample with this key, or a sample.
    fn write_raw(&self, py: Python<'_>, key: &str, packed: &[u8]) -> PyResult<()> {
        self.with(py, |writer| writer.write_raw_unchecked(key, packed))
    }

    /// How many samples the dataset has so far.
    fn __len__(&self) -> PyResult<usize> {
        let open = self.open.lock().map_err(|_| bug("a writer panicked"))?;
        Ok(open.as_ref().ok_or_else(closed)?.len() as usize)
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyString>) -> PyResult<bool> {
        let key = key.to_str()?.to_owned();
        self.with(py, |writer| writer.contains_key(&key))
    }

    /// Sets the names of numeric labels, which go to `.labels`; `None` removes them.
    #[pyo3(signature = (names))]
    fn set_labels(&self, py: Python<'_>, names: Option<Vec<String>>) -> PyResult<()> {
        self.with(py, |writer| writer.set_labels(names.as_deref()))
    }

    /// Hands all samples so far to the operating system.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, kiste::Writer::flush)
    }

    /// Writes the side files and publishes the dataset. Returns what was written.
    fn close<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(writer) = self.take()? else { return Ok(None) };
        let stats = pool::run(py, || writer.finish())?.map_err(raise)?;
        let dict = PyDict::new(py);
        dict.set_item("samples", stats.samples)?;
        dict.set_item("bytes", stats.bytes)?;
        Ok(Some(dict))
    }

    /// Removes what was written. An earlier dataset stays as it was.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        match self.take()? {
            Some(writer) => py.detach(|| writer.abort()).map_err(raise),
            None => Ok(()),
        }
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (class, _error, _traceback))]
    fn __exit__(
        &self,
        py: Python<'_>,
        class: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        match class.is_none() {
            true => self.close(py).map(drop)?,
            false => self.abort(py)?,
        }
        Ok(false)
    }
}
