//! Writing chunked arrays.
//!
//! ```text
//!  stage · append · put · resize · attributes ──▶ Proposal        (staged_version append bands)
//!                                                    │
//!           chunks: hashed, compared, compressed ◀───┘            (column, in_place)
//!               │
//!               ▼
//!  superchunks ──▶ table segment ──▶ version ──▶ summaries        (commit, renumbering, table, store)
//!                                       │
//!  files that no version needs ◀────────┘                         (gc, compact)
//! ```
//!
//! All files go through [`Directory`](directory::Directory), which writes them next to their names,
//! and get their names from [`Numbers`](numbers::Numbers). Nothing outside this folder changes a file
//! of an array.

mod ownership;
mod directory;
mod numbers;
mod array_chunks;
mod renumbering;
mod proposal;
mod in_place;
mod column;
mod table;
mod commit;
mod staged_version;
mod bands;
mod append;
mod retention;
mod compact;
mod gc;
mod store;
pub(super) mod open;

pub use retention::{Keep, Removed};
pub use staged_version::StagedVersion;
pub use store::ArrayStore;
