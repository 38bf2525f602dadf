//! Tables of comma-separated or tab-separated values.

mod bounded;
mod quotes;
mod table;
mod read;
mod write;

pub(super) use bounded::Bounded;
pub(in crate::convert) use read::other_delimiter;
pub use read::{CsvReader, CsvType};
pub(super) use read::{MAX_BYTES, guess, typed};
pub(super) use table::{Dialect, Table, note};
pub use write::CsvWriter;
