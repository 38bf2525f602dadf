//! Errors of the library as exceptions of `pykiste.errors`.

use kiste::ErrorKind;
use pyo3::exceptions::{PyIndexError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyType};

/// The class of `pykiste.errors` for a kind of error.
fn class_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Damaged => "DamagedError",
        ErrorKind::Interrupted => "InterruptedError",
        ErrorKind::Replaced => "ReplacedError",
        ErrorKind::Invalid => "InvalidError",
        ErrorKind::DuplicateKey => "DuplicateKeyError",
        ErrorKind::NotFound => "NotFoundError",
        ErrorKind::AlreadyExists => "AlreadyExistsError",
        ErrorKind::Locked => "LockedError",
        ErrorKind::Foreign => "ForeignError",
        ErrorKind::Limit => "LimitError",
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::Io => "IoError",
        ErrorKind::Cancelled => "CancelledError",
        _ => "Error",
    }
}

/// An error of the library as an exception with the attributes `path`, `index`, `key`, `field`,
/// `position` and `raw`.
pub(crate) fn raise(error: kiste::Error) -> PyErr {
    raise_as(error, None)
}

/// The same with a class of `pykiste.errors` that is more exact than the kind of error.
pub(crate) fn raise_as(error: kiste::Error, class: Option<&'static str>) -> PyErr {
    let class = class.unwrap_or(class_name(error.kind()));
    Python::attach(|py| build(py, &error, class).unwrap_or_else(|failed| failed))
}

fn build(py: Python<'_>, error: &kiste::Error, class: &str) -> PyResult<PyErr> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("pykiste.errors").map(Bound::unbind))?;
    let class = module.bind(py).getattr(class)?.cast_into::<PyType>()?;
    let fields = PyDict::new(py);
    fields.set_item("path", error.path().map(|path| path.to_path_buf()))?;
    fields.set_item("index", error.index())?;
    fields.set_item("key", error.key())?;
    fields.set_item("field", error.field())?;
    fields.set_item("range", error.range().map(|range| (range.start, range.end)))?;
    fields.set_item("raw", error.raw().map(|raw| PyBytes::new(py, raw)))?;
    let made = class.call((error.to_string(),), Some(&fields))?;
    Ok(PyErr::from_value(made))
}

/// An index beyond the end, as Python's sequences raise it.
pub(crate) fn out_of_range(index: isize, len: usize) -> PyErr {
    PyIndexError::new_err(format!("index {index} is out of range for {len} samples"))
}

/// A thread of ours panicked, which is a fault of kiste.
pub(crate) fn bug(what: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(format!("a fault of pykiste: {what}"))
}
