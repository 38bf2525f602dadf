//! Facts about an array and its versions that take no reading of elements.

use crate::error::Shown;
use std::fmt;
use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::format::chunked::Version;
use crate::value::DType;

/// One version: when it was committed, why, and from which version.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct VersionInfo {
    /// Its number.
    pub number: u64,
    /// The version that it was made from, 0 for none.
    pub parent: u64,
    /// When it was committed: RFC 3339, UTC.
    pub time: String,
    /// The message of the commit.
    pub message: String,
    /// Length of each axis.
    pub shape: Vec<u64>,
    /// Chunks that are stored, of all columns.
    pub chunks: u64,
    /// Their compressed bytes.
    pub cbytes: u64,
}

impl VersionInfo {
    pub(crate) fn of(version: &Version) -> VersionInfo {
        VersionInfo {
            number: version.version,
            parent: version.parent,
            time: version.time.clone(),
            message: version.message.clone(),
            shape: version.shape.clone(),
            chunks: sum(version.columns.iter().map(|c| c.chunks)),
            cbytes: sum(version.columns.iter().map(|c| c.cbytes)),
        }
    }
}

/// These sums are for people, and a damaged version may record any numbers.
fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

/// An array and how it is stored.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ArrayInfo {
    /// Its directory.
    pub path: PathBuf,
    /// The version that is open.
    pub version: VersionInfo,
    /// The type of the elements.
    pub dtype: DType,
    /// Length of each axis.
    pub shape: Vec<usize>,
    /// Elements of a chunk along each axis.
    pub chunk_shape: Vec<usize>,
    /// Chunks along each axis.
    pub grid: Vec<usize>,
    /// The bytes of elements that were never written.
    pub fill: Vec<u8>,
    /// Bytes of all elements, uncompressed.
    pub nbytes: u64,
    /// Bytes of the stored chunks, compressed.
    pub cbytes: u64,
    /// Codec, level and shuffle, in Blosc's numbers.
    pub compression: (String, u8, u8),
    /// The checksum of compressed chunks.
    pub checksum: String,
    /// The most chunks in a file.
    pub superchunk: u32,
    /// Spare bytes after each chunk.
    pub room: u32,
    /// How long the first axis was expected to become.
    pub expected_len: Option<u64>,
    /// Whether old versions are kept.
    pub versioned: bool,
    /// For each column its directory, stored chunks, and their compressed bytes.
    pub columns: Vec<(String, u64, u64)>,
    /// The user's attributes.
    pub attributes: Map<String, Value>,
}

impl fmt::Display for ArrayInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let VersionInfo { number, parent, time, message, .. } = &self.version;
        let chunks: usize = self.grid.iter().product();
        let stored = sum(self.columns.iter().map(|(_, stored, _)| *stored));
        let (codec, level, shuffle) = &self.compression;
        let shuffle = ["none", "bytes", "bits"].get(usize::from(*shuffle)).unwrap_or(&"?");
        writeln!(f, "array      {}", Shown::of(&self.path))?;
        writeln!(f, "version    {number} of {time}, from {parent}: {message}")?;
        writeln!(f, "dtype      {}", self.dtype)?;
        writeln!(f, "shape      {:?}", self.shape)?;
        writeln!(f, "chunks     {:?}, {:?} of them = {chunks}", self.chunk_shape, self.grid)?;
        writeln!(f, "stored     {stored} chunks in {} columns", self.columns.len())?;
        writeln!(f, "bytes      {}, compressed {}{}", self.nbytes, self.cbytes, self.ratio())?;
        writeln!(f, "codec      {codec}, level {level}, shuffle {shuffle}, {}", self.checksum)?;
        writeln!(f, "superchunk {} chunks", self.superchunk)?;
        writeln!(f, "versioned  {}", self.versioned)?;
        for (path, stored, cbytes) in self.columns.iter().filter(|(path, ..)| !path.is_empty()) {
            writeln!(f, "column     {path}: {stored} chunks, {cbytes} bytes")?;
        }
        for (name, value) in &self.attributes {
            writeln!(f, "attribute  {name} = {value}")?;
        }
        Ok(())
    }
}

impl ArrayInfo {
    fn ratio(&self) -> String {
        match self.cbytes {
            0 => String::new(),
            cbytes => format!(" ({:.2} times)", self.nbytes as f64 / cbytes as f64),
        }
    }
}
