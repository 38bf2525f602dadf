//! [`ArrayAbout`] and [`LogEntry`]: what a person asks about an array and its versions.

use std::fs;
use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

use crate::array::chunked::at::At;
use crate::array::chunked::history::Added;
use crate::array::chunked::info::{ArrayInfo, VersionInfo};
use crate::array::chunked::read::ChunkedArray;
use crate::error::{Error, Result};
use crate::value::NdArray;

/// All there is to know about an array in a directory of the file system.
///
/// ```
/// use kiste::array::ArrayOptions;
/// use kiste::value::DType;
///
/// # let dir = tempfile::tempdir()?;
/// let store = ArrayOptions::default().create(dir.path().join("x"), DType::of::<f32>(), &[0, 4])?;
/// let about = store.array().about()?;
/// assert_eq!((about.versions, about.to_json()["shape"].to_string()), (1, "[0,4]".to_owned()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ArrayAbout {
    /// The array, at the version that is open.
    pub info: ArrayInfo,
    /// The value of elements that were never written.
    pub fill: Value,
    /// How many versions there are.
    pub versions: u64,
    /// How many files the directory has, of all versions.
    pub files: u64,
    /// Their bytes.
    pub disk_bytes: u64,
}

impl ArrayAbout {
    /// Bytes of a chunk before compression, all columns of it.
    pub fn chunk_bytes(&self) -> u64 {
        let elements: u64 = self.info.chunk_shape.iter().map(|len| *len as u64).product();
        elements * self.info.dtype.item_size() as u64
    }

    /// Chunks that are stored, of all columns.
    pub fn stored_chunks(&self) -> u64 {
        self.info.columns.iter().fold(0, |sum, (_, stored, _)| sum.saturating_add(*stored))
    }

    /// Chunks that the shape has room for, of all columns.
    pub fn all_chunks(&self) -> u64 {
        let cells = self.info.grid.iter().fold(1u64, |n, len| n.saturating_mul(*len as u64));
        cells.saturating_mul(self.info.columns.len() as u64)
    }

    /// How elements are reordered before compression: `none`, `byte` or `bit`.
    pub fn shuffle(&self) -> &'static str {
        let names = ["none", "byte", "bit"];
        names.get(usize::from(self.info.compression.2)).copied().unwrap_or("unknown")
    }

    /// One JSON object.
    pub fn to_json(&self) -> Value {
        let info = &self.info;
        let (codec, level, _) = &info.compression;
        let columns = info.columns.iter();
        let columns = columns.map(
            |(path, chunks, bytes)| json!({"column": path, "chunks": chunks, "cbytes": bytes}),
        );
        json!({
            "array": info.path,
            "version": info.version.number,
            "parent": info.version.parent,
            "time": info.version.time,
            "message": info.version.message,
            "versions": self.versions,
            "dtype": info.dtype.to_string(),
            "shape": info.shape,
            "chunk_shape": info.chunk_shape,
            "grid": info.grid,
            "fill": self.fill,
            "nbytes": info.nbytes,
            "cbytes": info.cbytes,
            "codec": codec,
            "level": level,
            "shuffle": self.shuffle(),
            "checksum": info.checksum,
            "chunk_bytes": self.chunk_bytes(),
            "order": "C",
            "superchunk": info.superchunk,
            "room": info.room,
            "expected_len": info.expected_len,
            "versioned": info.versioned,
            "columns": columns.collect::<Vec<_>>(),
            "files": self.files,
            "disk_bytes": self.disk_bytes,
            "attributes": info.attributes,
        })
    }
}

/// A version in the log of an array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LogEntry {
    /// Its number.
    pub version: u64,
    /// The version that it was made from, 0 for none.
    pub parent: u64,
    /// When it was committed: RFC 3339, UTC.
    pub time: String,
    /// The message of the commit.
    pub message: String,
    /// Length of each axis.
    pub shape: Vec<u64>,
    /// Chunks that differ from the parent; `None` where that was removed.
    pub changed: Option<u64>,
    /// Chunks that no older version has.
    pub added_chunks: u64,
    /// Their compressed bytes.
    pub added_bytes: u64,
    /// Chunks in total.
    pub chunks: u64,
    /// Their compressed bytes.
    pub bytes: u64,
}

impl ChunkedArray {
    /// All there is to know without reading elements. The array must be in the file system.
    ///
    /// # Errors
    ///
    /// Errors of reading the versions, and of the system.
    pub fn about(&self) -> Result<ArrayAbout> {
        let info = self.info();
        let fill = NdArray::new(info.dtype.clone(), [], info.fill.clone())?.to_json()?;
        let versions = self.versions()?.len() as u64;
        let (files, disk_bytes) = disk_usage(&info.path)?;
        Ok(ArrayAbout { info, fill, versions, files, disk_bytes })
    }

    /// All versions, newest first, each with what it changed. Every entry compares chunk tables only
    /// when it is asked for, so the newest one comes at once.
    ///
    /// # Errors
    ///
    /// The errors of [`history`](Self::history), and for each entry the errors of
    /// [`diff`](Self::diff).
    pub fn log(&self) -> Result<impl Iterator<Item = Result<LogEntry>> + '_> {
        Ok(self.history()?.into_iter().rev().map(|(version, added)| self.entry(version, added)))
    }

    fn entry(&self, version: VersionInfo, added: Added) -> Result<LogEntry> {
        let VersionInfo { number, parent, time, message, shape, chunks, cbytes } = version;
        let changed = match self.at(At::Version(parent)) {
            Ok(parent) => Some(self.at(At::Version(number))?.diff(&parent)?.len() as u64),
            Err(_) if parent == 0 => Some(chunks),
            // It was removed.
            Err(_) => None,
        };
        Ok(LogEntry {
            version: number,
            parent,
            time,
            message,
            shape,
            changed,
            added_chunks: added.chunks,
            added_bytes: added.bytes,
            chunks,
            bytes: cbytes,
        })
    }
}

/// The number of files below a directory, and their bytes.
fn disk_usage(dir: &Path) -> Result<(u64, u64)> {
    let (mut files, mut bytes) = (0, 0);
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        let at = |error| Error::io(&dir, error);
        for entry in fs::read_dir(&dir).map_err(at)? {
            let entry = entry.map_err(at)?;
            // Links are not followed; a file that has disappeared was a temporary one of a writer.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                dirs.push(entry.path());
            } else {
                files += 1;
                bytes += metadata.len();
            }
        }
    }
    Ok((files, bytes))
}
