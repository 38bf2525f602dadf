//! MDS, the shards of MosaicML's Streaming: index, shards, and the values in them.
//!
//! Facts after `streaming/base/format/mds` and `streaming/base/compression.py` of Streaming 0.13. A
//! folder has an `index.json` ([`Index`]) and shards. All numbers are low byte first. A shard
//! ([`Shard`]) is
//!
//! | bytes | |
//! | --- | --- |
//! | 4 | number of samples, n |
//! | 4 (n + 1) | where each sample begins in the file, and where the last one ends |
//! | up to the first | JSON that says what the index says about columns; not needed |
//! | the rest | the samples |
//!
//! kiste adds `"kiste": {"json": 1}` to the JSON of a shard with values of the encoding `json` that need the
//! notation of [`jsonl`](crate::format::jsonl), so that all values come back.
//!
//! A sample is the length, in four bytes, of each column without a fixed size, and then the bytes
//! of all columns. [`Encoding`] says what those mean, and `fields` makes fields of them.
//!
//! Absent on purpose: pickles, which are programs and never run; decoding images; and anything that
//! compresses or hashes whole files, which is left to the caller.

mod encoding;
mod index;
pub(crate) mod sample;
pub(crate) mod shard;

pub use encoding::Encoding;
pub(crate) use encoding::{Decoded, scalar};
pub use index::{Column, Index};
pub(crate) use index::{FileInfo, ShardInfo};
pub(crate) use sample::{Fact, check_pickles, fields, numbered_key};
pub use shard::Shard;
pub(crate) use shard::{encode_sample, encode_shard, sample_cells};

#[cfg(test)]
mod tests;
