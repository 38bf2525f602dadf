//! [`PackedArray`]: one array in one bloscpack container, in a file or in a sample.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use kiste::array::{self, Index, PackOptions};
use kiste::format::blosc::Codec;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PySlice, PyTuple, PyType};

use crate::encode::numpy_array;
use crate::errors::{invalid, no_selection, raise, wrong_type};
use crate::pool;
use crate::select::{Selected, raise_selection, to_numpy, to_numpy_dtype};
use crate::stored::check_array;

/// An array in a bloscpack container. Only the parts that are read are decompressed.
///
/// `PackedArray(sample["image"])` is one that was packed in a sample, `PackedArray.open(path)` one in a
/// file. `packed[10:20]` and `packed[[3, 1]]` decompress the blocks with these rows, `packed[...]` all.
///
/// >>> import numpy as np
/// >>> import pykiste as ki
/// >>> table = np.arange(10_000, dtype="int32").reshape(1000, 10)
/// >>> packed = ki.PackedArray.pack(table, codec="zlib")
/// >>> packed.shape, packed.dtype, packed.cbytes < packed.nbytes
/// ((1000, 10), dtype('int32'), True)
/// >>> packed[500:502, 0], packed[-1, 9]
/// (array([5000, 5010], dtype=int32), np.int32(9999))
/// >>> bool((ki.PackedArray(bytes(packed))[...] == table).all())
/// True
#[pyclass(frozen, sequence, module = "pykiste")]
pub(crate) struct PackedArray {
    array: Arc<array::PackedArray<'static>>,
    dtype: Py<PyAny>,
}

impl PackedArray {
    fn of(py: Python<'_>, array: array::PackedArray<'static>) -> PyResult<PackedArray> {
        if array.dtype().has_objects() {
            let message =
                "expected elements of fixed size, found Python objects, which are a pickle";
            return Err(wrong_type(message));
        }
        let dtype = to_numpy_dtype(py, array.dtype())?;
        Ok(PackedArray { array: Arc::new(array), dtype })
    }

    /// The rows that the first index needs, and what selects the same among them. `None` if all have to
    /// be read.
    fn rows_of<'py>(
        &self,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Option<(Rows, Bound<'py, PyAny>)>> {
        let py = item.py();
        let Some(&len) = self.array.shape().first() else { return Ok(None) };
        let parts = item.cast::<PyTuple>().ok();
        let first = match parts {
            Some(parts) if parts.is_empty() => return Ok(None),
            Some(parts) => parts.get_item(0)?,
            None => item.clone(),
        };
        let all = PySlice::full(py).into_any();
        if let Ok(slice) = first.cast::<PySlice>() {
            let range = slice.indices(len as isize)?;
            let at = |nth: usize| (range.start + nth as isize * range.step) as usize;
            return Ok(Some(match range.step {
                _ if range.slicelength == 0 => (Rows::Run(0..0), all),
                1 => (Rows::Run(at(0)..at(range.slicelength)), all),
                _ => (Rows::List((0..range.slicelength).map(at).collect()), all),
            }));
        }
        let selected = Selected::parse(&first)?;
        let place = |at: isize| {
            let place = if at < 0 { at.checked_add_unsigned(len) } else { Some(at) };
            place.and_then(|at| usize::try_from(at).ok()).filter(|at| *at < len)
        };
        let outside = |at: isize| {
            let message = format!(
                "expected rows from {} to {}, found {at}",
                -(len as isize),
                len as isize - 1
            );
            raise_selection(kiste::Error::new(kiste::ErrorKind::Invalid, message))
        };
        match selected.selection.parts() {
            [Index::At(at)] => {
                let row = place(*at).ok_or_else(|| outside(*at))?;
                Ok(Some((Rows::Run(row..row + 1), 0.into_bound_py_any(py)?)))
            }
            // With arrays on other axes NumPy takes them point by point.
            [Index::Points { shape, points }] if shape.len() == 1 && parts.is_none() => {
                let rows = points.iter().map(|&at| place(at).ok_or_else(|| outside(at)));
                Ok(Some((Rows::List(rows.collect::<PyResult<_>>()?), all)))
            }
            _ => Ok(None),
        }
    }
}

/// Rows to read.
enum Rows {
    Run(Range<usize>),
    List(Vec<usize>),
}

/// What NumPy selects of an array, with its words for what it does not have.
fn selected<'py>(
    array: &Bound<'py, PyAny>,
    item: impl IntoPyObject<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = array.py();
    array.get_item(item).map_err(|error| match error.is_instance_of::<PyIndexError>(py) {
        true => no_selection(error.value(py).to_string()),
        false => error,
    })
}

#[pymethods]
impl PackedArray {
    /// The container in these bytes, which are copied.
    #[new]
    fn new(py: Python<'_>, container: &Bound<'_, PyAny>) -> PyResult<PackedArray> {
        let bytes = match container.cast::<PyBytes>() {
            Ok(bytes) => bytes.as_bytes().to_vec(),
            Err(_) => pyo3::buffer::PyBuffer::<u8>::get(container)?.to_vec(py)?,
        };
        PackedArray::of(py, array::PackedArray::from_bytes(bytes).map_err(raise)?)
    }

    /// Opens a file.
    #[classmethod]
    fn open(_class: &Bound<'_, PyType>, py: Python<'_>, path: PathBuf) -> PyResult<PackedArray> {
        PackedArray::of(
            py,
            pool::apart(py, move || array::PackedArray::open(path))?.map_err(raise)?,
        )
    }

    /// Packs an array with the codec "lz4" or "zlib". Containers of the other codecs of Blosc are read.
    #[classmethod]
    #[pyo3(signature = (array, *, codec="lz4", level=5))]
    fn pack(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        codec: &str,
        level: u8,
    ) -> PyResult<PackedArray> {
        check_array(array)?;
        let array = numpy_array(&py.import("numpy")?.call_method1("asarray", (array,))?)?;
        let codec: Codec = codec.parse().map_err(|error| invalid(format!("codec: {error}")))?;
        let options = PackOptions::default().codec(codec).level(level);
        let packed = pool::run(py, move || options.pack(&array))?.map_err(raise)?;
        PackedArray::of(py, array::PackedArray::from_bytes(packed).map_err(raise)?)
    }

    /// The length of each axis.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.array.shape())
    }

    /// The type of the elements.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> Py<PyAny> {
        self.dtype.clone_ref(py)
    }

    /// How many axes it has.
    #[getter]
    fn ndim(&self) -> usize {
        self.array.shape().len()
    }

    /// Bytes of all elements, uncompressed.
    #[getter]
    fn nbytes(&self) -> usize {
        self.array.nbytes()
    }

    /// Bytes of the container.
    #[getter]
    fn cbytes(&self) -> usize {
        self.array.cbytes()
    }

    /// The container, as it is in a sample or file.
    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.array.bytes())
    }

    fn __len__(&self) -> PyResult<usize> {
        let none = || wrong_type("len() of an array without axes");
        self.array.shape().first().copied().ok_or_else(none)
    }

    /// Rows by an integer, a slice or a list; indices of the other axes select among what was read.
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Some((rows, head)) = self.rows_of(item)? else {
            return selected(&self.__array__(py, None, None)?, item);
        };
        let array = self.array.clone();
        let read = pool::run(py, move || match rows {
            Rows::Run(run) => array.rows(run),
            Rows::List(list) => array.select(&list),
        })?;
        let read = to_numpy(read.map_err(raise_selection)?, self.dtype.bind(py))?;
        // The other parts select among these rows, as NumPy does.
        let parts = match item.cast::<PyTuple>() {
            Ok(parts) => parts.iter().skip(1).collect(),
            Err(_) => Vec::new(),
        };
        let parts: Vec<_> = std::iter::once(head).chain(parts).collect();
        selected(&read, PyTuple::new(py, parts)?)
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if copy == Some(false) {
            let message = "expected copy=True or None: elements are decompressed";
            return Err(invalid(message));
        }
        let array = self.array.clone();
        let read = pool::run(py, move || array.read())?.map_err(raise)?;
        let array = to_numpy(read, self.dtype.bind(py))?;
        match dtype {
            Some(dtype) => array.call_method1("astype", (dtype,)),
            None => Ok(array),
        }
    }

    /// Its container.
    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyType>, (Bound<'py, PyBytes>,)) {
        (py.get_type::<PackedArray>(), (self.__bytes__(py),))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("pykiste.PackedArray({:?}, {})", self.array.shape(), self.dtype.bind(py))
    }
}
