//! [`View`] and [`Map`]: bytes of a dataset without a copy.
#![allow(unsafe_code, reason = "the buffer protocol is made of raw pointers")]

use std::collections::HashSet;
use std::ffi::{c_int, c_void};
use std::ops::Range;

use kiste::DatasetReader;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMemoryView};

use crate::objects;

/// The memory map of a dataset, read-only.
///
/// `memoryview(view)` and `numpy.frombuffer(view, …)` see it without a copy, and keep the map open for as long
/// as they live. Binary data of samples are slices of such a memoryview.
///
/// >>> import pykiste as ki
/// >>> path = getfixture("tmp_path") / "words.msgpack"
/// >>> with ki.Writer(path) as writer:
/// ...     writer.write({"key": "a", "data": b"word"})
/// >>> data = ki.open(path, copy=False)["a"]["data"]
/// >>> type(data).__name__, data.readonly, bytes(data), type(data.obj).__name__
/// ('memoryview', True, b'word', 'View')
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
    /// The map of this reader, if it has one.
    fn of(reader: &DatasetReader) -> Option<View> {
        // The clone shares the map, which is unmapped when the last clone is dropped.
        reader.mapped().map(|bytes| View { bytes, _reader: reader.clone() })
    }

    /// The same bytes as an array of NumPy.
    fn array<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let memory = PyMemoryView::from(slf.as_any())?;
        slf.py().import("numpy")?.call_method1("asarray", (memory,))
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the pointer comes from a slice in the map, which `_reader` keeps.
        unsafe { &*self.bytes }
    }
}

/// A map and its memoryview, made once for all samples of a dataset: a slice is one object then.
pub(crate) struct Map {
    view: Py<View>,
    /// The object that slices are made from: the memoryview. Slices of one memoryview share a count that not
    /// every Python without a global lock changes atomically; there it is the view, and each slice makes its
    /// own memoryview.
    sliced: Py<PyAny>,
}

impl Map {
    /// The map of this reader, if it has one.
    pub(crate) fn of(py: Python<'_>, reader: &DatasetReader) -> PyResult<Option<Map>> {
        let Some(view) = View::of(reader) else { return Ok(None) };
        let view = Bound::new(py, view)?;
        let sliced = match cfg!(Py_GIL_DISABLED) {
            true => view.clone().into_any(),
            false => PyMemoryView::from(view.as_any())?.into_any(),
        };
        Ok(Some(Map { view: view.unbind(), sliced: sliced.unbind() }))
    }

    /// Where these bytes lie in the map. `None` for bytes elsewhere, such as copies.
    fn range(&self, bytes: &[u8]) -> Option<Range<usize>> {
        let map = self.view.get().bytes();
        let start = bytes.as_ptr().addr().checked_sub(map.as_ptr().addr())?;
        let end = start.checked_add(bytes.len()).filter(|end| *end <= map.len())?;
        Some(start..end)
    }

    /// A memoryview of these bytes, if they lie in the map.
    #[inline]
    pub(crate) fn slice<'py>(
        &self,
        py: Python<'py>,
        bytes: &[u8],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(range) = self.range(bytes) else { return Ok(None) };
        objects::slice(self.sliced.bind(py), range).map(Some)
    }

    fn start(&self) -> usize {
        self.view.get().bytes().as_ptr().addr()
    }

    /// The whole map as a buffer, and where in it these bytes begin, if they lie there.
    pub(crate) fn buffer<'py>(
        &self,
        py: Python<'py>,
        bytes: &[u8],
    ) -> Option<(&Bound<'py, View>, usize)> {
        self.range(bytes).map(|range| (self.view.bind(py), range.start))
    }
}

/// The maps of all datasets that samples come from, by their addresses.
#[derive(Default)]
pub(crate) struct Maps(Vec<Map>);

impl Maps {
    pub(crate) fn of(py: Python<'_>, datasets: &[DatasetReader]) -> PyResult<Maps> {
        let (mut maps, mut seen) = (Vec::new(), HashSet::new());
        for dataset in datasets {
            let start = dataset.mapped().map(|bytes| bytes.as_ptr().addr());
            if start.is_some_and(|start| seen.insert(start)) {
                maps.extend(Map::of(py, dataset)?);
            }
        }
        maps.sort_unstable_by_key(Map::start);
        Ok(Maps(maps))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The map that these bytes lie in. `None` for bytes elsewhere, such as those of a sample that was put together.
    #[inline]
    pub(crate) fn holding(&self, bytes: &[u8]) -> Option<&Map> {
        let start = bytes.as_ptr().addr();
        let after = self.0.partition_point(|map| map.start() <= start);
        let map = self.0.get(after.checked_sub(1)?)?;
        map.range(bytes).map(|_| map)
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
