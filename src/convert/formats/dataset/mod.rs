//! Datasets, as the input of a conversion.

mod read;

pub use read::DatasetInput;
