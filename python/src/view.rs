//! [`View`]: bytes of a dataset without a copy.
#![allow(unsafe_code, reason = "the buffer protocol is made of raw pointers")]

use std::borrow::Cow;
use std::ffi::{c_int, c_void};
use std::ops::Range;

use kiste::DatasetReader;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::errors::raise;

/// Read-only bytes of a sample in the memory map of its dataset.
///
/// `memoryview(view)` and `numpy.frombuffer(view, …)` see them without a copy, and keep the map open
/// for as long as they live.
#[pyclass(frozen, module = "pykiste")]
pub(crate) struct View {
    bytes: Held,
}

enum Held {
    /// Bytes `range` of the packed sample `index`. The map is kept open by the reader.
    Mapped { reader: DatasetReader, index: usize, range: Range<usize> },
    /// Bytes of their own, where the dataset is not mapped.
    Owned(Vec<u8>),
}

impl View {
    /// A view of bytes of a sample. `range` lies within the packed sample.
    pub(crate) fn of(reader: &DatasetReader, index: usize, range: Range<usize>) -> PyResult<View> {
        let bytes = match reader.get_raw(index).map_err(raise)? {
            Cow::Borrowed(raw) if range.end <= raw.len() => {
                Held::Mapped { reader: reader.clone(), index, range }
            }
            raw => Held::Owned(raw.get(range).unwrap_or_default().to_vec()),
        };
        Ok(View { bytes })
    }

    fn bytes(&self) -> PyResult<&[u8]> {
        match &self.bytes {
            Held::Owned(bytes) => Ok(bytes),
            Held::Mapped { reader, index, range } => {
                match reader.get_raw(*index).map_err(raise)? {
                    Cow::Borrowed(raw) => Ok(&raw[range.clone()]),
                    Cow::Owned(_) => Err(PyBufferError::new_err("the dataset is not mapped")),
                }
            }
        }
    }
}

#[pymethods]
impl View {
    fn __len__(&self) -> PyResult<usize> {
        Ok(self.bytes()?.len())
    }

    fn __bytes__(&self) -> PyResult<Cow<'_, [u8]>> {
        Ok(Cow::Borrowed(self.bytes()?))
    }

    /// The buffer protocol: consumers see the bytes themselves, read-only.
    unsafe fn __getbuffer__(
        slf: PyRef<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = slf.bytes()?;
        let (data, len) = (bytes.as_ptr() as *mut c_void, bytes.len() as ffi::Py_ssize_t);
        // SAFETY: `view` is the caller's to fill. The bytes live as long as `slf`, to which the buffer
        // takes a reference: a reader never unmaps while a clone of it lives, and owned bytes do not
        // move. The last argument but one makes requests for writable memory fail.
        let filled = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), data, len, 1, flags) };
        match filled {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}
