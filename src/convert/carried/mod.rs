//! How formats treat kinds of values, and what else sources may hold: in the definition of each format are two
//! tables, from which all else is made.
//!
//! [`Format::carries`](super::Format::carries) is one. Every writer asks it before it writes a sample ([`check`]), so
//! that a value is carried exactly, changed in a known way that is counted ([`ChangedValues`]), or
//! refused by an error with sample and field. Dry runs write and read a few samples with the same
//! writers. The table in `docs/formats.md` is printed from it, and a test sends random values of
//! all kinds through every format and compares what comes back.
//!
//! [`Format::leaves_out`](super::Format::leaves_out) is the other: what is lost between a source and its samples.
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

use ValueKind as V;

use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack::{self, Cursor, sample};
use kind::kind_of;

/// How a format treats values of one kind.
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

impl Carried {
    // Shared by several formats.
    pub(crate) const WIDER: Carried = Carried::Changed("64-bit floats of the same value");
    pub(crate) const PLAIN_INT: Carried = Carried::Changed("plain integers");
    pub(crate) const PLAIN_FLOAT: Carried = Carried::Changed("plain floats");

    /// The notation of JSON lines has a place for everything but the width of a float.
    pub(crate) fn in_notation(kind: ValueKind) -> Carried {
        if kind == V::Float32 { Carried::WIDER } else { Carried::Exact }
    }
}

/// Fails if a format that carries this refuses a value of this sample. Returns what it changes.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid), with sample and field.
pub(crate) fn check(
    carries: fn(ValueKind, ValuePlace) -> Carried,
    packed: &[u8],
) -> Result<SampleChanges<'_>> {
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
        let mut note = |kind: ValueKind, place| match carries(kind, place) {
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
