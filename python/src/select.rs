//! Conversions between NumPy and the library: selections, elements, types.

use kiste::array::{Index, Selection};
use kiste::value::{DType, NdArray};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyEllipsis, PyList, PyMapping, PySlice, PyTuple};

use crate::decode::Decoder;
use crate::encode::{dtype_of, numpy_array};
use crate::errors::{raise_as, wrong_type};

/// A selection, and whether an ellipsis says that a single element is an array too.
pub(crate) struct Selected {
    pub(crate) selection: Selection,
    has_ellipsis: bool,
}

impl Selected {
    /// Parses the expression between the brackets.
    pub(crate) fn parse(item: &Bound<'_, PyAny>) -> PyResult<Selected> {
        let mut selected = Selected { selection: Selection::all(), has_ellipsis: false };
        match item.cast::<PyTuple>() {
            Ok(parts) => parts.iter().try_for_each(|part| selected.add(&part))?,
            Err(_) => selected.add(item)?,
        }
        Ok(selected)
    }

    fn add(&mut self, part: &Bound<'_, PyAny>) -> PyResult<()> {
        let index = self.index(part)?;
        self.selection = std::mem::take(&mut self.selection).and(index);
        Ok(())
    }

    fn index(&mut self, part: &Bound<'_, PyAny>) -> PyResult<Index> {
        if part.is_none() {
            return Ok(Index::NewAxis);
        }
        if part.is_instance_of::<PyEllipsis>() {
            self.has_ellipsis = true;
            return Ok(Index::Ellipsis);
        }
        if let Ok(slice) = part.cast::<PySlice>() {
            let bound = |name: &str| slice.getattr(name)?.extract::<Option<isize>>();
            let step = bound("step")?.unwrap_or(1);
            return Ok(Index::range(bound("start")?, bound("stop")?, step));
        }
        // A boolean is a mask without axes to NumPy, and an integer to Python.
        let is_one = !part.is_instance_of::<PyBool>() && !part.is_instance_of::<PyList>();
        if is_one && !part.hasattr("__len__")? {
            if let Ok(position) = part.extract::<isize>() {
                return Ok(Index::At(position));
            }
        }
        let array = part.py().import("numpy")?.call_method1("asarray", (part,))?;
        let shape: Vec<usize> = array.getattr("shape")?.extract()?;
        let flat = array.call_method0("ravel")?;
        let kind: char = array.getattr("dtype")?.getattr("kind")?.extract()?;
        let is_empty = array.getattr("size")?.extract::<usize>()? == 0;
        match kind {
            'i' | 'u' if shape.is_empty() => Ok(Index::At(array.extract()?)),
            'i' | 'u' => {
                Ok(Index::Points { shape, points: flat.call_method0("tolist")?.extract()? })
            }
            'b' if !shape.is_empty() => {
                Ok(Index::Mask { shape, mask: flat.call_method0("tolist")?.extract()? })
            }
            // An empty list has no integers in it to tell its type by.
            'f' if is_empty => Ok(Index::Points { shape, points: Vec::new() }),
            _ => {
                let found = part.get_type().name()?.to_string();
                let message = format!(
                    "expected integers, slices, an ellipsis, None, and lists or arrays of integers \
                     or of booleans, found {found}"
                );
                Err(wrong_type(message))
            }
        }
    }

    /// An array that was selected: as with NumPy, one element alone is a scalar.
    pub(crate) fn result<'py>(
        &self,
        array: NdArray<'static>,
        dtype: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let is_one = array.shape().is_empty() && !self.has_ellipsis;
        let array = to_numpy(array, dtype)?;
        if is_one { array.get_item(PyTuple::empty(dtype.py())) } else { Ok(array) }
    }
}

/// A selection that the array does not have is an `IndexError` too.
pub(crate) fn raise_selection(error: kiste::Error) -> PyErr {
    use kiste::ErrorKind::{Invalid, NotFound};
    // No file of that name is missing, but a field of the structure.
    let is_field = error.kind() == NotFound && error.path().is_none();
    let class = (error.kind() == Invalid || is_field).then_some("SelectionError");
    raise_as(error, class)
}

/// The elements as an array of NumPy that owns them.
pub(crate) fn to_numpy<'py>(
    array: NdArray<'static>,
    dtype: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = dtype.py();
    let order = match array.order() {
        kiste::value::Order::F => "F",
        _ => "C",
    };
    let shape = PyTuple::new(py, array.shape())?;
    let buffer = PyArray1::from_vec(py, array.into_bytes().into_owned());
    let named = PyDict::new(py);
    named.set_item("buffer", buffer)?;
    named.set_item("order", order)?;
    py.import("numpy")?.getattr("ndarray")?.call((shape, dtype), Some(&named))
}

/// A type as `numpy.dtype`.
pub(crate) fn to_numpy_dtype(py: Python<'_>, dtype: &DType) -> PyResult<Py<PyAny>> {
    Ok(Decoder::new().dtype(py, dtype)?.unbind())
}

/// Anything that `numpy.dtype` takes, as a type of the library.
pub(crate) fn parse_dtype(given: &Bound<'_, PyAny>) -> PyResult<DType> {
    let dtype = given.py().import("numpy")?.call_method1("dtype", (given,))?;
    if dtype.getattr("hasobject")?.extract()? {
        let message = "expected a type of fixed size, found one of Python objects";
        return Err(wrong_type(message));
    }
    dtype_of(&dtype)
}

/// Elements for an array of this type: anything that NumPy makes an array of, if it fits.
pub(crate) fn elements(
    given: &Bound<'_, PyAny>,
    dtype: &Bound<'_, PyAny>,
) -> PyResult<NdArray<'static>> {
    let module = given.py().import("pykiste._elements")?;
    numpy_array(&module.call_method1("elements", (given, dtype))?)
}

/// Attributes as a dict of Python, by way of JSON.
pub(crate) fn to_dict<'py>(
    py: Python<'py>,
    attributes: &serde_json::Map<String, serde_json::Value>,
) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(attributes).map_err(crate::errors::bug)?;
    py.import("json")?.call_method1("loads", (text,))
}

/// A mapping of Python as attributes, if JSON has all of it.
pub(crate) fn parse_attributes(
    given: &Bound<'_, PyMapping>,
) -> PyResult<serde_json::Map<String, serde_json::Value>> {
    let py = given.py();
    let strict = PyDict::new(py);
    strict.set_item("allow_nan", false)?;
    let dict = py.get_type::<PyDict>().call1((given,))?;
    let text: String =
        py.import("json")?.getattr("dumps")?.call((dict,), Some(&strict))?.extract()?;
    serde_json::from_str(&text).map_err(|error| {
        crate::errors::invalid(format!("expected attributes as JSON, found {error}"))
    })
}
