#![doc = include_str!("FORMAT.md")]

pub mod names;
mod numbering;
pub mod segment;
pub mod superchunk;
mod time;
mod version;

pub use numbering::{MAX_DIMENSIONS, Numbering, grid_of};
pub use time::{format_time, parse_time};
pub use version::{
    Column, Compression, FORMAT, MAX_CHUNK_BYTES, MAX_VERSION_BYTES, Storage, Version, format_of,
};
