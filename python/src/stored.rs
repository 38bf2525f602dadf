//! Refuses arrays and types of NumPy that would lose or change something where they are stored.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};

use crate::errors::wrong_type;

/// Kinds of elements that are stored: those with a fixed size.
const KINDS: &str = "biufcmMSUV";

/// Fails for a masked array: what its elements are says nothing where it is masked.
pub(crate) fn check_array(array: &Bound<'_, PyAny>) -> PyResult<()> {
    static MASKED: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    if !array.is_instance(MASKED.import(array.py(), "numpy.ma", "MaskedArray")?)? {
        return Ok(());
    }
    Err(wrong_type(
        "expected an array without a mask, found a masked one: store what `filled` makes of it, and its mask as \
         another array",
    ))
}

/// Fails for a type whose text does not say what the elements are, and for one with such a type in it.
pub(crate) fn check_type(dtype: &Bound<'_, PyAny>) -> PyResult<()> {
    let kind: char = dtype.getattr("kind")?.extract()?;
    if kind == 'O' {
        return Err(wrong_type(
            "an array of Python objects would have to be pickled, which kiste never does",
        ));
    }
    // Types of other packages, such as bfloat16, call themselves bytes of no meaning.
    if dtype.getattr("isbuiltin")?.eq(2)? || !KINDS.contains(kind) {
        return Err(unknown(dtype, "a type of another package or without a fixed size"));
    }
    let base = dtype.getattr("base")?;
    if !base.is(dtype) {
        return check_type(&base);
    }
    let names = dtype.getattr("names")?;
    if names.is_none() {
        return Ok(());
    }
    if kind != 'V' {
        return Err(unknown(dtype, "numbers with names for parts of them"));
    }
    // It fails for a type that is a view of some fields of another.
    if dtype.getattr("descr").is_err() {
        return Err(unknown(
            dtype,
            "fields that overlap or are not in the order in which they lie",
        ));
    }
    let fields = dtype.getattr("fields")?;
    for name in names.try_iter()? {
        check_type(&fields.get_item(name?)?.get_item(0)?)?;
    }
    Ok(())
}

/// Fails for a type with titles, which are second names of fields: samples cannot have them.
pub(crate) fn refuse_titles(dtype: &Bound<'_, PyAny>) -> PyResult<()> {
    let base = dtype.getattr("base")?;
    if !base.is(dtype) {
        return refuse_titles(&base);
    }
    let names = dtype.getattr("names")?;
    if names.is_none() {
        return Ok(());
    }
    let fields = dtype.getattr("fields")?;
    for name in names.try_iter()? {
        let field = fields.get_item(name?)?.cast_into::<PyTuple>()?;
        if field.len() > 2 {
            return Err(unknown(dtype, "titles of fields"));
        }
        refuse_titles(&field.get_item(0)?)?;
    }
    Ok(())
}

fn unknown(dtype: &Bound<'_, PyAny>, what: &str) -> PyErr {
    wrong_type(format!("expected elements of a type that can be stored, found {dtype}: {what}"))
}
