//! [`Record`] and [`mapped`]: columns that a function of Python makes of samples.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use kiste::loader::Element;
use kiste::{Error, ErrorKind};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::decode::Decoder;
use crate::errors::{no_key, raise};

/// A sample for a function of a `Map` column: its fields by name, and which one it is.
#[pyclass(module = "pykiste", frozen)]
pub(crate) struct Record {
    packed: Vec<u8>,
    sample: OnceLock<Py<PyDict>>,
    #[pyo3(get)]
    key: String,
    #[pyo3(get)]
    index: u64,
    #[pyo3(get)]
    epoch: u64,
    #[pyo3(get)]
    position: u64,
    seed: u64,
    rng: OnceLock<Py<PyAny>>,
}

#[pymethods]
impl Record {
    /// The whole sample, as `Dataset` returns it.
    #[getter]
    fn sample<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        if let Some(sample) = self.sample.get() {
            return Ok(sample.bind(py).clone());
        }
        let decoded = Decoder::new().sample(py, &self.packed, None);
        let decoded = decoded.map_err(|flaw| flaw.raise(py, |error| error.with_key(&*self.key)))?;
        let sample = decoded.cast_into::<PyDict>()?.unbind();
        Ok(self.sample.get_or_init(|| sample).bind(py).clone())
    }

    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let field = self.sample(py)?.get_item(name)?;
        field.ok_or_else(|| no_key(format!("there is no field {name:?}")))
    }

    fn __contains__(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.sample(py)?.contains(name)
    }

    /// The names of its fields.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.sample(py)?.keys().into_any())
    }

    /// A generator of NumPy for this sample in this epoch: each time the same one.
    #[getter]
    fn rng<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(rng) = self.rng.get() {
            return Ok(rng.bind(py).clone());
        }
        let mut numbers = kiste::loader::Record::rng_at(self.seed, self.epoch, self.position);
        let random = py.import("numpy.random")?;
        let options = PyDict::new(py);
        options.set_item("key", vec![numbers.next_u64(), numbers.next_u64()])?;
        let bits = random.getattr("Philox")?.call((), Some(&options))?;
        let rng = random.getattr("Generator")?.call1((bits,))?.unbind();
        Ok(self.rng.get_or_init(|| rng).bind(py).clone())
    }

    fn __repr__(&self) -> String {
        format!("pykiste.Record({:?}, index {})", self.key, self.index)
    }
}

/// Threads of loaders that are in Python, or wait for its lock. Python ends the process if there are some when it ends.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
/// Whether Python is about to end.
static ENDING: AtomicBool = AtomicBool::new(false);

/// A thread that is in Python.
struct Inside;

impl Inside {
    /// `None` if Python is about to end.
    fn enter() -> Option<Inside> {
        INSIDE.fetch_add(1, SeqCst);
        let inside = Inside;
        (!ENDING.load(SeqCst)).then_some(inside)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // In a process that was forked here there were none.
        let _ = INSIDE.fetch_update(SeqCst, SeqCst, |inside| Some(inside.saturating_sub(1)));
    }
}

/// Python is about to end: lets no thread in, and waits for those that are.
#[pyfunction]
pub(crate) fn _ending(py: Python<'_>) -> PyResult<()> {
    ENDING.store(true, SeqCst);
    while INSIDE.load(SeqCst) > 0 {
        py.detach(|| thread::sleep(Duration::from_millis(1)));
        py.check_signals()?;
    }
    Ok(())
}

/// The threads of the process that this one was forked from are not in it.
#[pyfunction]
pub(crate) fn _forked() {
    INSIDE.store(0, SeqCst);
}

/// Fills a row with what a function makes of a sample. An exception is the cause of the error.
pub(crate) fn mapped<T: Element>(
    function: &Py<PyAny>,
    seed: u64,
    shape: &[usize],
    record: &kiste::loader::Record<'_>,
    row: &mut [T],
) -> kiste::Result<()> {
    let made = Record {
        packed: record.raw().to_vec(),
        sample: OnceLock::new(),
        key: record.key()?.into_owned(),
        index: record.index() as u64,
        epoch: record.epoch(),
        position: record.position(),
        seed,
        rng: OnceLock::new(),
    };
    let inside = Inside::enter();
    let fill = |_| Python::try_attach(|py| fill(py, function, made, shape, row));
    let filled = inside.as_ref().and_then(fill);
    let ended = || Err(Error::new(ErrorKind::Cancelled, "Python has ended"));
    filled.map_or_else(ended, |filled| filled.map_err(Error::other))
}

fn fill<T: Element>(
    py: Python<'_>,
    function: &Py<PyAny>,
    record: Record,
    shape: &[usize],
    row: &mut [T],
) -> PyResult<()> {
    let value = function.bind(py).call1((record,))?;
    let numpy = py.import(intern!(py, "numpy"))?;
    let options = PyDict::new(py);
    options.set_item("casting", "same_kind")?;
    options.set_item("order", "C")?;
    let array = numpy.call_method1(intern!(py, "asarray"), (value,))?;
    let array = array.call_method(intern!(py, "astype"), (T::NAME,), Some(&options))?;
    let array = array.cast_into::<PyUntypedArray>()?;
    if array.shape() != shape {
        let message = format!("expected an array of shape {shape:?}, found {:?}", array.shape());
        return Err(raise(Error::new(ErrorKind::Invalid, message)));
    }
    let bytes = array.call_method0(intern!(py, "tobytes"))?.cast_into::<PyBytes>()?;
    let elements = row.iter_mut().zip(bytes.as_bytes().chunks_exact(size_of::<T>()));
    elements.for_each(|(to, bytes)| *to = T::from_memory(bytes));
    Ok(())
}
