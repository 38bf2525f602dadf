//! WebDataset: samples as files of one name in tar archives.
//!
//! Consecutive files of an archive with the same name up to the first dot after the last slash are
//! one sample; the rest of the name, in lower case, is the name of the field. This is the rule of
//! the Python package webdataset.

mod read;
mod write;

use std::path::{Path, PathBuf};

pub use read::WebDatasetReader;
use read::WebDatasetSteps;
pub use write::WebDatasetWriter;

use crate::convert::carried::{
    Carried, Handling as H, LeftOut as L, NumberKind as N, ValueKind as V, ValuePlace,
};
use crate::convert::file_names::{ending, uncompressed};
use crate::convert::formats::def::{FormatDef, Keys, Output, READ, given};
use crate::convert::formats::streamed::Streamed;
use crate::convert::samples::Samples;
use crate::format::msgpack;

pub(in crate::convert) static WEBDATASET: FormatDef = FormatDef {
    name: "webdataset",
    aliases: &["tar", "wds"],
    title: "tar archives of WebDataset",
    is_piped: true,
    is_named: |file| is_tar(file.name),
    never_empty: &[".tar", ".tgz"],
    in_folder: Some(|file| is_tar(file.name)),
    keys: Keys::Own,
    leaves_out: &[
        (L::PathValue, H::Remarked),
        (L::MixedSplits, H::Remarked),
        (L::OtherFile, H::Remarked),
        (L::AfterEnd, H::Remarked),
        (L::NoEndMark, H::RemarkedIfSkipped),
        (L::OutsideSamples, H::Remarked),
        (L::SpecialFile, H::Refused),
        (L::OtherShard, H::Refused),
        (L::EmptyFile, H::Remarked),
        (L::NoImage, H::Remarked),
        (L::CutImage, H::Remarked),
    ],
    open: |sources| {
        let asked = |shards: WebDatasetReader| shards.asked(sources).may_lack_end(!sources.stops);
        if let Some(input) = sources.piped()? {
            let steps = WebDatasetSteps::new(asked(WebDatasetReader::piped()), input);
            return Ok(Samples::Stream(Box::new(Streamed::new(steps))));
        }
        Ok(Samples::units(asked(WebDatasetReader::open_all(sources.paths)?)))
    },
    output: Output::Shards,
    endings: &["tar"],
    carries,
    suffixes: &["", ".txt", ".cls", ".npy", ".json", ".bin"],
    create: |new| {
        let writer = WebDatasetWriter::create(new.path.with_file_name(prefix(new.path)))?;
        let writer = given(writer, new.limit, |writer, limit| {
            writer.shard_bytes(limit.bytes).shard_samples(limit.samples)
        });
        Ok(Box::new(writer))
    },
    ..READ
};

/// Values in lists and maps are in the notation of JSON lines.
pub(super) fn carries(kind: V, place: ValuePlace) -> Carried {
    match (place, kind) {
        (ValuePlace::Field, V::Array(N::Object, _)) => {
            Carried::Refused("an array whose elements are no Python objects")
        }
        _ => Carried::in_notation(kind),
    }
}

/// The prefix of the names of shards.
pub(in crate::convert) fn prefix(path: &Path) -> PathBuf {
    let plain = if ending(path) == "tar" { path.file_stem() } else { None };
    PathBuf::from(plain.or(path.file_name()).unwrap_or_default())
}

/// Whether this name, in lower case, is the name of a tar archive.
fn is_tar(name: &str) -> bool {
    uncompressed(name).ends_with(".tar") || name.ends_with(".tgz")
}

/// Whether the key of a packed sample has a dot that is spelled differently in names of files.
pub(in crate::convert) fn is_escaped(packed: impl AsRef<[u8]>) -> bool {
    let key = msgpack::check_sample(packed.as_ref());
    key.is_ok_and(|key| key.rsplit('/').next().is_some_and(|name| name.contains('.')))
}

/// Whether a file is read as a tar archive because of its name.
pub(in crate::convert) fn is_named_tar(path: &Path) -> bool {
    is_tar(&path.file_name().unwrap_or_default().to_string_lossy().to_lowercase())
}
