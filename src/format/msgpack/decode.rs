//! Packed bytes to [`Value`]s.

use super::MAX_DEPTH;
use super::cursor::{Cursor, Int, Kind};
use crate::Value;
use crate::format::FormatError;

/// No more elements than this are allocated for on the word of a header. An element in memory is
/// many times larger than the one byte that it can be packed in, so even a count that does not
/// exceed the bytes left is believed only as elements turn up.
const MAX_RESERVE: u32 = 64;

/// Decodes exactly one message.
///
/// Whatever passes [`check`](super::check) is decoded, and nothing else. Maps keep the order of
/// their entries and all duplicates; 32-bit floats stay [`Value::F32`]; arrays of NumPy stay the
/// maps that they are packed as (see [`numpy`](super::numpy)).
///
/// ```
/// use kiste::Value;
/// use kiste::format::msgpack::decode;
///
/// let value = decode(b"\x82\xa3key\xa2k0\xa1v\x07")?;
/// assert_eq!(value["key"], Value::from("k0"));
/// assert_eq!(value["v"], Value::from(7));
/// # Ok::<(), kiste::format::FormatError>(())
/// ```
pub fn decode(bytes: &[u8]) -> Result<Value, FormatError> {
    let mut cursor = Cursor::new(bytes);
    let value = cursor.read_value()?;
    cursor.expect_end()?;
    Ok(value)
}

impl Cursor<'_> {
    /// Reads one value with all that is in it.
    pub fn read_value(&mut self) -> Result<Value, FormatError> {
        let mut at = self.clone();
        let mut open: Vec<Open> = Vec::new();
        loop {
            let kind = at.peek()?;
            if matches!(kind, Kind::Array | Kind::Map) && open.len() == MAX_DEPTH {
                return Err(at.too_deep());
            }
            let mut value = match kind {
                Kind::Array => match at.read_array_len()? {
                    0 => Value::Array(Vec::new()),
                    count => {
                        open.push(Open::array(count));
                        continue;
                    }
                },
                Kind::Map => match at.read_map_len()? {
                    0 => Value::Map(Vec::new()),
                    count => {
                        open.push(Open::map(count));
                        continue;
                    }
                },
                kind => at.read_scalar(kind)?,
            };
            // A value may be the last of its container, and that the last of its own.
            loop {
                let Some(container) = open.pop() else {
                    *self = at;
                    return Ok(value);
                };
                match container.with(value) {
                    Ok(whole) => value = whole,
                    Err(container) => {
                        open.push(container);
                        break;
                    }
                }
            }
        }
    }

    fn read_scalar(&mut self, kind: Kind) -> Result<Value, FormatError> {
        Ok(match kind {
            Kind::Nil => {
                self.read_nil()?;
                Value::Nil
            }
            Kind::Bool => Value::Boolean(self.read_bool()?),
            Kind::Int => match self.read_int()? {
                Int::Unsigned(number) => Value::from(number),
                Int::Negative(number) => Value::from(number),
            },
            Kind::Float if self.rest().first() == Some(&0xca) => Value::F32(self.read_f32()?),
            Kind::Float => Value::F64(self.read_f64()?),
            Kind::Str => Value::from(self.read_str()?),
            Kind::Bin => Value::from(self.read_bin()?),
            Kind::Ext | Kind::Array | Kind::Map => {
                let (code, data) = self.read_ext()?;
                Value::Ext(code, data.to_vec())
            }
        })
    }
}

/// A container whose elements are being read.
enum Open {
    Array {
        items: Vec<Value>,
        left: u32,
    },
    Map {
        pairs: Vec<(Value, Value)>,
        key: Option<Value>,
        left: u32,
    },
}

impl Open {
    fn array(count: u32) -> Open {
        Open::Array {
            items: Vec::with_capacity(count.min(MAX_RESERVE) as usize),
            left: count,
        }
    }

    fn map(count: u32) -> Open {
        let pairs = Vec::with_capacity(count.min(MAX_RESERVE) as usize);
        Open::Map {
            pairs,
            key: None,
            left: count,
        }
    }

    /// Adds an element: the whole container if it was the last one, else the open one.
    fn with(self, value: Value) -> Result<Value, Open> {
        match self {
            Open::Array { mut items, left } => {
                items.push(value);
                match left - 1 {
                    0 => Ok(Value::Array(items)),
                    left => Err(Open::Array { items, left }),
                }
            }
            Open::Map {
                pairs,
                key: None,
                left,
            } => Err(Open::Map {
                pairs,
                key: Some(value),
                left,
            }),
            Open::Map {
                mut pairs,
                key: Some(key),
                left,
            } => {
                pairs.push((key, value));
                match left - 1 {
                    0 => Ok(Value::Map(pairs)),
                    left => Err(Open::Map {
                        pairs,
                        key: None,
                        left,
                    }),
                }
            }
        }
    }
}
