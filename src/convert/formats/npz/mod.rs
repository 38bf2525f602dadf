//! npz: the arrays of NumPy in a zip archive.

mod read;
mod sink;
mod write;

pub use read::{NpzOptions, NpzReader};
pub use sink::ZipSink;
pub use write::NpzWriter;
