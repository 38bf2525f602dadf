//! Everything that is wrong with a chunked array.
//!
//! A writer may be at work at the same time. So a pass looks at the versions that existed when it
//! began, and keeps only the findings about versions that are still the same afterwards; where
//! chunks were moved, they are looked at once more.

use crate::error::Shown;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::array::chunked::version::OpenVersion;
use crate::error::{Error, ErrorKind, Result};
use crate::format::chunked::names;

mod snapshot;
mod superchunks;
mod tables;
mod pass;

use pass::Pass;
use snapshot::Snapshot;

/// The check gives up after this many passes in which a writer moved or replaced files.
const MOST_PASSES: usize = 8;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// The chunk, where it is known: column and coordinates.
    pub chunk: Option<(String, Vec<u64>)>,
    /// The affected versions; empty if they are not known.
    pub versions: Vec<u64>,
    /// The problem.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", Shown::of(&self.file))?;
        if let Some((column, at)) = &self.chunk {
            let of = if column.is_empty() { "" } else { " of " };
            write!(f, "chunk {at:?}{of}{column}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// `{"file", "column", "chunk", "versions", "message"}`, column and chunk null where they are not known.
impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Problem", 5)?;
        object.serialize_field("file", &crate::error::Shown::of(&self.file))?;
        object.serialize_field("column", &self.chunk.as_ref().map(|(column, _)| column))?;
        object.serialize_field("chunk", &self.chunk.as_ref().map(|(_, at)| at))?;
        object.serialize_field("versions", &self.versions)?;
        object.serialize_field("message", &self.message)?;
        object.end()
    }
}

/// The problem, in words.
fn described(error: &Error) -> String {
    match error.range() {
        Some(range) => format!("bytes {}..{}: {}", range.start, range.end, error.message()),
        None => error.message().to_owned(),
    }
}

/// The result of [`ChunkedArray::verify`](crate::array::ChunkedArray::verify).
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The problems, by file.
    pub problems: Vec<Problem>,
    /// Chunks that may differ from what was committed, although nothing contradicts them: chunks of versions of
    /// a kind in which early writers lost some (see [`ChunkedArray::verify`]).
    ///
    /// [`ChunkedArray::verify`]: crate::array::ChunkedArray::verify
    pub doubts: Vec<Problem>,
    /// Versions that were checked.
    pub versions: u64,
    /// Stored chunks that were decompressed and compared with their hashes, each once.
    pub chunks: u64,
    /// Files that no version needs, left by a crash. [`gc`](crate::array::ArrayStore::gc) removes
    /// them.
    pub unused: Vec<PathBuf>,
    /// Summaries in `meta/` that are missing or outdated: a writer was killed before it renewed
    /// them. The next one does, and nothing depends on them.
    pub stale: Vec<PathBuf>,
    /// Whether a writer had the array open at the end. Then [`unused`](Self::unused) may be what it is about to
    /// commit, and [`problems`](Self::problems) of an array with [room](crate::array::ArrayOptions::room)
    /// may be chunks that it is overwriting. Looked for only if there are any.
    pub writer: bool,
}

/// The slots of superchunks that were found good, for each column.
type Compared = Vec<BTreeMap<u32, BTreeSet<u32>>>;

/// Checks every file of every version of an array; `core` is one version.
pub(super) fn verify(core: &OpenVersion) -> Result<Report> {
    let mut compared: Compared = vec![BTreeMap::new(); core.columns.len()];
    for _ in 0..MOST_PASSES {
        let seen = Snapshot::of(core)?;
        let report = Pass::new(core, &seen).run(&mut compared)?;
        let Some(mut report) = seen.settle(report)? else { continue };
        report.problems.sort_by(|a, b| (&a.file, &a.message).cmp(&(&b.file, &b.message)));
        if !report.problems.is_empty() || !report.unused.is_empty() {
            report.writer = has_writer(core);
        }
        return Ok(report);
    }
    let message = "a writer kept replacing or moving files during the check: verify the array when \
        it is done";
    Err(Error::new(ErrorKind::Replaced, message).at(&core.files.root))
}

/// Whether a writer holds the lock of the array; `false` if that cannot be determined.
fn has_writer(core: &OpenVersion) -> bool {
    let (files, path) = (&core.files, core.files.path(names::LOCK));
    matches!(files.storage.lock_file(&path), Ok(None))
}
