//! npz: the arrays of NumPy in a zip archive.

mod read;
mod write;

pub use read::{NpzOptions, NpzReader};
pub use write::NpzWriter;
