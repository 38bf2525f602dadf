//! Tables of comma-separated or tab-separated values.

mod bounded;
mod read;
mod write;

pub(super) use bounded::Bounded;
pub(in crate::convert) use read::other_delimiter;
pub use read::{CsvReader, CsvType};
pub(super) use read::{MAX_BYTES, blame, guess, typed};
pub use write::CsvWriter;
