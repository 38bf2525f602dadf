//! Formats: bytes to values and back.
//!
//! | module | format |
//! | --- | --- |
//! | [`dataset`] | the files of a dataset: offsets, keys, hashes, filter, digests |
//! | [`msgpack`] | samples, and the NumPy arrays in them |
//! | [`jsonl`] | samples as lines of JSON |
//! | [`numpy`] | `.npy` files, and element types as text |
//! | [`blosc`], [`bloscpack`] | compressed chunks, and containers of them |
//! | [`chunked`] | directories of chunked arrays |
//! | [`recipe`] | datasets made of other datasets, as text, and kept selections |
//!
//! Where a format is ours to specify, a specification heads the docs of its module. Formats that
//! are only a source or target of conversion are private. Internals, such as the coders of single side
//! files, can be reached for fuzzing and benchmarks, but are not in these docs: they may change in any
//! release.
//!
//! Input is not trusted anywhere: lengths are checked before memory is allocated for them, nothing
//! recurses along nested data without a limit, and no input panics. Errors are [`FormatError`]s.
//!
//! Absent on purpose: paths, files, threads and clocks. Callers join formats with
//! [`storage`](crate::storage).

use std::fmt;

use crate::error::{Error, ErrorKind};

#[cfg(feature = "arrays")]
pub mod numpy;
pub mod msgpack;
#[cfg(feature = "arrays")]
pub(crate) mod sample_fields;
#[cfg(feature = "arrays")]
pub mod jsonl;
pub(crate) mod claimed;
pub mod dataset;
pub(crate) mod md5;
#[cfg(feature = "arrays")]
pub mod blosc;
#[cfg(feature = "arrays")]
pub mod bloscpack;
#[cfg(feature = "arrays")]
pub mod chunked;
#[cfg(feature = "arrays")]
pub mod recipe;
#[cfg(feature = "arrays")]
pub(crate) mod bcolz;
#[cfg(feature = "convert")]
pub(crate) mod in_place;
#[cfg(feature = "convert")]
pub(crate) mod key_pattern;
#[cfg(feature = "convert")]
pub(crate) mod mat;
#[cfg(feature = "convert")]
pub(crate) mod idx;
#[cfg(feature = "convert")]
pub(crate) mod pickle;
#[cfg(feature = "convert")]
pub(crate) mod tar;
#[cfg(feature = "convert")]
pub(crate) mod webdataset;
#[cfg(feature = "convert")]
pub(crate) mod mds;
#[cfg(feature = "convert")]
pub(crate) mod coco;
#[cfg(any(feature = "convert", feature = "stat"))]
pub(crate) mod png;
#[cfg(feature = "stat")]
pub(crate) mod picture;
#[cfg(feature = "stat")]
pub(crate) mod sound;
#[cfg(feature = "convert")]
pub(crate) mod parquet;
#[cfg(feature = "arrow")]
pub(crate) mod arrow;
#[cfg(any(feature = "formats", feature = "arrow"))]
pub(crate) mod find;
#[cfg(feature = "formats")]
pub(crate) mod tfrecord;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

/// Bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes that are not what a format demands: where, what was expected and what was found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FormatError {
    /// Byte position in the input of the decoder.
    pub position: u64,
    /// What the format requires at this position.
    pub expected: String,
    /// What was found instead.
    pub found: String,
}

impl FormatError {
    /// An error at this byte position.
    pub fn new(position: u64, expected: impl Into<String>, found: impl Into<String>) -> Self {
        FormatError { position, expected: expected.into(), found: found.into() }
    }

    /// The same error for an input whose first `start` bytes the decoder did not see.
    pub fn behind(self, start: u64) -> Self {
        FormatError { position: self.position.saturating_add(start), ..self }
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FormatError { position, expected, found } = self;
        write!(f, "byte {position}: expected {expected}, found {found}")
    }
}

impl std::error::Error for FormatError {}

impl From<FormatError> for Error {
    fn from(error: FormatError) -> Error {
        Error::new(ErrorKind::Damaged, error.to_string())
    }
}
