//! `.npy` files: a header that is a literal of Python, then the elements.
//!
//! Reads versions 1, 2 and 3 of the format and writes the oldest that can hold the header, as
//! `numpy.save` does. Arrays of Python objects are refused, because their elements are a pickle.

use super::descr::{from_literal, repr};
use super::literal::Literal;
use crate::format::FormatError;
use crate::text;
use crate::value::{AccessError, DType, NdArray, Order};

/// The first bytes of every `.npy` file.
pub const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// The elements begin at a multiple of this.
const ALIGNMENT: usize = 64;

/// NumPy reserves this many characters in the header so that the first length can grow in place.
const GROWTH: usize = 21;

/// The header of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The type of the elements.
    pub dtype: DType,
    /// The length of each axis.
    pub shape: Vec<usize>,
    /// In which order the elements are.
    pub order: Order,
}

/// Reads a whole file. The array borrows its elements; bytes after them are an error.
///
/// ```
/// use kiste::format::numpy::npy;
/// use kiste::value::NdArray;
/// use ndarray::array;
///
/// let matrix = array![[1u16, 2], [3, 4]];
/// let file = npy::encode(&NdArray::from_ndarray(&matrix))?;
/// assert_eq!(npy::decode(&file)?.view::<u16>()?, matrix.into_dyn());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn decode(bytes: &[u8]) -> Result<NdArray<'_>, FormatError> {
    let (header, start) = decode_header(bytes)?;
    let Header { dtype, shape, order } = header;
    let data = &bytes[start..];
    if dtype.has_objects() {
        return Err(FormatError::new(start as u64, "elements", "Python objects as a pickle"));
    }
    let found = format!("{} bytes", data.len());
    NdArray::with_order(dtype.clone(), &shape[..], order, data).map_err(|_| {
        FormatError::new(start as u64, format!("the elements of {dtype} {shape:?}"), found)
    })
}

/// Reads the header and returns the byte at which the elements begin.
pub fn decode_header(bytes: &[u8]) -> Result<(Header, usize), FormatError> {
    let Some([major, minor]) = bytes.strip_prefix(MAGIC).and_then(|rest| rest.first_chunk()) else {
        return Err(FormatError::new(0, "a .npy file", "other bytes"));
    };
    let len = |at: usize, size: usize| match *bytes.get(at..at + size)? {
        [a, b] => Some(usize::from(u16::from_le_bytes([a, b]))),
        [a, b, c, d] => usize::try_from(u32::from_le_bytes([a, b, c, d])).ok(),
        _ => None,
    };
    let width = match (major, minor) {
        (1, 0) => 2,
        (2 | 3, 0) => 4,
        _ => {
            let found = format!("{major}.{minor}");
            return Err(FormatError::new(6, "version 1.0, 2.0 or 3.0", found));
        }
    };
    let start = 8 + width;
    let text = len(8, width).and_then(|len| bytes.get(start..)?.get(..len)).ok_or_else(|| {
        FormatError::new(8, "a header of the length that it has", "the end of the file")
    })?;
    let end = start + text.len();
    let latin1;
    let text = if *major == 3 {
        std::str::from_utf8(text).map_err(|flaw| {
            FormatError::new((start + flaw.valid_up_to()) as u64, "UTF-8", "other bytes")
        })?
    } else {
        latin1 = text.iter().copied().map(char::from).collect::<String>();
        &latin1
    };
    let within = |error: FormatError| error.behind(start as u64);
    let literal = Literal::parse(text).map_err(within)?;
    Ok((header_of(&literal).map_err(within)?, end))
}

/// The header, padded so that the elements can follow it.
pub fn encode_header(header: &Header) -> Vec<u8> {
    let Header { dtype, shape, order } = header;
    let fortran = *order == Order::F;
    let mut text = format!(
        "{{'descr': {}, 'fortran_order': {}, 'shape': {}, }}",
        repr(dtype),
        if fortran { "True" } else { "False" },
        text::shape(shape)
    );
    // `numpy.lib.format` leaves room for the axis along which a file can be appended to.
    let growing = if fortran { shape.last() } else { shape.first() };
    if let Some(len) = growing {
        text.push_str(&" ".repeat(GROWTH.saturating_sub(len.to_string().len())));
    }
    let latin1: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(c).ok()).collect();
    let (version, mut text) = match latin1 {
        None => (3, text.into_bytes()),
        Some(text) if text.len() + padding(10, text.len()) < usize::from(u16::MAX) => (1, text),
        Some(text) => (2, text),
    };
    let start = if version == 1 { 10 } else { 12 };
    let padding = padding(start, text.len());
    text.resize(text.len() + padding, b' ');
    text.push(b'\n');
    let mut out = Vec::with_capacity(start + text.len());
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[version, 0]);
    match version {
        1 => out.extend_from_slice(&(text.len() as u16).to_le_bytes()),
        _ => out.extend_from_slice(&(text.len() as u32).to_le_bytes()),
    }
    out.extend_from_slice(&text);
    out
}

/// A whole file, as `numpy.save` writes it: elements in Fortran order stay so.
///
/// An array of Python objects is refused.
pub fn encode(array: &NdArray<'_>) -> Result<Vec<u8>, AccessError> {
    if array.dtype().has_objects() {
        return Err(AccessError::Objects);
    }
    let header = Header {
        dtype: array.dtype().clone(),
        shape: array.shape().to_vec(),
        order: array.order(),
    };
    let mut out = encode_header(&header);
    out.extend_from_slice(array.bytes());
    Ok(out)
}

/// How many spaces follow a header, and then a line feed, so that the elements are aligned. There
/// is at least one, as NumPy does it.
fn padding(start: usize, len: usize) -> usize {
    ALIGNMENT - (start + len + 1) % ALIGNMENT
}

fn header_of(literal: &Literal) -> Result<Header, FormatError> {
    let refuse = |found: String| {
        FormatError::new(0, "a dictionary of 'descr', 'fortran_order' and 'shape'", found)
    };
    let Literal::Dict(entries) = literal else {
        return Err(refuse(literal.noun()));
    };
    let (mut dtype, mut fortran, mut shape) = (None, None, None);
    for (key, value) in entries {
        match (key.as_text(), value) {
            (Some("descr"), value) => dtype = Some(from_literal(value)?),
            (Some("fortran_order"), Literal::Bool(value)) => fortran = Some(*value),
            (Some("shape"), Literal::Tuple(lens)) => {
                shape = lens.iter().map(Literal::as_len).collect();
            }
            (key, value) => return Err(refuse(format!("{key:?} and {}", value.noun()))),
        }
    }
    let (Some(dtype), Some(fortran), Some(shape)) = (dtype, fortran, shape) else {
        return Err(refuse("fewer entries".to_owned()));
    };
    Ok(Header { dtype, shape, order: if fortran { Order::F } else { Order::C } })
}
