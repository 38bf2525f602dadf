//! Changes to a chunked array in memory, above chunks that stay as they are.

mod slab;
mod spill;
mod array;
mod execute;
mod convert;
#[cfg(test)]
mod testing;

pub use array::{ChunkState, StagedArray};
pub(crate) use slab::Copied;
pub use spill::{SlabStore, SpillDir};
