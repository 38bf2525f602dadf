//! Arrays from packed bytes and into them, without a [`Value`](crate::Value) between.

use std::borrow::Cow;

use super::stored::{is_container, unpack};
use super::{LEVELS, Special, complex, complex_repr, from_packed, kind_of, to_packed};
use crate::format::FormatError;
use crate::format::msgpack::cursor::{Cursor, Kind};
use crate::format::msgpack::encode::{
    EncodeError, write_bin, write_bin_len, write_list, write_text, write_unsigned,
};
use crate::format::numpy::literal::{Literal, shortened};
use crate::value::{DType, NdArray};

/// How deep an array may be in another's place of data, as Python packs masked arrays.
pub(super) const MAX_WRAPPING: usize = 4;

/// The array that these bytes are: one message and nothing else.
///
/// A value that Python reads as an array, a scalar of NumPy or a complex number is an array here,
/// the latter two without dimensions. Binary data are an array of bytes, and the elements are
/// borrowed; but a [container](super::is_container) is the array in it, decompressed, and an error
/// if it holds none.
///
/// ```
/// use kiste::format::msgpack::numpy::{decode_array, encode_array};
/// use kiste::value::NdArray;
/// use ndarray::array;
///
/// let points = array![[1.5f32, 2.0], [0.0, -1.0]];
/// let mut packed = Vec::new();
/// encode_array(&NdArray::from_ndarray(&points), &mut packed)?;
/// assert!(packed.starts_with(b"\x85\xc4\x02nd\xc3\xc4\x04type\xa3<f4"));
/// assert_eq!(decode_array(&packed)?.to_ndarray::<f32>()?, points.into_dyn());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn decode_array(bytes: &[u8]) -> Result<NdArray<'_>, FormatError> {
    let mut cursor = Cursor::new(bytes);
    let array = read_array(&mut cursor)?;
    cursor.expect_end()?;
    Ok(array)
}

/// Reads an array. See [`decode_array`].
pub fn read_array<'a>(cursor: &mut Cursor<'a>) -> Result<NdArray<'a>, FormatError> {
    let position = cursor.position();
    if cursor.peek()? == Kind::Bin {
        let mut at = cursor.clone();
        let array = array_of_bytes(at.read_bin()?.into()).map_err(|flaw| flaw.at(position))?;
        *cursor = at;
        return Ok(array);
    }
    match read(cursor)? {
        Some(Special::Array(array) | Special::Scalar(array)) => Ok(array),
        Some(Special::Complex(re, im)) => Ok(complex_array(re, im)),
        None => Err(FormatError::new(position as u64, "an array", "a map that is none")),
    }
}

/// Reads a value of NumPy or a complex number, in any form that Python takes for one.
///
/// `None` is a map of another meaning: then the cursor stays where it was. Anything but a map is
/// an error, and so is a map that says it is an array and is not, at which Python fails as well.
pub fn read<'a>(cursor: &mut Cursor<'a>) -> Result<Option<Special<'a>>, FormatError> {
    read_wrapped(cursor, MAX_WRAPPING)
}

/// Appends an array as msgpack-numpy packs it: its elements in C order, in their own byte order.
///
/// Python objects are appended as they were read.
pub fn encode_array(array: &NdArray<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let before = out.len();
    write_array(array, out).inspect_err(|_| out.truncate(before))
}

/// Appends an array of no dimensions as msgpack-numpy packs a scalar of NumPy.
///
/// Python itself packs a `numpy.float64` as a plain float.
pub fn encode_scalar(array: &NdArray<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let before = out.len();
    write_scalar(array, out).inspect_err(|_| out.truncate(before))
}

/// Appends a complex number as msgpack-numpy packs one of Python.
pub fn encode_complex(re: f64, im: f64, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    out.push(0x82);
    write_bin(b"complex", out)?;
    out.push(0xc3);
    write_bin(b"data", out)?;
    write_text(&complex_repr(re, im), out)
}

/// The entries of a map that matter to arrays.
#[derive(Default)]
pub(super) struct Entries<'a> {
    /// Whether `nd` is true; `None` if there is no such entry.
    pub(super) nd: Option<bool>,
    /// Whether there is a `complex`.
    pub(super) complex: bool,
    /// Whether `kind` says that the elements are Python objects.
    pub(super) is_object: bool,
    pub(super) dtype: Option<Literal>,
    pub(super) shape: Option<Literal>,
    pub(super) data: Option<Content<'a>>,
}

/// The value under `data`.
pub(super) enum Content<'a> {
    Bytes(Cow<'a, [u8]>),
    Text(Cow<'a, str>),
    Number(f64),
}

/// Why entries are no array: what was expected and what was found.
#[derive(Debug)]
pub(super) struct Flaw {
    pub(super) expected: String,
    pub(super) found: String,
}

impl Flaw {
    fn new(expected: impl Into<String>, found: impl Into<String>) -> Flaw {
        Flaw { expected: expected.into(), found: found.into() }
    }

    fn at(self, position: usize) -> FormatError {
        FormatError::new(position as u64, self.expected, self.found)
    }
}

impl<'a> Entries<'a> {
    /// The NumPy value that the entries describe, or `None` if they do not.
    pub(super) fn special(self) -> Result<Option<Special<'a>>, Flaw> {
        match (self.nd, self.complex) {
            (Some(true), _) => self.array(),
            (Some(false), _) => self.scalar(),
            (None, true) => self.number(),
            (None, false) => Ok(None),
        }
    }

    fn array(self) -> Result<Option<Special<'a>>, Flaw> {
        let (Some(dtype), Some(shape), Some(data)) = (self.dtype, self.shape, self.data) else {
            return Ok(None);
        };
        let data = data.bytes()?;
        if self.is_object {
            let shape = shape_of(&shape, data.len(), 0)?;
            return Ok(Some(Special::Array(NdArray::opaque(shape, data))));
        }
        let dtype = dtype_of(&dtype)?;
        let shape = shape_of(&shape, data.len(), dtype.item_size())?;
        // Python ignores what is more than needed.
        let size = shape.iter().try_fold(dtype.item_size(), |size, &len| size.checked_mul(len));
        let data = match size {
            Some(size) if size < data.len() => cut(data, size),
            _ => data,
        };
        let flaw = |found: String| Flaw::new(format!("the elements of {dtype} {shape:?}"), found);
        let found = format!("{} bytes", data.len());
        match NdArray::new(dtype.clone(), &shape[..], data) {
            Ok(array) => Ok(Some(Special::Array(array))),
            Err(_) => Err(flaw(found)),
        }
    }

    fn scalar(self) -> Result<Option<Special<'a>>, Flaw> {
        let (Some(dtype), Some(data)) = (self.dtype, self.data) else {
            return Ok(None);
        };
        let (dtype, data) = (dtype_of(&dtype)?, data.bytes()?);
        let (size, found) = (dtype.item_size(), data.len());
        // Python takes `frombuffer(data)[0]`: any whole number of elements, and the first counts.
        if size == 0 || found == 0 || found % size != 0 {
            return Err(Flaw::new(format!("a scalar of {dtype}"), format!("{found} bytes")));
        }
        let array = NdArray::new(dtype, [], cut(data, size));
        let array = array.map_err(|error| Flaw::new("a scalar", error.to_string()))?;
        Ok(Some(Special::Scalar(array)))
    }

    fn number(self) -> Result<Option<Special<'a>>, Flaw> {
        let text = match self.data {
            None => return Ok(None),
            Some(Content::Number(number)) => return Ok(Some(Special::Complex(number, 0.0))),
            Some(Content::Text(text)) => text,
            Some(Content::Bytes(bytes)) => String::from_utf8_lossy(&bytes).into_owned().into(),
        };
        let number = complex::parse_any(&text);
        let flaw = || Flaw::new("a complex number", format!("{:?}", shortened(&text)));
        number.map(|(re, im)| Some(Special::Complex(re, im))).ok_or_else(flaw)
    }
}

impl<'a> Content<'a> {
    fn bytes(self) -> Result<Cow<'a, [u8]>, Flaw> {
        match self {
            Content::Bytes(bytes) => Ok(bytes),
            Content::Text(_) => Err(Flaw::new("binary data", "a string")),
            Content::Number(_) => Err(Flaw::new("binary data", "a number")),
        }
    }
}

/// The array in binary data: the one in a container, or one axis of bytes.
///
/// Every reader of arrays comes here for data without type and shape, so this is the one place to
/// tell containers of arrays by their first bytes.
pub(super) fn array_of_bytes(data: Cow<'_, [u8]>) -> Result<NdArray<'_>, Flaw> {
    if is_container(&data) {
        return unpack(&data).map_err(|FormatError { position, expected, found }| {
            Flaw::new(format!("{expected} at byte {position} of a container"), found)
        });
    }
    let len = data.len();
    NdArray::new(DType::of::<u8>(), [len], data)
        .map_err(|error| Flaw::new("an array", error.to_string()))
}

/// A complex number as an array without dimensions.
pub(super) fn complex_array(re: f64, im: f64) -> NdArray<'static> {
    NdArray::scalar(num_complex::Complex::new(re, im))
}

fn read_wrapped<'a>(
    cursor: &mut Cursor<'a>,
    levels: usize,
) -> Result<Option<Special<'a>>, FormatError> {
    let start = cursor.clone();
    let mut at = cursor.clone();
    let (mut nd, mut complex) = (None, false);
    // Where the last entry of each name has its value: two passes, so that nothing is asked of
    // maps that are no arrays.
    let [mut dtype, mut kind, mut shape, mut data] = [const { None::<Cursor<'a>> }; 4];
    for _ in 0..at.read_map_len()? {
        let name = match at.peek()? {
            Kind::Bin => at.read_bin()?,
            _ => {
                at.skip()?;
                b""
            }
        };
        let value = at.clone();
        at.skip()?;
        match name {
            b"nd" => nd = Some(value.clone().read_bool() == Ok(true)),
            b"complex" => complex = true,
            b"type" => dtype = Some(value),
            b"kind" => kind = Some(value),
            b"shape" => shape = Some(value),
            b"data" => data = Some(value),
            _ => {}
        }
    }
    if nd.is_none() && !complex {
        return Ok(None);
    }
    if nd.is_none() {
        (dtype, shape) = (None, None);
    } else if nd == Some(false) {
        shape = None;
    }
    let entries = Entries {
        nd,
        complex,
        is_object: kind.is_some_and(|mut kind| kind.read_bin() == Ok(b"O")),
        dtype: dtype.map(|mut dtype| read_literal(&mut dtype, LEVELS)).transpose()?,
        shape: shape.map(|mut shape| read_literal(&mut shape, 1)).transpose()?,
        data: data.map(|mut data| read_content(&mut data, levels)).transpose()?,
    };
    let special = entries.special().map_err(|flaw| flaw.at(start.position()))?;
    if special.is_some() {
        *cursor = at;
    }
    Ok(special)
}

fn read_literal(cursor: &mut Cursor<'_>, levels: usize) -> Result<Literal, FormatError> {
    Ok(match cursor.peek()? {
        Kind::Nil => Literal::None,
        Kind::Int => Literal::Int(cursor.read_i64()?),
        Kind::Str => Literal::Text(cursor.read_str()?.to_owned()),
        Kind::Bin => Literal::Text(String::from_utf8_lossy(cursor.read_bin()?).into_owned()),
        Kind::Array if levels > 0 => {
            let count = cursor.read_array_len()?;
            let items = (0..count).map(|_| read_literal(cursor, levels - 1));
            Literal::List(items.collect::<Result<_, _>>()?)
        }
        kind => {
            let found = format!("{kind:?}").to_lowercase();
            return Err(FormatError::new(cursor.position() as u64, "a type or a shape", found));
        }
    })
}

fn read_content<'a>(cursor: &mut Cursor<'a>, levels: usize) -> Result<Content<'a>, FormatError> {
    Ok(match cursor.peek()? {
        Kind::Str => Content::Text(cursor.read_str()?.into()),
        Kind::Int | Kind::Float => Content::Number(match cursor.peek()? {
            Kind::Int => cursor.read_i64()? as f64,
            _ => cursor.read_f64()?,
        }),
        Kind::Map if levels > 0 => match read_wrapped(cursor, levels - 1)? {
            Some(Special::Array(array)) => Content::Bytes(array.into_bytes()),
            _ => return Err(wrong_data(cursor)),
        },
        Kind::Bin => Content::Bytes(cursor.read_bin()?.into()),
        _ => return Err(wrong_data(cursor)),
    })
}

#[cold]
fn wrong_data(cursor: &Cursor<'_>) -> FormatError {
    FormatError::new(cursor.position() as u64, "binary data", "something else")
}

fn dtype_of(literal: &Literal) -> Result<DType, Flaw> {
    let found = || match literal {
        Literal::Text(text) => format!("{:?}", shortened(text)),
        other => other.noun(),
    };
    let dtype = from_packed(literal).ok_or_else(|| Flaw::new("a type of NumPy", found()))?;
    if dtype.has_objects() {
        // Outside of a pickle these are addresses in the memory of a process that is gone.
        return Err(Flaw::new("a type without Python objects", format!("{dtype}")));
    }
    Ok(dtype)
}

/// The lengths of the axes. One may be -1: as long as there are data for it.
fn shape_of(literal: &Literal, bytes: usize, item_size: usize) -> Result<Vec<usize>, Flaw> {
    let one = std::slice::from_ref(literal);
    let lens = literal.as_items().unwrap_or(one);
    let known = lens.iter().filter_map(Literal::as_len);
    let known = known.fold(item_size, |size, len| size.saturating_mul(len));
    let mut inferred = false;
    let lens = lens.iter().map(|len| match len {
        Literal::Int(-1) if !inferred && known > 0 => {
            inferred = true;
            Some(bytes / known)
        }
        len => len.as_len(),
    });
    let shape: Option<Vec<usize>> = lens.collect();
    shape.ok_or_else(|| Flaw::new("a shape", literal.noun()))
}

fn cut(data: Cow<'_, [u8]>, len: usize) -> Cow<'_, [u8]> {
    match data {
        Cow::Borrowed(data) => Cow::Borrowed(&data[..len]),
        Cow::Owned(mut data) => {
            data.truncate(len);
            Cow::Owned(data)
        }
    }
}

fn write_array(array: &NdArray<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    encode_head(array, out)?;
    out.extend_from_slice(&array.c_bytes());
    Ok(())
}

/// Appends all of a packed array that comes before its elements.
pub(super) fn encode_head(array: &NdArray<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    out.push(0x85);
    write_bin(b"nd", out)?;
    out.push(0xc3);
    write_bin(b"type", out)?;
    write_literal(&to_packed(array.dtype()), out)?;
    write_bin(b"kind", out)?;
    write_bin(kind_of(array.dtype()), out)?;
    write_bin(b"shape", out)?;
    write_list(array.shape().len(), out)?;
    array.shape().iter().for_each(|&len| write_unsigned(len as u64, out));
    write_bin(b"data", out)?;
    write_bin_len(array.bytes().len(), out)
}

fn write_scalar(array: &NdArray<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    out.push(0x83);
    write_bin(b"nd", out)?;
    out.push(0xc2);
    write_bin(b"type", out)?;
    write_literal(&to_packed(array.dtype()), out)?;
    write_bin(b"data", out)?;
    write_bin(array.bytes(), out)
}

fn write_literal(literal: &Literal, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    match literal {
        Literal::Text(text) => write_text(text, out),
        // The only numbers in a type are lengths.
        Literal::Int(number) => {
            write_unsigned(number.unsigned_abs(), out);
            Ok(())
        }
        literal => {
            let items = literal.as_items().unwrap_or_default();
            write_list(items.len(), out)?;
            items.iter().try_for_each(|item| write_literal(item, out))
        }
    }
}
