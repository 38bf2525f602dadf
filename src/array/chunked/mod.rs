//! Arrays in directories: chunks in superchunks, chunk tables, versions.
//!
//! [`format::chunked`](crate::format::chunked) specifies the files. Here they are opened, read
//! ([`ChunkedArray`]), verified and compared; `write` is the one place that changes them.

pub(crate) mod options;
pub(crate) mod info;
mod columns;
mod block_cache;
mod superchunk;
mod files;
mod summary;
mod version;
pub(crate) mod read;
mod history;
mod verify;
mod write;

pub use files::Check;
pub use history::Added;
pub use info::{ArrayInfo, VersionInfo};
pub use options::ArrayOptions;
pub use read::{At, ChunkView, ChunkedArray};
pub use verify::{ChunkDiff, Problem, Report};
pub use write::{ArrayStore, Keep, Removed, StagedVersion};
