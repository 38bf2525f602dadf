//! Tables of Arrow: rows in memory, Parquet files and Arrow IPC, as pyarrow and Hugging Face `datasets` write them.
//!
//! For reading, `folder` finds files, [`format::arrow`](crate::format::arrow) makes samples of batches of rows,
//! `lacks` notes what fields do not carry of columns, and `named_files` reads what rows have only the paths
//! of. For writing, `table` makes batches of samples, whose fields [`format::arrow`](crate::format::arrow) makes columns
//! of. [`ParquetReader`], [`ArrowIpcReader`] and their writers connect these with files.
//!
//! Written files carry, in addition to the features of Hugging Face, a note in the metadata of the
//! schema, so that reading gives back the same samples: it tells NumPy numbers from plain ones, and
//! arrays of a shape from lists.
//!
//! The bytes are decoded by the Arrow crates, which trust some lengths that they should not. So
//! these are checked first (`limits`), and a panic is an error like any other.
//!
//! Absent on purpose: unions, runs, intervals and encrypted files, which are refused. Nothing is
//! ever fetched: an image that a row has only the path of is read if it is below the folder of the
//! table, and an error otherwise.

#[cfg(feature = "parquet")]
mod decoder;
#[cfg(feature = "parquet")]
pub(in crate::convert) mod folder;
#[cfg(feature = "arrow")]
mod batches_read;
#[cfg(feature = "arrow")]
mod lacks;
#[cfg(feature = "parquet")]
mod limits;
#[cfg(feature = "parquet")]
mod named_files;
#[cfg(feature = "parquet")]
mod table;
#[cfg(feature = "parquet")]
mod parquet_read;
#[cfg(feature = "parquet")]
mod parquet_write;
#[cfg(feature = "parquet")]
mod ipc_read;
#[cfg(feature = "parquet")]
mod ipc_write;

#[cfg(feature = "arrow")]
pub(in crate::convert) use batches_read::BatchesInput;
#[cfg(feature = "parquet")]
pub use {
    ipc_read::ArrowIpcReader, ipc_write::ArrowIpcWriter, parquet_read::ParquetReader,
    parquet_write::ParquetWriter,
};

use crate::convert::carried::{
    Carried, Handling as H, LeftOut as L, NumberKind as N, ValueKind as V, ValuePlace,
};
use crate::convert::formats::def::{FormatDef, Keys, Output, READ};
#[cfg(feature = "parquet")]
use crate::convert::samples::Samples;

/// The field of the numbers whose names are in `NAME.labels`.
#[cfg(feature = "parquet")]
const LABEL: &str = "label";

pub(in crate::convert) static PARQUET: FormatDef = FormatDef {
    name: "parquet",
    title: "Parquet",
    begins: |file| file.head.starts_with(b"PAR1"),
    never_empty: &[".parquet"],
    in_folder: Some(|file| file.ends(".parquet") || file.ends(".pq")),
    leaves_out: TABLES,
    #[cfg(feature = "parquet")]
    open: |sources| {
        let table = ParquetReader::open_all(sources.paths)?.asked(sources);
        Ok(Samples::units(table.unless_dropped(|name| !sources.kept.needs(name))))
    },
    endings: &["parquet"],
    not_endings: &[("pq", "the name of Parquet ends in .parquet")],
    #[cfg(feature = "parquet")]
    create: |new| {
        let labels = new.labels.unwrap_or_default();
        Ok(Box::new(ParquetWriter::create(new.path)?.labels(LABEL, labels)))
    },
    ..TABLE
};

pub(in crate::convert) static ARROW: FormatDef = FormatDef {
    name: "arrow",
    aliases: &["feather"],
    title: "Arrow IPC",
    // A stream has no magic: it starts with a continuation marker and the length of its schema.
    begins: |file| {
        let is_stream = || file.name.ends_with(".arrow") && file.head.starts_with(&[0xff; 4]);
        file.head.starts_with(b"ARROW1") || is_stream()
    },
    never_empty: &[".arrow", ".feather"],
    in_folder: Some(|file| {
        (file.ends(".arrow") && !is_leftover(file.name)) || file.ends(".feather")
    }),
    leaves_out: STREAMS,
    #[cfg(feature = "parquet")]
    open: |sources| {
        let outside = sources.read.allow_outside;
        let table = ArrowIpcReader::open_from(sources.paths, outside)?.asked(sources);
        Ok(Samples::units(table))
    },
    endings: &["arrow", "feather"],
    #[cfg(feature = "parquet")]
    create: |new| {
        let labels = new.labels.unwrap_or_default();
        Ok(Box::new(ArrowIpcWriter::create(new.path)?.labels(LABEL, labels)))
    },
    ..TABLE
};

/// Whether `datasets` names files so that are no data: what `map` and `shuffle` computed.
fn is_leftover(name: &str) -> bool {
    name == "indices.arrow" || (name.starts_with("cache-") && name.ends_with(".arrow"))
}

/// Shared by both.
const TABLE: FormatDef = FormatDef {
    feature: Some("parquet"),
    keys: Keys::Column,
    output: Output::File,
    keeps_labels: true,
    carries,
    ..READ
};

/// Contents of tables with typed columns.
const TABLES: &[(L, H)] = &[
    (L::Decimal, H::Remarked),
    (L::TimeZone, H::Remarked),
    (L::TimeOfDay, H::Remarked),
    (L::ExtensionType, H::Remarked),
    (L::LabelNames, H::Remarked),
    (L::NoLabel, H::Remarked),
    (L::Metadata, H::Remarked),
    (L::SameName, H::Refused),
    (L::OtherType, H::Refused),
    (L::EmptyFile, H::Remarked),
    (L::NoImage, H::Remarked),
    (L::CutImage, H::Remarked),
    (L::PathValue, H::Remarked),
    (L::MixedSplits, H::Remarked),
    (L::OtherFile, H::Remarked),
];
/// The same of Arrow, whose files are streams and come in folders.
const STREAMS: &[(L, H)] = &[
    TABLES[0],
    TABLES[1],
    TABLES[2],
    TABLES[3],
    TABLES[4],
    TABLES[5],
    TABLES[6],
    TABLES[7],
    TABLES[8],
    TABLES[9],
    TABLES[10],
    TABLES[11],
    (L::AfterEnd, H::Remarked),
    (L::UnlistedFile, H::Remarked),
    (L::Indices, H::Refused),
    (L::PathValue, H::Remarked),
    (L::MixedSplits, H::Remarked),
    (L::OtherFile, H::Remarked),
];

pub(super) fn carries(kind: V, _: ValuePlace) -> Carried {
    match kind {
        V::Complex => Carried::Refused("numbers without an imaginary part"),
        V::Timestamp | V::Extension => Carried::Refused("a value that a column can have"),
        V::MixedList => Carried::Refused("a list of values of one type"),
        V::MapOfOtherKeys => Carried::Refused("maps whose keys are strings"),
        V::Scalar(number) | V::Array(number, _) => match number {
            N::Bool | N::Int | N::Int64 | N::LargeInt => Carried::Exact,
            N::Half | N::Single | N::Double | N::HugeDouble | N::Time | N::Date => Carried::Exact,
            _ => Carried::Refused(
                "numbers in little-endian order, or times in days, seconds or thousandths, \
                 millionths or billionths of seconds",
            ),
        },
        _ => Carried::Exact,
    }
}
