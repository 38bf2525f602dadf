//! The files of a dataset.
