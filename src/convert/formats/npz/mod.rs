//! npz: the arrays of NumPy in a zip archive.

#[cfg(feature = "zip")]
use std::path::PathBuf;

#[cfg(feature = "zip")]
mod ragged;
#[cfg(feature = "zip")]
mod read;
#[cfg(feature = "zip")]
mod write;

#[cfg(feature = "zip")]
pub use {
    read::{NpzOptions, NpzReader},
    write::NpzWriter,
};

use crate::convert::carried::{
    Carried, Extent, Handling as H, LeftOut as L, NumberKind as N, ValueKind as V, ValuePlace,
};
use crate::convert::formats::def::{FormatDef, Output, READ};
#[cfg(feature = "zip")]
use crate::convert::formats::def::{Opening, given};
#[cfg(feature = "zip")]
use crate::convert::samples::Samples;
use crate::error::Remedy;
#[cfg(feature = "zip")]
use crate::error::{Error, ErrorKind, Result};

pub(in crate::convert) static NPZ: FormatDef = FormatDef {
    name: "npz",
    aliases: &["npy"],
    title: "an archive of NumPy arrays",
    feature: Some("zip"),
    begins: |file| file.is_zip(".npz") || file.head.starts_with(b"\x93NUMPY"),
    misnamed: |file| {
        let flaw = "named like npz, but it is no zip archive";
        file.ends(".npz").then_some((flaw, Remedy::ReadAs("npz")))
    },
    never_empty: &[".npz"],
    in_folder: Some(|file| file.ends(".npz") || file.ends(".npy")),
    leaves_out: &[
        (L::Pickle, H::Refused),
        (L::OtherMember, H::Remarked),
        (L::PathValue, H::Remarked),
        (L::MixedSplits, H::Remarked),
        (L::OtherFile, H::Remarked),
        (L::AfterEnd, H::Refused),
    ],
    #[cfg(feature = "zip")]
    splits: |sources| {
        let of = |path: &PathBuf| options(sources).splits(path, &|name| sources.kept.needs(name));
        let splits = sources.paths.iter().map(of).collect::<Result<Vec<_>>>()?;
        match splits.iter().position(|others| *others != splits[0]) {
            Some(other) => {
                let message =
                    "expected arrays of the same splits as in the file before, found others";
                Err(Error::new(ErrorKind::Invalid, message)
                    .at(&sources.paths[other])
                    .advise("convert one after the other"))
            }
            None => Ok(splits.into_iter().next().unwrap_or_default()),
        }
    },
    #[cfg(feature = "zip")]
    open: |sources| {
        Samples::of_each(sources.paths, |path, names| {
            let options = given(options(sources), sources.split, NpzOptions::split);
            let npz = options.open_without(path, &|name| !sources.kept.needs(name))?.called(names);
            Ok(Samples::units(sources.with_key(npz, NpzReader::key)))
        })
    },
    output: Output::File,
    endings: &["npz"],
    carries,
    key_field: true,
    #[cfg(feature = "zip")]
    create: |new| Ok(Box::new(NpzWriter::create(new.path)?)),
    ..READ
};

#[cfg(feature = "zip")]
fn options(sources: &Opening<'_>) -> NpzOptions {
    sources.within(NpzReader::options(), NpzOptions::max_bytes)
}

pub(super) fn carries(kind: V, _: ValuePlace) -> Carried {
    match kind {
        V::Bool | V::Int | V::Float | V::HugeFloat | V::NotFinite | V::OddNan | V::Text => {
            Carried::Exact
        }
        V::Float32 => Carried::WIDER,
        V::LargeInt => Carried::Refused("an integer from -2^63 to 2^63-1"),
        V::TextEndingInZero => Carried::Refused("a string that does not end in a zero character"),
        V::Scalar(number) => match number {
            N::Bool => Carried::Changed("plain booleans"),
            N::Int | N::Int64 | N::LargeInt | N::BigEndianInt => Carried::PLAIN_INT,
            N::Double | N::HugeDouble => Carried::PLAIN_FLOAT,
            N::BigEndianHuge => Carried::Changed("plain integers or floats"),
            // A double in another byte order is a plain float as well.
            N::BigEndianFloat => Carried::Changed("plain floats, if they have 64 bits"),
            N::Text | N::Struct | N::Object => Carried::Refused("a number, an array or a string"),
            _ => Carried::Exact,
        },
        V::Array(N::Object, _) => Carried::Refused("an array whose elements are no Python objects"),
        V::Array(_, Extent::Empty) => Carried::Refused("an array with elements"),
        // Strings without axes would come back as plain strings.
        V::Array(N::Text | N::Struct, Extent::Point) => Carried::Refused("an array with axes"),
        V::Array(_, Extent::Point) => Carried::Changed("numbers"),
        V::Array(..) => Carried::Exact,
        _ => Carried::Refused("a number, an array or a string"),
    }
}
