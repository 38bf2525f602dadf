#![doc = include_str!("FORMAT.md")]
//!
//! # In this module
//!
//! One submodule for each section, [`Container`] to read all of them, [`Encoder`] to write them.
//! Absent on purpose: files, threads, and the arithmetic of rows and selections, which are in
//! [`array`](crate::array); and what is inside a chunk, which is in [`blosc`](super::blosc).

pub(crate) mod checksum;
pub(crate) mod header;
pub(crate) mod metadata;
pub(crate) mod offsets;
mod ndarray;
mod container;
mod encode;
mod undo;

pub use checksum::Checksum;
#[doc(hidden)]
pub use container::MAX_RATIO;
pub use container::{Chunk, ChunkPlace, Chunks, Container};
pub use encode::{Encoder, Ending};
pub use header::Header;
pub use metadata::{Metadata, MetadataCodec, MetadataHeader, MetadataOptions, Room};
pub use ndarray::ArrayMetadata;
pub use offsets::Offsets;
#[doc(hidden)]
pub use undo::{Undo, UndoState};

#[cfg(test)]
mod tests;
