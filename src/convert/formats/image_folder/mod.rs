//! Files of images: in a folder with one folder for each label, by patterns, in a list, or in a zip
//! archive.
//!
//! `files` is what is known of files, `options` finds them and their labels, `list` reads lists of files, `metadata` reads what
//! is known about images from files next to them, and `labels` says what labels may have been meant as.
//! [`ImageFolderReader`] makes samples of the files, and [`ImageFolderWriter`] files of samples. Absent on
//! purpose: anything about the content of images, which is for `image_bytes` and `Images`.

mod archive;
mod files;
mod labels;
mod list;
mod metadata;
mod options;
mod read;
mod write;

#[cfg(feature = "formats")]
pub(in crate::convert) use list::delimiter_of;
pub use options::FolderOptions;
pub use read::ImageFolderReader;
pub use write::ImageFolderWriter;
