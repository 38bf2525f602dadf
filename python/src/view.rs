//! [`View`]: bytes of a dataset without a copy.
#![allow(unsafe_code, reason = "the buffer protocol is made of raw pointers")]

use std::borrow::Cow;
use std::ffi::{c_int, c_void};
use std::ops::Range;

use kiste::DatasetReader;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMemoryView};

/// Bytes in the memory map of a reader.
#[derive(Clone, Copy)]
pub(crate) struct Mapped<'a>(&'a [u8]);

impl<'a> Mapped<'a> {
    /// A sample as a reader returned it. `None` if it is a copy, as of a dataset that is not mapped.
    pub(crate) fn of(raw: &Cow<'a, [u8]>) -> Option<Mapped<'a>> {
        match raw {
            Cow::Borrowed(raw) => Some(Mapped(raw)),
            Cow::Owned(_) => None,
        }
    }
}

/// Read-only bytes of a sample in the memory map of its dataset.
///
/// `memoryview(view)` and `numpy.frombuffer(view, …)` see them without a copy, and keep the map open
/// for as long as they live.
#[pyclass(frozen, module = "pykiste")]
pub(crate) struct View {
    bytes: *const [u8],
    /// Keeps the map open.
    _reader: DatasetReader,
}

// SAFETY: nobody writes to the bytes through this pointer, and they stay where they are: see `of`.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl View {
    /// A view of a part of a sample that this reader returned.
    pub(crate) fn of(reader: &DatasetReader, sample: Mapped<'_>, range: Range<usize>) -> View {
        // The clone shares the map, which is unmapped when the last clone is dropped.
        View { bytes: &sample.0[range], _reader: reader.clone() }
    }

    /// The same bytes as an array of NumPy.
    fn array<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let memory = PyMemoryView::from(slf.as_any())?;
        slf.py().import("numpy")?.call_method1("asarray", (memory,))
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the pointer is that of a slice in the map, which `_reader` keeps.
        unsafe { &*self.bytes }
    }
}

#[pymethods]
impl View {
    fn __len__(&self) -> usize {
        self.bytes().len()
    }

    fn __bytes__(&self) -> &[u8] {
        self.bytes()
    }

    /// DLPack, as an array of bytes: consumers that know version 1 of it see that they are read-only, all
    /// others are refused.
    #[pyo3(signature = (**options))]
    fn __dlpack__<'py>(
        slf: &Bound<'py, Self>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        View::array(slf)?.call_method("__dlpack__", (), options)
    }

    fn __dlpack_device__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        View::array(slf)?.call_method0("__dlpack_device__")
    }

    /// The buffer protocol: consumers see the bytes themselves, read-only.
    unsafe fn __getbuffer__(
        slf: PyRef<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = slf.bytes();
        let (data, len) = (bytes.as_ptr() as *mut c_void, bytes.len() as ffi::Py_ssize_t);
        // SAFETY: `view` is the caller's to fill. The bytes live as long as `slf`, to which the buffer
        // takes a reference. The last argument but one makes requests for writable memory fail.
        let filled = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), data, len, 1, flags) };
        match filled {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}
