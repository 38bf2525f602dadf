//! Staged arrays against golden files of versioned-hdf5, and against a model by random operations.

mod golden;
mod properties;
