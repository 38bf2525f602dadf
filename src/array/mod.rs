//! Arrays larger than a sample's field: packed in one container, chunked in a directory, staged in
//! memory.
//!
//! [`PackedArray`] is one array in one [bloscpack](crate::format::bloscpack) container, in a file or
//! inside a sample; [`PackOptions`] makes such containers, of arrays and of bytes. Chunks are
//! compressed and decompressed on all cores, where there are enough of them to be worth it.
//! [`AppendOptions`] appends to such a file in place, [`PackedWriter`] and [`PackedReader`] are bytes as
//! streams.

pub mod append;
mod pack;
mod packed;
mod stream;
mod selection;
mod grid;
mod plan;
mod transfer;
mod value;
mod slab;
mod staged;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod properties;

pub use append::AppendOptions;
pub use pack::{PackOptions, parse_size};
pub use packed::PackedArray;
pub use stream::{PackedReader, PackedWriter};

pub use grid::ChunkGrid;
pub use plan::{
    ChangesPlan, ChunkChange, End, GetItemPlan, LoadPlan, Place, Placement, ResizePlan, Row,
    SetItemPlan, SlabKind, Span, TransferRows,
};
pub use selection::{Index, Selection};
pub use staged::{ChunkState, StagedArray};
pub use transfer::BaseSlab;
