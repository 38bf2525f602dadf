//! The text of element types: all spellings that files have, and the ones that NumPy writes.
//!
//! | spelling | where | read by | written by |
//! | --- | --- | --- | --- |
//! | `<f4` | msgpack-numpy, `.npy` | [`parse`] | `Display` |
//! | `'<f4'`, `[('a', '<i4'), ('b', '<f8', (2,))]` | bloscpack, `.npy` | [`parse`] | [`repr`] |
//! | `float32`, `>i4`, `<U5` | bcolz | [`parse`] | [`name`] |
//! | `=i4`, `f`, `i4,u1`, `[["a","<i4",2]]` | older files, made by hand | [`parse`] | - |
//!
//! [`parse`] takes every one of them, like `numpy.dtype`, and so does the `FromStr` of [`DType`].
//! Absent on purpose: names of classes, and types whose fields overlap or are out of order.

use std::fmt;
use std::str::FromStr;

use super::literal::{Literal, shortened, text_repr};
use crate::format::FormatError;
use crate::text;
use crate::value::{ByteOrder, DType, DTypeKind, Field, MAX_NESTING, TimeUnit, Unit};

/// Parses any spelling that `numpy.dtype` understands.
///
/// ```
/// use kiste::format::numpy::descr::parse;
/// use kiste::value::DType;
///
/// for spelling in ["<f8", "'<f8'", "float64", "d", ">f8"] {
///     assert_eq!(parse(spelling)?.item_size(), 8);
/// }
/// let mixed = parse("[('a', '<i4'), ('b', '<f8', (2,))]")?;
/// assert_eq!(parse(r#"[["a","<i4"],["b","<f8",2]]"#)?, mixed);
/// assert!(parse("float33").is_err());
/// # Ok::<(), kiste::format::FormatError>(())
/// ```
pub fn parse(text: &str) -> Result<DType, FormatError> {
    let trimmed = text.trim();
    match trimmed.chars().next() {
        Some('\'' | '"' | '[' | '{') => from_literal(&Literal::parse(trimmed)?),
        _ => plain(trimmed).ok_or_else(|| no_type(&format!("{:?}", shortened(trimmed)))),
    }
}

/// The type that is spelled as `numpy.dtype.str` spells it, and `None` for every other spelling.
pub(crate) fn canonical(text: &str) -> Option<DType> {
    let dtype = sized(text)?;
    // Only the text that NumPy writes, which is also ours.
    SameText(text).is(&dtype).then_some(dtype)
}

/// The literal of Python that stands for a type: `'<f8'`, or for a structured one the list of its
/// fields. This is what bloscpack stores.
///
/// ```
/// use kiste::format::numpy::descr::repr;
/// use kiste::value::{DType, Field};
///
/// assert_eq!(repr(&">f8".parse()?), "'>f8'");
/// let dtype = DType::structure([Field::new("it's", "|S3".parse()?).with_shape([2])])?;
/// assert_eq!(repr(&dtype), r#"[("it's", '|S3', (2,))]"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn repr(dtype: &DType) -> String {
    if dtype.is_struct() { dtype.to_string() } else { format!("'{dtype}'") }
}

/// The `str` of a NumPy type, which bcolz stores: a name such as `int32` for numbers and times in
/// native byte order, which is not recorded; otherwise as `Display`.
///
/// ```
/// use kiste::format::numpy::descr::name;
/// use kiste::value::{DType, Unit};
///
/// assert_eq!(name(&DType::of::<i32>()), "int32");
/// assert_eq!(name(&DType::datetime(Unit::Second)), "datetime64[s]");
/// assert_eq!(name(&DType::bytes(7)), "|S7");
/// ```
pub fn name(dtype: &DType) -> String {
    // Evaluated only for numbers: eight times the size of another type may overflow.
    let bits = |kind: &str| format!("{kind}{}", 8 * dtype.item_size());
    let unit = dtype.time_unit().map(unit_text).unwrap_or_default();
    match dtype.kind() {
        _ if !dtype.is_native() => dtype.to_string(),
        DTypeKind::Bool => "bool".to_owned(),
        DTypeKind::Int => bits("int"),
        DTypeKind::UInt => bits("uint"),
        DTypeKind::Float => bits("float"),
        DTypeKind::Complex => bits("complex"),
        DTypeKind::DateTime => format!("datetime64{unit}"),
        DTypeKind::TimeDelta => format!("timedelta64{unit}"),
        DTypeKind::Object => "object".to_owned(),
        DTypeKind::Bytes | DTypeKind::Text | DTypeKind::Void | DTypeKind::Struct => {
            dtype.to_string()
        }
    }
}

/// The type that a literal stands for: any spelling as text, `None` for `float64`, or a list of
/// fields. A field is a name, or a title and a name; a type; and perhaps a shape.
///
/// Fields without a name are called `f0`, `f1` and so on after their places, except padding, which
/// stays what it is.
pub(crate) fn from_literal(literal: &Literal) -> Result<DType, FormatError> {
    nested(literal, MAX_NESTING)
}

/// The literal for a type: text, or the list of its fields. The opposite of [`from_literal`].
pub(crate) fn to_literal(dtype: &DType) -> Literal {
    if !dtype.is_struct() {
        return Literal::Text(dtype.to_string());
    }
    Literal::List(dtype.fields().iter().map(field_literal).collect())
}

fn field_literal(field: &Field) -> Literal {
    let text = |text: &str| Literal::Text(text.to_owned());
    let name = match field.title() {
        Some(title) => Literal::Tuple(vec![text(title), text(field.name())]),
        None => text(field.name()),
    };
    let mut items = vec![name, to_literal(field.dtype())];
    if !field.shape().is_empty() {
        let lens = field.shape().iter().map(|&len| Literal::Int(len as i64));
        items.push(Literal::Tuple(lens.collect()));
    }
    Literal::Tuple(items)
}

impl FromStr for DType {
    type Err = FormatError;

    /// [`parse`]s any spelling of a type.
    fn from_str(text: &str) -> Result<DType, FormatError> {
        parse(text)
    }
}

/// The spelling of `numpy.dtype.str`, such as `<f4`. A structured type prints `numpy.dtype.descr`:
/// the list of its fields.
impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_struct() {
            f.write_str("[")?;
            for (at, field) in self.fields().iter().enumerate() {
                f.write_str(if at > 0 { ", " } else { "" })?;
                write_field(field, f)?;
            }
            return f.write_str("]");
        }
        let order = match self.byte_order() {
            ByteOrder::Little => '<',
            ByteOrder::Big => '>',
            ByteOrder::Irrelevant => '|',
        };
        let (letter, size) = match self.kind() {
            DTypeKind::Bool => ('b', self.item_size()),
            DTypeKind::Int => ('i', self.item_size()),
            DTypeKind::UInt => ('u', self.item_size()),
            DTypeKind::Float => ('f', self.item_size()),
            DTypeKind::Complex => ('c', self.item_size()),
            DTypeKind::DateTime => ('M', self.item_size()),
            DTypeKind::TimeDelta => ('m', self.item_size()),
            DTypeKind::Bytes => ('S', self.item_size()),
            DTypeKind::Text => ('U', self.item_size() / 4),
            DTypeKind::Void | DTypeKind::Struct => ('V', self.item_size()),
            DTypeKind::Object => return f.write_str("|O"),
        };
        write!(f, "{order}{letter}{size}")?;
        self.time_unit().map_or(Ok(()), |unit| f.write_str(&unit_text(unit)))
    }
}

fn write_field(field: &Field, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match field.title() {
        Some(title) => write!(f, "(({}, {}), ", text_repr(title), text_repr(field.name()))?,
        None => write!(f, "({}, ", text_repr(field.name()))?,
    }
    if field.dtype().is_struct() {
        write!(f, "{}", field.dtype())?;
    } else {
        write!(f, "'{}'", field.dtype())?;
    }
    match field.shape() {
        [] => f.write_str(")"),
        shape => write!(f, ", {})", text::shape(shape)),
    }
}

const UNITS: [(&str, Unit); 13] = [
    ("Y", Unit::Year),
    ("M", Unit::Month),
    ("W", Unit::Week),
    ("D", Unit::Day),
    ("h", Unit::Hour),
    ("m", Unit::Minute),
    ("s", Unit::Second),
    ("ms", Unit::Millisecond),
    ("us", Unit::Microsecond),
    ("ns", Unit::Nanosecond),
    ("ps", Unit::Picosecond),
    ("fs", Unit::Femtosecond),
    ("as", Unit::Attosecond),
];

/// A unit in its brackets, and nothing for none.
fn unit_text(unit: TimeUnit) -> String {
    let name = UNITS.iter().find(|(_, known)| *known == unit.unit).map(|(name, _)| name);
    match (name, unit.count) {
        (None, _) => String::new(),
        (Some(name), 1) => format!("[{name}]"),
        (Some(name), count) => format!("[{count}{name}]"),
    }
}

/// The unit in the brackets of a type of time: `ns`, `25us`.
fn parse_unit(text: &str) -> Option<TimeUnit> {
    if text == "generic" {
        return Some(TimeUnit::GENERIC);
    }
    let name = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let unit = UNITS.iter().find(|(known, _)| *known == name)?.1;
    let count = match &text[..text.len() - name.len()] {
        "" => 1,
        digits => digits.parse().ok().filter(|&count| count > 0 && count <= i32::MAX as u32)?,
    };
    Some(TimeUnit { count, unit })
}

/// A type in any spelling that is not a literal.
fn plain(text: &str) -> Option<DType> {
    if text.contains(',') || text.starts_with('(') {
        return listed(text);
    }
    named(text).or_else(|| sized(text))
}

/// A type by its name or its letter. Either can follow a byte order.
fn named(text: &str) -> Option<DType> {
    let (order, name) = split_order(text);
    if let Some(unit) = name.strip_prefix("datetime64").or_else(|| name.strip_prefix("timedelta64"))
    {
        let kind = if name.starts_with('d') { DTypeKind::DateTime } else { DTypeKind::TimeDelta };
        return timed(DType::new(kind, 8, order)?, unit);
    }
    let (_, kind, size) = NAMES.iter().find(|(names, ..)| names.contains(&name))?;
    DType::new(*kind, *size, order)
}

/// The names of NumPy on a 64-bit Linux, with the letters of C types.
const NAMES: [(&[&str], DTypeKind, usize); 24] = [
    (&["bool", "bool_", "bool8", "?"], DTypeKind::Bool, 1),
    (&["int8", "byte", "b"], DTypeKind::Int, 1),
    (&["int16", "short", "h"], DTypeKind::Int, 2),
    (&["int32", "intc", "i"], DTypeKind::Int, 4),
    (&["int64", "int", "int_", "intp", "long", "longlong", "l", "q", "p"], DTypeKind::Int, 8),
    (&["uint8", "ubyte", "B"], DTypeKind::UInt, 1),
    (&["uint16", "ushort", "H"], DTypeKind::UInt, 2),
    (&["uint32", "uintc", "I"], DTypeKind::UInt, 4),
    (&["uint64", "uint", "uintp", "ulong", "ulonglong", "L", "Q", "P"], DTypeKind::UInt, 8),
    (&["float16", "half", "e"], DTypeKind::Float, 2),
    (&["float32", "single", "f"], DTypeKind::Float, 4),
    (&["float64", "double", "float", "float_", "d"], DTypeKind::Float, 8),
    (&["float96"], DTypeKind::Float, 12),
    (&["float128", "longdouble", "longfloat", "g"], DTypeKind::Float, 16),
    (&["complex64", "csingle", "F"], DTypeKind::Complex, 8),
    (&["complex128", "cdouble", "complex", "complex_", "D"], DTypeKind::Complex, 16),
    (&["complex192"], DTypeKind::Complex, 24),
    (&["complex256", "clongdouble", "G"], DTypeKind::Complex, 32),
    (&["bytes", "bytes_", "string_", "S", "a"], DTypeKind::Bytes, 0),
    (&["str", "str_", "unicode_", "U"], DTypeKind::Text, 0),
    (&["void", "V"], DTypeKind::Void, 0),
    (&["object", "object_", "O"], DTypeKind::Object, 8),
    (&["M"], DTypeKind::DateTime, 8),
    (&["m"], DTypeKind::TimeDelta, 8),
];

/// A type by a letter for the kind and a size, perhaps with a byte order and a unit of time.
fn sized(text: &str) -> Option<DType> {
    let (order, rest) = split_order(text);
    let mut chars = rest.chars();
    let kind = match chars.next()? {
        'b' => DTypeKind::Bool,
        'i' => DTypeKind::Int,
        'u' => DTypeKind::UInt,
        'f' => DTypeKind::Float,
        'c' => DTypeKind::Complex,
        'M' => DTypeKind::DateTime,
        'm' => DTypeKind::TimeDelta,
        'S' | 'a' => DTypeKind::Bytes,
        'U' => DTypeKind::Text,
        'V' => DTypeKind::Void,
        'O' if chars.as_str().is_empty() => DTypeKind::Object,
        'O' => return (chars.as_str() == "8").then(DType::object),
        _ => return None,
    };
    let rest = chars.as_str();
    let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let size = match &rest[..rest.len() - unit.len()] {
        "" if kind == DTypeKind::Object => 8,
        digits => digits.parse::<usize>().ok()?,
    };
    let size = if kind == DTypeKind::Text { size.checked_mul(4)? } else { size };
    timed(DType::new(kind, size, order)?, unit)
}

/// The type with a unit of time in brackets, or without a unit as it is.
fn timed(dtype: DType, unit: &str) -> Option<DType> {
    if unit.is_empty() {
        return Some(dtype);
    }
    dtype.time_unit()?;
    Some(dtype.with_time_unit(parse_unit(unit.strip_prefix('[')?.strip_suffix(']')?)?))
}

fn split_order(text: &str) -> (ByteOrder, &str) {
    let order = match text.as_bytes().first() {
        Some(b'<') => ByteOrder::Little,
        Some(b'>') => ByteOrder::Big,
        Some(b'=' | b'|') => ByteOrder::Irrelevant,
        _ => return (ByteOrder::Irrelevant, text),
    };
    (order, &text[1..])
}

/// A structured type as a list of types between commas, each perhaps with a shape before it:
/// `i4,u1`, `3f4`, `(2,3)f8,S5`.
fn listed(text: &str) -> Option<DType> {
    let mut fields = Vec::new();
    let mut rest = text;
    while !rest.trim().is_empty() {
        rest = rest.trim_start();
        let mut shape = Vec::new();
        if let Some(inner) = rest.strip_prefix('(') {
            let (lens, after) = inner.split_once(')')?;
            for len in lens.trim_end_matches(',').split(',') {
                shape.push(len.trim().parse().ok()?);
            }
            rest = after;
        } else {
            let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            if after.len() < rest.len() {
                shape.push(rest[..rest.len() - after.len()].parse().ok()?);
            }
            rest = after;
        }
        let (dtype, after) = rest.split_once(',').unwrap_or((rest, ""));
        let dtype = dtype.trim();
        let dtype = named(dtype).or_else(|| sized(dtype))?;
        fields.push(Field::new(format!("f{}", fields.len()), dtype).with_shape(shape));
        rest = after;
    }
    DType::structure(fields).ok()
}

fn nested(literal: &Literal, levels: usize) -> Result<DType, FormatError> {
    match literal {
        Literal::None => Ok(DType::of::<f64>()),
        Literal::Text(text) => {
            plain(text).ok_or_else(|| no_type(&format!("{:?}", shortened(text))))
        }
        Literal::List(fields) => {
            let deeper = levels.checked_sub(1);
            let levels = deeper.ok_or_else(|| no_type("types nested too deep"))?;
            let fields = fields.iter().enumerate().map(|(at, item)| field(item, at, levels));
            let fields = fields.collect::<Result<Vec<_>, _>>()?;
            DType::structure(fields)
                .map_err(|error| FormatError::new(0, "a type of NumPy", error.to_string()))
        }
        other => Err(no_type(&other.noun())),
    }
}

fn field(literal: &Literal, place: usize, levels: usize) -> Result<Field, FormatError> {
    let refuse = || {
        let expected = "a field: its name, its type and perhaps a shape";
        FormatError::new(0, expected, literal.noun())
    };
    let (name, dtype, shape) = match literal.as_items() {
        Some([name, dtype]) => (name, dtype, None),
        Some([name, dtype, shape]) => (name, dtype, Some(shape)),
        _ => return Err(refuse()),
    };
    let dtype = nested(dtype, levels)?;
    let (title, name) = match name {
        Literal::Text(name) => (None, name.as_str()),
        pair => match pair.as_items().map(|pair| pair.iter().map(Literal::as_text)) {
            Some(mut pair) if pair.len() == 2 => {
                let title = pair.next().flatten().ok_or_else(refuse)?;
                (Some(title), pair.next().flatten().ok_or_else(refuse)?)
            }
            _ => return Err(refuse()),
        },
    };
    let name = match name {
        "" if dtype.kind() != DTypeKind::Void => format!("f{place}"),
        name => name.to_owned(),
    };
    let shape = match shape {
        None => Vec::new(),
        Some(Literal::Int(_)) => {
            shape.and_then(Literal::as_len).map(|len| vec![len]).ok_or_else(refuse)?
        }
        Some(shape) => {
            let lens = shape.as_items().ok_or_else(refuse)?.iter().map(Literal::as_len);
            lens.collect::<Option<Vec<_>>>().ok_or_else(refuse)?
        }
    };
    let field = Field::new(name, dtype).with_shape(shape);
    Ok(match title {
        Some(title) => field.with_title(title),
        None => field,
    })
}

#[cold]
fn no_type(found: &str) -> FormatError {
    FormatError::new(0, "a type of NumPy", found)
}

/// Compares what is printed with a string, without allocating.
struct SameText<'a>(&'a str);

impl SameText<'_> {
    fn is(mut self, value: &impl fmt::Display) -> bool {
        fmt::write(&mut self, format_args!("{value}")).is_ok() && self.0.is_empty()
    }
}

impl fmt::Write for SameText<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = self.0.strip_prefix(text).ok_or(fmt::Error)?;
        Ok(())
    }
}
