//! [`Value`]s to packed bytes, in the one form that Python's packer writes.

use std::fmt;
use std::slice;

use serde::Serialize;

use super::MAX_DEPTH;
use crate::Value;
use crate::error::{Error, ErrorKind};

/// A value that cannot be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// A string holds bytes that are not UTF-8. Nothing that this crate decodes has one.
    NotUtf8,
    /// Containers are nested deeper than [`MAX_DEPTH`].
    TooDeep,
    /// A string, binary, container or extension is longer than 2^32-1.
    TooLong,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EncodeError::NotUtf8 => f.write_str("expected strings in UTF-8, found other bytes"),
            EncodeError::TooDeep => {
                write!(f, "expected at most {MAX_DEPTH} nested containers, found more")
            }
            EncodeError::TooLong => f.write_str("expected lengths below 2^32, found more"),
        }
    }
}

impl std::error::Error for EncodeError {}

impl From<EncodeError> for Error {
    fn from(error: EncodeError) -> Error {
        let kind = match error {
            EncodeError::NotUtf8 => ErrorKind::Invalid,
            EncodeError::TooDeep | EncodeError::TooLong => ErrorKind::Limit,
        };
        Error::new(kind, error.to_string())
    }
}

/// Appends the packed form of a value: the shortest header for every length, the shortest form
/// for every integer and never a signed one from 0 upward, as Python's packer does.
///
/// The bytes of [`Value::F64`] are `cb` and eight more. Python never writes 32-bit floats, but a
/// [`Value::F32`] keeps its `ca`. After an error nothing has been appended.
///
/// ```
/// use kiste::Value;
/// use kiste::format::msgpack::encode;
///
/// let mut out = Vec::new();
/// encode(&Value::Map(vec![("key".into(), "k0".into()), ("v".into(), 200.into())]), &mut out)?;
/// assert_eq!(out, b"\x82\xa3key\xa2k0\xa1v\xcc\xc8");
/// # Ok::<(), kiste::format::msgpack::EncodeError>(())
/// ```
pub fn encode(value: &Value, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let before = out.len();
    encode_all(value, out).inspect_err(|_| out.truncate(before))
}

/// A sample of a type of yours, packed as [`Writer::write`](crate::Writer::write) packs it: structs are maps
/// with the names of their fields. For readers that make their samples.
///
/// ```
/// #[derive(serde::Serialize)]
/// struct Word<'a> {
///     key: &'a str,
///     length: u64,
/// }
/// let packed = kiste::format::msgpack::pack(&Word { key: "one", length: 3 })?;
/// assert_eq!(packed, b"\x82\xa3key\xa3one\xa6length\x03");
/// # Ok::<(), kiste::Error>(())
/// ```
///
/// # Errors
///
/// [`Invalid`](crate::ErrorKind::Invalid) if the type cannot be packed.
pub fn pack<T: Serialize + ?Sized>(sample: &T) -> crate::Result<Vec<u8>> {
    let mut packed = Vec::new();
    pack_into(sample, &mut packed)?;
    Ok(packed)
}

/// Appends a sample, packed.
pub(crate) fn pack_into<T: Serialize + ?Sized>(sample: &T, out: &mut Vec<u8>) -> crate::Result<()> {
    let packed = sample.serialize(&mut rmp_serde::Serializer::new(out).with_struct_map());
    packed.map_err(|e| Error::new(ErrorKind::Invalid, e.to_string()).with_source(e))
}

/// The packed form of a value. See [`encode`].
pub fn to_vec(value: &Value) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::new();
    encode(value, &mut out)?;
    Ok(out)
}

/// A container whose elements are being written.
enum Open<'a> {
    Array(slice::Iter<'a, Value>),
    Map(slice::Iter<'a, (Value, Value)>, Option<&'a Value>),
}

impl<'a> Open<'a> {
    fn next(&mut self) -> Option<&'a Value> {
        match self {
            Open::Array(items) => items.next(),
            Open::Map(pairs, due) => due.take().or_else(|| {
                let (key, value) = pairs.next()?;
                *due = Some(value);
                Some(key)
            }),
        }
    }
}

fn encode_all(value: &Value, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let mut open = Vec::new();
    let mut next = Some(value);
    loop {
        if let Some(value) = next {
            if let Some(container) = encode_one(value, out)? {
                if open.len() == MAX_DEPTH {
                    return Err(EncodeError::TooDeep);
                }
                open.push(container);
            }
        } else {
            open.pop();
        }
        let Some(container) = open.last_mut() else {
            return Ok(());
        };
        next = container.next();
    }
}

/// Writes a scalar, or the header of a container.
fn encode_one<'a>(value: &'a Value, out: &mut Vec<u8>) -> Result<Option<Open<'a>>, EncodeError> {
    match value {
        Value::Nil => out.push(0xc0),
        Value::Boolean(false) => out.push(0xc2),
        Value::Boolean(true) => out.push(0xc3),
        Value::Integer(number) => match number.as_u64() {
            Some(number) => write_unsigned(number, out),
            // An integer that is not a `u64` is negative, so it is an `i64`.
            None => write_negative(number.as_i64().unwrap_or(i64::MIN), out),
        },
        Value::F32(number) => {
            out.push(0xca);
            out.extend_from_slice(&number.to_be_bytes());
        }
        Value::F64(number) => {
            out.push(0xcb);
            out.extend_from_slice(&number.to_be_bytes());
        }
        Value::String(text) => write_text(text.as_str().ok_or(EncodeError::NotUtf8)?, out)?,
        Value::Binary(data) => write_bin(data, out)?,
        Value::Ext(code, data) => {
            match data.len() {
                1 => out.push(0xd4),
                2 => out.push(0xd5),
                4 => out.push(0xd6),
                8 => out.push(0xd7),
                16 => out.push(0xd8),
                len => write_len(len, None, [Some(0xc7), Some(0xc8), Some(0xc9)], out)?,
            }
            out.extend_from_slice(&code.to_be_bytes());
            out.extend_from_slice(data);
        }
        Value::Array(items) => {
            write_list(items.len(), out)?;
            return Ok(Some(Open::Array(items.iter())));
        }
        Value::Map(pairs) => {
            write_map(pairs.len(), out)?;
            return Ok(Some(Open::Map(pairs.iter(), None)));
        }
    }
    Ok(None)
}

/// Appends a string with its header, as [`encode`] does.
pub fn write_text(text: &str, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    write_len(text.len(), Some((0xa0, 31)), [Some(0xd9), Some(0xda), Some(0xdb)], out)?;
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

/// Appends binary data with its header, as [`encode`] does.
pub fn write_bin(data: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeError> {
    write_bin_len(data.len(), out)?;
    out.extend_from_slice(data);
    Ok(())
}

/// Writes the header of binary data of this many bytes.
pub(crate) fn write_bin_len(len: usize, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    write_len(len, None, [Some(0xc4), Some(0xc5), Some(0xc6)], out)
}

/// Writes the header of an array of this many values.
pub(crate) fn write_list(len: usize, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    write_len(len, Some((0x90, 15)), [None, Some(0xdc), Some(0xdd)], out)
}

/// Appends the header of a map of this many entries. A key and a value must follow for each.
///
/// With [`write_text`] and values that are already packed it builds samples from fields of others:
///
/// ```
/// use kiste::format::msgpack::{sample, write_map, write_text};
///
/// let other = b"\x82\xa3key\xa2k0\xa1v\x92\x07\x08";
/// let mut out = Vec::new();
/// write_map(2, &mut out)?;
/// write_text("key", &mut out)?;
/// write_text("k1", &mut out)?;
/// write_text("v", &mut out)?;
/// out.extend_from_slice(sample::field(other, "v")?.unwrap());
/// assert_eq!(out, b"\x82\xa3key\xa2k1\xa1v\x92\x07\x08");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_map(len: usize, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    write_len(len, Some((0x80, 15)), [None, Some(0xde), Some(0xdf)], out)
}

pub(super) fn write_unsigned(number: u64, out: &mut Vec<u8>) {
    if let Ok(number) = u8::try_from(number) {
        if number > 0x7f {
            out.push(0xcc);
        }
        out.push(number);
    } else if let Ok(number) = u16::try_from(number) {
        out.push(0xcd);
        out.extend_from_slice(&number.to_be_bytes());
    } else if let Ok(number) = u32::try_from(number) {
        out.push(0xce);
        out.extend_from_slice(&number.to_be_bytes());
    } else {
        out.push(0xcf);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

fn write_negative(number: i64, out: &mut Vec<u8>) {
    if let Ok(number) = i8::try_from(number) {
        if number < -32 {
            out.push(0xd0);
        }
        out.extend_from_slice(&number.to_be_bytes());
    } else if let Ok(number) = i16::try_from(number) {
        out.push(0xd1);
        out.extend_from_slice(&number.to_be_bytes());
    } else if let Ok(number) = i32::try_from(number) {
        out.push(0xd2);
        out.extend_from_slice(&number.to_be_bytes());
    } else {
        out.push(0xd3);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

/// Writes a length in the shortest of the forms there are: within the tag up to a limit, or in
/// one, two or four bytes after it.
fn write_len(
    len: usize,
    fixed: Option<(u8, u8)>,
    [tag8, tag16, tag32]: [Option<u8>; 3],
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let len = u32::try_from(len).map_err(|_| EncodeError::TooLong)?;
    match (u8::try_from(len), fixed, tag8) {
        (Ok(len), Some((tag, limit)), _) if len <= limit => {
            out.push(tag | len);
            return Ok(());
        }
        (Ok(len), _, Some(tag)) => {
            out.extend_from_slice(&[tag, len]);
            return Ok(());
        }
        _ => {}
    }
    match (u16::try_from(len), tag16, tag32) {
        (Ok(len), Some(tag), _) => {
            out.push(tag);
            out.extend_from_slice(&len.to_be_bytes());
        }
        (_, _, Some(tag)) => {
            out.push(tag);
            out.extend_from_slice(&len.to_be_bytes());
        }
        _ => return Err(EncodeError::TooLong),
    }
    Ok(())
}
