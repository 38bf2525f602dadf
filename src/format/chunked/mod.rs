#![doc = include_str!("FORMAT.md")]
//!
//! # In this module
//!
//! [`Version`] is the file of a version, [`segment`] and [`superchunk`] are the other two kinds of
//! files, [`names`] the paths below the root. [`Numbering`] maps chunks to their numbers.
//!
//! Absent on purpose: files, locks and the order of writing, which are in
//! [`array`](crate::array); and what is inside a chunk, which is in [`blosc`](super::blosc).

#[doc(hidden)]
pub mod names;
mod numbering;
#[doc(hidden)]
pub mod segment;
#[doc(hidden)]
pub mod superchunk;
mod version;

#[doc(hidden)]
pub use crate::value::time::{format_time, parse_time};
#[doc(hidden)]
pub use numbering::{MAX_DIMENSIONS, Numbering, grid_of};
#[doc(hidden)]
pub use version::{
    Column, Compression, FORMAT, MAX_CHUNK_BYTES, MAX_VERSION_BYTES, Storage, Version, format_of,
};
