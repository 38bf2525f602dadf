//! Packed samples as Python objects: what Python's datadings returns for the same bytes.

use std::collections::HashMap;
use std::sync::Mutex;

use kiste::ErrorKind;
use kiste::format::FormatError;
use kiste::format::msgpack::numpy::{self, Special};
use kiste::format::msgpack::{Cursor, Kind, MAX_DEPTH, timestamp};
use kiste::value::{DType, NdArray};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyByteArray, PyBytes, PyComplex, PyDict, PyFloat, PyList, PyString, PyTuple, PyType,
};

use crate::errors::{is_about_a_value, raise};
use crate::objects::{self, Filling};
use crate::view::Map;

/// Why a sample was not decoded, and in which field. In a box, so that values come back in registers.
pub(crate) struct Flaw(Box<(Reason, Option<String>)>);

enum Reason {
    Format(FormatError),
    Unsupported(String),
    Python(PyErr),
}

impl From<FormatError> for Flaw {
    #[cold]
    fn from(error: FormatError) -> Flaw {
        Flaw::of(Reason::Format(error))
    }
}

impl From<PyErr> for Flaw {
    #[cold]
    fn from(error: PyErr) -> Flaw {
        Flaw::of(Reason::Python(error))
    }
}

impl Flaw {
    fn of(reason: Reason) -> Flaw {
        Flaw(Box::new((reason, None)))
    }

    #[cold]
    fn unsupported(text: &str) -> Flaw {
        Flaw::of(Reason::Unsupported(text.to_owned()))
    }

    /// With the field that the value is in: of a sample only the outermost map has fields.
    #[cold]
    fn within(mut self, depth: usize, key: &Bound<'_, PyAny>) -> Flaw {
        if depth == 0 {
            self.0.1 = key.cast::<PyString>().ok().map(|name| name.to_string_lossy().into_owned());
        }
        self
    }

    /// As an exception, with what is known of the sample.
    #[cold]
    pub(crate) fn raise(
        self,
        py: Python<'_>,
        describe: impl FnOnce(kiste::Error) -> kiste::Error,
    ) -> PyErr {
        let (reason, field) = *self.0;
        let raise_here = |error: kiste::Error| {
            let error = match (field, error.field()) {
                (Some(field), None) => error.with_field(field),
                _ => error,
            };
            raise(describe(error))
        };
        match reason {
            Reason::Format(error) => raise_here(error.into()),
            Reason::Unsupported(text) => {
                raise_here(kiste::Error::new(ErrorKind::Unsupported, text))
            }
            // What NumPy or a dict refuses is in the bytes.
            Reason::Python(error) if is_about_a_value(py, &error) => {
                let text = format!("expected a value that Python can have, found {error}");
                let made = raise_here(kiste::Error::new(ErrorKind::Damaged, text));
                made.set_cause(py, Some(error));
                made
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

/// State that decoding keeps from sample to sample.
pub(crate) struct Decoder {
    names: Names,
    dtypes: HashMap<DType, Py<PyAny>>,
    /// Values since Ctrl-C was last looked for.
    unheard: u32,
}

/// Values between two looks for Ctrl-C.
const EACH: u32 = 1 << 14;

/// The sample to decode, and how.
#[derive(Clone, Copy)]
struct Whole<'a, 'py> {
    py: Python<'py>,
    /// The packed sample.
    packed: &'a [u8],
    /// The map that arrays and binary data are views of, if they lie in it.
    map: Option<&'a Map>,
}

/// A key of a map that is not a string.
enum Key<'py> {
    Bytes(Bound<'py, PyAny>),
    /// It says that its map, which was read to its end, is this value.
    Special(Bound<'py, PyAny>),
}

/// Down to this depth containers are decoded by recursion, which is fast. Hostile input could nest too deeply for
/// the stack of a thread: what lies deeper has a stack of its own.
const SHALLOW: usize = 16;

/// A container that has not got all of its values yet.
enum Open<'py> {
    List {
        list: Filling<'py>,
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

/// The containers that are open, innermost last.
#[derive(Default)]
struct Stack<'py>(Vec<Open<'py>>);

impl<'py> Stack<'py> {
    /// Adds a value to the innermost container. Returns the outermost value once that is complete.
    fn add(
        &mut self,
        mut value: Bound<'py, PyAny>,
        end: usize,
    ) -> Result<Option<Bound<'py, PyAny>>, Flaw> {
        loop {
            let left = match self.0.last_mut() {
                None => return Ok(Some(value)),
                Some(Open::List { list, left }) => {
                    list.push(value)?;
                    left
                }
                Some(Open::Dict { dict, left, key, .. }) => {
                    let Some(name) = key.take() else {
                        *key = Some(hashable(value, end)?);
                        return Ok(None);
                    };
                    objects::set_item(dict, &name, &value)?;
                    left
                }
            };
            *left -= 1;
            if *left > 0 {
                return Ok(None);
            }
            // It was the last value of its container, which now is a value itself.
            value = match self.0.pop() {
                Some(Open::List { list, .. }) => list.finish().into_any(),
                Some(Open::Dict { dict, .. }) => dict.into_any(),
                None => return Ok(None),
            };
        }
    }
}

impl Decoder {
    pub(crate) fn new() -> Decoder {
        let names = (0..Names::SLOTS).map(|_| None).collect();
        Decoder { names: Names(names), dtypes: HashMap::new(), unheard: 0 }
    }

    /// Looks for Ctrl-C once in a while: before this many values.
    #[inline]
    fn listen(&mut self, py: Python<'_>, values: u32) -> PyResult<()> {
        self.unheard = self.unheard.saturating_add(values);
        if self.unheard < EACH {
            return Ok(());
        }
        self.unheard = 0;
        py.check_signals()
    }

    /// A whole packed sample. With a map, arrays and binary data that lie in it are read-only views of it.
    pub(crate) fn sample<'py>(
        &mut self,
        py: Python<'py>,
        packed: &[u8],
        map: Option<&Map>,
    ) -> Result<Bound<'py, PyAny>, Flaw> {
        let mut cursor = Cursor::new(packed);
        let value = self.value(Whole { py, packed, map }, &mut cursor, 0)?;
        cursor.expect_end()?;
        Ok(value)
    }

    /// One value with all that is in it, in this many containers.
    fn value<'a, 'py>(
        &mut self,
        whole: Whole<'a, 'py>,
        cursor: &mut Cursor<'a>,
        depth: usize,
    ) -> Result<Bound<'py, PyAny>, Flaw> {
        let kind = cursor.peek()?;
        match kind {
            Kind::Array | Kind::Map if depth == SHALLOW => self.deep(whole, cursor),
            Kind::Array => self.list(whole, cursor, depth),
            Kind::Map => self.dict(whole, cursor, depth),
            _ => scalar(whole, cursor, kind),
        }
    }

    fn list<'a, 'py>(
        &mut self,
        whole: Whole<'a, 'py>,
        cursor: &mut Cursor<'a>,
        depth: usize,
    ) -> Result<Bound<'py, PyAny>, Flaw> {
        let len = cursor.read_array_len()?;
        let mut list = Filling::new(whole.py, len as usize)?;
        for at in 0..len {
            if at % EACH == 0 {
                self.listen(whole.py, EACH.min(len - at))?;
            }
            list.push(self.value(whole, cursor, depth + 1)?)?;
        }
        Ok(list.finish().into_any())
    }

    fn dict<'a, 'py>(
        &mut self,
        whole: Whole<'a, 'py>,
        cursor: &mut Cursor<'a>,
        depth: usize,
    ) -> Result<Bound<'py, PyAny>, Flaw> {
        let start = cursor.position();
        let len = cursor.read_map_len()?;
        let dict = PyDict::new(whole.py);
        for at in 0..len {
            if at % EACH == 0 {
                self.listen(whole.py, EACH.min(len - at))?;
            }
            let key = match cursor.peek()? {
                Kind::Str => self.names.read(whole.py, cursor)?,
                Kind::Bin => match self.special_or_key(whole, cursor, start)? {
                    Key::Special(special) => return Ok(special),
                    Key::Bytes(key) => key,
                },
                Kind::Array | Kind::Map => {
                    let at = cursor.position();
                    hashable(self.value(whole, cursor, depth + 1)?, at)?
                }
                _ => self.value(whole, cursor, depth + 1)?,
            };
            let value = match self.value(whole, cursor, depth + 1) {
                Ok(value) => value,
                Err(flaw) => return Err(flaw.within(depth, &key)),
            };
            objects::set_item(&dict, &key, &value)?;
        }
        Ok(dict.into_any())
    }

    /// A key of bytes, or what the whole map stands for: msgpack-numpy takes a map with one of two keys for a value
    /// of its own.
    fn special_or_key<'a, 'py>(
        &mut self,
        whole: Whole<'a, 'py>,
        cursor: &mut Cursor<'a>,
        start: usize,
    ) -> Result<Key<'py>, Flaw> {
        let name = cursor.read_bin()?;
        if let b"nd" | b"complex" = name {
            let mut map = Cursor::at(whole.packed, start);
            if let Some(special) = numpy::read(&mut map)? {
                *cursor = map;
                return Ok(Key::Special(self.special(whole.py, special, whole.map)?));
            }
        }
        Ok(Key::Bytes(PyBytes::new(whole.py, name).into_any()))
    }

    /// A container that is nested deeply, with all that is in it.
    #[cold]
    #[inline(never)]
    fn deep<'a, 'py>(
        &mut self,
        whole: Whole<'a, 'py>,
        cursor: &mut Cursor<'a>,
    ) -> Result<Bound<'py, PyAny>, Flaw> {
        let mut stack = Stack::default();
        loop {
            self.listen(whole.py, 1)?;
            if let Some(value) = self.next(whole, cursor, &mut stack)? {
                if let Some(outermost) = stack.add(value, cursor.position())? {
                    return Ok(outermost);
                }
            }
        }
    }

    /// The next value, or nothing if that is a container with something in it, which is opened.
    fn next<'a, 'py>(
        &mut self,
        whole: Whole<'a, 'py>,
        cursor: &mut Cursor<'a>,
        stack: &mut Stack<'py>,
    ) -> Result<Option<Bound<'py, PyAny>>, Flaw> {
        let kind = cursor.peek()?;
        Ok(Some(match (kind, stack.0.last()) {
            (Kind::Array | Kind::Map, _) if stack.0.len() + SHALLOW >= MAX_DEPTH => {
                let expected = format!("at most {MAX_DEPTH} nested containers");
                return Err(FormatError::new(cursor.position() as u64, expected, "more").into());
            }
            (Kind::Array, _) => {
                let left = cursor.read_array_len()?;
                let list = Filling::new(whole.py, left as usize)?;
                if left > 0 {
                    stack.0.push(Open::List { list, left });
                    return Ok(None);
                }
                list.finish().into_any()
            }
            (Kind::Map, _) => {
                let start = cursor.position();
                let left = cursor.read_map_len()?;
                let dict = PyDict::new(whole.py);
                if left > 0 {
                    stack.0.push(Open::Dict { dict, left, key: None, start });
                    return Ok(None);
                }
                dict.into_any()
            }
            (Kind::Str, Some(Open::Dict { key: None, .. })) => self.names.read(whole.py, cursor)?,
            (Kind::Bin, Some(Open::Dict { key: None, start, .. })) => {
                match self.special_or_key(whole, cursor, *start)? {
                    Key::Bytes(key) => key,
                    Key::Special(special) => {
                        stack.0.pop();
                        special
                    }
                }
            }
            _ => scalar(whole, cursor, kind)?,
        }))
    }

    fn special<'py>(
        &mut self,
        py: Python<'py>,
        special: Special<'_>,
        map: Option<&Map>,
    ) -> Result<Bound<'py, PyAny>, Flaw> {
        match special {
            Special::Array(array) => self.array(py, &array, map),
            Special::Scalar(array) => {
                let array = self.array(py, &array, None)?;
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
        map: Option<&Map>,
    ) -> Result<Bound<'py, PyAny>, Flaw> {
        if array.dtype().has_objects() {
            let text = "an array of Python objects is a pickle, which is never executed";
            return Err(Flaw::unsupported(text));
        }
        let dtype = self.dtype(py, array.dtype())?;
        let array = array.to_c_order();
        let (shape, bytes) = (array.shape(), array.bytes());
        let (class, shape) = (ndarray_type(py)?, PyTuple::new(py, shape)?);
        let made = match map.and_then(|map| map.buffer(py, bytes)) {
            Some((whole, offset)) if !bytes.is_empty() => {
                class.call1((shape, dtype, whole, offset))?
            }
            _ => class.call1((shape, dtype, PyByteArray::new(py, bytes)))?,
        };
        Ok(made)
    }

    pub(crate) fn dtype<'py>(
        &mut self,
        py: Python<'py>,
        dtype: &DType,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(known) = self.dtypes.get(dtype) {
            return Ok(known.bind(py).clone());
        }
        let made = match dtype.is_struct() {
            true => structure(py, dtype)?,
            false => py.import("numpy")?.call_method1("dtype", (dtype.to_string(),))?,
        };
        self.dtypes.insert(dtype.clone(), made.clone().unbind());
        Ok(made)
    }
}

/// A structured type. Padding is between its fields; NumPy would make fields of it, `f1` and so on.
fn structure<'py>(py: Python<'py>, dtype: &DType) -> PyResult<Bound<'py, PyAny>> {
    let (names, titles) = (PyList::empty(py), PyList::empty(py));
    let (formats, offsets) = (PyList::empty(py), PyList::empty(py));
    let mut offset = 0;
    for field in dtype.fields() {
        let count: usize = field.shape().iter().product();
        let at = offset;
        offset += count * field.dtype().item_size();
        if field.name().is_empty() {
            continue;
        }
        let inner = match field.dtype().is_struct() {
            true => structure(py, field.dtype())?,
            false => field.dtype().to_string().into_bound_py_any(py)?,
        };
        match field.shape() {
            [] => formats.append(inner)?,
            shape => formats.append((inner, PyTuple::new(py, shape)?))?,
        }
        names.append(field.name())?;
        titles.append(field.title())?;
        offsets.append(at)?;
    }
    let parts = PyDict::new(py);
    let has_titles = dtype.fields().iter().any(|field| field.title().is_some());
    for (name, part) in [("names", names), ("formats", formats), ("offsets", offsets)] {
        parts.set_item(name, part)?;
    }
    if has_titles {
        parts.set_item("titles", titles)?;
    }
    parts.set_item("itemsize", dtype.item_size())?;
    py.import("numpy")?.call_method1("dtype", (parts,))
}

/// A key that a dict can have: no list, no dict, and no array.
fn hashable(key: Bound<'_, PyAny>, at: usize) -> Result<Bound<'_, PyAny>, Flaw> {
    let found = match () {
        () if key.is_instance_of::<PyList>() => "a list",
        () if key.is_instance_of::<PyDict>() => "a map",
        () if key.is_instance(ndarray_type(key.py())?)? => "an array",
        () => return Ok(key),
    };
    Err(FormatError::new(at as u64, "a key that a dict of Python can have", found).into())
}

/// A value that is no container.
#[inline]
fn scalar<'a, 'py>(
    whole: Whole<'a, 'py>,
    cursor: &mut Cursor<'a>,
    kind: Kind,
) -> Result<Bound<'py, PyAny>, Flaw> {
    let py = whole.py;
    Ok(match kind {
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
        Kind::Str => {
            let start = cursor.clone();
            let bytes = cursor.read_str_bytes()?;
            string(py, start, bytes)?
        }
        Kind::Bin => {
            let bytes = cursor.read_bin()?;
            match whole.map.map_or(Ok(None), |map| map.slice(py, bytes))? {
                Some(view) => view,
                None => PyBytes::new(py, bytes).into_any(),
            }
        }
        Kind::Ext => extension(py, cursor)?,
        Kind::Array | Kind::Map => return Err(Flaw::unsupported("a container among scalars")),
    })
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

/// Decodes one packed message, as `Dataset.raw` returns it and `pykiste.pack` makes it. One that ends early, or that
/// something follows, is a `DamagedError`.
///
/// >>> import pykiste as ki
/// >>> ki.unpack(ki.pack({"key": "a", "sizes": [1, 2.5, None]}))
/// {'key': 'a', 'sizes': [1, 2.5, None]}
#[pyfunction]
pub(crate) fn unpack<'py>(py: Python<'py>, packed: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    static DECODER: Mutex<Option<Decoder>> = Mutex::new(None);
    // Another thread may have it, and wait for the lock of Python that this one holds.
    let decoded = match DECODER.try_lock() {
        Ok(mut known) => known.get_or_insert_with(Decoder::new).sample(py, packed, None),
        Err(_) => Decoder::new().sample(py, packed, None),
    };
    decoded.map_err(|flaw| flaw.raise(py, |error| error))
}
