//! Parts that the command, the tests, the benchmarks and the fuzz targets of this package need
//! beyond the public interface. Not part of it: anything here can change or disappear in any
//! release.

/// Directories of bcolz.
#[cfg(feature = "arrays")]
pub mod bcolz {
    pub use crate::format::bcolz::{
        HEADER, HEADER_BYTES, Layout, Sizes, Storage, Superchunk, attrs_to_json, chunk_in, dflt_of,
        names_to_json, parse_attrs, parse_names, recognise,
    };
}

/// Blosc without the C library.
#[cfg(feature = "arrays")]
pub mod blosc {
    pub use crate::format::blosc::safe::{compress, decompress_into};
}

/// MNIST's files.
#[cfg(feature = "convert")]
pub mod idx {
    pub use crate::format::idx::decode;
}

/// The lookup file of a dataset.
pub mod lookup {
    pub use crate::format::dataset::lookup::{EMPTY, HEADER, Header, Placer, Shape, slot};
}

/// MATLAB's files.
#[cfg(feature = "convert")]
pub mod mat {
    pub use crate::format::mat::{Array, Limits, MatFile, Record, Sparse, Structs};
}

/// Hashing alone, to be compared with.
pub mod md5 {
    pub use crate::format::md5::Md5;
}

/// Shards of MosaicML Streaming.
#[cfg(feature = "convert")]
pub mod mds {
    pub use crate::format::mds::{Column, Encoding, Index, Shard};
}

/// Literals of Python.
#[cfg(feature = "arrays")]
pub mod numpy {
    pub use crate::format::numpy::literal::Literal;
}

/// The thrift around Parquet.
#[cfg(feature = "convert")]
pub mod parquet {
    pub use crate::format::parquet::{MAGIC, check_footer, parse_page_header, parse_tail};
}

/// Pickles, which are read and never executed.
#[cfg(feature = "convert")]
pub mod pickle {
    pub use crate::format::pickle::{Object, Pickle};
}

/// Headers of tar.
#[cfg(feature = "convert")]
pub mod tar {
    pub use crate::format::tar::{BLOCK, file_header, padding, parse_header, pax_records};
}

/// TFRecord and the examples in it.
#[cfg(feature = "formats")]
pub mod tfrecord {
    pub use crate::format::tfrecord::example;
    pub use crate::format::tfrecord::{HEADER, checksum, encode, parse_header};
}
