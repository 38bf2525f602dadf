//! Tables of comma-separated or tab-separated values.

mod bounded;
mod read;
mod write;

pub(super) use bounded::Bounded;
pub use read::{CsvReader, CsvType};
pub(super) use read::{MAX_BYTES, blame};
pub use write::CsvWriter;
