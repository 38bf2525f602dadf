//! The file formats, one folder each: `read.rs` makes samples of files, `write.rs` files of
//! samples.
//!
//! What several of them need is next to the folders: files in ranges of bytes ([`ranges`]), arrays
//! whose rows are samples ([`rows`]), what bytes are hardly an image ([`image_bytes`]), fields by name
//! ([`find`]), and the file of a writer ([`new_file`]). What the bytes mean is not decided here but in [`format`](crate::format).

#[cfg(feature = "parquet")]
pub(super) mod arrow;
pub(crate) mod cifar;
#[cfg(feature = "formats")]
pub(super) mod csv;
pub(super) mod dataset;
#[cfg(any(feature = "formats", feature = "parquet"))]
mod find;
pub(super) mod image_bytes;
pub(super) mod image_folder;
pub(super) mod jsonl;
pub(super) mod mds;
pub(super) mod mnist;
#[cfg(feature = "zip")]
pub(super) mod npz;
mod new_file;
mod ranges;
mod rows;
#[cfg(feature = "formats")]
pub(super) mod tfrecord;
pub(super) mod webdataset;
