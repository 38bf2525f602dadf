//! A dataset as the source of another one.

mod read;

pub use read::DatasetInput;
