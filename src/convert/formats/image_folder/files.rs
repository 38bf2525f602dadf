//! The files of a folder: where they are, and what is known of each.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::format::msgpack;
#[cfg(feature = "zip")]
use crate::reader::ZipReader;
use crate::storage::Confined;

/// Where the files are.
pub(super) enum Place {
    Folder(Confined),
    #[cfg(feature = "zip")]
    Zip(Box<ZipReader>),
}

impl Place {
    /// A folder whose files were found by going through it: links in it are followed.
    pub(super) fn walked(root: PathBuf) -> Place {
        Place::Folder(Confined::to(root).allow_outside(true))
    }

    /// The error at the folder or archive. The working directory has no name to show.
    pub(super) fn blame(&self, error: Error) -> Error {
        if self.path().as_os_str().is_empty() { error } else { error.at(self.path()) }
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Place::Folder(root) => root.folder(),
            #[cfg(feature = "zip")]
            Place::Zip(archive) => archive.path(),
        }
    }
}

/// Whether a file of this name lists images.
pub(in crate::convert) fn is_metadata(name: &str) -> bool {
    matches!(name, "metadata.jsonl" | "metadata.csv")
}

/// A file whose label has no number yet.
pub(super) struct Found {
    pub(super) key: String,
    pub(super) path: Option<String>,
    pub(super) label: Option<String>,
    /// The packed values of the columns.
    pub(super) extra: Vec<Vec<u8>>,
    /// Its row in a metadata file.
    pub(super) row: Option<Row>,
}

impl Found {
    pub(super) fn new(key: String, label: Option<String>) -> Found {
        Found { key, path: None, label, extra: Vec::new(), row: None }
    }

    pub(super) fn path(&self) -> &str {
        self.path.as_deref().unwrap_or(&self.key)
    }
}

/// A file that becomes a sample. There may be millions of them.
pub(super) struct ImageFile {
    pub(super) key: Box<str>,
    /// The path below the folder, if it differs from the key.
    pub(super) path: Option<Box<str>>,
    pub(super) label: Option<u32>,
    /// The packed values of the columns.
    pub(super) extra: Box<[Box<[u8]>]>,
    /// All fields, if a metadata file lists the image.
    pub(super) row: Option<Box<Row>>,
}

impl ImageFile {
    pub(super) fn path(&self) -> &str {
        self.path.as_deref().unwrap_or(&self.key)
    }
}

/// The sample of an image without the bytes of the image and without the label.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) packed: Box<[u8]>,
    pub(super) fields: u32,
    /// Where the image goes.
    pub(super) image: usize,
    /// Where the label goes, if it becomes a number.
    pub(super) label: Option<usize>,
    pub(super) told: Told,
}

/// Where a row is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Told {
    /// A line of JSON lines.
    Line(u64),
    /// A row of CSV after the header. It may have several lines.
    #[cfg(feature = "formats")]
    Row(u64),
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Told::Line(number) => write!(f, "line {number}"),
            #[cfg(feature = "formats")]
            Told::Row(number) => write!(f, "row {number}"),
        }
    }
}

impl Row {
    pub(super) fn size(&self) -> usize {
        self.packed.len()
    }

    /// Writes the sample up to the start of an image of `len` bytes.
    pub(super) fn head(&self, label: &[u8], len: usize, out: &mut Vec<u8>) -> Result<()> {
        msgpack::write_map(self.fields as usize, out)?;
        self.write(0..self.image, label, out);
        Ok(msgpack::write_bin_len(len, out)?)
    }

    /// Writes what comes after the image.
    pub(super) fn tail(&self, label: &[u8], out: &mut Vec<u8>) {
        // A label at the position of the image was written before it.
        let before = self.label.is_some_and(|at| at <= self.image);
        match self.label.filter(|_| !before) {
            Some(at) => {
                out.extend_from_slice(&self.packed[self.image..at]);
                out.extend_from_slice(label);
                out.extend_from_slice(&self.packed[at..]);
            }
            None => out.extend_from_slice(&self.packed[self.image..]),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.packed
    }

    /// Adds the row to the error of an image that does not exist.
    pub(super) fn locate(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::NotFound => error.within(format_args!("listed in {}", self.told)),
            _ => error,
        }
    }

    fn write(&self, range: std::ops::Range<usize>, label: &[u8], out: &mut Vec<u8>) {
        match self.label.filter(|at| *at <= range.end) {
            Some(at) => {
                out.extend_from_slice(&self.packed[range.start..at]);
                out.extend_from_slice(label);
                out.extend_from_slice(&self.packed[at..range.end]);
            }
            None => out.extend_from_slice(&self.packed[range]),
        }
    }
}
