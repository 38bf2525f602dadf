//! What Python's msgpack-numpy makes of arrays, NumPy scalars and complex numbers: maps with
//! binary keys.
//!
//! Only the canonical forms are recognised, those which msgpack-numpy itself writes: exactly these
//! entries in exactly this order, a type in NumPy's own spelling, and as much data as type and
//! shape call for. So [`recognise`] and [`Special::to_value`] are inverse to each other to the
//! byte, and whatever deviates simply stays the map it is.
//!
//! Absent on purpose: arrays of Python objects, whose data are a pickle, that is a program. They
//! stay maps, and nothing here ever looks into them.

use std::borrow::Cow;

use crate::Value;

/// How deep structured types may be in one another before they are no longer recognised.
const MAX_NESTING: usize = 32;

/// A value of NumPy or a complex number.
#[derive(Debug, Clone, PartialEq)]
pub enum Special<'a> {
    /// A `numpy.ndarray`.
    Array {
        /// The type of an element.
        dtype: Descr<'a>,
        /// The length of each axis; empty for an array of no dimensions.
        shape: Vec<u64>,
        /// The elements in C order, in the byte order of the type.
        data: Cow<'a, [u8]>,
    },
    /// A scalar of NumPy, `numpy.generic`.
    Scalar {
        /// The type, which is never structured.
        dtype: Descr<'a>,
        /// The bytes of the one element.
        data: Cow<'a, [u8]>,
    },
    /// A `complex` of Python: real and imaginary part.
    Complex(f64, f64),
}

/// The type of an element: NumPy's `dtype.descr`.
#[derive(Debug, Clone, PartialEq)]
pub struct Descr<'a>(DescrInner<'a>);

#[derive(Debug, Clone, PartialEq)]
enum DescrInner<'a> {
    Plain(&'a str, u64),
    Struct(&'a [Value], u64),
}

impl<'a> Descr<'a> {
    /// A type from its description: a string such as `<f4` as `numpy.dtype.str` spells it, or for
    /// a structured type the list of its fields, each a list of name, type and perhaps shape.
    ///
    /// `None` if it is not a canonical description or if there are Python objects in it.
    pub fn new(descr: &'a Value) -> Option<Descr<'a>> {
        match descr {
            Value::String(text) => {
                let text = text.as_str()?;
                let size = plain_size(text).filter(|_| !text.starts_with("|V"))?;
                Some(Descr(DescrInner::Plain(text, size)))
            }
            Value::Array(fields) => {
                let size = struct_size(fields, MAX_NESTING)?;
                Some(Descr(DescrInner::Struct(fields, size)))
            }
            _ => None,
        }
    }

    /// The bytes of an element.
    pub fn item_size(&self) -> u64 {
        match self.0 {
            DescrInner::Plain(_, size) | DescrInner::Struct(_, size) => size,
        }
    }

    /// The spelling of a type that is not structured.
    pub fn plain(&self) -> Option<&'a str> {
        match self.0 {
            DescrInner::Plain(text, _) => Some(text),
            DescrInner::Struct(..) => None,
        }
    }

    /// The description, as it was given to [`Descr::new`].
    pub fn to_value(&self) -> Value {
        match self.0 {
            DescrInner::Plain(text, _) => Value::from(text),
            DescrInner::Struct(fields, _) => Value::Array(fields.to_vec()),
        }
    }

    /// Whether a scalar of NumPy can be of this type.
    fn is_of_scalars(&self) -> bool {
        self.plain().is_some_and(|text| text[1..].starts_with(['b', 'i', 'u', 'f', 'c', 'm', 'M']))
    }
}

impl<'a> Special<'a> {
    /// An array, or `None` unless there are as many bytes as type and shape call for.
    pub fn array(
        dtype: Descr<'a>,
        shape: Vec<u64>,
        data: impl Into<Cow<'a, [u8]>>,
    ) -> Option<Special<'a>> {
        let data = data.into();
        let size = shape.iter().try_fold(dtype.item_size(), |size, &len| size.checked_mul(len))?;
        (size == data.len() as u64).then_some(Special::Array { dtype, shape, data })
    }

    /// A scalar, or `None` unless the type has scalars and these are the bytes of one.
    pub fn scalar(dtype: Descr<'a>, data: impl Into<Cow<'a, [u8]>>) -> Option<Special<'a>> {
        let data = data.into();
        let whole = dtype.is_of_scalars() && dtype.item_size() == data.len() as u64;
        whole.then_some(Special::Scalar { dtype, data })
    }

    /// The map that msgpack-numpy writes.
    pub fn to_value(&self) -> Value {
        let entries = match self {
            Special::Array { dtype, shape, data } => {
                let kind: &[u8] = if dtype.plain().is_some() { b"" } else { b"V" };
                let shape = shape.iter().copied().map(Value::from).collect();
                vec![
                    ("nd", Value::Boolean(true)),
                    ("type", dtype.to_value()),
                    ("kind", Value::from(kind)),
                    ("shape", Value::Array(shape)),
                    ("data", Value::from(&**data)),
                ]
            }
            Special::Scalar { dtype, data } => vec![
                ("nd", Value::Boolean(false)),
                ("type", dtype.to_value()),
                ("data", Value::from(&**data)),
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

/// What a value stands for, if it is a map of just the form that msgpack-numpy writes.
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
            let dtype = Descr::new(entry(dtype, "type")?)?;
            let Value::Binary(kind) = entry(kind, "kind")? else {
                return None;
            };
            let expected: &[u8] = if dtype.plain().is_some() { b"" } else { b"V" };
            let Value::Array(shape) = entry(shape, "shape")? else {
                return None;
            };
            let shape: Option<Vec<u64>> = shape.iter().map(Value::as_u64).collect();
            let Value::Binary(data) = entry(data, "data")? else {
                return None;
            };
            Special::array(dtype, shape?, &data[..]).filter(|_| kind == expected)
        }
        [nd, dtype, data] => {
            let Value::Boolean(false) = entry(nd, "nd")? else {
                return None;
            };
            let dtype = Descr::new(entry(dtype, "type")?)?;
            let Value::Binary(data) = entry(data, "data")? else {
                return None;
            };
            Special::scalar(dtype, &data[..])
        }
        [complex, data] => {
            let Value::Boolean(true) = entry(complex, "complex")? else {
                return None;
            };
            let (re, im) = parse_complex(entry(data, "data")?.as_str()?)?;
            Some(Special::Complex(re, im))
        }
        _ => None,
    }
}

fn entry<'a>((key, value): &'a (Value, Value), name: &str) -> Option<&'a Value> {
    matches!(key, Value::Binary(key) if key == name.as_bytes()).then_some(value)
}

/// The size of a type that is not structured, provided that it is spelled like `numpy.dtype.str`.
fn plain_size(text: &str) -> Option<u64> {
    let mut chars = text.chars();
    let (order, kind) = (chars.next()?, chars.next()?);
    let (digits, unit) = match kind {
        'm' | 'M' => match chars.as_str().split_once('[') {
            Some((digits, unit)) => (digits, Some(unit.strip_suffix(']')?)),
            None => (chars.as_str(), None),
        },
        _ => (chars.as_str(), None),
    };
    if unit.is_some_and(|unit| !is_time_unit(unit)) {
        return None;
    }
    let size = canonical_number(digits)?;
    let ordered = matches!(order, '<' | '>');
    match (kind, size) {
        ('b' | 'i' | 'u', 1) if order == '|' => Some(1),
        ('S' | 'V', size) if order == '|' => Some(size),
        ('i' | 'u', 2 | 4 | 8) | ('f', 2 | 4 | 8 | 12 | 16) | ('m' | 'M', 8) if ordered => {
            Some(size)
        }
        ('c', 8 | 16 | 24 | 32) if ordered => Some(size),
        ('U', count) if ordered => count.checked_mul(4),
        _ => None,
    }
}

/// Whether this can stand in the brackets of a `datetime64`: `ns`, `10us`.
fn is_time_unit(text: &str) -> bool {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let count = &text[..text.len() - unit.len()];
    let units = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"];
    units.contains(&unit) && (count.is_empty() || canonical_number(count).is_some_and(|n| n > 1))
}

/// A number without sign and without needless zeros.
fn canonical_number(digits: &str) -> Option<u64> {
    let canonical = digits == "0" || !digits.starts_with(['0', '+']);
    digits.parse().ok().filter(|_| canonical)
}

/// The size of an element with these fields.
fn struct_size(fields: &[Value], levels: usize) -> Option<u64> {
    let levels = levels.checked_sub(1)?;
    let mut names: Vec<&str> = Vec::new();
    let mut total: u64 = 0;
    for field in fields {
        let (name, dtype, shape) = match &field.as_array()?[..] {
            [name, dtype] => (name, dtype, None),
            [name, dtype, shape] => (name, dtype, Some(shape.as_array()?)),
            _ => return None,
        };
        names.push(name.as_str()?);
        let size = match dtype {
            Value::String(text) => plain_size(text.as_str()?)?,
            Value::Array(fields) => struct_size(fields, levels)?,
            _ => return None,
        };
        let lengths = shape.map_or(&[][..], |shape| &shape[..]);
        if shape.is_some() && lengths.is_empty() {
            return None;
        }
        let size = lengths.iter().try_fold(size, |size, len| size.checked_mul(len.as_u64()?))?;
        total = total.checked_add(size)?;
    }
    // Padding has no name, and there can be several pieces of it.
    names.retain(|name| !name.is_empty());
    names.sort_unstable();
    names.windows(2).all(|pair| pair[0] != pair[1]).then_some(total)
}

/// Python's `repr` of a complex number.
///
/// ```
/// use kiste::format::msgpack::numpy::complex_repr;
///
/// assert_eq!(complex_repr(1.0, 2.5), "(1+2.5j)");
/// assert_eq!(complex_repr(0.0, -1e16), "-1e+16j");
/// assert_eq!(complex_repr(-0.0, 0.0), "(-0+0j)");
/// ```
pub fn complex_repr(re: f64, im: f64) -> String {
    if re == 0.0 && re.is_sign_positive() {
        return format!("{}j", float_repr(im));
    }
    let imaginary = float_repr(im);
    let sign = if imaginary.starts_with('-') { "" } else { "+" };
    format!("({}{sign}{imaginary}j)", float_repr(re))
}

/// The shortest digits that read back as this number, laid out as Python does within a complex
/// number: without `.0` at the end, and without an exponent from 0.0001 up to 10^16.
fn float_repr(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    let sign = if number.is_sign_negative() { "-" } else { "" };
    if number.is_infinite() {
        return format!("{sign}inf");
    }
    let scientific = format!("{:e}", number.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let digits = mantissa.replace('.', "");
    let exponent: i32 = exponent.parse().unwrap_or(0);
    match exponent {
        -4..=-1 => {
            let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
            format!("{sign}0.{zeros}{digits}")
        }
        0..=15 => match digits.split_at_checked(exponent as usize + 1) {
            Some((digits, "")) => format!("{sign}{digits}"),
            Some((whole, part)) => format!("{sign}{whole}.{part}"),
            None => format!("{sign}{digits:0<0$}", exponent as usize + 1),
        },
        _ => {
            let exponent_sign = if exponent < 0 { '-' } else { '+' };
            format!("{sign}{mantissa}e{exponent_sign}{:02}", exponent.unsigned_abs())
        }
    }
}

/// The number whose `repr` this is.
fn parse_complex(text: &str) -> Option<(f64, f64)> {
    let (re, im) = match text.strip_prefix('(') {
        None => (0.0, text.strip_suffix('j')?.parse().ok()?),
        Some(rest) => {
            let parts = rest.strip_suffix("j)")?;
            // The last sign that is not that of an exponent.
            let signs = parts.rmatch_indices(['+', '-']).map(|(at, _)| at);
            let at = signs.into_iter().find(|&at| at > 0 && !parts[..at].ends_with('e'))?;
            (parts[..at].parse().ok()?, parts[at..].parse().ok()?)
        }
    };
    (complex_repr(re, im) == text).then_some((re, im))
}
