//! Python objects as packed bytes: the bytes that Python's datadings writes for them.

use kiste::format::msgpack::numpy::{encode_array, encode_complex, encode_scalar};
use kiste::format::msgpack::{self, MAX_DEPTH, Value};
use kiste::value::{DType, NdArray};
use pyo3::IntoPyObjectExt;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyComplex, PyDict, PyFloat, PyInt, PyList, PyMemoryView,
    PyString, PyTuple, PyType,
};

use crate::errors::{invalid, too_large, wrong_type};
use crate::stored::{check_array, check_type, refuse_titles};

/// A container that is not whole yet: its values, and how many of them were packed.
enum Open<'py> {
    List(Bound<'py, PyList>, usize),
    Tuple(Bound<'py, PyTuple>, usize),
    /// The pairs of a dict, and whether the key of the next one was packed.
    Pairs(Bound<'py, PyList>, usize, bool),
}

/// Values between two looks for Ctrl-C.
const EACH: u32 = 1 << 14;

impl<'py> Open<'py> {
    /// Whether the next value is a key.
    fn is_at_key(&self) -> bool {
        matches!(self, Open::Pairs(_, _, false))
    }

    /// The next value to pack. `None` after the last one.
    fn next(&mut self) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self {
            Open::List(list, at) if *at < list.len() => {
                *at += 1;
                list.get_item(*at - 1).map(Some)
            }
            Open::Tuple(tuple, at) if *at < tuple.len() => {
                *at += 1;
                tuple.get_item(*at - 1).map(Some)
            }
            Open::Pairs(pairs, at, has_key) if *at < pairs.len() => {
                let pair = pairs.get_item(*at)?.cast_into::<PyTuple>()?;
                let item = pair.get_item(usize::from(*has_key))?;
                *at += usize::from(*has_key);
                *has_key = !*has_key;
                Ok(Some(item))
            }
            _ => Ok(None),
        }
    }

    /// The position or the key of the value that was packed last. `None` at a key, and before the first value.
    fn place(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self {
            Open::List(_, at) | Open::Tuple(_, at) => {
                at.checked_sub(1).map(|at| at.into_bound_py_any(py)).transpose()
            }
            Open::Pairs(pairs, at, false) if *at > 0 => {
                pairs.get_item(*at - 1)?.cast_into::<PyTuple>()?.get_item(0).map(Some)
            }
            Open::Pairs(..) => Ok(None),
        }
    }
}

/// Appends an object as a message. An error says in which sample and field.
pub(crate) fn append(object: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<()> {
    let mut open = Vec::new();
    fill(object, out, &mut open).inspect_err(|error| {
        // What went wrong is more than where.
        let _ = placed(object, &open, error);
    })
}

/// Adds the key of the sample and the places of the values that were being packed.
fn placed<'py>(object: &Bound<'py, PyAny>, open: &[Open<'py>], error: &PyErr) -> PyResult<()> {
    let py = object.py();
    let places = PyList::empty(py);
    for container in open {
        if let Some(place) = container.place(py)? {
            places.append(place)?;
        }
    }
    let key = match object.cast::<PyDict>() {
        Ok(sample) => sample.get_item("key")?,
        Err(_) => None,
    };
    py.import("pykiste.errors")?.call_method1("_place", (error.value(py), key, places)).map(drop)
}

/// Nothing recurses, so that no object nests too deeply for the stack.
fn fill<'py>(
    object: &Bound<'py, PyAny>,
    out: &mut Vec<u8>,
    open: &mut Vec<Open<'py>>,
) -> PyResult<()> {
    value(object, out, open)?;
    let mut packed = 0u32;
    while let Some(top) = open.last_mut() {
        let is_key = top.is_at_key();
        match top.next()? {
            Some(next) if is_key => key(&next, out, open)?,
            Some(next) => value(&next, out, open)?,
            None => drop(open.pop()),
        }
        packed = packed.wrapping_add(1);
        if packed % EACH == 0 {
            object.py().check_signals()?;
        }
    }
    Ok(())
}

fn refused(error: impl std::fmt::Display) -> PyErr {
    invalid(error.to_string())
}

/// Appends a key of a dict. A tuple would be a list, which is no key of a dict when it is read.
fn key<'py>(
    object: &Bound<'py, PyAny>,
    out: &mut Vec<u8>,
    open: &mut Vec<Open<'py>>,
) -> PyResult<()> {
    let depth = open.len();
    value(object, out, open)?;
    if open.len() == depth {
        return Ok(());
    }
    open.truncate(depth);
    let found = object.get_type().name()?;
    Err(wrong_type(format!("expected a key that can be read back, found {object} ({found})")))
}

/// Appends a value, or the header of a container, which is opened.
fn value<'py>(
    object: &Bound<'py, PyAny>,
    out: &mut Vec<u8>,
    open: &mut Vec<Open<'py>>,
) -> PyResult<()> {
    let py = object.py();
    let container = if object.is_none() {
        out.push(0xc0);
        None
    } else if object.is_instance_of::<PyBool>() {
        out.push(if object.extract::<bool>()? { 0xc3 } else { 0xc2 });
        None
    } else if object.is_instance_of::<PyInt>() {
        integer(object, out)?;
        None
    } else if let Ok(text) = object.cast::<PyString>() {
        msgpack::write_text(text.to_str()?, out).map_err(refused)?;
        None
    } else if object.is_instance_of::<PyFloat>() {
        msgpack::encode(&Value::F64(object.extract()?), out).map_err(refused)?;
        None
    } else if let Ok(bytes) = object.cast::<PyBytes>() {
        msgpack::write_bin(bytes.as_bytes(), out).map_err(refused)?;
        None
    } else if let Ok(dict) = object.cast::<PyDict>() {
        // A list of its own, which no other thread changes.
        let pairs = dict.items();
        msgpack::write_map(pairs.len(), out).map_err(refused)?;
        Some(Open::Pairs(pairs, 0, false))
    } else if let Ok(list) = object.cast::<PyList>() {
        let items = list.get_slice(0, list.len());
        array_header(items.len(), out)?;
        Some(Open::List(items, 0))
    } else if object.is_instance(extension_type(py)?)? || is_of_msgpack(object, "ExtType")? {
        let wrong = |_| wrong_type(format!("expected a code of 8 bits and bytes, found {object}"));
        let code: i8 = object.getattr("code")?.extract().map_err(wrong)?;
        let data: Vec<u8> = object.getattr("data")?.extract().map_err(wrong)?;
        msgpack::encode(&Value::Ext(code, data), out).map_err(refused)?;
        None
    } else if object.is_instance(timestamp_type(py)?)? || is_of_msgpack(object, "Timestamp")? {
        let wrong = |_| {
            invalid(format!("expected seconds and nanoseconds of 64 and 32 bits, found {object}"))
        };
        let seconds = object.getattr("seconds")?.extract().map_err(wrong)?;
        let nanoseconds = object.getattr("nanoseconds")?.extract().map_err(wrong)?;
        let data = msgpack::timestamp::to_ext(seconds, nanoseconds)
            .ok_or_else(|| invalid(format!("{nanoseconds} nanoseconds are a second or more")))?;
        msgpack::encode(&Value::Ext(msgpack::timestamp::CODE, data), out).map_err(refused)?;
        None
    } else if let Ok(tuple) = object.cast::<PyTuple>() {
        array_header(tuple.len(), out)?;
        Some(Open::Tuple(tuple.clone(), 0))
    } else if object.is_instance_of::<PyByteArray>() {
        let bytes = PyBuffer::<u8>::get(object)?.to_vec(py)?;
        msgpack::write_bin(&bytes, out).map_err(refused)?;
        None
    } else if object.is_instance_of::<PyMemoryView>() {
        // Also one of other elements than bytes.
        let bytes = object.call_method0("tobytes")?.cast_into::<PyBytes>()?;
        msgpack::write_bin(bytes.as_bytes(), out).map_err(refused)?;
        None
    } else if object.is_instance(ndarray_type(py)?)? {
        refuse_titles(&object.getattr("dtype")?)?;
        encode_array(&numpy_array(object)?, out).map_err(refused)?;
        None
    } else if object.is_instance(generic_type(py)?)? {
        // Before complex numbers: `numpy.complex128` is one of them too.
        refuse_titles(&object.getattr("dtype")?)?;
        encode_scalar(&numpy_array(object)?, out).map_err(refused)?;
        None
    } else if let Ok(complex) = object.cast::<PyComplex>() {
        encode_complex(complex.real(), complex.imag(), out).map_err(refused)?;
        None
    } else if object.is_instance(date_type(py)?)? || object.is_instance(timedelta_type(py)?)? {
        // A timestamp, or a scalar of NumPy.
        let stored = py.import("pykiste._times")?.call_method1("stored", (object,))?;
        return value(&stored, out, open);
    } else {
        let name = object.get_type().fully_qualified_name()?;
        let message = format!("an object of type {name} cannot be packed");
        return Err(wrong_type(message));
    };
    if let Some(container) = container {
        if open.len() >= MAX_DEPTH {
            let message = format!("expected at most {MAX_DEPTH} nested containers, found more");
            return Err(invalid(message));
        }
        open.push(container);
    }
    Ok(())
}

/// Whether it is of this class of the package msgpack, which need not be installed. Its `ExtType` is a
/// tuple, and would be packed as one.
fn is_of_msgpack(object: &Bound<'_, PyAny>, class: &str) -> PyResult<bool> {
    let found = object.get_type();
    Ok(found.name()? == class && found.module()? == "msgpack.ext")
}

fn integer(object: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<()> {
    let packed = match object.extract::<i64>() {
        Ok(number) => Value::from(number),
        Err(_) => match object.extract::<u64>() {
            Ok(number) => Value::from(number),
            Err(_) => {
                let message = format!("expected an integer of 64 bits, found {object}");
                return Err(too_large(message));
            }
        },
    };
    msgpack::encode(&packed, out).map_err(refused)
}

fn array_header(len: usize, out: &mut Vec<u8>) -> PyResult<()> {
    match (u8::try_from(len), u16::try_from(len), u32::try_from(len)) {
        (Ok(len), ..) if len < 16 => out.push(0x90 | len),
        (_, Ok(len), _) => {
            out.push(0xdc);
            out.extend_from_slice(&len.to_be_bytes());
        }
        (.., Ok(len)) => {
            out.push(0xdd);
            out.extend_from_slice(&len.to_be_bytes());
        }
        _ => return Err(invalid("a list has more than 4,294,967,295 items")),
    }
    Ok(())
}

/// A type of NumPy, which is not of Python objects.
pub(crate) fn dtype_of(dtype: &Bound<'_, PyAny>) -> PyResult<DType> {
    check_type(dtype)?;
    let text = match dtype.getattr("fields")?.is_none() {
        true => dtype.getattr("str")?,
        false => dtype.getattr("descr")?.str()?.into_any(),
    };
    let parsed = text.extract::<String>()?.parse();
    parsed.map_err(|error: kiste::format::FormatError| wrong_type(format!("{text}: {error}")))
}

/// An array or scalar of NumPy, with its bytes in C order and its own byte order.
pub(crate) fn numpy_array(object: &Bound<'_, PyAny>) -> PyResult<NdArray<'static>> {
    check_array(object)?;
    let dtype = dtype_of(&object.getattr("dtype")?)?;
    let shape: Vec<usize> = object.getattr("shape")?.extract()?;
    let bytes = object.call_method0("tobytes")?.cast_into::<PyBytes>()?;
    NdArray::new(dtype, shape, bytes.as_bytes().to_vec()).map_err(refused)
}

macro_rules! class {
    ($name:ident, $module:literal, $class:literal) => {
        fn $name(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
            static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
            TYPE.import(py, $module, $class)
        }
    };
}
class!(ndarray_type, "numpy", "ndarray");
class!(generic_type, "numpy", "generic");
class!(extension_type, "pykiste.types", "Extension");
class!(date_type, "datetime", "date");
class!(timedelta_type, "datetime", "timedelta");
class!(timestamp_type, "pykiste.types", "Timestamp");

/// Packs an object into one message, as `Writer.write` packs a sample. Raises `ki.Error` with `key` and `field` for a
/// value that cannot be stored.
///
/// >>> import pykiste as ki
/// >>> ki.unpack(ki.pack({"key": "a", "words": ["x", None]}))
/// {'key': 'a', 'words': ['x', None]}
/// >>> ki.pack({"key": "a", "meta": {"words": ["x", {"y"}]}})
/// Traceback (most recent call last):
///     ...
/// pykiste.errors.WrongTypeError: sample 'a', field 'meta.words[1]': an object of type set cannot be packed
#[pyfunction]
pub(crate) fn pack<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let mut out = Vec::new();
    append(object, &mut out)?;
    Ok(PyBytes::new(object.py(), &out))
}
