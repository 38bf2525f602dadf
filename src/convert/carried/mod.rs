//! How each format treats each kind of value, and what else sources may hold: two tables, from
//! which all else is made.
//!
//! [`Format::carries`] is the table. Every writer asks it before it writes a sample ([`check`]), so
//! that a value is carried exactly, changed in a known way that is counted ([`ChangedValues`]), or
//! refused by an error with sample and field. Dry runs write and read a few samples with the same
//! writers. The table in `docs/formats.md` is printed from here, and a test sends random values of
//! all kinds through every format and compares what comes back.
//!
//! [`Format::leaves_out`] is the other table: what is lost between a source and its samples.
//!
//! Absent on purpose: rules about several samples, such as columns of one type. Those are up to the
//! writers, which refuse what does not fit.

mod changes;
mod kind;
mod sources;

pub use changes::ChangedValues;
pub(crate) use changes::{Changes, SampleChanges};
pub use kind::{Extent, NumberKind, ValueKind};
pub(crate) use sources::RemarkLog;
pub use sources::{Handling, LeftOut, Remark, Remarks};

use NumberKind as N;
use ValueKind as V;

use super::format::Format;
use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::{self, Cursor, sample};
use kind::kind_of;

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

impl Format {
    /// What this format, written and read again, does with such values. Fields follow the table for
    /// [`ValuePlace::Field`], values in lists and maps for [`ValuePlace::Within`].
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
