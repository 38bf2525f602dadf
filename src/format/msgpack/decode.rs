//! Packed bytes to [`Value`]s.

use std::mem;

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
/// Decodes exactly what passes [`check`](super::check). Maps keep the order of
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
        // The container whose elements are being read, and those around it.
        let mut inner: Option<Open> = None;
        let mut outer: Vec<Open> = Vec::new();
        loop {
            let kind = at.peek()?;
            let mut value = match kind {
                Kind::Array | Kind::Map => {
                    if outer.len() + usize::from(inner.is_some()) == MAX_DEPTH {
                        return Err(at.clone().too_deep());
                    }
                    let mut container = at.read_header(kind)?;
                    if container.left > 0 {
                        outer.extend(inner.replace(container));
                        continue;
                    }
                    container.take()
                }
                kind => at.read_scalar(kind)?,
            };
            // A value may be the last of its container, and that the last of its own.
            loop {
                let Some(container) = &mut inner else {
                    *self = at;
                    return Ok(value);
                };
                container.add(value);
                if container.left > 0 {
                    break;
                }
                value = container.take();
                inner = outer.pop();
            }
        }
    }

    fn read_header(&mut self, kind: Kind) -> Result<Open, FormatError> {
        let (count, is_map) = match kind {
            Kind::Map => (self.read_map_len()?, true),
            _ => (self.read_array_len()?, false),
        };
        let reserve = count.min(MAX_RESERVE) as usize;
        let (items, pairs) = if is_map {
            (Vec::new(), Vec::with_capacity(reserve))
        } else {
            (Vec::with_capacity(reserve), Vec::new())
        };
        Ok(Open { is_map, items, pairs, key: None, left: count })
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
struct Open {
    is_map: bool,
    /// The elements of an array.
    items: Vec<Value>,
    /// The entries of a map, and the key of the next once it is read.
    pairs: Vec<(Value, Value)>,
    key: Option<Value>,
    /// Elements or entries to come.
    left: u32,
}

impl Open {
    #[inline]
    fn add(&mut self, value: Value) {
        if !self.is_map {
            self.items.push(value);
        } else if let Some(key) = self.key.take() {
            self.pairs.push((key, value));
        } else {
            self.key = Some(value);
            return;
        }
        self.left -= 1;
    }

    /// The finished container, out of what is left empty.
    fn take(&mut self) -> Value {
        if self.is_map {
            Value::Map(mem::take(&mut self.pairs))
        } else {
            Value::Array(mem::take(&mut self.items))
        }
    }
}
