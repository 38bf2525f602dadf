//! Arrays in directories: chunks in superchunks, chunk tables, versions.
//!
//! [`format::chunked`](crate::format::chunked) specifies the files. From the bottom up: options and
//! infos are data; `files` opens what the format names; a [`version`](version::OpenVersion) finds
//! chunks; [`ChunkedArray`] reads, verifies and compares; `write` is the one room that changes files;
//! `open` has every way to open or create an array.

pub(crate) mod options;
mod info;
mod layout;
mod columns;
mod block_cache;
mod superchunk;
mod table;
mod files;
pub(crate) mod at;
mod summary;
mod version;
mod view;
mod diff;
mod history;
mod verify;
pub(crate) mod read;
mod write;
mod open;
mod new_array;
mod description;

pub use at::At;
pub use description::{ArrayAbout, LogEntry};
pub use diff::ChunkDiff;
pub use history::Added;
pub use info::{ArrayInfo, VersionInfo};
pub(crate) use new_array::NewArray;
pub use options::{ArrayOptions, Check};
pub use read::ChunkedArray;
pub use verify::{Problem, Report};
pub use view::ChunkView;
pub use write::{ArrayStore, Keep, Removed, StagedVersion};
