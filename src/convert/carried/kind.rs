//! [`ValueKind`]: the kinds of value that formats treat differently.
//!
//! Absent on purpose: what formats do with it.

use std::fmt;

use NumberKind as N;
use ValueKind as V;

use crate::error::Result;
use crate::format::msgpack::numpy::{self, Special};
use crate::format::msgpack::{Cursor, Kind, timestamp};
use crate::value::{ByteOrder, DType, DTypeKind, NdArray, TimeUnit, Unit};

/// A kind of value that formats treat differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ValueKind {
    /// Nil.
    Nil,
    /// True or false.
    Bool,
    /// An integer from -2^63 to 2^63-1.
    Int,
    /// An integer from 2^63 to 2^64-1.
    LargeInt,
    /// A float of 64 bits that is within the range of 32 bits.
    Float,
    /// A finite float beyond that.
    HugeFloat,
    /// The usual NaN, or an infinity.
    NotFinite,
    /// A NaN with another sign or payload than the usual one.
    OddNan,
    /// A float of 32 bits, which Python's msgpack never writes.
    Float32,
    /// A string.
    Text,
    /// A string that ends in a zero character, which NumPy takes for padding.
    TextEndingInZero,
    /// Bytes, files and bloscpack arrays among them.
    Bytes,
    /// A complex number of Python.
    Complex,
    /// A timestamp of msgpack.
    Timestamp,
    /// Another extension of msgpack.
    Extension,
    /// A list of values of one type, or nil.
    List,
    /// A list without values.
    EmptyList,
    /// A list of values of several types.
    MixedList,
    /// A map whose keys are distinct strings.
    Map,
    /// A map without entries.
    EmptyMap,
    /// A map with other keys: integers, bytes, or a string twice.
    MapOfOtherKeys,
    /// Nothing: a field or an entry that other samples or maps have.
    Absent,
    /// A scalar of NumPy.
    Scalar(NumberKind),
    /// An array of NumPy.
    Array(NumberKind, Extent),
}

/// The kind of the elements of a NumPy array, or of a NumPy scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum NumberKind {
    /// `bool`.
    Bool,
    /// Integers of up to 64 bits, but for those below.
    Int,
    /// `int64`.
    Int64,
    /// `uint64`, at least one of them 2^63 or more.
    LargeInt,
    /// `float16`.
    Half,
    /// `float32`.
    Single,
    /// `float64`, within the range of 32 bits.
    Double,
    /// `float64`, at least one of them finite and beyond that.
    HugeDouble,
    /// `complex64` and `complex128`.
    Complex,
    /// `datetime64[D]` from the year -5877641 to 5881580, or the first of NaT.
    Date,
    /// `datetime64` and `timedelta64` in seconds, or thousandths, millionths or billionths of them;
    /// less than 292 million years in seconds.
    Time,
    /// Times in other units, or in multiples of units.
    OtherTime,
    /// Integers with the higher byte first.
    BigEndianInt,
    /// `float32` and `float64` with the higher byte first.
    BigEndianFloat,
    /// The same; at least one is 2^63 or more, or finite and beyond the range of float32.
    BigEndianHuge,
    /// Other numbers: with the higher byte first, or `longdouble`.
    OtherNumber,
    /// Strings and bytes of a fixed length.
    Text,
    /// Structures and opaque bytes.
    Struct,
    /// Objects of Python, which are pickles.
    Object,
}

/// The shape of a NumPy array, in the cases that formats treat differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Extent {
    /// One axis with several elements.
    Flat,
    /// One axis with one element.
    One,
    /// Several axes.
    Grid,
    /// No axes.
    Point,
    /// No elements.
    Empty,
}

/// All kinds of numbers.
const NUMBERS: [NumberKind; 19] = [
    N::Bool,
    N::Int,
    N::Int64,
    N::LargeInt,
    N::Half,
    N::Single,
    N::Double,
    N::HugeDouble,
    N::Complex,
    N::Date,
    N::Time,
    N::OtherTime,
    N::BigEndianInt,
    N::BigEndianFloat,
    N::BigEndianHuge,
    N::OtherNumber,
    N::Text,
    N::Struct,
    N::Object,
];
/// All kinds of shapes.
const EXTENTS: [Extent; 5] =
    [Extent::Flat, Extent::One, Extent::Grid, Extent::Point, Extent::Empty];
/// All kinds that are not NumPy's.
const PLAIN: [ValueKind; 21] = [
    V::Nil,
    V::Bool,
    V::Int,
    V::LargeInt,
    V::Float,
    V::HugeFloat,
    V::NotFinite,
    V::OddNan,
    V::Float32,
    V::Text,
    V::TextEndingInZero,
    V::Bytes,
    V::Complex,
    V::Timestamp,
    V::Extension,
    V::List,
    V::EmptyList,
    V::MixedList,
    V::Map,
    V::EmptyMap,
    V::MapOfOtherKeys,
];

impl ValueKind {
    /// All kinds there are, except [`Absent`](Self::Absent), which no value has.
    pub fn all() -> impl Iterator<Item = ValueKind> {
        // There are no scalars of Python objects.
        let scalars = NUMBERS.into_iter().filter(|number| *number != N::Object).map(V::Scalar);
        let arrays = NUMBERS
            .into_iter()
            .flat_map(|number| EXTENTS.into_iter().map(move |extent| V::Array(number, extent)));
        // A large value is in there, so there are elements.
        let large = [N::LargeInt, N::HugeDouble, N::BigEndianHuge];
        let exists = move |kind: &ValueKind| match kind {
            V::Array(number, Extent::Empty) => !large.contains(number),
            _ => true,
        };
        PLAIN.into_iter().chain(scalars).chain(arrays).filter(exists)
    }

    /// The kind of a packed value.
    ///
    /// ```
    /// use kiste::convert::ValueKind;
    ///
    /// assert_eq!(ValueKind::of(b"\xa4text")?, ValueKind::Text);
    /// assert_eq!(ValueKind::of(b"\x92\x01\xa1a")?, ValueKind::MixedList);
    /// # Ok::<(), kiste::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Damaged`](crate::ErrorKind::Damaged) if it is no packed value.
    pub fn of(packed: &[u8]) -> Result<ValueKind> {
        // Nothing is nested too deeply from here on.
        Cursor::new(packed).skip()?;
        kind_of(&mut Cursor::new(packed), &mut |_| Ok(()))
    }

    /// One of them, with its article where it has one.
    pub(super) fn one(self) -> String {
        let many = self.many();
        match self {
            V::Nil | V::Bytes => return many,
            V::NotFinite => return "NaN or an infinity".to_owned(),
            _ => {}
        }
        let one = singular(&many);
        let article = if one.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        format!("{article} {one}")
    }

    /// Several of them.
    fn many(self) -> String {
        let plain = match self {
            V::Nil => "nil",
            V::Bool => "booleans",
            V::Int => "integers",
            V::LargeInt => "integers of 2^63 or more",
            V::Float => "floats",
            V::HugeFloat => "floats beyond the range of 32 bits",
            V::NotFinite => "NaN and infinities",
            V::OddNan => "unusual NaNs",
            V::Float32 => "32-bit floats",
            V::Text => "strings",
            V::TextEndingInZero => "strings that end in a zero character",
            V::Bytes => "bytes",
            V::Complex => "complex numbers",
            V::Timestamp => "timestamps",
            V::Extension => "extensions",
            V::List => "lists",
            V::EmptyList => "empty lists",
            V::MixedList => "lists of several types",
            V::Map => "maps",
            V::EmptyMap => "empty maps",
            V::MapOfOtherKeys => "maps whose keys are no strings",
            V::Absent => "absent values",
            V::Scalar(number) => return format!("NumPy scalars of {}", number.name()),
            V::Array(number, extent) => {
                return format!("arrays of {}{}", number.name(), extent.name());
            }
        };
        plain.to_owned()
    }
}

/// A noun phrase whose first noun loses its plural.
fn singular(many: &str) -> String {
    let nouns = [
        "booleans",
        "integers",
        "floats",
        "strings",
        "numbers",
        "timestamps",
        "extensions",
        "lists",
        "maps",
        "NaNs",
        "values",
        "scalars",
        "arrays",
    ];
    let found = nouns.iter().filter_map(|noun| Some((many.find(noun)?, noun))).min();
    match found {
        Some((at, noun)) => {
            let end = at + noun.len();
            format!("{}{}", &many[..end - 1], &many[end..])
        }
        None => many.to_owned(),
    }
}

impl fmt::Display for ValueKind {
    /// Several of them, such as `booleans`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.many())
    }
}

impl NumberKind {
    fn name(self) -> &'static str {
        match self {
            N::Bool => "bool",
            N::Int => "other integers",
            N::Int64 => "int64",
            N::LargeInt => "uint64 with 2^63 or more",
            N::Half => "float16",
            N::Single => "float32",
            N::Double => "float64",
            N::HugeDouble => "float64 beyond the range of float32",
            N::Complex => "complex64 or complex128",
            N::Date => "datetime64[D]",
            N::Time => "datetime64 or timedelta64 in s, ms, us, ns",
            N::OtherTime => "times in other units",
            N::BigEndianInt => "big-endian integers",
            N::BigEndianFloat => "big-endian float32 or float64",
            N::BigEndianHuge => "big-endian numbers beyond int64 or float32",
            N::OtherNumber => "other big-endian types or longdouble",
            N::Text => "strings of fixed length",
            N::Struct => "structures or void",
            N::Object => "Python objects",
        }
    }
}

impl Extent {
    fn name(self) -> &'static str {
        match self {
            Extent::Flat => " with one axis",
            Extent::One => " with one element",
            Extent::Grid => " with several axes",
            Extent::Point => " without axes",
            Extent::Empty => " without elements",
        }
    }
}

/// The kind of the next value. What is in it is handed on.
pub(super) fn kind_of(
    cursor: &mut Cursor<'_>,
    within: &mut dyn FnMut(ValueKind) -> Result<()>,
) -> Result<ValueKind> {
    Ok(match cursor.peek()? {
        Kind::Nil => cursor.read_nil().map(|()| V::Nil)?,
        Kind::Bool => cursor.read_bool().map(|_| V::Bool)?,
        Kind::Int => match cursor.read_i64() {
            Ok(_) => V::Int,
            Err(_) => cursor.read_u64().map(|_| V::LargeInt)?,
        },
        // A 32-bit float has a first byte of its own.
        Kind::Float if cursor.rest().first() == Some(&0xca) => {
            cursor.skip()?;
            V::Float32
        }
        Kind::Float => float_kind(cursor.read_f64()?),
        Kind::Str => match cursor.read_str()?.ends_with('\0') {
            true => V::TextEndingInZero,
            false => V::Text,
        },
        Kind::Bin => cursor.read_bin().map(|_| V::Bytes)?,
        Kind::Ext => match cursor.read_ext()? {
            (timestamp::CODE, data) if timestamp::from_ext(data).is_some() => V::Timestamp,
            _ => V::Extension,
        },
        Kind::Array => {
            let mut types: Option<Option<Class>> = None;
            let len = cursor.read_array_len()?;
            for _ in 0..len {
                let item = kind_of(cursor, within)?;
                within(item)?;
                if item != V::Nil {
                    let class = Class::of(item);
                    types = Some(match types {
                        None => Some(class),
                        Some(known) => known.filter(|known| *known == class),
                    });
                }
            }
            match types {
                _ if len == 0 => V::EmptyList,
                Some(None) => V::MixedList,
                _ => V::List,
            }
        }
        Kind::Map => map_kind(cursor, within)?,
    })
}

fn float_kind(number: f64) -> ValueKind {
    match () {
        () if number.is_infinite() || number.to_bits() == f64::NAN.to_bits() => V::NotFinite,
        () if number.is_nan() => V::OddNan,
        () if (number as f32).is_infinite() => V::HugeFloat,
        () => V::Float,
    }
}

fn map_kind(
    cursor: &mut Cursor<'_>,
    within: &mut dyn FnMut(ValueKind) -> Result<()>,
) -> Result<ValueKind> {
    let mut ahead = cursor.clone();
    // A map that does not encode a NumPy value is just a map.
    if let Ok(Some(special)) = numpy::read(&mut ahead) {
        *cursor = ahead;
        return Ok(match &special {
            Special::Array(array) => V::Array(number_kind(array), extent_of(array)),
            Special::Scalar(array) => V::Scalar(number_kind(array)),
            Special::Complex(..) => V::Complex,
        });
    }
    let len = cursor.read_map_len()?;
    let mut names = Vec::new();
    let mut all_strings = true;
    for _ in 0..len {
        match cursor.peek()? {
            Kind::Str => names.push(cursor.read_str()?),
            _ => {
                all_strings = false;
                cursor.skip()?;
            }
        }
        let value = kind_of(cursor, within)?;
        within(value)?;
    }
    names.sort_unstable();
    let distinct = names.windows(2).all(|pair| pair[0] != pair[1]);
    Ok(match all_strings && distinct {
        _ if len == 0 => V::EmptyMap,
        true => V::Map,
        false => V::MapOfOtherKeys,
    })
}

/// The type of an item in a list of one type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Int,
    Float,
    Text,
    List,
    Map,
    Other(ValueKind),
}

impl Class {
    fn of(kind: ValueKind) -> Class {
        match kind {
            V::Int | V::LargeInt => Class::Int,
            V::Float | V::HugeFloat | V::NotFinite | V::OddNan => Class::Float,
            V::Text | V::TextEndingInZero => Class::Text,
            V::List | V::EmptyList | V::MixedList => Class::List,
            V::Map | V::EmptyMap | V::MapOfOtherKeys => Class::Map,
            V::Scalar(N::HugeDouble) => Class::Other(V::Scalar(N::Double)),
            V::Array(number, _) => Class::Other(V::Array(number, Extent::Flat)),
            kind => Class::Other(kind),
        }
    }
}

fn number_kind(array: &NdArray<'_>) -> NumberKind {
    let dtype = array.dtype();
    let big = dtype.byte_order() == ByteOrder::Big;
    match (dtype.kind(), dtype.item_size()) {
        _ if dtype.has_objects() => N::Object,
        (DTypeKind::Bool, _) => N::Bool,
        (DTypeKind::UInt, 8) if big && has(array, is_large) => N::BigEndianHuge,
        (DTypeKind::Int | DTypeKind::UInt, _) if big => N::BigEndianInt,
        (DTypeKind::Int, 8) => N::Int64,
        (DTypeKind::UInt, 8) if has(array, is_large) => N::LargeInt,
        (DTypeKind::Int | DTypeKind::UInt, _) => N::Int,
        (DTypeKind::Float, 8) if big && has(array, is_huge) => N::BigEndianHuge,
        (DTypeKind::Float, 4 | 8) if big => N::BigEndianFloat,
        (DTypeKind::Float, 2) if !big => N::Half,
        (DTypeKind::Float, 4) => N::Single,
        (DTypeKind::Float, 8) if has(array, is_huge) => N::HugeDouble,
        (DTypeKind::Float, 8) => N::Double,
        (DTypeKind::Complex, 8 | 16) if !big => N::Complex,
        (DTypeKind::DateTime | DTypeKind::TimeDelta, _) if !big => time_kind(array),
        (DTypeKind::Text | DTypeKind::Bytes, _) => N::Text,
        (DTypeKind::Struct | DTypeKind::Void, _) => N::Struct,
        _ => N::OtherNumber,
    }
}

fn is_large(number: u64) -> bool {
    i64::try_from(number).is_err()
}

fn is_huge(number: f64) -> bool {
    float_kind(number) == V::HugeFloat
}

fn time_kind(array: &NdArray<'_>) -> NumberKind {
    let dtype: &DType = array.dtype();
    match dtype.time_unit() {
        // Seconds are stored as milliseconds in Parquet, which has none.
        Some(TimeUnit { count: 1, unit: Unit::Second })
            if has(array, |time: i64| time != i64::MIN && time.checked_mul(1000).is_none()) =>
        {
            N::OtherTime
        }
        Some(TimeUnit {
            count: 1,
            unit: Unit::Second | Unit::Millisecond | Unit::Microsecond | Unit::Nanosecond,
        }) => N::Time,
        Some(TimeUnit { count: 1, unit: Unit::Day }) if dtype.kind() == DTypeKind::DateTime => {
            match has(array, |day: i64| i32::try_from(day).is_err()) {
                true => N::OtherTime,
                false => N::Date,
            }
        }
        _ => N::OtherTime,
    }
}

/// Whether an element is like that.
fn has<T: crate::value::Element>(array: &NdArray<'_>, is: impl Fn(T) -> bool) -> bool {
    array.as_array::<T>().is_ok_and(|numbers| numbers.iter().any(|&number| is(number)))
}

fn extent_of(array: &NdArray<'_>) -> Extent {
    match array.shape() {
        [] => Extent::Point,
        shape if shape.contains(&0) || array.dtype().item_size() == 0 => Extent::Empty,
        [1] => Extent::One,
        [_] => Extent::Flat,
        _ => Extent::Grid,
    }
}
