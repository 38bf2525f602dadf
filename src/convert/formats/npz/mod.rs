//! npz: the arrays of NumPy in a zip archive.

mod read;
mod write;

pub use read::Npz;
pub use write::NpzWriter;
