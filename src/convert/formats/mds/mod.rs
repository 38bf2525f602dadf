//! MDS, the shards of MosaicML Streaming.

mod digest;
mod read;
mod write;

use std::path::PathBuf;

pub use read::MdsReader;
pub use write::MdsWriter;

use self::read::INDEX;
use crate::convert::carried::{
    Carried, Extent, Handling as H, LeftOut as L, NumberKind as N, ValueKind as V, ValuePlace,
};
use crate::convert::file_names::KeyNames;
use crate::convert::formats::def::{FormatDef, Output, READ, given};
use crate::convert::input::Input;
use crate::convert::samples::Samples;
use crate::error::Result;

pub(in crate::convert) static MDS: FormatDef = FormatDef {
    name: "mds",
    aliases: &["streaming"],
    title: "shards of MosaicML Streaming",
    index: |path| {
        let is_absent = path.is_dir() && !path.join(INDEX).is_file();
        (!is_absent).then(|| MdsReader::open(path).map(drop))
    },
    never_empty: &[".mds"],
    // Where there is no index to it.
    in_folder: Some(|file| file.ends(".mds")),
    leaves_out: &[
        (L::RawImage, H::Remarked),
        (L::Decimal, H::Remarked),
        (L::Pickle, H::Refused),
        (L::OtherType, H::Refused),
        (L::UnlistedFile, H::Remarked),
        (L::PathValue, H::Remarked),
        (L::MixedSplits, H::Remarked),
        (L::OtherFile, H::Remarked),
        (L::AfterEnd, H::Refused),
        (L::EmptyFile, H::Remarked),
        (L::NoImage, H::Remarked),
        (L::CutImage, H::Remarked),
    ],
    open: |sources| {
        let asked = |mds: MdsReader| {
            let mds = sources.within(mds, MdsReader::max_bytes);
            let mds = mds.allow_outside(sources.read.allow_outside);
            let mds = mds.unless_dropped(|name| !sources.kept.needs(name));
            Samples::units(sources.with_key(mds, MdsReader::key))
        };
        Samples::chained(readers(sources.paths)?.map(asked).collect())
    },
    output: Output::Directory,
    not_endings: &[("mds", "MDS is a folder")],
    carries,
    key_field: true,
    create: |new| {
        let writer = given(MdsWriter::create(new.path)?, new.limit, |writer, limit| {
            writer.shard_bytes(limit.bytes).shard_samples(limit.samples)
        });
        Ok(Box::new(writer))
    },
    ..READ
};

/// Values in lists and maps are in the notation of JSON lines.
pub(super) fn carries(kind: V, place: ValuePlace) -> Carried {
    let numbers = [N::Int, N::Int64, N::LargeInt, N::Half, N::Single, N::Double, N::HugeDouble];
    match kind {
        kind if place == ValuePlace::Within => Carried::in_notation(kind),
        V::Scalar(N::Double | N::HugeDouble) => Carried::PLAIN_FLOAT,
        V::Array(number, Extent::Flat | Extent::One | Extent::Grid)
            if numbers.contains(&number) =>
        {
            Carried::Exact
        }
        V::Array(..) => Carried::Refused(
            "an array of integers or floats in little-endian order that has axes and elements",
        ),
        kind => Carried::in_notation(kind),
    }
}

/// The readers of folders, whose shards have the same names in all of them.
fn readers(paths: &[PathBuf]) -> Result<impl Iterator<Item = MdsReader>> {
    let all = paths.iter().map(MdsReader::open).collect::<Result<Vec<_>>>()?;
    let shards: Vec<PathBuf> = all.iter().flat_map(MdsReader::shard_paths).collect();
    let (names, mut before) = (KeyNames::of(&shards), 0);
    Ok(all.into_iter().map(move |mds| {
        let shards = before..before + mds.units();
        before = shards.end;
        mds.called(names.range(shards))
    }))
}

/// The most bytes of a shard: its offsets have 32 bits.
const MAX_SHARD: u64 = u32::MAX as u64;
