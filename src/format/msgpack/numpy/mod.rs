//! Arrays, NumPy scalars and complex numbers as Python's msgpack-numpy packs them: maps with binary
//! keys.
//!
//! * [`decode_array`], [`read`] and [`encode_array`] go between packed bytes and [`NdArray`]s; what
//!   is read borrows its elements. Reading is lenient, as Python's is: any spelling of a type, more
//!   data than needed, entries in any order.
//! * [`recognise`] and [`Special::to_value`] go between [`Value`]s and the same. Only the canonical
//!   forms are recognised, those which msgpack-numpy itself writes: exactly these entries in exactly
//!   this order, a type in NumPy's own spelling, and as much data as type and shape call for. So
//!   the two are exact inverses, and anything that deviates stays an ordinary map.
//! * [`serde_ndarray`] is for fields of structs; [`NdArray`] itself is one such field.
//! * [`arrays_in`] finds the arrays of a packed sample without decoding it.
//!
//! An array may also be stored as a container of [bloscpack](crate::format::bloscpack) in binary
//! data: `bin` that begins with `blpk`. Reading an array here takes either form;
//! [`recognise`] does not, as a container is plain bytes to a [`Value`].
//!
//! The output is byte for byte the output of msgpack-numpy, also for times in contiguous memory, at
//! which Python fails. Titles of fields are left out: Python writes them and cannot read them
//! again.
//!
//! Absent on purpose: the content of arrays of Python objects, whose data is a pickle and so a
//! program. They are passed through undecoded.

mod complex;
pub mod serde_ndarray;
mod stored;
mod wire;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use crate::Value;
use crate::format::numpy::descr::{canonical, from_literal, to_literal};
use crate::format::numpy::literal::Literal;
use crate::value::{DType, DTypeKind, MAX_NESTING, NdArray};

pub(crate) use complex::complex_repr;
#[doc(hidden)]
pub use stored::{Arrays, Form, Stored, arrays_in, is_container};
pub(crate) use stored::{canonical_array, container_array, unpack};
#[doc(hidden)]
pub use wire::encode_complex;
pub use wire::{decode_array, encode_array, encode_scalar, read, read_array};

/// A value of NumPy or a complex number.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Special<'a> {
    /// A `numpy.ndarray`.
    Array(NdArray<'a>),
    /// A scalar of NumPy, `numpy.generic`: an array without dimensions.
    Scalar(NdArray<'a>),
    /// A `complex` of Python: real and imaginary part.
    Complex(f64, f64),
}

impl<'a> Special<'a> {
    /// A scalar, or `None` unless the type has scalars and these are the bytes of one.
    pub fn scalar(dtype: DType, data: impl Into<Cow<'a, [u8]>>) -> Option<Special<'a>> {
        use DTypeKind::{Bool, Complex, DateTime, Float, Int, TimeDelta, UInt};
        let kinds = [Bool, Int, UInt, Float, Complex, DateTime, TimeDelta];
        let has_scalars = kinds.contains(&dtype.kind());
        NdArray::new(dtype, [], data).ok().filter(|_| has_scalars).map(Special::Scalar)
    }

    /// The map that msgpack-numpy writes.
    pub fn to_value(&self) -> Value {
        let entries = match self {
            Special::Array(array) => {
                let shape = array.shape().iter().map(|&len| Value::from(len as u64)).collect();
                vec![
                    ("nd", Value::Boolean(true)),
                    ("type", dtype_to_value(array.dtype())),
                    ("kind", Value::from(kind_of(array.dtype()))),
                    ("shape", Value::Array(shape)),
                    ("data", Value::from(&*array.c_bytes())),
                ]
            }
            Special::Scalar(array) => vec![
                ("nd", Value::Boolean(false)),
                ("type", dtype_to_value(array.dtype())),
                ("data", Value::from(array.bytes())),
            ],
            Special::Complex(re, im) => vec![
                ("complex", Value::Boolean(true)),
                ("data", Value::from(complex_repr(*re, *im))),
            ],
        };
        let entries = entries.into_iter();
        Value::Map(entries.map(|(name, value)| (Value::from(name.as_bytes()), value)).collect())
    }
}

/// The meaning of a value, if it is a map of just the form that msgpack-numpy writes.
///
/// ```
/// use kiste::format::msgpack::{decode, numpy::{Special, recognise}};
///
/// let packed = b"\x82\xc4\x07complex\xc3\xc4\x04data\xa6(1+2j)";
/// let value = decode(packed)?;
/// assert_eq!(recognise(&value), Some(Special::Complex(1.0, 2.0)));
/// assert_eq!(Special::Complex(1.0, 2.0).to_value(), value);
/// # Ok::<(), kiste::format::FormatError>(())
/// ```
#[doc(alias = "recognize")]
pub fn recognise(value: &Value) -> Option<Special<'_>> {
    let Value::Map(entries) = value else {
        return None;
    };
    match &entries[..] {
        [nd, dtype, kind, shape, data] => {
            let Value::Boolean(true) = entry(nd, "nd")? else {
                return None;
            };
            let dtype = dtype_from_value(entry(dtype, "type")?)?;
            let Value::Binary(kind) = entry(kind, "kind")? else {
                return None;
            };
            let expected = kind_of(&dtype);
            let shape = shape_from_value(entry(shape, "shape")?)?;
            let Value::Binary(data) = entry(data, "data")? else {
                return None;
            };
            let array = NdArray::new(dtype, shape, &data[..]).ok()?;
            Some(Special::Array(array)).filter(|_| kind == expected)
        }
        [nd, dtype, data] => {
            let Value::Boolean(false) = entry(nd, "nd")? else {
                return None;
            };
            let dtype = dtype_from_value(entry(dtype, "type")?)?;
            let Value::Binary(data) = entry(data, "data")? else {
                return None;
            };
            Special::scalar(dtype, &data[..])
        }
        [complex, data] => {
            let Value::Boolean(true) = entry(complex, "complex")? else {
                return None;
            };
            let (re, im) = complex::parse_repr(entry(data, "data")?.as_str()?)?;
            Some(Special::Complex(re, im))
        }
        _ => None,
    }
}

/// A type from its description: a string such as `<f4` as `numpy.dtype.str` spells it, or for a
/// structured or void type the list of its fields, each a list of name, type and perhaps shape.
///
/// `None` if it is not what msgpack-numpy writes or if there are Python objects in it.
pub(crate) fn dtype_from_value(descr: &Value) -> Option<DType> {
    let dtype = match descr {
        Value::String(text) => canonical(text.as_str()?)?,
        descr => from_packed(&literal_of(descr, LEVELS)?)?,
    };
    // Canonical is only what we would write.
    let is_canonical = !dtype.has_objects() && dtype_to_value(&dtype) == *descr;
    is_canonical.then_some(dtype)
}

/// The description of a type. The opposite of [`dtype_from_value`].
pub(crate) fn dtype_to_value(dtype: &DType) -> Value {
    fn value_of(literal: Literal) -> Value {
        match literal {
            Literal::Text(text) => Value::from(text),
            Literal::Int(number) => Value::from(number),
            Literal::List(items) | Literal::Tuple(items) => {
                Value::Array(items.into_iter().map(value_of).collect())
            }
            Literal::None | Literal::Bool(_) | Literal::Dict(_) => Value::Nil,
        }
    }
    value_of(to_packed(dtype))
}

/// A shape from the list of its lengths.
pub(crate) fn shape_from_value(shape: &Value) -> Option<Vec<usize>> {
    let lens = shape.as_array()?.iter().map(|len| usize::try_from(len.as_u64()?).ok());
    lens.collect()
}

/// How deep lists may be nested in the description of a type: each structured type is a
/// list of lists, and at the bottom there is a shape.
const LEVELS: usize = 2 * MAX_NESTING + 2;

/// The value under `kind`.
fn kind_of(dtype: &DType) -> &'static [u8] {
    match dtype.kind() {
        DTypeKind::Struct | DTypeKind::Void => b"V",
        DTypeKind::Object => b"O",
        _ => b"",
    }
}

/// The value under `type`: text, or lists for types with fields. A void type and Python objects
/// have the one field that `numpy.dtype.descr` gives them. Titles are left out.
fn to_packed(dtype: &DType) -> Literal {
    if matches!(dtype.kind(), DTypeKind::Void | DTypeKind::Object) {
        let field = [Literal::Text(String::new()), Literal::Text(dtype.to_string())];
        return Literal::List(vec![Literal::List(field.into())]);
    }
    if !dtype.is_struct() {
        return to_literal(dtype);
    }
    let fields = dtype.fields().iter().map(|field| {
        let name = Literal::Text(field.name().to_owned());
        let inner = match field.dtype() {
            plain if !plain.is_struct() => Literal::Text(plain.to_string()),
            deeper => to_packed(deeper),
        };
        let mut items = vec![name, inner];
        if !field.shape().is_empty() {
            let lens = field.shape().iter().map(|&len| Literal::Int(len as i64)).collect();
            items.push(Literal::List(lens));
        }
        Literal::List(items)
    });
    Literal::List(fields.collect())
}

/// The type of what stands under `type`, in any spelling.
fn from_packed(literal: &Literal) -> Option<DType> {
    let dtype = from_literal(literal).ok()?;
    Some(match dtype.fields() {
        [only] if only.name().is_empty() && only.shape().is_empty() => only.dtype().clone(),
        _ => dtype,
    })
}

fn literal_of(value: &Value, levels: usize) -> Option<Literal> {
    match value {
        Value::String(text) => Some(Literal::Text(text.as_str()?.to_owned())),
        Value::Integer(number) => number.as_i64().map(Literal::Int),
        Value::Array(items) => {
            let levels = levels.checked_sub(1)?;
            let items = items.iter().map(|item| literal_of(item, levels));
            Some(Literal::List(items.collect::<Option<_>>()?))
        }
        _ => None,
    }
}

fn entry<'a>((key, value): &'a (Value, Value), name: &str) -> Option<&'a Value> {
    matches!(key, Value::Binary(key) if key == name.as_bytes()).then_some(value)
}
