//! The formats of other libraries, a folder each: how samples are read from one, and written to it.

#[cfg(feature = "parquet")]
pub(super) mod arrow;
pub(crate) mod cifar;
#[cfg(feature = "formats")]
pub(super) mod csv;
pub(super) mod dataset;
#[cfg(any(feature = "formats", feature = "parquet"))]
mod find;
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
