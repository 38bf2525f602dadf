//! The files of a dataset.

pub mod side_file;
pub mod offsets;
pub mod keys;
mod blake2s;
pub mod key_hashes;
pub mod filter;
pub mod digests;
pub mod legacy_index;

#[cfg(test)]
mod golden;
