//! Formats: bytes to values and back. No paths, files, threads or clocks in here.

use std::fmt;

use crate::error::{Error, ErrorKind};

pub mod numpy;
pub mod msgpack;
pub mod jsonl;
pub mod dataset;
pub mod blosc;
pub mod bloscpack;
pub mod bcolz;
pub mod chunked;
pub mod mat;
pub mod idx;
pub mod pickle;
pub mod tar;
pub mod mds;
pub mod parquet;
#[cfg(feature = "formats")]
pub mod tfrecord;

/// Bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes that are not what a format demands: where, what was expected and what was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatError {
    /// Byte position in the input of the decoder.
    pub position: u64,
    /// What the format demands there.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl FormatError {
    /// An error at this byte position.
    pub fn new(position: u64, expected: impl Into<String>, found: impl Into<String>) -> Self {
        FormatError { position, expected: expected.into(), found: found.into() }
    }

    /// The same error of an input of which the decoder saw but what comes after `start` bytes.
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
