//! Packed samples as Python objects: what Python's datadings returns for the same bytes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Mutex;

use kiste::DatasetReader;
use kiste::ErrorKind;
use kiste::format::FormatError;
use kiste::format::msgpack::numpy::{self, Special};
use kiste::format::msgpack::{Cursor, Kind, MAX_DEPTH, timestamp};
use kiste::value::{DType, NdArray};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyByteArray, PyBytes, PyComplex, PyDict, PyFloat, PyList, PyMemoryView, PyString, PyTuple,
    PyType,
};

use crate::errors::raise;
use crate::view::{Mapped, View};

/// Why a sample was not decoded: its bytes, or Python.
pub(crate) enum Flaw {
    Format(FormatError),
    Unsupported(String),
    Python(PyErr),
}

impl From<FormatError> for Flaw {
    fn from(error: FormatError) -> Flaw {
        Flaw::Format(error)
    }
}

impl From<PyErr> for Flaw {
    fn from(error: PyErr) -> Flaw {
        Flaw::Python(error)
    }
}

impl Flaw {
    /// As an exception, with what is known of the sample.
    pub(crate) fn raise(self, describe: impl FnOnce(kiste::Error) -> kiste::Error) -> PyErr {
        match self {
            Flaw::Format(error) => raise(describe(error.into())),
            Flaw::Unsupported(text) => {
                raise(describe(kiste::Error::new(ErrorKind::Unsupported, text)))
            }
            Flaw::Python(error) => error,
        }
    }
}

/// Names of fields as strings of Python. Samples have few, and each comes in every sample.
struct Names(Vec<Option<(Box<str>, Py<PyString>)>>);

impl Names {
    const SLOTS: usize = 256;
    /// Longer strings are no names of fields.
    const LONGEST: usize = 64;

    fn get<'py>(&mut self, py: Python<'py>, text: &str) -> Bound<'py, PyString> {
        if text.len() > Self::LONGEST {
            return PyString::new(py, text);
        }
        let hash = text
            .bytes()
            .fold(text.len(), |hash, byte| hash.wrapping_mul(31).wrapping_add(usize::from(byte)));
        let slot = &mut self.0[hash % Self::SLOTS];
        if let Some((known, made)) = slot {
            if **known == *text {
                return made.bind(py).clone();
            }
        }
        let made = PyString::new(py, text);
        *slot = Some((text.into(), made.clone().unbind()));
        made
    }
}

/// What decoding keeps from sample to sample.
pub(crate) struct Decoder {
    names: Names,
    dtypes: HashMap<DType, Py<PyAny>>,
}

/// A container that has not got all of its values yet.
enum Open<'py, 'a> {
    List {
        list: Bound<'py, PyList>,
        /// Values to come.
        left: u32,
    },
    Dict {
        dict: Bound<'py, PyDict>,
        /// Pairs to come.
        left: u32,
        /// The key of the pair that has begun.
        key: Option<Bound<'py, PyAny>>,
        /// Before its header.
        start: Cursor<'a>,
    },
}

impl<'py> Open<'py, '_> {
    /// Adds a value. Returns the container if that was its last one.
    fn take(&mut self, value: Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self {
            Open::List { list, left } => {
                list.append(value)?;
                *left -= 1;
                Ok((*left == 0).then(|| list.clone().into_any()))
            }
            Open::Dict { dict, left, key, .. } => match key.take() {
                None => {
                    *key = Some(value);
                    Ok(None)
                }
                Some(name) => {
                    dict.set_item(name, value)?;
                    *left -= 1;
                    Ok((*left == 0).then(|| dict.clone().into_any()))
                }
            },
        }
    }
}

/// A mapped sample, if arrays and binary data are to be views of it.
pub(crate) struct Place<'a> {
    reader: &'a DatasetReader,
    raw: Mapped<'a>,
}

impl<'a> Place<'a> {
    /// A sample that this reader returned. `None` if its bytes are not in a map.
    pub(crate) fn of(reader: &'a DatasetReader, raw: &Cow<'a, [u8]>) -> Option<Place<'a>> {
        Mapped::of(raw).map(|raw| Place { reader, raw })
    }

    /// A view of a part of the sample.
    fn view<'py>(&self, py: Python<'py>, range: Range<usize>) -> PyResult<Bound<'py, View>> {
        Bound::new(py, View::of(self.reader, self.raw, range))
    }
}

impl Decoder {
    pub(crate) fn new() -> Decoder {
        let names = (0..Names::SLOTS).map(|_| None).collect();
        Decoder { names: Names(names), dtypes: HashMap::new() }
    }

    /// A whole packed sample. With a place, arrays and binary data are read-only views of the map.
    pub(crate) fn sample<'py>(
        &mut self,
        py: Python<'py>,
        packed: &[u8],
        place: Option<&Place<'_>>,
    ) -> Result<Bound<'py, PyAny>, Flaw> {
        let mut cursor = Cursor::new(packed);
        let value = self.value(py, &mut cursor, place, packed)?;
        cursor.expect_end()?;
        Ok(value)
    }

    /// One value with all that is in it. Nothing recurses: hostile input could nest too deeply for the
    /// stack of a thread.
    fn value<'py, 'a>(
        &mut self,
        py: Python<'py>,
        cursor: &mut Cursor<'a>,
        place: Option<&Place<'_>>,
        packed: &[u8],
    ) -> Result<Bound<'py, PyAny>, Flaw> {
        let mut open: Vec<Open<'py, 'a>> = Vec::new();
        loop {
            let mut value = match self.next(py, cursor, place, packed, &mut open)? {
                Some(value) => value,
                None => continue,
            };
            // A value may be the last of its container, which then is a value itself.
            loop {
                let Some(top) = open.last_mut() else { return Ok(value) };
                match top.take(value)? {
                    Some(whole) => value = whole,
                    None => break,
                }
                open.pop();
            }
        }
    }

    /// The next value, or nothing if that is a container with something in it, which is opened.
    fn next<'py, 'a>(
        &mut self,
        py: Python<'py>,
        cursor: &mut Cursor<'a>,
        place: Option<&Place<'_>>,
        packed: &[u8],
        open: &mut Vec<Open<'py, 'a>>,
    ) -> Result<Option<Bound<'py, PyAny>>, Flaw> {
        let kind = cursor.peek()?;
        let is_name = matches!(open.last(), Some(Open::Dict { key: None, .. }));
        Ok(Some(match kind {
            Kind::Nil => {
                cursor.read_nil()?;
                py.None().into_bound(py)
            }
            Kind::Bool => cursor.read_bool()?.into_bound_py_any(py)?,
            Kind::Int => match cursor.read_i64() {
                Ok(number) => number.into_bound_py_any(py)?,
                // From 2^63 on.
                Err(_) => cursor.read_u64()?.into_bound_py_any(py)?,
            },
            Kind::Float => PyFloat::new(py, cursor.read_f64()?).into_any(),
            Kind::Str if is_name => self.names.get(py, cursor.read_str()?).into_any(),
            Kind::Str => PyString::new(py, cursor.read_str()?).into_any(),
            Kind::Bin if is_name => {
                let name = cursor.read_bin()?;
                // msgpack-numpy takes a map with one of these keys for a value of its own.
                if let (b"nd" | b"complex", Some(Open::Dict { start, .. })) = (name, open.last()) {
                    let mut whole = start.clone();
                    if let Some(special) = numpy::read(&mut whole)? {
                        *cursor = whole;
                        open.pop();
                        return Ok(Some(self.special(py, special, place, packed)?));
                    }
                }
                PyBytes::new(py, name).into_any()
            }
            Kind::Bin => {
                let bytes = cursor.read_bin()?;
                binary(py, bytes, cursor.position(), place)?
            }
            Kind::Ext => extension(py, cursor)?,
            Kind::Array | Kind::Map if open.len() >= MAX_DEPTH => {
                let expected = format!("at most {MAX_DEPTH} nested containers");
                return Err(FormatError::new(cursor.position() as u64, expected, "more").into());
            }
            Kind::Array => {
                let left = cursor.read_array_len()?;
                let list = PyList::empty(py);
                if left > 0 {
                    open.push(Open::List { list, left });
                    return Ok(None);
                }
                list.into_any()
            }
            Kind::Map => {
                let start = cursor.clone();
                let left = cursor.read_map_len()?;
                let dict = PyDict::new(py);
                if left > 0 {
                    open.push(Open::Dict { dict, left, key: None, start });
                    return Ok(None);
                }
                dict.into_any()
            }
        }))
    }

    fn special<'py>(
        &mut self,
        py: Python<'py>,
        special: Special<'_>,
        place: Option<&Place<'_>>,
        packed: &[u8],
    ) -> Result<Bound<'py, PyAny>, Flaw> {
        match special {
            Special::Array(array) => self.array(py, &array, place, packed),
            Special::Scalar(array) => {
                let array = self.array(py, &array, None, packed)?;
                Ok(array.get_item(PyTuple::empty(py))?)
            }
            Special::Complex(re, im) => Ok(PyComplex::from_doubles(py, re, im).into_any()),
            _ => Err(Flaw::Unsupported("a value of NumPy of an unknown kind".to_owned())),
        }
    }

    /// An array of NumPy: writable and with its own memory, or a read-only view of the map.
    pub(crate) fn array<'py>(
        &mut self,
        py: Python<'py>,
        array: &NdArray<'_>,
        place: Option<&Place<'_>>,
        packed: &[u8],
    ) -> Result<Bound<'py, PyAny>, Flaw> {
        if array.dtype().has_objects() {
            let text = "an array of Python objects is a pickle, which is never executed";
            return Err(Flaw::Unsupported(text.to_owned()));
        }
        let dtype = self.dtype(py, array.dtype())?;
        let array = array.to_c_order();
        let (shape, bytes) = (array.shape(), array.bytes());
        let shape = PyTuple::new(py, shape)?;
        // Bytes that lie in the packed sample, not in memory of their own.
        let offset = (bytes.as_ptr() as usize).wrapping_sub(packed.as_ptr() as usize);
        let buffer = match place {
            Some(place) if !bytes.is_empty() && offset < packed.len() => {
                place.view(py, offset..offset + bytes.len())?.into_any()
            }
            _ => PyByteArray::new(py, bytes).into_any(),
        };
        Ok(ndarray_type(py)?.call1((shape, dtype, buffer))?)
    }

    pub(crate) fn dtype<'py>(
        &mut self,
        py: Python<'py>,
        dtype: &DType,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(known) = self.dtypes.get(dtype) {
            return Ok(known.bind(py).clone());
        }
        let text = dtype.to_string();
        let made = match dtype.is_struct() {
            // The text is that of a list of fields.
            true => {
                let fields = py.import("ast")?.call_method1("literal_eval", (text,))?;
                py.import("numpy")?.call_method1("dtype", (fields,))?
            }
            false => py.import("numpy")?.call_method1("dtype", (text,))?,
        };
        self.dtypes.insert(dtype.clone(), made.clone().unbind());
        Ok(made)
    }
}

/// Bytes that end at this position of the sample.
fn binary<'py>(
    py: Python<'py>,
    bytes: &[u8],
    end: usize,
    place: Option<&Place<'_>>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(place) = place else { return Ok(PyBytes::new(py, bytes).into_any()) };
    let view = place.view(py, end - bytes.len()..end)?;
    Ok(PyMemoryView::from(view.as_any())?.into_any())
}

fn ndarray_type(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    TYPE.import(py, "numpy", "ndarray")
}

/// A point in time, or an extension of any other code.
fn extension<'py>(py: Python<'py>, cursor: &mut Cursor<'_>) -> Result<Bound<'py, PyAny>, Flaw> {
    static TIMESTAMP: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static EXT: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let (code, data) = cursor.read_ext()?;
    if code == timestamp::CODE {
        if let Some((seconds, nanoseconds)) = timestamp::from_ext(data) {
            let class = TIMESTAMP.import(py, "pykiste.types", "Timestamp")?;
            return Ok(class.call1((seconds, nanoseconds))?);
        }
    }
    let class = EXT.import(py, "pykiste.types", "Extension")?;
    Ok(class.call1((code, PyBytes::new(py, data)))?)
}

/// Decodes one packed message, as `Dataset.raw` returns it.
#[pyfunction]
pub(crate) fn unpack<'py>(py: Python<'py>, packed: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    static DECODER: Mutex<Option<Decoder>> = Mutex::new(None);
    // Another thread may have it, and wait for the lock of Python that this one holds.
    let decoded = match DECODER.try_lock() {
        Ok(mut known) => known.get_or_insert_with(Decoder::new).sample(py, packed, None),
        Err(_) => Decoder::new().sample(py, packed, None),
    };
    decoded.map_err(|flaw| flaw.raise(|error| error))
}
