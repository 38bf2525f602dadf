//! Formats: bytes to values and back. No paths, files, threads or clocks in here.

use std::fmt;

pub mod numpy;
pub mod msgpack;
pub mod jsonl;
pub mod dataset;
pub mod blosc;
pub mod bloscpack;
pub mod chunked;
pub(crate) mod bcolz;
pub(crate) mod mat;
pub(crate) mod idx;
pub(crate) mod pickle;
pub(crate) mod tar;
pub(crate) mod mds;
pub(crate) mod parquet;
#[cfg(feature = "formats")]
pub(crate) mod tfrecord;

/// What the command, the tests, the benchmarks and the fuzz targets of this package need beyond the
/// public interface. Not part of it: anything here can change or disappear in any release.
#[doc(hidden)]
pub mod __private {
    /// Directories of bcolz.
    pub mod bcolz {
        pub use crate::format::bcolz::{
            HEADER, HEADER_BYTES, Layout, Sizes, Storage, Superchunk, attrs_to_json, chunk_in,
            dflt_of, names_to_json, parse_attrs, parse_names, recognise,
        };
    }

    /// Blosc without the C library.
    pub mod blosc {
        pub use crate::format::blosc::safe::{compress, decompress_into};
    }

    /// MNIST's files.
    pub mod idx {
        pub use crate::format::idx::decode;
    }

    /// The lookup file of a dataset.
    pub mod lookup {
        pub use crate::format::dataset::lookup::{EMPTY, HEADER, Header, Placer, Shape, slot};
    }

    /// MATLAB's files.
    pub mod mat {
        pub use crate::format::mat::{Array, Limits, MatFile, Record, Sparse, Structs};
    }

    /// Shards of MosaicML Streaming.
    pub mod mds {
        pub use crate::format::mds::{Column, Encoding, Index, Shard};
    }

    /// Literals of Python.
    pub mod numpy {
        pub use crate::format::numpy::literal::Literal;
    }

    /// The thrift around Parquet.
    pub mod parquet {
        pub use crate::format::parquet::{MAGIC, check_footer, parse_page_header, parse_tail};
    }

    /// Pickles, which are read and never executed.
    pub mod pickle {
        pub use crate::format::pickle::{Object, Pickle};
    }

    /// Headers of tar.
    pub mod tar {
        pub use crate::format::tar::{BLOCK, file_header, padding, parse_header, pax_records};
    }

    /// TFRecord and the examples in it.
    #[cfg(feature = "formats")]
    pub mod tfrecord {
        pub use crate::format::tfrecord::example;
        pub use crate::format::tfrecord::{HEADER, checksum, encode, parse_header};
    }
}

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
