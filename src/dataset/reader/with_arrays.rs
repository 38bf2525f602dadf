//! Datasets whose samples refer to arrays in their own directory.

use std::path::Path;

use super::DatasetReader;
use crate::reader::{ArraySource, WithArrays};

impl WithArrays<DatasetReader> {
    /// A dataset whose arrays are in its own directory.
    pub fn next_to(reader: DatasetReader) -> WithArrays<DatasetReader> {
        let dir = reader.path().parent().unwrap_or(Path::new("")).to_path_buf();
        WithArrays::new(reader, ArraySource::new(dir))
    }
}
