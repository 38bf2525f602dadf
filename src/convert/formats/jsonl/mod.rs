//! JSON lines: one sample a line, in the notation that `kiste cat --jsonl` prints.

mod keys;
mod read;
mod write;

pub(in crate::convert) use keys::KeyRule;
pub(super) use read::read_line;
pub use read::{JsonLinesReader, JsonLinesStream};
pub use write::JsonLinesWriter;
