//! Which samples are meant: by an index, a key, several of them, or a mask.
//!
//! A boolean is an integer to Python, so `[True, False]` would be the indices 1 and 0. Here a list or an array of
//! booleans is a mask, with one for each sample, as with NumPy; a single one, and one among indices, is an error.

use std::sync::Arc;

use kiste::reader::Reader;
use kiste::{Error, ErrorKind};
use pyo3::exceptions::{PyLookupError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyInt, PyMemoryView, PyString};

use crate::dataset::waiting;
use crate::errors::{invalid, no_index, out_of_range, raise, raise_as, wrong_type};

/// Several samples.
pub(crate) enum Chosen<'py> {
    /// Those of a mask.
    Mask(Vec<usize>),
    /// Indices and keys, not looked up yet.
    Items(Vec<Bound<'py, PyAny>>),
}

impl<'py> Chosen<'py> {
    /// Parses a list, an array, a tensor or anything that can be iterated.
    pub(crate) fn parse(items: &Bound<'py, PyAny>, len: usize) -> PyResult<Chosen<'py>> {
        if items.is_instance_of::<PyString>() || are_bytes(items)? {
            // They are sequences, and were meant for one key.
            let found = items.get_type().name()?;
            return Err(wrong_type(format!("expected a list of indices or keys, found {found}")));
        }
        // Arrays of NumPy and JAX, tensors and columns of tables: with numbers and booleans of Python.
        let is_array = items.hasattr("dtype")? && items.hasattr("tolist")?;
        let items = if is_array { items.call_method0("tolist")? } else { items.clone() };
        let items: Vec<_> =
            items.try_iter().map_err(|_| no_list(&items))?.collect::<PyResult<_>>()?;
        let mut truths = 0;
        for item in &items {
            truths += usize::from(is_truth(item)?);
        }
        match truths {
            0 => Ok(Chosen::Items(items)),
            all if all < items.len() => Err(wrong_type(
                "expected indices and keys, or a mask, found both booleans and others",
            )),
            all => {
                check_mask(all, len)?;
                Ok(Chosen::Mask(mask(&items)?))
            }
        }
    }

    /// The indices of all. Keys are looked up together.
    pub(crate) fn resolve(self, py: Python<'_>, reader: &Arc<dyn Reader>) -> PyResult<Vec<usize>> {
        let items = match self {
            Chosen::Mask(indices) => return Ok(indices),
            Chosen::Items(items) => items,
        };
        let keys: Option<Vec<String>> = items
            .iter()
            .map(|item| Some(item.cast::<PyString>().ok()?.to_str().ok()?.to_owned()))
            .collect();
        let (false, Some(keys)) = (items.is_empty(), keys) else {
            return items.iter().map(|item| resolve(reader, item)).collect();
        };
        let (keys, found) = waiting(py, reader, move |reader| {
            let asked: Vec<&str> = keys.iter().map(String::as_str).collect();
            let found = reader.find_keys(&asked)?;
            Ok((keys, found))
        })?;
        let found = keys.iter().zip(found);
        found.map(|(key, found)| found.ok_or_else(|| no_such(reader, key))).collect()
    }
}

/// Fails for a mask with another number of booleans than there are samples.
pub(crate) fn check_mask(booleans: usize, len: usize) -> PyResult<()> {
    match booleans == len {
        true => Ok(()),
        false => Err(no_index(format!(
            "expected a mask with a boolean for each of {len} samples, found {booleans}"
        ))),
    }
}

/// Whether these are bytes, which are a sequence of numbers, and were meant for a key.
pub(crate) fn are_bytes(items: &Bound<'_, PyAny>) -> PyResult<bool> {
    if items.is_instance_of::<PyBytes>() || items.is_instance_of::<PyByteArray>() {
        return Ok(true);
    }
    Ok(items.is_instance_of::<PyMemoryView>() && items.getattr("format")?.eq("B")?)
}

fn no_list(items: &Bound<'_, PyAny>) -> PyErr {
    let found = items.get_type().name().map(|name| name.to_string()).unwrap_or_default();
    wrong_type(format!("expected indices or keys, found {found}"))
}

/// The places of the true ones.
fn mask(items: &[Bound<'_, PyAny>]) -> PyResult<Vec<usize>> {
    let mut indices = Vec::new();
    for (index, item) in items.iter().enumerate() {
        if item.is_truthy()? {
            indices.push(index);
        }
    }
    Ok(indices)
}

/// Whether this is a boolean: of Python, or a scalar of NumPy, a tensor or an array of such a type.
pub(crate) fn is_truth(item: &Bound<'_, PyAny>) -> PyResult<bool> {
    if item.is_exact_instance_of::<PyInt>() || item.is_exact_instance_of::<PyString>() {
        return Ok(false);
    }
    if item.is_instance_of::<PyBool>() {
        return Ok(true);
    }
    let Some(dtype) = item.getattr_opt("dtype")? else { return Ok(false) };
    match dtype.getattr_opt("kind")? {
        Some(kind) => kind.eq("b"),
        None => Ok(dtype.str()?.to_str()?.ends_with("bool")),
    }
}

/// A number that is no boolean.
pub(crate) struct Position<T>(pub(crate) T);

impl<'a, 'py, T: FromPyObject<'a, 'py>> FromPyObject<'a, 'py> for Position<T>
where
    PyErr: From<T::Error>,
{
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Position<T>> {
        match is_truth(&given)? {
            true => Err(wrong_type("expected a number, found a boolean")),
            false => Ok(Position(T::extract(given)?)),
        }
    }
}

/// The index that an index or a key stands for.
pub(crate) fn resolve(reader: &Arc<dyn Reader>, item: &Bound<'_, PyAny>) -> PyResult<usize> {
    if let Ok(key) = item.cast::<PyString>() {
        let text = key.to_str()?;
        return find(item.py(), reader, text)?.ok_or_else(|| no_such(reader, text));
    }
    // NumPy's integers and tensors without axes too, by `__index__`.
    let index = if is_truth(item)? { None } else { item.extract::<isize>().ok() };
    let Some(index) = index else { return Err(no_index_of(reader, item)?) };
    let len = reader.len();
    let from_end = if index < 0 { index.checked_add_unsigned(len) } else { Some(index) };
    let found = from_end.and_then(|index| usize::try_from(index).ok());
    found.filter(|index| *index < len).ok_or_else(|| out_of_range(index, len))
}

/// Why this is no index: it has no integer, or one that no machine has.
fn no_index_of(reader: &Arc<dyn Reader>, item: &Bound<'_, PyAny>) -> PyResult<PyErr> {
    let py = item.py();
    if !is_truth(item)? && item.hasattr("__index__")? {
        match py.import("operator")?.call_method1("index", (item,)) {
            Ok(index) => {
                let len = reader.len();
                return Ok(no_index(format!("index {index} is out of range for {len} samples")));
            }
            // Tensors of floats have the method, too.
            Err(error) if error.is_instance_of::<PyTypeError>(py) => {}
            Err(error) => return Err(error),
        }
    }
    let found = item.get_type().name()?;
    Ok(wrong_type(format!("expected an index or a key, found {found}")))
}

/// The index of a key.
pub(crate) fn find(py: Python<'_>, reader: &Arc<dyn Reader>, key: &str) -> PyResult<Option<usize>> {
    match reader.is_remote() {
        true => {
            let key = key.to_owned();
            waiting(py, reader, move |reader| reader.find(&key))
        }
        // Without a copy of the key.
        false => reader.find(key).map_err(raise),
    }
}

/// Whether it says that there is no such sample.
pub(crate) fn is_absent(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyLookupError>(py)
}

pub(crate) fn no_such(reader: &Arc<dyn Reader>, key: &str) -> PyErr {
    let error = Error::new(ErrorKind::NotFound, "there is no such sample").with_key(key);
    let error = reader.name().into_iter().fold(error, Error::at);
    raise_as(error, Some("KeyNotFoundError"))
}

/// Positions between samples, as `split` takes them.
pub(crate) fn positions(given: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let is_array = given.hasattr("tolist")?;
    let given = if is_array { given.call_method0("tolist")? } else { given.clone() };
    let position = |item: PyResult<Bound<'_, PyAny>>| {
        let item = item?;
        match is_truth(&item)? {
            true => Err(wrong_type("expected positions, found a boolean")),
            false => item
                .extract::<usize>()
                .map_err(|_| invalid(format!("expected a position, found {item}"))),
        }
    };
    given.try_iter()?.map(position).collect()
}
