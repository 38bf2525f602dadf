//! What each format does with each kind of value: one table, from which all else is made.
//!
//! [`Format::carries`] is the table. Every writer asks it before it writes a sample ([`check`]), so
//! that a value is carried exactly, changed in a known way that is counted ([`ChangedValues`]), or
//! refused by an error with sample and field. Dry runs write and read a few samples with the same
//! writers. The table in `docs/formats.md` is printed from here, and a test sends random values of
//! all kinds through every format and compares what comes back.
//!
//! Absent on purpose: rules about several samples, such as columns of one type. Those are up to the
//! writers, which refuse what does not fit.

use std::collections::BTreeMap;
use std::fmt;

use super::format::Format;
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::numpy::{self, Special};
use crate::format::msgpack::{self, Cursor, Kind, sample, timestamp};
use crate::value::{ByteOrder, DType, DTypeKind, NdArray, TimeUnit, Unit};

/// What a format does with values of one kind.
///
/// ```
/// use kiste::convert::{Carried, Format, NumberKind, ValuePlace, ValueKind};
///
/// let carried = Format::Tfrecord.carries(ValueKind::Text, ValuePlace::Field);
/// assert_eq!(carried, Carried::Changed("bytes"));
/// let dates = ValueKind::Scalar(NumberKind::Date);
/// assert_eq!(Format::Parquet.carries(dates, ValuePlace::Field), Carried::Exact);
/// assert!(matches!(Format::Csv.carries(ValueKind::Bytes, ValuePlace::Field), Carried::Refused(_)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Carried {
    /// A conversion back gives the same value: the same bytes, if they were packed as Python packs
    /// them.
    Exact,
    /// They become this, which is counted and reported.
    Changed(&'static str),
    /// They are an error, which expects this.
    Refused(&'static str),
}

/// Where a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ValuePlace {
    /// A field of a sample.
    Field,
    /// In a list or a map.
    Within,
}

/// What a value is, as far as formats treat it differently.
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

/// What the elements of a NumPy array are, or what a NumPy scalar is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum NumberKind {
    /// `bool`.
    Bool,
    /// Integers of up to 64 bits, but for those below.
    Int,
    /// `int64`.
    Int64,
    /// `uint64` of which one at least is 2^63 or more.
    LargeInt,
    /// `float16`.
    Half,
    /// `float32`.
    Single,
    /// `float64`, within the range of 32 bits.
    Double,
    /// `float64` of which one at least is finite and beyond that.
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
    /// The same, of which one at least is 2^63 or more, or finite and beyond the range of float32.
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

/// The shape of a NumPy array, as far as it matters.
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

use NumberKind as N;
use ValueKind as V;

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
/// All kinds but those of NumPy.
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

impl Format {
    /// What this format, written and read again, does with such values. A field becomes what the
    /// table says for [`ValuePlace::Field`], and what is in lists and maps what it says for
    /// [`ValuePlace::Within`].
    ///
    /// Read again means: TFRecord with [`texts`](super::Conversion::texts) for no field, and CSV
    /// with [`guess_types`](super::Conversion::guess_types). A format that is only read carries
    /// nothing.
    pub fn carries(self, kind: ValueKind, place: ValuePlace) -> Carried {
        match self {
            Format::Dataset => Carried::Exact,
            Format::Jsonl | Format::Images => notation(kind),
            Format::Webdataset | Format::Mds if place == ValuePlace::Within => notation(kind),
            Format::Webdataset => webdataset(kind),
            Format::Mds => mds(kind),
            Format::Tfrecord => match place {
                ValuePlace::Field => tfrecord(kind),
                ValuePlace::Within => tfrecord_item(kind),
            },
            Format::Parquet | Format::Arrow => columns(kind),
            Format::Npz => npz(kind),
            Format::Csv => csv(kind),
            _ => Carried::Refused("a format that can be written"),
        }
    }
}

use Carried::{Changed, Exact, Refused};

const WIDER: Carried = Changed("64-bit floats of the same value");
const PLAIN_INT: Carried = Changed("plain integers");
const PLAIN_FLOAT: Carried = Changed("plain floats");
const PLAIN_BOOL: Carried = Changed("plain booleans");
const ROUNDED: Carried = Changed("NumPy float32 numbers, rounded");

/// The notation of JSON lines has a place for everything but the width of a float.
fn notation(kind: ValueKind) -> Carried {
    if kind == V::Float32 { WIDER } else { Exact }
}

fn webdataset(kind: ValueKind) -> Carried {
    match kind {
        V::Array(N::Object, _) => Refused("an array whose elements are no Python objects"),
        kind => notation(kind),
    }
}

fn mds(kind: ValueKind) -> Carried {
    let numbers = [N::Int, N::Int64, N::LargeInt, N::Half, N::Single, N::Double, N::HugeDouble];
    match kind {
        V::Scalar(N::Double | N::HugeDouble) => PLAIN_FLOAT,
        V::Array(number, Extent::Flat | Extent::One | Extent::Grid)
            if numbers.contains(&number) =>
        {
            Exact
        }
        V::Array(..) => Refused(
            "an array of integers or floats in little-endian order that has axes and elements",
        ),
        kind => notation(kind),
    }
}

fn tfrecord(kind: ValueKind) -> Carried {
    const FEATURE: Carried = Refused("bytes, numbers of 64 bits, or a list of them");
    const RANGE: Carried = Refused("an integer from -2^63 to 2^63-1");
    const SMALLER: Carried = Refused("a number within the range of 32-bit floats");
    const INTS: Carried = Changed("flat arrays of int64, or plain integers");
    const FLOATS: Carried = Changed("flat arrays of float32, or NumPy float32 numbers");
    match kind {
        V::Nil | V::Int | V::Bytes | V::EmptyList | V::Scalar(N::Single) => Exact,
        V::Array(N::Int64 | N::Single, Extent::Flat) => Exact,
        V::Bool => Changed("integers"),
        V::LargeInt => RANGE,
        V::Float | V::NotFinite | V::OddNan => ROUNDED,
        V::HugeFloat => SMALLER,
        V::Float32 => Changed("NumPy float32 numbers"),
        V::Text | V::TextEndingInZero => Changed("bytes"),
        V::List => Changed("flat arrays, lists of bytes, or the only value"),
        V::MixedList => Refused("a list of values of one type"),
        V::Scalar(number) | V::Array(number, _) => {
            let is_array = matches!(kind, V::Array(..));
            match number {
                N::LargeInt => RANGE,
                N::HugeDouble => SMALLER,
                N::BigEndianHuge => Refused("a number within the range of int64 or float32"),
                N::Bool | N::Int | N::Int64 | N::BigEndianInt if is_array => INTS,
                N::Bool | N::Int | N::Int64 | N::BigEndianInt => PLAIN_INT,
                N::Half | N::Single | N::Double | N::BigEndianFloat if is_array => FLOATS,
                N::Half | N::Double | N::BigEndianFloat => ROUNDED,
                _ => FEATURE,
            }
        }
        _ => FEATURE,
    }
}

/// A list in TFRecord has values of one type, and no lists in it.
fn tfrecord_item(kind: ValueKind) -> Carried {
    match kind {
        V::Nil | V::EmptyList | V::List | V::MixedList | V::Scalar(_) | V::Array(..) => {
            Refused("a list of bytes or plain numbers")
        }
        kind => tfrecord(kind),
    }
}

fn columns(kind: ValueKind) -> Carried {
    match kind {
        V::Complex => Refused("numbers without an imaginary part"),
        V::Timestamp | V::Extension => Refused("a value that a column can have"),
        V::MixedList => Refused("a list of values of one type"),
        V::MapOfOtherKeys => Refused("maps whose keys are strings"),
        V::Scalar(number) | V::Array(number, _) => match number {
            N::Bool | N::Int | N::Int64 | N::LargeInt => Exact,
            N::Half | N::Single | N::Double | N::HugeDouble | N::Time | N::Date => Exact,
            _ => Refused(
                "numbers in little-endian order, or times in days, seconds or thousandths, \
                 millionths or billionths of seconds",
            ),
        },
        _ => Exact,
    }
}

fn npz(kind: ValueKind) -> Carried {
    match kind {
        V::Bool | V::Int | V::Float | V::HugeFloat | V::NotFinite | V::OddNan | V::Text => Exact,
        V::Float32 => WIDER,
        V::LargeInt => Refused("an integer from -2^63 to 2^63-1"),
        V::TextEndingInZero => Refused("a string that does not end in a zero character"),
        V::Scalar(number) => match number {
            N::Bool => PLAIN_BOOL,
            N::Int | N::Int64 | N::LargeInt | N::BigEndianInt => PLAIN_INT,
            N::Double | N::HugeDouble => PLAIN_FLOAT,
            N::BigEndianHuge => Changed("plain integers or floats"),
            // A double in another byte order is a plain float as well.
            N::BigEndianFloat => Changed("plain floats, if they have 64 bits"),
            N::Text | N::Struct | N::Object => Refused("a number, an array or a string"),
            _ => Exact,
        },
        V::Array(N::Object, _) => Refused("an array whose elements are no Python objects"),
        V::Array(_, Extent::Empty) => Refused("an array with elements"),
        // Strings without axes would come back as plain strings.
        V::Array(N::Text | N::Struct, Extent::Point) => Refused("an array with axes"),
        V::Array(_, Extent::Point) => Changed("numbers"),
        V::Array(..) => Exact,
        _ => Refused("a number, an array or a string"),
    }
}

fn csv(kind: ValueKind) -> Carried {
    match kind {
        V::Int
        | V::LargeInt
        | V::Float
        | V::HugeFloat
        | V::NotFinite
        | V::Text
        | V::TextEndingInZero => Exact,
        V::OddNan => Changed("the usual NaN"),
        V::Nil => Changed("empty strings, except among numbers"),
        V::Bool => Changed("strings, true and false"),
        V::Float32 => Changed("their shortest digits"),
        V::Scalar(number) => match number {
            N::Bool => Changed("strings, true and false"),
            N::Int | N::Int64 | N::LargeInt | N::BigEndianInt => PLAIN_INT,
            N::Single => Changed("their shortest digits"),
            N::Double | N::HugeDouble => PLAIN_FLOAT,
            N::BigEndianFloat => Changed("plain floats, or their shortest digits"),
            N::BigEndianHuge => Changed("plain integers or floats"),
            _ => Refused("a string or a number"),
        },
        _ => Refused("a string or a number"),
    }
}

impl ValueKind {
    /// All kinds there are, except [`Absent`](Self::Absent), which no value has.
    pub fn all() -> impl Iterator<Item = ValueKind> {
        // There are no scalars of Python objects.
        let scalars = NUMBERS.into_iter().filter(|number| *number != N::Object).map(V::Scalar);
        let arrays = NUMBERS
            .into_iter()
            .flat_map(|number| EXTENTS.into_iter().map(move |extent| V::Array(number, extent)));
        // What is large is in there, so there are elements.
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
    /// [`Damaged`](ErrorKind::Damaged) if it is no packed value.
    pub fn of(packed: &[u8]) -> Result<ValueKind> {
        // Nothing is nested too deeply from here on.
        Cursor::new(packed).skip()?;
        kind_of(&mut Cursor::new(packed), &mut |_| Ok(()))
    }

    /// One of them, with its article where it has one.
    fn one(self) -> String {
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
fn kind_of(
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

/// The type of an item, as far as a list of one type is concerned.
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

/// Values that became something else, counted by field and kind.
///
/// Prints as in `field "weights": NumPy scalars of float64 became plain floats (1,000 values)`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangedValues {
    /// The field.
    pub field: String,
    /// What the values were.
    pub kind: ValueKind,
    /// What they became.
    pub became: &'static str,
    /// How many there were.
    pub values: u64,
}

impl fmt::Display for ChangedValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ChangedValues { field, kind, became, values } = self;
        let values = super::monitor::counted(*values, "value");
        write!(f, "field {field:?}: {kind} became {became} ({values})")
    }
}

/// Fields whose changes are counted: a sample can have as many as it likes.
const COUNTED: usize = 1 << 16;

/// What a writer has changed so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changes {
    fields: BTreeMap<String, BTreeMap<ValueKind, (&'static str, u64)>>,
}

impl Changes {
    /// Adds what writing a sample changed.
    pub(crate) fn add(&mut self, found: SampleChanges<'_>) {
        for (field, kind, became) in found.0 {
            if let Some(kinds) = self.fields.get_mut(field) {
                kinds.entry(kind).or_insert((became, 0)).1 += 1;
            } else if self.fields.len() < COUNTED {
                self.fields.insert(field.to_owned(), BTreeMap::from([(kind, (became, 1))]));
            }
        }
    }

    /// Adds changes of values that became something else because of others.
    #[cfg(feature = "parquet")]
    pub(crate) fn count(
        &mut self,
        field: &str,
        kind: ValueKind,
        became: &'static str,
        values: u64,
    ) {
        if values > 0 && (self.fields.len() < COUNTED || self.fields.contains_key(field)) {
            let kinds = self.fields.entry(field.to_owned()).or_default();
            kinds.entry(kind).or_insert((became, 0)).1 += values;
        }
    }

    pub(crate) fn list(&self) -> Vec<ChangedValues> {
        let kinds = self.fields.iter().flat_map(|(field, kinds)| {
            kinds.iter().map(move |(&kind, &(became, values))| (field, kind, became, values))
        });
        let list = kinds.map(|(field, kind, became, values)| ChangedValues {
            field: field.clone(),
            kind,
            became,
            values,
        });
        list.collect()
    }
}

/// What writing one sample changes.
#[derive(Debug, Default)]
pub(crate) struct SampleChanges<'a>(Vec<(&'a str, ValueKind, &'static str)>);

/// Fails if a format refuses a value of this sample. Returns what it changes.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid), with sample and field.
pub(crate) fn check(format: Format, packed: &[u8]) -> Result<SampleChanges<'_>> {
    let key = msgpack::check_sample(packed)?;
    let mut changes = SampleChanges::default();
    for field in sample::fields(packed)? {
        let (name, value) = field?;
        let Ok(name) = Cursor::new(name).read_str() else {
            let message = "expected fields whose names are strings, found another";
            return Err(Error::new(ErrorKind::Invalid, message).with_key(key));
        };
        if name == sample::KEY {
            continue;
        }
        let mut note = |kind: ValueKind, place| match format.carries(kind, place) {
            Carried::Exact => Ok(()),
            Carried::Changed(became) => {
                changes.0.push((name, kind, became));
                Ok(())
            }
            Carried::Refused(expected) => {
                let message = format!("expected {expected}, found {}", kind.one());
                Err(Error::new(ErrorKind::Invalid, message).with_key(key).with_field(name))
            }
        };
        let kind = kind_of(&mut Cursor::new(value), &mut |_| Ok(()))?;
        note(kind, ValuePlace::Field)?;
        if matches!(kind, V::List | V::MixedList | V::Map | V::MapOfOtherKeys) {
            kind_of(&mut Cursor::new(value), &mut |kind| note(kind, ValuePlace::Within))?;
        }
    }
    Ok(changes)
}
