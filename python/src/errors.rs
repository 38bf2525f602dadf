//! Errors of the library, and those that are found here, as exceptions of `pykiste.errors`: each is an `Error`, and the
//! builtin exception for the same thing where there is one. `tests/test_errors.py` sees to it that no other file makes
//! exceptions.
//!
//! An exception is made when Python looks at it. So none of these functions takes the lock of Python, and all may be
//! called under any other lock.

use kiste::{ErrorKind, Remedy};
use pyo3::PyErrArguments;
use pyo3::exceptions::{PyException, PyMemoryError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict};

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

/// The class and the content of an exception.
struct Raised {
    class: &'static str,
    what: What,
}

enum What {
    /// With the attributes `path`, `index`, `key`, `field`, `range` and `raw`, and `errno`, where there is one.
    Library(kiste::Error),
    Message(String),
}

impl Raised {
    fn error(self) -> PyErr {
        PyErr::new::<PyException, _>(self)
    }

    fn build(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
        let import = || py.import("pykiste.errors").map(Bound::unbind);
        let class = MODULE.get_or_try_init(py, import)?.bind(py).getattr(self.class)?;
        let made = match self.what {
            What::Message(message) => class.call1((message,))?,
            What::Library(error) => {
                let made = class.call((format!("{error:#}"),), Some(&fields(py, &error)?))?;
                if let Some(Remedy::Feature(feature)) = error.remedy() {
                    let note = format!(
                        "wheels of pykiste have it; pip builds it with \
                         --config-settings=build-args=\"--features {feature}\""
                    );
                    made.call_method1("add_note", (note,))?;
                }
                // An exception of a function that a caller gave.
                if let Some(cause) = error.get_ref().and_then(|cause| cause.downcast_ref::<PyErr>())
                {
                    made.setattr("__cause__", cause.value(py))?;
                }
                made
            }
        };
        Ok(made.unbind())
    }
}

impl PyErrArguments for Raised {
    fn arguments(self, py: Python<'_>) -> Py<PyAny> {
        self.build(py).unwrap_or_else(|failed| failed.into_value(py).into_any())
    }
}

fn fields<'py>(py: Python<'py>, error: &kiste::Error) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("path", error.path().map(|path| path.to_path_buf()))?;
    fields.set_item("index", error.index())?;
    fields.set_item("key", error.key())?;
    fields.set_item("field", error.field())?;
    fields.set_item("range", error.range().map(|range| (range.start, range.end)))?;
    let os = error.get_ref().and_then(|source| source.downcast_ref::<std::io::Error>());
    fields.set_item("errno", os.and_then(std::io::Error::raw_os_error))?;
    fields.set_item("raw", error.raw().map(|raw| PyBytes::new(py, raw)))?;
    Ok(fields)
}

/// An error of the library as an exception.
pub(crate) fn raise(error: kiste::Error) -> PyErr {
    raise_as(error, None)
}

/// The same with a class of `pykiste.errors` that is more exact than the kind of error.
pub(crate) fn raise_as(error: kiste::Error, class: Option<&'static str>) -> PyErr {
    let class = class.unwrap_or(class_name(error.kind()));
    Raised { class, what: What::Library(error) }.error()
}

fn message(class: &'static str, message: impl Into<String>) -> PyErr {
    Raised { class, what: What::Message(message.into()) }.error()
}

/// A value that makes no sense: a `ValueError`.
pub(crate) fn invalid(text: impl Into<String>) -> PyErr {
    message("InvalidError", text)
}

/// A value of another type than expected: a `TypeError`.
pub(crate) fn wrong_type(text: impl Into<String>) -> PyErr {
    message("WrongTypeError", text)
}

/// A number that does not fit: an `OverflowError`.
pub(crate) fn too_large(text: impl Into<String>) -> PyErr {
    message("NumberError", text)
}

/// A name that is not there: a `KeyError`.
pub(crate) fn no_key(text: impl Into<String>) -> PyErr {
    message("KeyNotFoundError", text)
}

/// A position beyond the end, as Python's sequences raise it: an `IndexError`.
pub(crate) fn no_index(text: impl Into<String>) -> PyErr {
    message("OutOfRangeError", text)
}

/// A selection that an array does not have: an `IndexError`.
pub(crate) fn no_selection(text: impl Into<String>) -> PyErr {
    message("SelectionError", text)
}

/// Buffers of the caller that cannot be used now: a `BufferError`.
pub(crate) fn no_buffer(text: impl Into<String>) -> PyErr {
    message("BuffersError", text)
}

/// An index beyond the end of a dataset.
pub(crate) fn out_of_range(index: isize, len: usize) -> PyErr {
    no_index(format!("index {index} is out of range for {len} samples"))
}

/// A thread of ours panicked, or another fault of kiste: a `RuntimeError`.
pub(crate) fn bug(what: impl std::fmt::Display) -> PyErr {
    message("FaultError", format!("a fault of pykiste: {what}"))
}

/// A use that is not possible here, such as in a process that was forked: a `RuntimeError`.
pub(crate) fn misused(text: impl Into<String>) -> PyErr {
    message("FaultError", text)
}

/// Whether this is about the value that Python was asked to make, and not about memory or a signal.
pub(crate) fn is_about_a_value(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyException>(py) && !error.is_instance_of::<PyMemoryError>(py)
}
