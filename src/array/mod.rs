//! Arrays larger than a field of a sample: packed in one container, chunked in a directory, or
//! staged in memory.
//!
//! [`PackedArray`] is one array in one [bloscpack](crate::format::bloscpack) container, in a file
//! or inside a sample; [`PackOptions`] makes such containers, of arrays and of bytes. Chunks are
//! compressed and decompressed on all cores, if there are enough of them. [`AppendOptions`] appends
//! to such a file in place, [`PackedWriter`] and [`PackedReader`] stream bytes, so that data larger
//! than memory pass from one file to another a few chunks at a time. [`ArrayPolicy`] decides which
//! arrays of samples are packed, and converts them.
//!
//! A chunked array is a directory; [`format::chunked`](crate::format::chunked) is its
//! specification. [`ArrayStore`] creates and writes it, [`ChunkedArray`] reads one version,
//! [`ArrayOptions`] has the options of both.
//!
//! [`StagedArray`] is a chunked array that is changed in memory, above base chunks that stay as
//! they are, wherever they are stored ([`BaseSlab`]). It reads, assigns, resizes and appends as
//! NumPy does, and knows for each chunk whether it changed. It decides first and moves data
//! afterwards:
//!
//! ```text
//! Selection ──▶ positions on each axis ──▶ chunks and segments ──▶ plan: transfers and a patch
//!               (selection)                (grid)                  (plan)       │
//!          result, or patched places  ◀── slabs and BaseSlabs  ◀── moved bytes ◀┘
//!          (staged)                       (staged::slab)           (transfer)
//! ```
//!
//! [`Rows`] is the trait of all these arrays, and of an [`ArrayPart`], which is a selection.
//! [`ArrayImport`] and [`ArrayExport`] exchange them with other programs. [`bcolz`] reads and writes the directories of that
//! library. [`ArrayRows`](crate::reader::ArrayRows) makes a reader of rows, and
//! [`WithArrays`](crate::reader::WithArrays) replaces references in samples by the rows that they refer to.
//!
//! # ndarray
//!
//! [`ndarray`] types are part of this API: arrays go in and come out as [`ndarray::Array`]. The crate
//! is re-exported here, so that a program can use the version that its kiste uses; a new major
//! version of `ndarray` is a new major version of this crate.

mod on_disk;
mod selection;
mod array_target;
mod grid;
mod plan;
mod transfer;
mod operand;
mod rows;
mod packed;
pub mod bcolz;
mod staged;
mod chunked;
mod array_part;
mod exchange;
mod array_place;
#[cfg(test)]
mod tests;

/// The crate whose arrays are in the signatures of this one.
pub use ndarray;

pub use array_part::ArrayPart;
pub use array_place::ArrayPlace;
pub use array_target::ArrayTarget;
pub use chunked::{
    Added, ArrayAbout, ArrayInfo, ArrayOptions, ArrayStore, At, Check, ChunkDiff, ChunkView,
    ChunkedArray, Keep, LogEntry, Problem, Removed, Report, StagedVersion, VersionInfo,
};
#[doc(hidden)]
pub use exchange::RowsProgress;
#[cfg(feature = "zip")]
pub(crate) use exchange::ZipSink;
pub use exchange::{
    ArrayExport, ArrayFormat, ArrayImport, Imported, NpyRows, read_npy_header, write_npy,
};
pub use grid::ChunkGrid;
pub use packed::{
    AppendOptions, ArrayPolicy, ArrayTally, ByteSize, ContainerArray, ContainerInfo, Left,
    PackOptions, PackedArray, PackedReader, PackedWriter,
};
/// For the command `blpk`, whose lines they are.
#[doc(hidden)]
pub use packed::{
    ContainerChunk, ContainerHeader, ContainerMetadata, InputBytes, NamedInput, append,
    read_metadata,
};
#[doc(hidden)]
pub use plan::Place;
pub use plan::Placement;
pub use plan::Plan;
#[doc(hidden)]
pub use rows::Pieces;
pub use rows::Rows;
pub(crate) use rows::row_count;
pub use selection::{Index, Selection};
pub use staged::{ChunkState, SlabStore, SpillDir, StagedArray};
#[doc(hidden)]
pub use transfer::BaseSlab;
