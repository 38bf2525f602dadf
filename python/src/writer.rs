//! [`Writer`]: datasets sample by sample.

use std::ffi::CString;
use std::path::PathBuf;

use kiste::rearrange::LengthOf;
use pyo3::exceptions::PyResourceWarning;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::encode;
use crate::errors::{invalid, raise};
use crate::lock::Shared;
use crate::new_dataset::parse_lengths;
use crate::pool;

/// Writes a dataset sample by sample.
///
/// Nothing is visible under the name of the dataset until `close`, or the end of a `with` block. An
/// exception in the block discards what was written. A writer that is forgotten publishes nothing, and warns
/// (`ResourceWarning`). It is an `AlreadyExistsError` if there is a dataset, unless `append` or `overwrite` is set, and
/// a `LockedError` if another writer is at work on it.
///
/// `digests=False` leaves out `.md5`, `checksums=True` adds `.crc`, a checksum of each sample, and `lookup` says whether there
/// is to be `.lookup` (by default from 1,024 samples on). With `durable=False` nothing waits for the disk: faster, but when the
/// machine loses power, what was written last may be lost.
///
/// `lengths` are columns of `.lengths`, such as `["len(tokens)"]`, as `index` makes them: each sample is measured when it is
/// written, and one that has no such number is refused. With `append` the columns that are there stay.
///
/// >>> import pykiste as ki
/// >>> with ki.Writer(getfixture("tmp_path") / "words.msgpack", checksums=True) as writer:
/// ...     writer.write({"key": "de", "word": "Kiste"})
/// ...     len(writer), "de" in writer
/// (1, True)
#[pyclass(frozen, module = "pykiste")]
pub(crate) struct Writer {
    /// `None` once it is finished.
    open: Shared<Option<kiste::Writer>>,
    path: PathBuf,
    /// The process that has the files and the threads.
    process: u32,
}

impl Writer {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut kiste::Writer) -> kiste::Result<T> + Send,
    ) -> PyResult<T> {
        self.check_process()?;
        let done = self.open.with(py, |open| open.as_mut().map(work))?;
        done.ok_or_else(closed)?.map_err(raise)
    }

    fn take(&self, py: Python<'_>) -> PyResult<Option<kiste::Writer>> {
        self.check_process()?;
        Ok(self.open.take(py)?.take())
    }

    fn check_process(&self) -> PyResult<()> {
        match self.process == std::process::id() {
            true => Ok(()),
            false => Err(invalid(
                "expected the process that made the writer, found one that was forked from it",
            )),
        }
    }

    /// Says that nothing will come of what was written.
    fn warn(&self, py: Python<'_>) {
        let path = kiste::storage::shown(&self.path);
        let text = format!(
            "{}: a writer was not closed, so nothing was published: call close(), or use a with block",
            path.display()
        );
        // This may happen while an exception is on its way.
        let pending = PyErr::take(py);
        let category = py.get_type::<PyResourceWarning>();
        let warned = CString::new(text).map(|text| PyErr::warn(py, &category, &text, 1));
        if let Ok(Err(error)) = warned {
            error.write_unraisable(py, None);
        }
        if let Some(pending) = pending {
            pending.restore(py);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // At the end of the interpreter nothing can be said any more.
        let _ = Python::try_attach(|py| {
            if let Ok(Some(forgotten)) = self.take(py) {
                self.warn(py);
                py.detach(|| drop(forgotten));
            }
        });
    }
}

fn closed() -> PyErr {
    invalid("the writer is closed")
}

#[pymethods]
impl Writer {
    /// Begins a dataset: a new one, or more samples for one that exists.
    #[new]
    #[pyo3(signature = (path, *, append=false, overwrite=false, digests=true, checksums=false, lookup=None, lengths=None,
        durable=true))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        append: bool,
        overwrite: bool,
        digests: bool,
        checksums: bool,
        lookup: Option<bool>,
        lengths: Option<Vec<String>>,
        durable: bool,
    ) -> PyResult<Writer> {
        let options = kiste::Writer::options()
            .overwrite(overwrite)
            .digests(digests)
            .checksums(checksums)
            .lookup(lookup)
            .lengths(parse_lengths(lengths.unwrap_or_default())?)
            .known_lengths(LengthOf::measure)
            .durable(durable);
        let place = path.clone();
        let writer = pool::apart(py, move || match append {
            true => options.append(place),
            false => options.create(place),
        })?;
        let open = Shared::new(Some(writer.map_err(raise)?));
        Ok(Writer { open, path, process: std::process::id() })
    }

    /// Writes one sample: a dict with a `"key"` that no other sample has.
    ///
    /// Values are `None`, booleans, integers of 64 bits, floats, complex numbers, text, bytes, lists and dicts of such
    /// values, arrays and scalars of NumPy, and times: see `pykiste.types.Timestamp`. What would come back as
    /// something else is refused. An error says in which sample and field, also as `key` and `field`, and the writer
    /// is still usable.
    ///
    /// >>> import pykiste as ki
    /// >>> with ki.Writer(getfixture("tmp_path") / "x.msgpack") as writer:
    /// ...     writer.write({"key": "a", "boxes": [{"size": 3}, {"size": {4, 5}}]})
    /// Traceback (most recent call last):
    ///     ...
    /// pykiste.errors.WrongTypeError: sample 'a', field 'boxes[1].size': an object of type set cannot be packed
    fn write(&self, sample: &Bound<'_, PyDict>) -> PyResult<()> {
        let mut packed = Vec::new();
        encode::append(sample, &mut packed)?;
        let written = self.with(sample.py(), |writer| writer.write_packed(&packed));
        match sample.get_item("key")? {
            Some(key) if written.is_err() && !key.is_instance_of::<PyString>() => {
                let found = key.get_type().name()?;
                let key = key.repr()?;
                Err(invalid(format!(
                    "expected text as the \"key\" of a sample, found {key} ({found})"
                )))
            }
            _ => written,
        }
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
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.open.take(py)?.as_ref().ok_or_else(closed)?.len() as usize)
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
        self.check_process()?;
        let flushed = self.open.apart(py, |open| open.as_mut().map(kiste::Writer::flush))?;
        flushed.ok_or_else(closed)?.map_err(raise)
    }

    /// Writes the side files and publishes the dataset. Returns what was written. After Ctrl-C it continues
    /// in the background: the dataset is published as a whole, or not at all.
    fn close<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(writer) = self.take(py)? else { return Ok(None) };
        let stats = pool::run(py, move || writer.finish())?.map_err(raise)?;
        let dict = PyDict::new(py);
        dict.set_item("samples", stats.samples)?;
        dict.set_item("bytes", stats.bytes)?;
        Ok(Some(dict))
    }

    /// Removes what was written. An earlier dataset stays as it was.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        match self.take(py)? {
            Some(writer) => pool::apart(py, move || writer.abort())?.map_err(raise),
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

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let path = kiste::storage::shown(&self.path);
        let open = self.open.take(py)?;
        Ok(match open.as_ref() {
            Some(writer) => format!("pykiste.Writer({path:?}, {} samples so far)", writer.len()),
            None => format!("pykiste.Writer({path:?}, closed)"),
        })
    }
}
