//! Arrays larger than a sample's field: packed in one container, chunked in a directory, staged in
//! memory.
//!
//! [`PackedArray`] is one array in one [bloscpack](crate::format::bloscpack) container, in a file or
//! inside a sample; [`PackOptions`] makes such containers, of arrays and of bytes. Chunks are
//! compressed and decompressed on all cores, where there are enough of them to be worth it.
//! [`AppendOptions`] appends to such a file in place, [`PackedWriter`] and [`PackedReader`] are bytes as
//! streams, and what is larger than memory goes from one file to the other a few chunks at a time.
//! [`bcolz`] reads and writes the directories of that name; [`Rows`] is what all of these have in
//! common. [`ArrayPolicy`] says which arrays of samples are packed, and turns those that are
//! there into the other form.
//!
//! A chunked array is a directory; [`format::chunked`](crate::format::chunked) is its specification.
//! [`ArrayStore`] creates and writes it, [`ChunkedArray`] reads one version, [`ArrayOptions`] say
//! how.
//!
//! [`StagedArray`] is a chunked array that is changed in memory, above chunks that stay as they are
//! wherever they are stored ([`BaseSlab`]): it reads, assigns, resizes and appends as NumPy does, and
//! says for each chunk what has become of it. Its first files decide (`selection`, `grid`, `plan`:
//! numbers only), the others move data.
//!
//! ```text
//! Selection ──▶ positions on each axis ──▶ chunks and segments ──▶ plan: transfers and a patch
//!               (selection)                (grid)                  (plan)       │
//!          result, or patched places  ◀── slabs and BaseSlabs  ◀── moved bytes ◀┘
//!          (staged)                       (slab, spill)            (transfer)
//! ```
//!
//! [`Rows`] is what arrays of all kinds have in common. [`ArrayRows`] makes a
//! [`Reader`](crate::reader::Reader) of their rows, and [`WithArrays`] puts rows in the place of the
//! references that samples have to them.

pub mod append;
mod pack;
mod packed;
mod field;
mod policy;
mod stream;
mod bulk;
mod rows;
pub mod bcolz;
mod selection;
mod grid;
mod plan;
mod transfer;
mod value;
mod slab;
mod spill;
mod staged;
mod columns;
mod recent;
mod files;
mod own;
mod superchunk;
mod options;
mod info;
mod opened;
mod chunked;
mod copies;
mod staged_version;
mod store;
mod create;
mod cut;
mod commit;
mod bands;
mod gc;
mod compact;
mod check;
mod history;
mod blocks;
mod samples;
mod with_arrays;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod properties;

pub use append::AppendOptions;
pub use check::{ChunkDiff, Problem, Report};
pub use chunked::{At, ChunkView, ChunkedArray};
pub use files::Check;
pub use gc::{Keep, Removed};
pub use grid::ChunkGrid;
pub use history::Added;
pub use info::{ArrayInfo, VersionInfo};
pub use options::ArrayOptions;
pub use pack::{PackOptions, parse_size};
pub use packed::PackedArray;
pub use plan::{
    ChangesPlan, ChunkChange, End, GetItemPlan, LoadPlan, Place, Placement, ResizePlan, Row,
    SetItemPlan, SlabKind, Span, TransferRows,
};
pub use policy::{ArrayPolicy, ArrayTally, Left};
pub use rows::{Pieces, Rows};
pub use samples::ArrayRows;
pub use selection::{Index, Selection};
pub use spill::{SlabStore, SpillDir};
pub use staged::{ChunkState, StagedArray};
pub use staged_version::StagedVersion;
pub use store::ArrayStore;
pub use stream::{PackedReader, PackedWriter};
pub use transfer::BaseSlab;
pub use with_arrays::{ArraySource, WithArrays};
