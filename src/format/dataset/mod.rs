//! The files of a dataset.

pub mod side_file;
pub mod offsets;
pub mod keys;
mod blake2s;
pub mod key_hashes;
pub mod filter;

#[cfg(test)]
mod golden;
