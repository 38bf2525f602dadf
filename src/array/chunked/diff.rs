//! The chunks in which two versions differ.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::array::chunked::files::Files;
use crate::array::chunked::table::Table;
use crate::array::chunked::version::OpenVersion;
use crate::error::{Error, ErrorKind, Result};

/// A chunk in which two versions differ.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkDiff {
    /// The directory of the column, empty where the type is not structured.
    pub column: String,
    /// The coordinates of the chunk.
    pub coordinates: Vec<u64>,
    /// The region that it covers, in the larger of the two shapes along each axis.
    pub region: Vec<Range<u64>>,
}

/// `{"column", "chunk", "region": [[start, end], …]}`
impl Serialize for ChunkDiff {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let region: Vec<[u64; 2]> = self.region.iter().map(|r| [r.start, r.end]).collect();
        let mut object = serializer.serialize_struct("ChunkDiff", 3)?;
        object.serialize_field("column", &self.column)?;
        object.serialize_field("chunk", &self.coordinates)?;
        object.serialize_field("region", &region)?;
        object.end()
    }
}

/// The chunks of these columns in which two versions of one array differ.
pub(super) fn diff(a: &OpenVersion, b: &OpenVersion, columns: &[usize]) -> Result<Vec<ChunkDiff>> {
    if !(is_same(&a.files, &b.files) && a.dtype == b.dtype) {
        let message = "expected two versions of one array";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    a.with_current(|a| b.with_current(|b| diff_of(a, b, columns)))
}

fn diff_of(a: &OpenVersion, b: &OpenVersion, columns: &[usize]) -> Result<Vec<ChunkDiff>> {
    let mut diffs = Vec::new();
    for &column in columns {
        let (ours, theirs) = (a.table(column)?, b.table(column)?);
        let segments = |core: &OpenVersion| core.version.columns[column].segments.clone();
        let (mine, others) = (segments(a), segments(b));
        let common = match a.numbering == b.numbering {
            true => mine.iter().zip(&others).take_while(|(x, y)| x == y).count(),
            false => 0,
        };
        let mut candidates: BTreeSet<Vec<u64>> = BTreeSet::new();
        for (core, table) in [(a, ours), (b, theirs)] {
            let entries = table.merged(common, &[], false);
            candidates.extend(entries.iter().map(|e| core.numbering.coordinates(e.chunk)));
        }
        for coordinates in candidates {
            let hash = |core: &OpenVersion, table: &Table| {
                let counts = core.grid.counts();
                let inside = coordinates.iter().zip(counts).all(|(i, n)| *i < *n as u64);
                let place = inside.then(|| table.find(core.numbering.number(&coordinates)));
                place.flatten().map(|place| place.hash)
            };
            if hash(a, ours) != hash(b, theirs) {
                let column = a.columns[column].leaf.path.clone();
                let region = region(a, b, &coordinates);
                diffs.push(ChunkDiff { column, coordinates, region });
            }
        }
    }
    Ok(diffs)
}

/// Whether these are the files of one array, perhaps under two names.
fn is_same(a: &Files, b: &Files) -> bool {
    let real = |files: &Files| files.storage.resolve(&files.root).ok();
    a.root == b.root || real(a).is_some_and(|root| Some(root) == real(b))
}

fn region(a: &OpenVersion, b: &OpenVersion, coordinates: &[u64]) -> Vec<Range<u64>> {
    let shape = a.grid.shape().iter().zip(b.grid.shape()).map(|(a, b)| *a.max(b) as u64);
    let chunk = a.grid.chunk_shape().iter().map(|n| *n as u64);
    let axis = |((i, size), chunk): ((&u64, u64), u64)| {
        // Entries of a damaged table may be anywhere.
        i.saturating_mul(chunk)..size.min(i.saturating_add(1).saturating_mul(chunk))
    };
    coordinates.iter().zip(shape).zip(chunk).map(axis).collect()
}
