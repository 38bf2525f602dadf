//! Writing chunked arrays: [`ArrayStore`] and what it does, from staged changes to a published
//! version, and removing versions again.

mod ownership;
mod chunker;
mod staged_version;
pub(crate) mod store;
mod create;
pub(crate) mod commit;
mod bands;
mod compact;
mod gc;

pub use gc::{Keep, Removed};
pub use staged_version::StagedVersion;
pub use store::ArrayStore;
