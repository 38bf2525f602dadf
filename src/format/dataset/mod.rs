//! The files of a dataset.

pub mod side_file;
pub mod offsets;
pub mod keys;

#[cfg(test)]
mod golden;
