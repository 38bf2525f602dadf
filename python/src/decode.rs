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

/// Why a sample was not decoded. In a box, so that values come back in registers.
pub(crate) struct Flaw(Box<Reason>);

enum Reason {
    Format(FormatError),
    Unsupported(String),
    Python(PyErr),
}

impl From<FormatError> for Flaw {
    #[cold]
    fn from(error: FormatError) -> Flaw {
        Flaw(Box::new(Reason::Format(error)))
    }
}

impl From<PyErr> for Flaw {
    #[cold]
    fn from(error: PyErr) -> Flaw {
        Flaw(Box::new(Reason::Python(error)))
    }
}

impl Flaw {
    #[cold]
    fn unsupported(text: &str) -> Flaw {
        Flaw(Box::new(Reason::Unsupported(text.to_owned())))
    }

    /// As an exception, with what is known of the sample.
    #[cold]
    pub(crate) fn raise(self, describe: impl FnOnce(kiste::Error) -> kiste::Error) -> PyErr {
        match *self.0 {
            Reason::Format(error) => raise(describe(error.into())),
            Reason::Unsupported(text) => {
                raise(describe(kiste::Error::new(ErrorKind::Unsupported, text)))
            }
            Reason::Python(error) => error,
        }
    }
}

/// Names of fields as strings of Python. Samples have few, and each comes in every sample.
struct Names(Vec<Option<(Name, Py<PyString>)>>);

/// A name: up to sixteen bytes are compared as two numbers, without a call.
#[derive(PartialEq, Eq)]
struct Name {
    len: usize,
    first: u64,
    last: u64,
}

impl Name {
    /// Longer strings are no names of fields.
    const LONGEST: usize = 16;

    #[inline]
    fn of(bytes: &[u8]) -> Option<Name> {
        let len = bytes.len();
        let (first, last) = match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
            (Some(first), Some(last)) if len <= Self::LONGEST => {
                (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
            }
            (Some(_), _) => return None,
            _ => match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
                (Some(first), Some(last)) => {
                    (u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into())
                }
                _ => (bytes.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)), 0),
            },
        };
        Some(Name { len, first, last })
    }

    #[inline]
    fn slot(&self) -> usize {
        let mixed = (self.first ^ self.last.rotate_left(23) ^ self.len as u64)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 56) as usize
    }
}

impl Names {
    const SLOTS: usize = 256;

    /// The string that is next at the cursor.
    #[inline]
    fn read<'py>(
        &mut self,
        py: Python<'py>,
        cursor: &mut Cursor<'_>,
    ) -> Result<Bound<'py, PyAny>, Flaw> {
        let start = cursor.clone();
        let bytes = cursor.read_str_bytes()?;
        let Some(name) = Name::of(bytes) else { return string(py, start, bytes) };
        let slot = name.slot();
        if let Some(Some((known, made))) = self.0.get(slot) {
            if *known == name {
                return Ok(made.bind(py).clone().into_any());
            }
        }
        let made = string(py, start, bytes)?;
        if let (Some(place), Ok(made)) = (self.0.get_mut(slot), made.cast::<PyString>()) {
            *place = Some((name, made.clone().unbind()));
        }
        Ok(made)
    }
}

/// A string from its bytes, which lie behind this start.
#[inline]
fn string<'py>(
    py: Python<'py>,
    start: Cursor<'_>,
    bytes: &[u8],
) -> Result<Bound<'py, PyAny>, Flaw> {
    match PyString::from_bytes(py, bytes) {
        Ok(made) => Ok(made.into_any()),
        Err(error) => Err(bad_string(start, error)),
    }
}

/// Why bytes are no string, in the words of the other errors.
#[cold]
fn bad_string(mut start: Cursor<'_>, error: PyErr) -> Flaw {
    match start.read_str() {
        Err(flaw) => flaw.into(),
        Ok(_) => error.into(),
    }
}

/// What decoding keeps from sample to sample.
pub(crate) struct Decoder {
    names: Names,
    dtypes: HashMap<DType, Py<PyAny>>,
}

/// A container that has not got all of its values yet.
enum Open<'py> {
    /// Its values so far are the last ones of [`Stack::items`].
    List {
        /// Where they begin.
        first: usize,
        /// Values to come.
        left: u32,
    },
    Dict {
        dict: Bound<'py, PyDict>,
        /// Pairs to come.
        left: u32,
        /// The key of the pair that has begun.
        key: Option<Bound<'py, PyAny>>,
        /// Where its header begins.
        start: usize,
    },
}

/// The containers that are open. Nothing recurses: hostile input could nest too deeply for the stack of a
/// thread.
struct Stack<'py> {
    /// The innermost. Apart from the others, so that a sample without nested containers allocates nothing.
    top: Option<Open<'py>>,
    outer: Vec<Open<'py>>,
    /// Values of open lists: a list is made when it is complete, in its final size.
    items: Vec<Bound<'py, PyAny>>,
}

impl<'py> Stack<'py> {
    fn new() -> Stack<'py> {
        Stack { top: None, outer: Vec::new(), items: Vec::new() }
    }

    fn depth(&self) -> usize {
        self.outer.len() + usize::from(self.top.is_some())
    }

    fn push(&mut self, container: Open<'py>) {
        if let Some(outer) = self.top.replace(container) {
            self.outer.push(outer);
        }
    }

    fn pop(&mut self) {
        self.top = self.outer.pop();
    }

    /// Adds a value to the innermost container. Returns the outermost value once that is complete.
    #[inline]
    fn add(
        &mut self,
        py: Python<'py>,
        mut value: Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        loop {
            value = match &mut self.top {
                None => return Ok(Some(value)),
                Some(Open::List { first, left }) => {
                    self.items.push(value);
                    *left -= 1;
                    if *left > 0 {
                        return Ok(None);
                    }
                    PyList::new(py, self.items.drain(*first..))?.into_any()
                }
                Some(Open::Dict { dict, left, key, .. }) => {
                    let Some(name) = key.take() else {
                        *key = Some(value);
                        return Ok(None);
                    };
                    dict.set_item(name, value)?;
                    *left -= 1;
                    if *left > 0 {
                        return Ok(None);
                    }
                    dict.clone().into_any()
                }
            };
            // It was the last value of its container, which now is a value itself.
            self.pop();
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

    /// One value with all that is in it.
    fn value<'py, 'a>(
        &mut self,
        py: Python<'py>,
        cursor: &mut Cursor<'a>,
        place: Option<&Place<'_>>,
        packed: &'a [u8],
    ) -> Result<Bound<'py, PyAny>, Flaw> {
        let mut stack = Stack::new();
        loop {
            if let Some(value) = self.next(py, cursor, place, packed, &mut stack)? {
                if let Some(whole) = stack.add(py, value)? {
                    return Ok(whole);
                }
            }
        }
    }

    /// The next value, or nothing if that is a container with something in it, which is opened.
    #[inline]
    fn next<'py, 'a>(
        &mut self,
        py: Python<'py>,
        cursor: &mut Cursor<'a>,
        place: Option<&Place<'_>>,
        packed: &'a [u8],
        stack: &mut Stack<'py>,
    ) -> Result<Option<Bound<'py, PyAny>>, Flaw> {
        let kind = cursor.peek()?;
        let is_name = matches!(stack.top, Some(Open::Dict { key: None, .. }));
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
            Kind::Str if is_name => self.names.read(py, cursor)?,
            Kind::Str => {
                let start = cursor.clone();
                let bytes = cursor.read_str_bytes()?;
                string(py, start, bytes)?
            }
            Kind::Bin if is_name => {
                let name = cursor.read_bin()?;
                // msgpack-numpy takes a map with one of these keys for a value of its own.
                if let (b"nd" | b"complex", Some(Open::Dict { start, .. })) = (name, &stack.top) {
                    let mut whole = Cursor::at(packed, *start);
                    if let Some(special) = numpy::read(&mut whole)? {
                        *cursor = whole;
                        stack.pop();
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
            Kind::Array | Kind::Map if stack.depth() >= MAX_DEPTH => {
                let expected = format!("at most {MAX_DEPTH} nested containers");
                return Err(FormatError::new(cursor.position() as u64, expected, "more").into());
            }
            Kind::Array => {
                let left = cursor.read_array_len()?;
                if left > 0 {
                    stack.push(Open::List { first: stack.items.len(), left });
                    return Ok(None);
                }
                PyList::empty(py).into_any()
            }
            Kind::Map => {
                let start = cursor.position();
                let left = cursor.read_map_len()?;
                let dict = PyDict::new(py);
                if left > 0 {
                    stack.push(Open::Dict { dict, left, key: None, start });
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
            _ => Err(Flaw::unsupported("a value of NumPy of an unknown kind")),
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
            return Err(Flaw::unsupported(text));
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
