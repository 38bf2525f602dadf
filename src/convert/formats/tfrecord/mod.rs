//! TFRecord files of `tf.train.Example`s.

#[cfg(feature = "formats")]
mod read;
#[cfg(feature = "formats")]
mod write;

#[cfg(feature = "formats")]
pub use {read::TfRecordReader, write::TfRecordWriter};

use crate::convert::carried::{
    Carried, Extent, Handling as H, LeftOut as L, NumberKind as N, ValueKind as V, ValuePlace,
};
use crate::convert::formats::def::{FormatDef, Glance, Output, READ};
#[cfg(feature = "formats")]
use crate::convert::samples::Samples;
use crate::error::Remedy;

pub(in crate::convert) static TFRECORD: FormatDef = FormatDef {
    name: "tfrecord",
    aliases: &["tfrecords"],
    title: "TFRecord of tf.train.Example",
    feature: Some("formats"),
    // A file without bytes has no records.
    begins: |file| (file.is_empty && is_named(file)) || is_records(file),
    misnamed: |file| {
        let flaw = "named like TFRecord, but its first checksum is wrong";
        is_named(file).then_some((flaw, Remedy::ReadAs("tfrecord")))
    },
    in_folder: Some(is_named),
    leaves_out: &[
        (L::PathValue, H::Remarked),
        (L::MixedSplits, H::Remarked),
        (L::OtherFile, H::Remarked),
        (L::UnknownField, H::Remarked),
        (L::ReplacedValue, H::Remarked),
        (L::OtherRecord, H::Refused),
        (L::AfterEnd, H::Refused),
    ],
    #[cfg(feature = "formats")]
    open: |sources| {
        let records = TfRecordReader::open_all(sources.paths)?.asked(sources);
        let records = records.texts(&sources.read.texts).lists(&sources.read.lists);
        Ok(Samples::units(records))
    },
    output: Output::File,
    endings: &["tfrecord", "tfrecords"],
    not_endings: &[("tfrec", "the name of TFRecord ends in .tfrecord")],
    carries,
    key_field: true,
    #[cfg(feature = "formats")]
    create: |new| Ok(Box::new(TfRecordWriter::create(new.path)?)),
    ..READ
};

fn is_named(file: &Glance<'_>) -> bool {
    file.plain.contains(".tfrecord")
}

#[cfg(feature = "formats")]
fn is_records(file: &Glance<'_>) -> bool {
    use crate::format::tfrecord::{is_zlib, parse_header};
    let is_header = file.head.first_chunk().is_some_and(|head| parse_header(head).is_ok());
    is_header || (is_named(file) && is_zlib(file.head))
}

#[cfg(not(feature = "formats"))]
fn is_records(_: &Glance<'_>) -> bool {
    false
}

pub(super) fn carries(kind: V, place: ValuePlace) -> Carried {
    match place {
        ValuePlace::Field => field(kind),
        ValuePlace::Within => item(kind),
    }
}

fn field(kind: V) -> Carried {
    const FEATURE: Carried = Carried::Refused("bytes, numbers of 64 bits, or a list of them");
    const RANGE: Carried = Carried::Refused("an integer from -2^63 to 2^63-1");
    const SMALLER: Carried = Carried::Refused("a number within the range of 32-bit floats");
    const INTS: Carried = Carried::Changed("flat arrays of int64, or plain integers");
    const FLOATS: Carried = Carried::Changed("flat arrays of float32, or NumPy float32 numbers");
    match kind {
        V::Nil | V::Int | V::Bytes | V::EmptyList | V::Scalar(N::Single) => Carried::Exact,
        V::Array(N::Int64 | N::Single, Extent::Flat) => Carried::Exact,
        V::Bool => Carried::Changed("integers"),
        V::LargeInt => RANGE,
        V::Float | V::NotFinite | V::OddNan => Carried::Changed("NumPy float32 numbers, rounded"),
        V::HugeFloat => SMALLER,
        V::Float32 => Carried::Changed("NumPy float32 numbers"),
        V::Text | V::TextEndingInZero => Carried::Changed("bytes"),
        V::List => Carried::Changed("flat arrays, lists of bytes, or the only value"),
        V::MixedList => Carried::Refused("a list of values of one type"),
        V::Scalar(number) | V::Array(number, _) => {
            let is_array = matches!(kind, V::Array(..));
            match number {
                N::LargeInt => RANGE,
                N::HugeDouble => SMALLER,
                N::BigEndianHuge => {
                    Carried::Refused("a number within the range of int64 or float32")
                }
                N::Bool | N::Int | N::Int64 | N::BigEndianInt if is_array => INTS,
                N::Bool | N::Int | N::Int64 | N::BigEndianInt => Carried::PLAIN_INT,
                N::Half | N::Single | N::Double | N::BigEndianFloat if is_array => FLOATS,
                N::Half | N::Double | N::BigEndianFloat => {
                    Carried::Changed("NumPy float32 numbers, rounded")
                }
                _ => FEATURE,
            }
        }
        _ => FEATURE,
    }
}

/// A list in TFRecord has values of one type, and no lists in it.
fn item(kind: V) -> Carried {
    match kind {
        V::Nil | V::EmptyList | V::List | V::MixedList | V::Scalar(_) | V::Array(..) => {
            Carried::Refused("a list of bytes or plain numbers")
        }
        kind => field(kind),
    }
}
