//! Readers of all kinds: what is theirs alone, and the one list of questions that all answer alike.

mod compose;
mod conformance;
mod dataset;
mod files;
mod lengths;
mod list;
mod natural;
#[cfg(feature = "formats")]
mod open;
mod sharded;
mod shards;
mod arrays;
#[cfg(feature = "zip")]
mod zip;
