//! Tables of comma-separated or tab-separated values.

#[cfg(feature = "formats")]
mod bounded;
#[cfg(feature = "formats")]
mod quotes;
#[cfg(feature = "formats")]
mod table;
#[cfg(feature = "formats")]
mod read;
#[cfg(feature = "formats")]
mod open;
#[cfg(feature = "formats")]
mod write;

#[cfg(feature = "formats")]
use self::open::open;
#[cfg(feature = "formats")]
pub(super) use {
    bounded::Bounded,
    open::{delimiter, notices},
    read::{guess, typed},
    table::{Dialect, Table, note},
};
#[cfg(feature = "formats")]
pub use {
    read::{CsvReader, CsvType},
    write::CsvWriter,
};

use crate::convert::carried::{
    Carried, Handling as H, LeftOut as L, NumberKind as N, ValueKind as V, ValuePlace,
};
use crate::convert::formats::def::{FormatDef, Output, READ};

pub(in crate::convert) static CSV: FormatDef = FormatDef {
    name: "csv",
    title: "comma-separated values",
    feature: Some("formats"),
    is_piped: true,
    is_named: |file| file.ends(".csv"),
    in_folder: Some(|file| file.ends(".csv")),
    leaves_out: &[
        (L::SameName, H::Refused),
        (L::TextAfterQuote, H::Remarked),
        (L::JoinedRows, H::Refused),
        (L::OtherLength, H::Refused),
        (L::OtherEncoding, H::Refused),
        (L::PathValue, H::Remarked),
        (L::MixedSplits, H::Remarked),
        (L::OtherFile, H::Remarked),
    ],
    #[cfg(feature = "formats")]
    notices: |sources| notices(sources, |_| b','),
    #[cfg(feature = "formats")]
    open: |sources| open(sources, b','),
    output: Output::File,
    endings: &["csv"],
    carries,
    key_field: true,
    #[cfg(feature = "formats")]
    create: |new| Ok(Box::new(CsvWriter::create(new.path)?)),
    ..READ
};

pub(in crate::convert) static TSV: FormatDef = FormatDef {
    name: "tsv",
    title: "tab-separated values",
    feature: Some("formats"),
    is_piped: true,
    is_named: |file| file.ends(".tsv"),
    in_folder: Some(|file| file.ends(".tsv")),
    leaves_out: &[
        (L::SameName, H::Refused),
        (L::TextAfterQuote, H::Remarked),
        (L::LinesInQuotes, H::Remarked),
        (L::JoinedRows, H::Refused),
        (L::OtherLength, H::Refused),
        (L::OtherEncoding, H::Refused),
        (L::PathValue, H::Remarked),
        (L::MixedSplits, H::Remarked),
        (L::OtherFile, H::Remarked),
    ],
    #[cfg(feature = "formats")]
    notices: |sources| notices(sources, |_| b'\t'),
    #[cfg(feature = "formats")]
    open: |sources| open(sources, b'\t'),
    not_endings: &[("tsv", "TSV cannot be written, but CSV can")],
    ..READ
};

pub(super) fn carries(kind: V, _: ValuePlace) -> Carried {
    match kind {
        V::Int
        | V::LargeInt
        | V::Float
        | V::HugeFloat
        | V::NotFinite
        | V::Text
        | V::TextEndingInZero => Carried::Exact,
        V::OddNan => Carried::Changed("the usual NaN"),
        V::Nil => Carried::Changed("empty strings, except among numbers"),
        V::Bool => Carried::Changed("strings, true and false"),
        V::Float32 => Carried::Changed("their shortest digits"),
        V::Scalar(number) => match number {
            N::Bool => Carried::Changed("strings, true and false"),
            N::Int | N::Int64 | N::LargeInt | N::BigEndianInt => Carried::PLAIN_INT,
            N::Single => Carried::Changed("their shortest digits"),
            N::Double | N::HugeDouble => Carried::PLAIN_FLOAT,
            N::BigEndianFloat => Carried::Changed("plain floats, or their shortest digits"),
            N::BigEndianHuge => Carried::Changed("plain integers or floats"),
            _ => Carried::Refused("a string or a number"),
        },
        _ => Carried::Refused("a string or a number"),
    }
}
