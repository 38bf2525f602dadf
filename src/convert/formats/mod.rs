//! The file formats, one folder each: `mod.rs` says all that there is to know about one, `read.rs` makes samples
//! of files, `write.rs` files of samples. [`Format`](super::Format) lists the definitions. What a feature brings
//! is in the folders too: a format without it is still known, so that errors can say what is missing.
//!
//! What several of them need is next to the folders: what a definition says ([`def`]), several files and what is
//! asked of them ([`files`]), files in ranges of bytes ([`ranges`]), streams ([`streamed`]), arrays
//! whose rows are samples ([`rows`]), what bytes are hardly an image ([`image_bytes`]), and the file of a writer
//! ([`new_file`]). What the bytes mean is not decided here but in [`format`](crate::format).

pub(super) mod arrow;
pub(crate) mod cifar;
pub(super) mod coco;
pub(super) mod csv;
pub(super) mod dataset;
pub(super) mod def;
mod files;
pub(super) mod image_bytes;
pub(super) mod image_folder;
pub(super) mod jsonl;
pub(super) mod mds;
pub(super) mod mnist;
pub(super) mod npz;
mod new_file;
mod ranges;
mod rows;
mod streamed;
pub(super) mod tfrecord;
pub(super) mod webdataset;
