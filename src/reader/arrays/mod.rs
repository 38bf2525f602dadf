//! Rows of arrays as the samples of a [`Reader`](crate::reader::Reader), and in the place of references
//! in samples.

mod row_cache;
mod array_rows;
mod with_arrays;

pub use array_rows::ArrayRows;
pub use with_arrays::{ArraySource, WithArrays};
