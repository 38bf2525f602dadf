//! Files of images: a folder with one folder a label, a pattern, a list, or a zip archive.
//!
//! [`FolderOptions`] finds the files and their labels, `list` reads lists of them, `metadata` what is
//! said of them beside them; [`ImageFolderReader`]
//! makes samples of them, and [`ImageFolderWriter`] files of samples. What is in an image is none of
//! its business: that is for `Images`.

mod list;
mod metadata;
mod options;
mod read;
mod write;

pub use options::FolderOptions;
pub use read::ImageFolderReader;
pub use write::ImageFolderWriter;
