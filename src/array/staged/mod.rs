//! Changes to a chunked array in memory, above chunks that stay as they are.

mod slab;
mod spill;
pub(crate) mod array;

pub use array::{ChunkState, StagedArray};
pub use spill::{SlabStore, SpillDir};
