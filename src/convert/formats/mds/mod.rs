//! MDS, the shards of MosaicML's Streaming.

mod digest;
mod read;
mod write;

pub use read::MdsReader;
pub use write::MdsWriter;

/// The offsets of a shard reach no further.
const MAX_SHARD: u64 = u32::MAX as u64;
