//! MDS, the shards of MosaicML Streaming.

mod digest;
mod read;
mod write;

pub use read::MdsReader;
pub use write::MdsWriter;

/// The most bytes of a shard: its offsets have 32 bits.
const MAX_SHARD: u64 = u32::MAX as u64;
