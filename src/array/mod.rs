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

mod selection;
mod grid;
mod plan;
mod transfer;
mod operand;
mod rows;
mod temporary;
mod packed;
pub mod bcolz;
mod staged;
mod chunked;
mod samples;
#[cfg(test)]
mod tests;

pub use chunked::{
    Added, ArrayInfo, ArrayOptions, ArrayStore, At, Check, ChunkDiff, ChunkView, ChunkedArray,
    Keep, Problem, Removed, Report, StagedVersion, VersionInfo,
};
pub use grid::ChunkGrid;
pub use packed::{
    AppendOptions, ArrayPolicy, ArrayTally, Left, PackOptions, PackedArray, PackedReader,
    PackedWriter, append, parse_size,
};
pub use plan::{Place, Placement, Plan};
pub use rows::{Pieces, Rows};
pub use samples::{ArrayRows, ArraySource, WithArrays};
pub use selection::{Index, Selection};
pub use staged::{ChunkState, SlabStore, SpillDir, StagedArray};
pub use transfer::BaseSlab;
